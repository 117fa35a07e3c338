from pathlib import Path

import pytest

from slaternet.errors import BadSpec, PluginFailed
from slaternet.spec import GraphSection
from slaternet_coordinator.graphs.fixed import Ring
from slaternet_coordinator.registry import build

PLAIN = "from slaternet_coordinator.graphs.fixed import Ring\nclass Mine:\n"


def section(tmp_path: Path, body: str) -> GraphSection:
    (tmp_path / "mine.py").write_text(PLAIN + body)
    return GraphSection(name=f"{tmp_path / 'mine.py'}:Mine")


def test_a_class_with_a_matrix_is_a_graph(tmp_path: Path) -> None:
    body = "    def __init__(self, n, seed): self.n = n\n    def matrix(self, t): return Ring(self.n, 1).matrix(t)\n"

    graph = build(section(tmp_path, body), 5, 1)

    assert (graph.matrices(1, 3).dense() == Ring(5, 1).matrices(1, 3).dense()).all()
    assert not graph.directed


def test_the_numbers_of_a_graph_of_one_s_own_are_converted_by_its_hints(tmp_path: Path) -> None:
    body = (
        "    def __init__(self, n, seed, *, hops: tuple[int, ...]): self.n, self.hops = n, hops\n"
        "    def matrix(self, t): return Ring(self.n, {(1, 2): 1}[self.hops]).matrix(t)\n"
    )
    mine = section(tmp_path, body)

    assert build(mine.model_copy(update={"hops": [1, 2]}), 5, 1).matrix(1).dense().shape == (5, 5)
    with pytest.raises(BadSpec, match=r"^graph\.hops\[0\] must be a whole number, not 'a'$"):
        build(mine.model_copy(update={"hops": ["a"]}), 5, 1)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("    def __init__(self, n, seed): raise KeyError('x')\n", "its constructor raised KeyError: 'x', at "),
        ("    def __init__(self, n, seed): pass\n", "is no graph; give its class a method matrix(t)"),
    ],
)
def test_a_graph_that_cannot_be_made_is_named(body: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(PluginFailed) as failed:
        build(section(tmp_path, body), 5, 1)

    assert what in str(failed.value)


@pytest.mark.parametrize(
    ("returned", "what"),
    [
        ("[[1.0]]", "returned list where a slaternet_coordinator.graphs.Matrix was due, at "),
        ("Ring(3, 1).matrix(t)", "returned the wrong shape: expected 5 rows of 5 agents, got 3 of 3, at "),
        ("Ring(5, 1).matrices(t, 2)", "returned the wrong shape: expected 5 rows of 5 agents, got 10 of 5, at "),
    ],
)
def test_what_is_no_matrix_of_the_game_is_named_with_its_round(returned: str, what: str, tmp_path: Path) -> None:
    body = f"    def __init__(self, n, seed): pass\n    def matrix(self, t): return {returned}\n"
    graph = build(section(tmp_path, body), 5, 1)

    with pytest.raises(PluginFailed) as failed:
        graph.matrices(3, 2)

    assert f"matrix of round 3 {what}{tmp_path / 'mine.py'}:4 " in str(failed.value)


def test_a_graph_that_raises_is_named_with_its_round(tmp_path: Path) -> None:
    body = "    def __init__(self, n, seed): pass\n    def matrix(self, t): return 1 // (t - 3)\n"
    graph = build(section(tmp_path, body), 5, 1)

    with pytest.raises(PluginFailed, match=r"matrix of round 3 raised ZeroDivisionError"):
        graph.matrix(3)
