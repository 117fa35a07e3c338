"""`python -m slaternet_coordinator`: the same as `slaternet coordinator`, without the laboratory."""

import os
import sys

# One BLAS thread per service, said before numpy is imported: several services share a machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer

from slaternet.process import main
from slaternet_coordinator.command import coordinator


def _command() -> int:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(coordinator)
    return app(standalone_mode=False) or 0


if __name__ == "__main__":
    sys.exit(main("slaternet coordinator", _command))
