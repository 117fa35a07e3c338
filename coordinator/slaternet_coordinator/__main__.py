"""`python -m slaternet_coordinator`: the command `slaternet coordinator` without the laboratory."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the working directory, where `python -m` looks first: files there are nobody's modules

from slaternet.service.library_defaults import set_library_defaults

set_library_defaults()

import typer

from slaternet.service.main import main
from slaternet_coordinator.shell.command import coordinator

if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(coordinator)
    main("slaternet coordinator", app)
