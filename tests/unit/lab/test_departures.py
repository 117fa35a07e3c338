"""Games that agents leave, played in one process."""

from pathlib import Path

import numpy as np
import pytest
from tests.unit.lab.test_simulation import SEED, SPEC, N, P, T, World, recorded, simulated, summary

from slaternet.attendance import Attendance
from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet.numerics.randomness import block_length, stream
from slaternet.spec import Spec
from slaternet_adversary import Game
from slaternet_adversary.builtin.linear_regression import LinearRegression
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.registry import build as build_graph
from slaternet_lab.hindsight.comparator import offline
from slaternet_lab.hindsight.regret import regret
from slaternet_lab.runs.run import Run
from slaternet_lab.specs.resolve import resolve
from slaternet_lab.verification.studies import verify

GONE = [{"round": 7, "agents": [0, 5, 6]}, {"round": 15, "agents": [11]}]
LEFT = SPEC.replace(departures=GONE)


def reference(spec: Spec) -> tuple[Array, list[float], list[float]]:
    """Algorithm 1 as the paper writes it; those who have left are struck from the list, and the graph is smaller."""
    opponent = LinearRegression(Game(N, P, SEED, spec.feasible_set()), b=1.0)
    directions = [stream(SEED, "direction", i, 0).standard_normal((block_length(P), P)) for i in range(N)]
    z, x = np.zeros((N, P)), np.full((T, N, P), np.nan)
    losses, violations = list[float](), list[float]()
    for t in range(1, T + 1):
        stay = [i for i in range(N) if all(t < each.round or i not in each.agents for each in spec.departures)]
        f_t, n = opponent.play(t), len(stay)
        alpha, gamma, delta, xi = 1 / t, 0.15 * t, 0.01 / t, 1 / (t + 1)
        x[t - 1, stay] = build_graph(spec.graph, n, SEED).matrix(t).dense() @ z[stay]
        loss = violation = 0.0
        for i in stay:
            u = directions[i][t - 1] / np.linalg.norm(directions[i][t - 1])
            here, there = x[t - 1, i], x[t - 1, i] + delta * u
            f = [0.5 * np.linalg.norm(f_t.a[i] @ v - f_t.theta[i]) ** 2 for v in (here, there)]
            g = [f_t.b[i] @ v - f_t.bound[i] for v in (here, there)]
            q = gamma * np.maximum(g[0], 0.0)
            omega = P / delta * (f[1] - f[0]) * u + P / delta * np.outer(u, g[1] - g[0]) @ q
            z[i] = np.clip(here - alpha * omega, -5 * (1 - xi), 5 * (1 - xi))
            loss += sum(0.5 * float(np.linalg.norm(f_t.a[j] @ here - f_t.theta[j])) ** 2 for j in stay) / n**2
            stacked = np.concatenate([f_t.b[j] @ here - f_t.bound[j] for j in stay])
            violation += float(np.linalg.norm(np.maximum(stacked, 0.0))) / n
        losses.append(loss)
        violations.append(violation)
    return x, losses, violations


def test_those_who_stay_play_the_paper_s_algorithm_among_themselves(tmp_path: Path) -> None:
    found = simulated(LEFT, tmp_path / "run")

    x, losses, violations = reference(LEFT)
    run = Run.open(tmp_path / "run")
    assert recorded(tmp_path / "run") == pytest.approx(x, rel=0, abs=1e-9, nan_ok=True)
    assert run.metrics["loss"] == pytest.approx(losses, rel=1e-9)
    assert run.metrics["violation"] == pytest.approx(violations, rel=1e-9)
    assert run.metrics["agents"].tolist() == [12] * 6 + [9] * 8 + [8] * 16
    assert found["departures"] == GONE
    assert run.spec.departures == LEFT.departures


def test_until_someone_leaves_it_is_the_same_game(tmp_path: Path) -> None:
    runs = {
        name: (simulated(spec, tmp_path / name)["digest"], recorded(tmp_path / name))
        for name, spec in {
            "all": SPEC,
            "left": LEFT,
            "late": SPEC.replace(departures=[{"round": T + 1, "agents": [3]}]),
            "last": SPEC.replace(departures=[{"round": T, "agents": [3]}]),
        }.items()
    }
    (everyone, x), (without, y) = runs["all"], runs["left"]

    assert x[:6].tobytes() == y[:6].tobytes()
    assert everyone != without
    assert runs["late"][0] == everyone
    assert runs["last"][0] != everyone
    assert runs["last"][1][:-1].tobytes() == x[:-1].tobytes()


@pytest.mark.parametrize(("hosts", "seed"), [(2, 1), (5, 2)])
def test_neither_hosts_nor_the_order_of_messages_matter_where_agents_leave(
    hosts: int, seed: int, tmp_path: Path
) -> None:
    alone = simulated(LEFT, tmp_path / "alone")
    world = World(LEFT, tmp_path / "world", hosts, seed)

    world.play()

    assert world.coordinator.view.phase is Phase.OVER
    found = summary(tmp_path / "world")
    assert (found["digest"], found["hosts"]) == (alone["digest"], hosts)
    for key in ("cumulative_loss", "cumulative_violation", "zero_loss", "zero_violation", "departures"):
        assert found[key] == alone[key]
    assert recorded(tmp_path / "world").tobytes() == recorded(tmp_path / "alone").tobytes()


def test_regret_compares_with_the_best_decision_for_those_who_play_each_round(tmp_path: Path) -> None:
    simulated(LEFT, tmp_path / "run")

    found = regret(Run.open(tmp_path / "run"), points=1)

    best = offline(LEFT).point
    attendance = Attendance(N, LEFT.leaving)
    opponent = LinearRegression(Game(N, P, SEED, SPEC.feasible_set()), b=1.0)
    value = 0.0
    for t in range(1, T + 1):
        f_t, stay = opponent.play(t), attendance.players(t)
        value += float(np.mean([0.5 * np.linalg.norm(f_t.a[j] @ best - f_t.theta[j]) ** 2 for j in stay]))
        assert max(float((f_t.b[j] @ best - f_t.bound[j]).max()) for j in stay) < 1e-9
    assert found.optima[-1].value == pytest.approx(value, rel=1e-9)
    assert found.optima[-1].value != pytest.approx(offline(SPEC).value, rel=1e-6)
    assert np.isnan(found.tolerant_violation).all()
    assert found.notes == (
        "tolerant and L1 violation are not defined: agents have left, and their constraints with them",
    )


def test_games_that_nobody_can_leave_are_refused_before_they_begin() -> None:
    directed = LEFT.replace(graph={"name": "directed-circulant", "hops": [1, 2]})
    central = LEFT.replace(**{"algorithm.mode": "central"})

    with pytest.raises(BadSpec, match="is directed, and agents cannot leave a game on a directed graph"):
        resolve(directed, Path())
    with pytest.raises(BadSpec, match="makes one learner of all agents, and none of them can leave the game"):
        resolve(central, Path())


def test_theorems_are_not_verified_where_agents_leave(tmp_path: Path) -> None:
    algorithm = {"name": "zhang2024", "schedule": "theorem1", "gamma0": 0.05}
    (tmp_path / "spec.toml").write_text(LEFT.replace(**{"run.rounds": 64, "algorithm": algorithm}).to_toml())

    with pytest.raises(BadSpec, match="departures must be none, because the theorems speak of games that all agents"):
        verify(str(tmp_path / "spec.toml"), 2, seeds=2, out=tmp_path / "out")
