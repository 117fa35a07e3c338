from pathlib import Path

import numpy as np
import pytest

from slaternet.errors import PluginFailed
from slaternet.spec import Spec
from slaternet.spec.overrides import override
from slaternet_lab.assumptions import report as assumptions
from slaternet_lab.assumptions.report import Finding, examine
from slaternet_lab.specs.assemble import assemble
from slaternet_lab.specs.protocol import breaches
from slaternet_lab.specs.shipped import find

RING = """
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.graphs.weights import uniform
from slaternet_coordinator.graphs.base import Matrix
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


def report(*settings: str, base: Path = Path(), thorough: bool = False) -> list[Finding]:
    spec = Spec.load(override(find("paper").text, settings), source="paper")
    return examine(assemble(spec, base), thorough=thorough)


def number(finding: Finding, name: str) -> float:
    value = finding.figures[name]
    assert isinstance(value, float)
    return value


def about(findings: list[Finding], what: str) -> list[str]:
    return [f"{each.verdict}: {each.text}" for each in findings if each.about == what]


def test_the_papers_example_voids_theorem_4_by_strong_convexity_and_by_its_dual_step() -> None:
    findings = report()

    voided = {each.about for each in findings if each.verdict == "warning"}
    assert voided == {"Assumption 6 (modulus)", "gamma_0", "Theorem 4"}
    assert about(findings, "Theorem 4") == [
        "warning: does not apply: gamma_0 is not within its bound, Assumption 6 fails"
    ]
    assert "error" not in {each.verdict for each in findings}


def test_the_papers_dual_step_is_thousands_of_times_its_bound() -> None:
    (finding,) = [each for each in report() if each.about == "gamma_0"]

    # 4848 with the largest |dg| there can be, 2 sqrt(20); a sample has less
    assert 1500.0 < number(finding, "ratio") <= 4848.0
    assert finding.text.startswith("0.15 is ")
    assert finding.text.endswith("; Theorems 1 to 4 do not apply")


def test_the_papers_losses_are_said_to_be_strongly_convex_on_average_only() -> None:
    (sentence,) = about(report(), "Assumption 6 (modulus)")

    assert sentence.startswith("warning: local losses are not strongly convex (their average: mu = ")
    assert sentence.endswith("but schedule table2 takes mu = 1; Theorems 3 and 4 do not apply")


def test_the_report_says_how_much_was_looked_at() -> None:
    findings = report()

    assert about(findings, "Functions") == [
        "note: sampled in 8 rounds from 1 to 50: 100 of 100 agents at 8 points of X"
    ]


def test_a_thorough_report_looks_at_more_rounds() -> None:
    parts = assemble(Spec.load(override(find("paper").text, ["run.agents=10"]), source="paper"), Path())

    (finding,) = [each for each in examine(parts, thorough=True) if each.about == "Functions"]

    assert "rounds from 1 to 1000: 10 of 10 agents at 16 points" in finding.text


def test_a_game_too_large_to_be_sampled_says_so() -> None:
    findings = report("run.dimension=501")

    assert about(findings, "Functions") == ["note: not sampled: agents times dimensions are more than 50000"]


def theorems(findings: list[Finding]) -> list[str]:
    return [each.verdict for each in findings if each.about.startswith("Theorem") and "(" not in each.about]


MOVING_TARGET = ["adversary.plugin=moving-target", "adversary.options={}", "run.agents=8"]


def test_theorems_1_to_3_apply_to_strongly_convex_losses_under_their_schedule() -> None:
    settings = ["algorithm.schedule=theorem1", "algorithm.delta0=", "algorithm.gamma0=1e-5", "algorithm.c=0.25"]

    findings = report(*MOVING_TARGET, *settings)

    assert theorems(findings) == ["ok", "ok", "ok", "note"]
    assert about(findings, "Theorem 1") == ["ok: applies as far as sampled: regret O(T^0.75), violation O(T^0.875)"]
    assert about(findings, "Theorem 2") == ["ok: applies as far as sampled: regret O(T^0.75), violation O(T^0.75)"]
    assert about(findings, "Theorem 3") == ["ok: applies as far as sampled: regret O(T^0.75), violation O(T^0.75)"]
    assert about(findings, "Theorem 4") == ["note: is about algorithm.schedule = theorem4, not theorem1"]
    assert about(findings, "gamma_0")[0].startswith("ok: 1e-05 is ")


def test_theorem_3_is_not_missed_where_theorem_2_is_what_applies() -> None:
    settings = ["algorithm.schedule=theorem1", "algorithm.delta0=", "algorithm.gamma0=1e-5", "run.agents=8"]

    findings = report(*settings)

    assert theorems(findings) == ["ok", "ok", "note", "note"]
    assert about(findings, "Theorem 3") == ["note: does not apply: Assumption 6 fails"]


@pytest.mark.parametrize(("mu", "verdict"), [(1.0, "ok"), (0.5, "ok"), (1.5, "warning")])
def test_theorem_4_takes_any_modulus_up_to_the_losses_own(mu: float, verdict: str) -> None:
    settings = ["algorithm.schedule=theorem4", "algorithm.delta0=", "algorithm.gamma0=1e-5", f"algorithm.mu={mu}"]

    findings = report(*MOVING_TARGET, *settings)

    assert theorems(findings) == ["note", "note", "note", verdict]
    claims = about(findings, "Theorem 4 (mu)")
    assert claims == (
        ["warning: schedule theorem4 takes mu = 1.5, above the modulus 1; Theorem 4 does not apply"] * (mu > 1.0)
    )


def test_the_dual_step_of_yi2024_has_a_bound_of_its_own() -> None:
    findings = report("algorithm.name=yi2024", "algorithm.delta0=")

    (finding,) = [each for each in findings if each.about == "gamma_0"]
    assert 8.0 < number(finding, "ratio") <= 24.0  # 0.15 over 0.00625 where |dg| = 2 sqrt(20)
    assert "sigma/(4 G2^2)" in finding.text
    assert theorems(findings) == []


def test_other_algorithms_are_told_of_the_functions_without_theorems() -> None:
    findings = report("algorithm.name=yi2023", *(f"algorithm.{each}=" for each in ("schedule", "gamma0", "delta0")))

    assert theorems(findings) == []
    assert about(findings, "gamma_0") == []
    assert about(findings, "Assumption 6 (modulus)")[0].startswith("note: ")


def test_the_theorems_do_not_speak_of_agents_that_play_alone() -> None:
    findings = report("algorithm.mode=local")

    assert about(findings, "Theorems 1 to 4") == ["note: speak of agents that gossip, not of algorithm.mode = local"]


def test_the_functions_of_a_user_s_plugin_are_played_only_where_he_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from slaternet_adversary import Adversary\n"
        "class Mine(Adversary):\n    constraints = 1\n"
        "    def play(self, round, past): raise RuntimeError('played')\n"
    )
    settings = ["adversary.plugin=mine.py:Mine", "adversary.isolation=none", "adversary.options={}"]
    parts = assemble(Spec.load(override(find("paper").text, settings), source="paper"), tmp_path)

    assert list(breaches(parts)) == []
    assert about(examine(parts), "Functions") == [
        "note: not sampled: `slaternet check` samples those of your own plugin"
    ]
    with pytest.raises(PluginFailed, match="played"):
        examine(parts, thorough=True)


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

    findings = examine(assemble(parsed, Path()))

    (warning,) = [each for each in findings if each.about == "Schedule" and each.verdict == "warning"]
    assert "Theorems" in warning.text
    assert about(findings, "gamma_0") == [
        "warning: gamma_t alpha_t is not constant; Theorems 1 to 4 need gamma_t = gamma_0/alpha_t"
    ]


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


@pytest.mark.parametrize(
    ("seed", "verdict", "word"), [("", "note", "open: "), ("random", "ok", "sealed: "), ("5", "ok", "sealed: ")]
)
def test_the_report_says_whether_the_game_is_sealed_or_open(seed: str, verdict: str, word: str) -> None:
    (found,) = (each for each in report(f"adversary.seed={seed}") if each.about == "Sealed game")

    assert found.verdict == verdict
    assert found.text.startswith(word)


@pytest.mark.parametrize(("history", "verdicts"), [(0, []), (2, ["warning"])])
def test_an_adversary_that_reads_decisions_is_a_barrier_and_a_warning(
    tmp_path: Path, history: int, verdicts: list[str]
) -> None:
    (tmp_path / "mine.py").write_text(
        "from slaternet_adversary import Adversary\n"
        f"class Mine(Adversary):\n    constraints = 1\n    history = {history}\n"
        "    def play(self, round, past): return self\n"
        "    def loss(self, agents, points): return (points**2).sum(axis=-1)\n"
        "    def constraint(self, agents, points): return points[..., :1] - 1.0\n"
    )
    options = ["adversary.options={}", "adversary.isolation=none", "run.agents=4"]

    findings = report("adversary.plugin=mine.py:Mine", *options, base=tmp_path, thorough=True)

    assert [each.verdict for each in findings if each.about == "Adversary"] == verdicts
    (looked,) = about(findings, "Functions")
    assert looked.endswith("; later rounds depend on decisions") == (history > 0)


def test_the_report_is_written_line_by_line(tmp_path: Path) -> None:
    assumptions.write([Finding("ok", "Schedule", "fine"), Finding("warning", "Adversary", "slow")], tmp_path)

    written = (tmp_path / "assumptions.txt").read_text()
    assert [line.split(maxsplit=2) for line in written.splitlines()] == [
        ["ok", "Schedule", "fine"],
        ["warning", "Adversary", "slow"],
    ]
