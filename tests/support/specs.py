"""The smallest spec of a game, for tests whose subject is not the spec."""

from slaternet.spec import Spec


def small_spec(agents: int, dimension: int, rounds: int | None = None) -> Spec:
    """Return a spec that is not resolved, of a game in the box [-1, 1]^p."""
    tables: dict[str, dict[str, object]] = {
        "run": {"agents": agents, "dimension": dimension, **({} if rounds is None else {"rounds": rounds})},
        "set": {"kind": "box", "lower": -1.0, "upper": 1.0},
        "algorithm": {"name": "zhang2024", "schedule": "table2"},
        "graph": {"name": "ring"},
        "adversary": {"plugin": "linear-regression"},
    }
    return Spec.load(tables, source="test")
