"""`python -m slaternet_agent`: the same as `slaternet agent`, without the laboratory."""

import os
import sys

# One BLAS thread per service, said before numpy is imported: several services share a machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer

from slaternet.process import main
from slaternet_agent.command import agent


def _command() -> int:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(agent)
    return app(standalone_mode=False) or 0


if __name__ == "__main__":
    sys.exit(main("slaternet agent", _command))
