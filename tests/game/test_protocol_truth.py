"""What was played is the paper's Algorithm 1: every decision follows from earlier questions, in plain numpy.

Nothing of the project computes here but the processes that play: the questions come from an adversary that writes
them down, W_t from `slaternet graph`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.game.processes import PLUGINS, slaternet, write_spec

AGENTS, ROUNDS, P = 12, 60, 3
RADIUS = 5.0
GAMMA0, DELTA0 = 0.15, 0.01

Array = NDArray[np.float64]


@pytest.mark.slow
def test_every_decision_is_the_one_algorithm_1_makes_of_the_questions_before_it(tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    spec = write_spec(
        tmp_path,
        rounds=ROUNDS,
        agents=AGENTS,
        plugin=f"{PLUGINS / 'logs_questions.py'}:LogsQuestions",
        more=f'[adversary.options]\nlog = "{questions}"\n',
    )

    played = slaternet("run", spec, "--hosts", 2, "--out", tmp_path / "run")
    drawn = slaternet("graph", spec, "--out", tmp_path / "W.npz")

    assert (played.code, drawn.code) == (0, 0), played.err + drawn.err
    w = np.load(tmp_path / "W.npz")["W"]
    points, f, g = read(questions)
    x = points[:, :, 0]
    np.testing.assert_allclose(np.linalg.norm(directions(points), axis=-1), 1.0, atol=1e-9)
    np.testing.assert_allclose(x[0], 0.0)
    for t in range(1, ROUNDS):
        z = next_z(t, points[t - 1], f[t - 1], g[t - 1])
        np.testing.assert_allclose(x[t], w[t] @ z, rtol=0, atol=1e-9, err_msg=f"round {t + 1}")


def read(log: Path) -> tuple[Array, Array, Array]:
    """Return points (T, n, 2, p), f (T, n, 2) and g (T, n, 2, m); no agent may have asked two questions in a round.

    Some questions are asked again once their round is scored, to see whether a plugin is reproducible.
    """
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    points = np.full((ROUNDS, AGENTS, 2, P), np.nan)
    f, g = np.full((ROUNDS, AGENTS, 2), np.nan), np.full((ROUNDS, AGENTS, 2, 2), np.nan)
    for line in lines:
        values = f if line["what"] == "loss" else g
        where = line["round"] - 1, line["agents"]
        if np.isfinite(values[where]).any():
            np.testing.assert_array_equal(points[where], line["points"], err_msg="another question in the same round")
            np.testing.assert_array_equal(values[where], line["values"])
        values[where] = line["values"]
        points[where] = line["points"]
    assert np.isfinite(points).all()
    assert np.isfinite(f).all()
    assert np.isfinite(g).all()
    return points, f, g


def directions(points: Array) -> Array:
    """Return u_{i,t} of every round from the two points asked about."""
    delta = DELTA0 / np.arange(1, len(points) + 1)
    u: Array = (points[:, :, 1] - points[:, :, 0]) / delta[:, None, None]
    return u


def next_z(t: int, points: Array, f: Array, g: Array) -> Array:
    """Return z_{i,t+1} of all agents from what they asked and heard in round t; Table II's schedule."""
    alpha, gamma, delta, next_xi = 1 / t, GAMMA0 * t, DELTA0 / t, 1 / (t + 1)
    x, u = points[:, 0], (points[:, 1] - points[:, 0]) / delta
    q = gamma * np.maximum(g[:, 0], 0)
    loss_gradient = P / delta * (f[:, 1] - f[:, 0])[:, None] * u
    constraint_gradient = P / delta * np.einsum("ip,im->ipm", u, g[:, 1] - g[:, 0])
    omega = loss_gradient + np.einsum("ipm,im->ip", constraint_gradient, q)
    z: Array = np.clip(x - alpha * omega, -RADIUS * (1 - next_xi), RADIUS * (1 - next_xi))
    return z
