"""Gradient tracking against a loop over agents, and what tracking promises."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.support.agent_games import PAPER, Heard, game, made, played, seen_by

from slaternet_agent.algorithms.estimators import Directions
from slaternet_coordinator.graphs.erdos_renyi import Paper
from slaternet_lab import load, simulate

ROOT = Path(__file__).parents[3]

N, P = 20, 10


def test_a_game_is_the_one_of_a_loop_over_agents() -> None:
    of = game(PAPER, N, rounds=10)
    directions, graph = Directions(of), Paper(N, of.seed)
    z, s, d = np.zeros((3, N, P))

    for each in played(made("tracking", of), of, 10, b=1.0):
        t, functions = each.t, each.functions
        w = graph.matrix(t).dense()
        u = directions.at(np.arange(N), t)
        alpha, gamma, delta, next_xi = 1 / t, 0.15 * t, 0.01 / t, 1 / (t + 1)
        assert each.sent == pytest.approx(np.hstack((z, s)), rel=1e-6, abs=1e-6)
        new = np.zeros((3, N, P))
        for i in range(N):
            x, y = np.zeros(P), np.zeros(P)
            for j in range(N):
                x += w[i, j] * z[j]
                y += w[i, j] * s[j]
            assert each.decision.x[i] == pytest.approx(x, rel=1e-6, abs=1e-6)
            assert each.decision.memo[i] == pytest.approx(y, rel=1e-6, abs=1e-6)
            points = np.stack((x, x + delta * u[i]))[None]
            f, g = functions.loss(np.array([i]), points)[0], functions.constraint(np.array([i]), points)[0]
            estimate = P / delta * (f[1] - f[0]) * u[i]
            q = gamma * np.maximum(g[0], 0.0)
            c = P / delta * (q @ (g[1] - g[0])) * u[i]
            tracked = y + estimate - d[i]
            new[:, i] = np.clip(x - alpha * (tracked + c), -5 * (1 - next_xi), 5 * (1 - next_xi)), tracked, estimate
        z, s, d = new
    assert 0.5 < np.abs(z).max() <= 5


def test_the_average_of_what_is_tracked_is_that_of_the_estimates() -> None:
    of = game(PAPER, N, rounds=40)

    for each in played(made("tracking", of), of, 40):
        assert each.state.s.mean(axis=0) == pytest.approx(each.state.d.mean(axis=0), rel=1e-9, abs=1e-7)


def test_where_all_agree_every_agent_tracks_the_average() -> None:
    """On the complete graph with equal weights the second round's gradient is the average of the first's."""
    of = game(PAPER, N, rounds=3)
    host = made("tracking", of)
    everyone, mean = np.arange(N), np.full((N, N), 1 / N)
    first = next(iter(played(host, of, 1)))

    decision = host.decide(first.state, Heard(csr_array(mean), host.outgoing(first.state, 2)), 2)
    after = host.update(first.state, decision, seen_by(host, first.functions, everyone, decision), 2)

    average = first.state.d.mean(axis=0)
    assert decision.memo == pytest.approx(np.tile(average, (N, 1)), rel=1e-9, abs=1e-9)
    assert after.s - after.d == pytest.approx(average - first.state.d, rel=1e-9, abs=1e-7)


@pytest.mark.parametrize(("spec", "pays"), [("examples/bowl.toml", True), ("paper-short", False)])
def test_it_pays_where_losses_differ_between_agents_and_last(spec: str, pays: bool, tmp_path: Path) -> None:
    def lost(name: str) -> float:
        game = load(str(ROOT / spec) if spec.endswith(".toml") else spec, [f"algorithm.name={name}"])
        return float(simulate(game, out=tmp_path / name, figures=False).summary["cumulative_loss"])

    assert (lost("tracking") < lost("zhang2024")) == pays
