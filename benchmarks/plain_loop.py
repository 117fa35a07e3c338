"""The paper's example as a researcher would write it: one vectorised numpy loop, no network, no digest, no checks.

It plays the same game to the last edge: functions and edges come from the product's own adversary and graph, directions
from the product's streams. Everything else is written here anew and scored every round with the global f_t and g_t.

BLAS serves the scores but not the iterates. The difference quotient magnifies a rounding of f by p / delta_0 = 1000 and
the iteration magnifies it further: loops that differ in last bits stand 1e-7 apart after 1000 rounds. Sums over last
axes and a sparse W_t cost about 0.04 ms a round more than `@` and make the final z comparable to 1e-9.

`python benchmarks/plain_loop.py [ROUNDS [AGENTS [SEED]]]` prints milliseconds per round.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as each of our processes has it; before numpy is imported

import sys
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from slaternet.numerics.randomness import block_length, stream
from slaternet.numerics.sets import Box
from slaternet_adversary.api import Game
from slaternet_adversary.builtin.linear_regression import LinearRegression
from slaternet_coordinator.graphs.erdos_renyi import Paper

Array = NDArray[np.float64]

P, LOWER, UPPER = 10, -5.0, 5.0
GAMMA0, DELTA0 = 0.15, 0.01


@dataclass(frozen=True)
class Outcome:
    """Where the loop ended and what it cost."""

    z: Array  # (n, p), after the last round's update
    cumulative_loss: float
    cumulative_violation: float
    zero_loss: float
    ms_per_round: float


def play(rounds: int = 1000, agents: int = 100, seed: int = 1) -> Outcome:
    """Play Algorithm 1 with Table II's inputs on the paper's functions and graph."""
    began = time.perf_counter()
    adversary = LinearRegression(Game(agents, P, seed, Box(P, LOWER, UPPER)))
    graph = Paper(agents, seed)
    block = block_length(P)
    z = np.zeros((agents, P))
    loss = violation = zero = 0.0
    for t in range(1, rounds + 1):
        offset = (t - 1) % block
        if offset == 0:
            directions = draw_directions(seed, agents, (t - 1) // block, block)
        u = directions[:, offset]
        functions = adversary.play(t)
        a, theta, b, bound = functions.a, functions.theta, functions.b, functions.bound

        w = graph.matrix(t)
        x = csr_array((w.weights, w.columns, w.starts), shape=(agents, agents)) @ z
        alpha, delta = 1.0 / t, DELTA0 / t
        points = np.stack((x, x + delta * u), axis=1)  # (n, 2, p)
        residual = (a[:, None] * points[:, :, None]).sum(axis=-1) - theta[:, None]
        f = 0.5 * (residual * residual).sum(axis=-1)
        g = (b[:, None] * points[:, :, None]).sum(axis=-1) - bound[:, None]
        q = GAMMA0 * t * np.maximum(g[:, 0], 0.0)
        slope = (P / delta) * (f[:, 1] - f[:, 0]) + ((P / delta) * (g[:, 1] - g[:, 0]) * q).sum(axis=-1)
        scale = 1.0 - 1.0 / (t + 1)
        z = np.clip(x - (alpha * slope)[:, None] * u, scale * LOWER, scale * UPPER)

        # The score: f_t = (1/n) sum_i f_{i,t} by its quadratic form, |[g_t]_+| over all n m rows.
        rows, targets = a.reshape(-1, P), theta.ravel()
        hessian, linear = rows.T @ rows, rows.T @ targets
        constant = targets @ targets
        loss += float(np.sum((x @ hessian) * x) / agents - 2.0 * np.mean(x @ linear) + constant) / (2.0 * agents)
        over = np.maximum(x @ b.reshape(-1, P).T - bound.ravel(), 0.0)
        violation += float(np.mean(np.sqrt(np.einsum("nm,nm->n", over, over))))
        zero += float(constant) / (2.0 * agents)
    seconds = time.perf_counter() - began
    return Outcome(z, loss, violation, zero, 1e3 * seconds / rounds)


def draw_directions(seed: int, agents: int, block: int, rounds: int) -> Array:
    """Return one block of unit vectors, (n, rounds, p)."""
    normal = np.empty((agents, rounds, P))
    for agent in range(agents):
        stream(seed, "direction", agent, block).standard_normal(out=normal[agent])
    normal /= np.sqrt((normal * normal).sum(axis=-1))[:, :, None]
    return normal


if __name__ == "__main__":
    outcome = play(*map(int, sys.argv[1:]))
    print(f"{outcome.ms_per_round:.3f} ms per round, loss {outcome.cumulative_loss:.0f}", end=", ")
    print(f"violation {outcome.cumulative_violation:.0f}, zero {outcome.zero_loss:.0f}")
