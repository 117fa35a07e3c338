"""`python -m slaternet_coordinator`: what `slaternet coordinator` does, without the laboratory."""

from slaternet.environment import prepare

prepare()

import typer

from slaternet.process import main
from slaternet_coordinator.command import coordinator

if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(coordinator)
    main("slaternet coordinator", app)
