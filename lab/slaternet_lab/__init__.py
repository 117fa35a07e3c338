"""The laboratory: play games, read their results, draw them.

`load` finds and resolves a spec, `play` and `simulate` play it, `resume` continues what `play` has begun, `Run` reads
the results, `regret` judges them, `compare` plays several algorithms on the same functions, `examine` puts an
adversary through the exam.
"""

TYPE_CHECKING = False  # as in `typing`: nothing is imported before `__main__` has dropped the working directory
if TYPE_CHECKING:
    from slaternet_lab.comparison.play import compare
    from slaternet_lab.games.exam import examine
    from slaternet_lab.games.resume import resume
    from slaternet_lab.games.run import play
    from slaternet_lab.games.simulation import simulate
    from slaternet_lab.hindsight.regret import regret
    from slaternet_lab.runs.run import Run
    from slaternet_lab.specs.resolve import load

__all__ = ["Run", "compare", "examine", "load", "play", "regret", "resume", "simulate"]


def __getattr__(name: str) -> object:
    from slaternet.facade import lazy

    return lazy(
        __name__,
        {
            "slaternet_lab.runs.run": "Run",
            "slaternet_lab.comparison.play": "compare",
            "slaternet_lab.specs.resolve": "load",
            "slaternet_lab.games.run": "play",
            "slaternet_lab.hindsight.regret": "regret",
            "slaternet_lab.games.exam": "examine",
            "slaternet_lab.games.resume": "resume",
            "slaternet_lab.games.simulation": "simulate",
        },
    )(name)
