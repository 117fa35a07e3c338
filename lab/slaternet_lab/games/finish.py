"""What is added to a run folder when the game is over: the two figures and the report on the assumptions."""

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
    _report(run)
    return run


def _report(run: Run) -> None:
    """Write the report where the game's parts can be built here; an adversary alone need not have the algorithm."""
    try:
        report = examine(assemble(run.spec, run.folder))
    except SlaternetError as error:
        log.warning(f"{FILE} is not written: {error}", folder=str(run.folder))
        return
    write(report, run.folder)
