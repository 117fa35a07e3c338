from pathlib import Path

import numpy as np
import pytest

from slaternet.spec import Spec, override
from slaternet_lab import assumptions
from slaternet_lab.assumptions import Finding, examine
from slaternet_lab.library import find
from slaternet_lab.parts import assemble

RING = """
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.graphs.weights import uniform
from slaternet_coordinator.graphs.weights import Matrix
import numpy as np


class Lopsided:
    directed = False

    def __init__(self, agents, seed):
        self._matrix = uniform(agents, np.array([[i, i + 1] for i in range(agents - 1)]))

    def matrix(self, t):
        weights = self._matrix.weights.copy()
        if t == 3:
            weights[0] += 1e-6
        return Matrix(self._matrix.agents, self._matrix.starts, self._matrix.columns, weights)


class Late(Graph):
    def __init__(self, agents, seed):
        self._apart = uniform(agents, np.empty((0, 2), dtype=np.intp))
        self._together = uniform(agents, np.array([[i, i + 1] for i in range(agents - 1)]))

    def matrix(self, t):
        return self._together if t == 300 else self._apart
"""


def report(*settings: str, base: Path = Path()) -> list[Finding]:
    spec = Spec.load(override(find("paper").text, settings), source="paper")
    return examine(assemble(spec, base))


def about(findings: list[Finding], what: str) -> list[str]:
    return [f"{each.verdict}: {each.text}" for each in findings if each.about == what]


def test_the_papers_example_keeps_every_assumption_that_is_checked() -> None:
    assert {each.verdict for each in report()} == {"ok"}


def test_the_radii_of_the_papers_box_are_reported() -> None:
    assert about(report(), "Assumption 1 (set)") == [f"ok: r(X) = 5, R(X) = {np.sqrt(250):g}"]


def test_the_smallest_weight_of_the_papers_graph_is_one_over_n() -> None:
    assert "ok: smallest weight w = 0.01 in rounds 1 to 256" in about(report(), "Assumption 4 (weights)")


def test_a_ring_connects_in_every_round() -> None:
    findings = report("graph.name=ring", "graph.rho=")

    assert about(findings, "Assumption 4 (window)") == ["ok: each graph connects everyone (B = 1) in rounds 1 to 256"]


def test_path_segments_alone_need_four_rounds() -> None:
    findings = report("graph.rho=0.0")

    assert about(findings, "Assumption 4 (window)") == [
        "ok: any 4 successive graphs together connect everyone (B = 4) in rounds 1 to 256"
    ]


def test_exploration_beyond_the_set_is_an_error() -> None:
    (finding,) = [each for each in report("algorithm.delta0=6.0") if each.about == "Schedule"]

    assert finding.verdict == "error"
    assert "above r(X) xi = 5" in finding.text


def test_a_schedule_that_is_not_monotone_is_a_warning_that_names_the_theorems() -> None:
    spec = override(find("paper").text, [f"algorithm.{name}=" for name in ("gamma0", "delta0")])
    explicit = ["algorithm.schedule=explicit", "algorithm.alpha=[1.0, 0.5]", "algorithm.gamma=1.0"]
    settings = [*explicit, "algorithm.xi=0.5", "algorithm.delta=0.01"]
    parsed = Spec.load(override(spec, settings), source="paper")

    findings = [each for each in examine(assemble(parsed, Path())) if each.about == "Schedule"]

    assert [each.verdict for each in findings] == ["warning"]
    assert "Theorems" in findings[0].text


def test_weights_that_are_not_doubly_stochastic_are_an_error_with_their_round(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RING)

    findings = report("graph.name=mine.py:Lopsided", "graph.rho=", base=tmp_path)

    (sentence,) = about(findings, "Assumption 4 (weights)")
    assert sentence.startswith("error: ")
    assert "in round 3, not 1" in sentence


def test_graphs_that_connect_late_are_a_warning(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RING)

    findings = report("graph.name=mine.py:Late", "graph.rho=", base=tmp_path)

    (sentence,) = about(findings, "Assumption 4 (window)")
    assert sentence.startswith("warning: the graphs of rounds 1 to 256 together do not connect;")


def test_graphs_that_never_connect_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RING)

    findings = report("graph.name=mine.py:Late", "graph.rho=", "run.rounds=299", base=tmp_path)

    (sentence,) = about(findings, "Assumption 4 (window)")
    assert sentence.startswith("error: ")
    assert "never connects the 100 agents within 299 rounds" in sentence


@pytest.mark.parametrize(("history", "verdicts"), [(0, []), (2, ["warning"])])
def test_an_adversary_that_reads_decisions_is_a_barrier_and_a_warning(
    tmp_path: Path, history: int, verdicts: list[str]
) -> None:
    (tmp_path / "mine.py").write_text(
        "from slaternet_adversary import Adversary\n"
        f"class Mine(Adversary):\n    constraints = 1\n    history = {history}\n"
        "    def play(self, round, past): ...\n"
    )
    options = ["adversary.options.rows=", "adversary.options.constraints=", "adversary.options.b="]

    findings = report("adversary.plugin=mine.py:Mine", *options, base=tmp_path)

    assert [each.verdict for each in findings if each.about == "Adversary"] == verdicts


def test_the_report_is_written_line_by_line(tmp_path: Path) -> None:
    path = assumptions.write([Finding("ok", "Schedule", "fine"), Finding("warning", "Adversary", "slow")], tmp_path)

    assert path.name == "assumptions.txt"
    assert [line.split(maxsplit=2) for line in path.read_text().splitlines()] == [
        ["ok", "Schedule", "fine"],
        ["warning", "Adversary", "slow"],
    ]
