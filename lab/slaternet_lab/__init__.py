"""The laboratory: play games, read their results, draw them.

`load` finds and resolves a spec, `play` and `simulate` play it, `resume` continues what `play` has begun, `Run` reads
the results, `regret` judges them, `compare` plays several algorithms on the same functions.
"""

from typing import TYPE_CHECKING

from slaternet.facade import lazy

if TYPE_CHECKING:
    from slaternet_lab.comparison.play import compare
    from slaternet_lab.games.resume import resume
    from slaternet_lab.games.run import play
    from slaternet_lab.games.simulation import simulate
    from slaternet_lab.hindsight.regret import regret
    from slaternet_lab.runs.run import Run
    from slaternet_lab.specs.resolve import load

__all__ = ["Run", "compare", "load", "play", "regret", "resume", "simulate"]

__getattr__ = lazy(
    __name__,
    {
        "slaternet_lab.runs.run": "Run",
        "slaternet_lab.comparison.play": "compare",
        "slaternet_lab.specs.resolve": "load",
        "slaternet_lab.games.run": "play",
        "slaternet_lab.hindsight.regret": "regret",
        "slaternet_lab.games.resume": "resume",
        "slaternet_lab.games.simulation": "simulate",
    },
)
