"""The laboratory: play games, read them back, draw them.

`load` finds and resolves a spec, `play` and `simulate` play it, `resume` goes on with what `play` has begun, `Run`
reads what they wrote, `regret` judges it, `compare` plays several algorithms on the same functions.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slaternet_lab.comparison.play import compare
    from slaternet_lab.folder import Run
    from slaternet_lab.hindsight.regret import regret
    from slaternet_lab.network import play
    from slaternet_lab.resolve import load
    from slaternet_lab.resumption import resume
    from slaternet_lab.simulation import simulate

__all__ = ["Run", "compare", "load", "play", "regret", "resume", "simulate"]

_HOMES = {
    "Run": "slaternet_lab.folder",
    "compare": "slaternet_lab.comparison.play",
    "load": "slaternet_lab.resolve",
    "play": "slaternet_lab.network",
    "regret": "slaternet_lab.hindsight.regret",
    "resume": "slaternet_lab.resumption",
    "simulate": "slaternet_lab.simulation",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that reading results needs neither gRPC nor figures."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
