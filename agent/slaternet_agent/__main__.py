"""`python -m slaternet_agent`: what `slaternet agent` does, without the laboratory."""

from slaternet.environment import prepare

prepare()

import typer

from slaternet.process import main
from slaternet_agent.command import agent

if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(agent)
    main("slaternet agent", app)
