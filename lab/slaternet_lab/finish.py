"""What is added to a run folder when the game is over: the report on the assumptions and the two figures."""

from pathlib import Path

from slaternet_lab.assumptions import examine, write
from slaternet_lab.folder import Run
from slaternet_lab.parts import assemble
from slaternet_lab.plots import draw


def finish(folder: Path) -> Run:
    """Write assumptions.txt, loss.png and violation.png beside the results; return the run."""
    run = Run.open(folder)
    write(examine(assemble(run.spec, folder)), folder)
    draw([run], folder)
    return run
