"""`python -m slaternet_adversary`: what `slaternet adversary` does, without the laboratory."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the working directory, where `python -m` looks first: files there are nobody's modules

from slaternet.service.library_defaults import set_library_defaults

set_library_defaults()

import typer

from slaternet.service.main import main
from slaternet_adversary.shell.command import adversary

if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(adversary)
    main("slaternet adversary", app)
