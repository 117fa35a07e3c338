"""`python -m slaternet_adversary`: what `slaternet adversary` does, without the laboratory."""

from slaternet.environment import prepare

prepare()

import typer

from slaternet.process import main
from slaternet_adversary.command import adversary

if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(adversary)
    main("slaternet adversary", app)
