"""Add the two figures and the report on the assumptions to the run folder of a finished game."""

from pathlib import Path

import structlog

from slaternet.errors import SlaternetError
from slaternet_lab.assumptions.report import FILE, examine, write
from slaternet_lab.runs.plots import draw
from slaternet_lab.runs.run import Run
from slaternet_lab.specs.assemble import assemble

log = structlog.get_logger()


def finish(folder: Path, *, figures: bool = True) -> Run:
    """Write loss.png, violation.png and assumptions.txt beside the results; return the run."""
    run = Run.open(folder)
    if figures:
        draw([run], folder)
    try:
        write(examine(assemble(run.spec, run.folder)), run.folder)
    except SlaternetError as error:  # an adversary alone need not have the algorithm
        log.warning(f"{FILE} is not written: {error}", folder=str(run.folder))
    return run
