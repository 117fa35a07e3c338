"""`python -m slaternet_agent`: what `slaternet agent` does, without the laboratory."""

from slaternet.service.library_defaults import set_library_defaults

set_library_defaults()

import typer

from slaternet.service.main import main
from slaternet_agent.shell.command import agent

if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(agent)
    main("slaternet agent", app)
