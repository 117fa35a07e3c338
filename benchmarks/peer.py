"""The reference peer: the paper's example as one would write it in an afternoon, one process per agent.

Every agent is a process with a server of its own and one grpc.aio stream to every other agent. In round t it sends z to
its neighbours and waits for theirs, takes two points to the adversary, a process with one stream per agent, and makes
the step of Algorithm 1. Functions, graph and directions are the product's own, and every agent computes the graph
itself. Messages are float64 as they lie in memory. No coordinator, no scores, no journal, no checks, no restarts.

    python -m benchmarks.peer AGENTS ROUNDS       prints milliseconds per round
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

import grpc.aio
import numpy as np
import uvloop

from benchmarks.streams import Stream, be_player, be_service, started
from slaternet.model import Array
from slaternet.numerics.randomness import block_length, stream
from slaternet.numerics.sets import Box
from slaternet_adversary.api import Game
from slaternet_adversary.builtin.linear_regression import LinearRegression
from slaternet_coordinator.graphs.erdos_renyi import Paper

P, LOWER, UPPER, SEED = 10, -5.0, 5.0, 1
GAMMA0, DELTA0 = 0.15, 0.01
BATCH = 64
"""Rounds of the graph that are computed at a time."""


@dataclass(frozen=True)
class Outcome:
    """How a game went."""

    ms: float  # per round, of the slowest agent
    x: Array  # (n, p), the decisions of the last round


async def adversary(agents: int) -> None:
    """Answer each agent's questions with f and g of its own functions."""
    plugin = LinearRegression(Game(agents, P, SEED, Box(P, LOWER, UPPER)))
    functions, asked = {}, Counter[int]()

    async def answer(questions: Stream) -> None:
        agent = np.array([int(await questions.read())])
        t = 0
        while (question := await questions.read()) is not grpc.aio.EOF:
            t += 1
            if t not in functions:
                functions[t] = plugin.play(t)
            points = np.frombuffer(question).reshape(1, 2, P)
            f, g = functions[t].loss(agent, points), functions[t].constraint(agent, points)
            await questions.write(f.tobytes() + g.tobytes())
            asked[t] += 1
            if asked[t] == agents:
                del functions[t], asked[t]

    await be_service(answer)


async def play_agent(number: int, agents: int, rounds: int) -> None:
    """Play as one agent; print its time and its last decision."""
    graph, block = Paper(agents, SEED), block_length(P)
    z = np.zeros(P)
    async with be_player() as ((reveal,), peers):
        await reveal.write(str(number).encode())
        began = time.perf_counter()
        for t in range(1, rounds + 1):
            if (t - 1) % BATCH == 0:
                matrices = graph.matrices(t, BATCH).split()
            if (t - 1) % block == 0:
                normal = stream(SEED, "direction", number, (t - 1) // block).standard_normal((block, P))
                directions = normal / np.sqrt((normal * normal).sum(axis=-1))[:, None]
            u = directions[(t - 1) % block]

            w = matrices[(t - 1) % BATCH]
            own = slice(w.starts[number], w.starts[number + 1])
            neighbours = w.columns[own].tolist()
            others = [other for other in neighbours if other != number]
            await asyncio.gather(*(peers[other].write(z.tobytes()) for other in others))
            received = await asyncio.gather(*(peers[other].read() for other in others))
            rows = {number: z} | {other: np.frombuffer(row) for other, row in zip(others, received, strict=True)}
            x = np.zeros(P)
            for weight, each in zip(w.weights[own].tolist(), neighbours, strict=True):
                x += weight * rows[each]

            alpha, delta = 1.0 / t, DELTA0 / t
            await reveal.write(np.stack((x, x + delta * u)).tobytes())
            values = np.frombuffer(await reveal.read())
            f, g = values[:2], values[2:].reshape(2, -1)
            q = GAMMA0 * t * np.maximum(g[0], 0.0)
            slope = (P / delta) * (f[1] - f[0]) + ((P / delta) * (g[1] - g[0]) * q).sum()
            scale = 1.0 - 1.0 / (t + 1)
            z = np.clip(x - alpha * slope * u, scale * LOWER, scale * UPPER)
        print(1e3 * (time.perf_counter() - began) / rounds, *x.tolist(), flush=True)


async def play(agents: int, rounds: int) -> Outcome:
    """Play a game."""
    players = [f"agent {number} {agents} {rounds}" for number in range(agents)]
    async with started("benchmarks.peer", [f"adversary {agents}"], players) as (_, playing):
        printed = np.array([(await agent.hear()).split() for agent in playing], dtype=float)
    return Outcome(printed[:, 0].max(), printed[:, 1:])


def main() -> None:
    """Be one process of a game, or play one."""
    roles: dict[str, Callable[..., Coroutine[None, None, None]]] = {"adversary": adversary, "agent": play_agent}
    role, *numbers = sys.argv[1:]
    if role in roles:
        uvloop.run(roles[role](*map(int, numbers)))
    else:
        print(f"{asyncio.run(play(int(role), int(numbers[0]))).ms:.3f} ms per round")


if __name__ == "__main__":
    main()
