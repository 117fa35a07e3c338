"""A bare gRPC game: the same hosts and the same messages as `slaternet run`, and nothing else.

In every round a host sends a frame to each host that mixes its rows by the paper's graph and waits for theirs, asks one
question and waits for its answer; every few rounds it reports to the coordinator, which sends the next topologies, and
nobody waits for those. All messages are encoded once, with the sizes of the paper's example. No mathematics, no checks,
no decoding, plain grpc.aio streams: what remains of a game when everything of ours is taken away.

    python -m benchmarks.bare HOSTS [AGENTS [ROUNDS]]       prints milliseconds per round, and of CPU by process
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Callable, Coroutine

import grpc.aio
import numpy as np
import uvloop

from benchmarks.processes import Turn, cpu_seconds
from benchmarks.streams import Stream, be_player, be_service, started
from slaternet import codec
from slaternet.limits import LIMITS
from slaternet.model import Agents, Answer, Frame, Head, Progress, Question, Values
from slaternet_coordinator.engine.topology import cut
from slaternet_coordinator.graphs.erdos_renyi import Paper

DIMENSION, POINTS, CONSTRAINTS, SEED = 10, 2, 2, 1
STEP = LIMITS.window // 4
CYCLE = 64
"""Rounds of the graph that are prepared, and then repeated."""
HEAD = Head("0" * 32, 1, 1000, "agent-1")


def seats(agents: int, hosts: int) -> list[Agents]:
    """Return the agents of each host."""
    return np.array_split(np.arange(agents), hosts)


def neighbours(agents: int, hosts: int) -> list[list[list[int]]]:
    """Return, round by round, with whom each host exchanges frames; it sends to whom it hears, for W_t is symmetric."""
    owner = np.repeat(np.arange(hosts), [len(own) for own in seats(agents, hosts)])
    rounds = []
    for matrix in Paper(agents, SEED).matrices(1, CYCLE).split():
        pairs = set(zip(owner[matrix.rows()].tolist(), owner[matrix.columns].tolist(), strict=True))
        rounds.append(
            [[other for other in range(hosts) if other != own and (own, other) in pairs] for own in range(hosts)]
        )
    return rounds


def topology(agents: int, hosts: int) -> bytes:
    """Return the topology of one host for a quarter of the window."""
    matrix = Paper(agents, SEED).matrices(1000, STEP)
    return codec.encode_control_down(HEAD, cut(1000, matrix, seats(agents, hosts), 900)[0])[0]


def messages(agents: int) -> tuple[bytes, bytes, bytes]:
    """Return a frame, a question and an answer of a host with this many agents."""
    ids, rng = np.arange(agents), np.random.default_rng(1)
    rows, points = rng.random((agents, DIMENSION)), rng.random((agents, POINTS, DIMENSION))
    answer = Answer(1000, ids, Values(points[:, :, 0].copy(), points[:, :, :CONSTRAINTS].copy()))
    return (
        codec.encode_gossip(HEAD, Frame(1000, ids, rows))[0],
        codec.encode_reveal_up(HEAD, Question(1000, ids, rows, points))[0],
        codec.encode_reveal_down(HEAD, answer)[0],
    )


async def adversary(agents: int, hosts: int) -> None:
    """Answer every question on every stream."""
    _, _, answer = messages(agents // hosts)

    async def reply(stream: Stream) -> None:
        while await stream.read() is not grpc.aio.EOF:
            await stream.write(answer)

    await be_service(reply)


async def coordinator(agents: int, hosts: int) -> None:
    """Send a topology for every report."""
    message = topology(agents, hosts)

    async def publish(stream: Stream) -> None:
        for _ in range(LIMITS.window // STEP):
            await stream.write(message)
        while await stream.read() is not grpc.aio.EOF:
            await stream.write(message)

    await be_service(publish)


async def take(control: Stream) -> None:
    """Take topologies in."""
    while await control.read() is not grpc.aio.EOF:
        pass


async def host(agents: int, hosts: int, number: int, rounds: int) -> None:
    """Play as one host; print a line after a quarter and three quarters of the rounds, and its time at the end."""
    frame, question, _ = messages(agents // hosts)
    report = codec.encode_control_up(HEAD, Progress(1000))
    others = itertools.cycle([each[number] for each in neighbours(agents, hosts)])
    async with be_player() as ((control, reveal), peers):
        taking = asyncio.create_task(take(control))
        began = time.perf_counter()
        for t, now in zip(range(rounds), others, strict=False):
            if t % STEP == 0:
                await control.write(report)
            await asyncio.gather(*(peers[other].write(frame) for other in now))
            await asyncio.gather(*(peers[other].read() for other in now))
            await reveal.write(question)
            await reveal.read()
            if t + 1 in (rounds // 4, 3 * rounds // 4):
                print(flush=True)
        print(1e3 * (time.perf_counter() - began) / rounds, flush=True)
    taking.cancel()


async def play(hosts: int, agents: int = 100, rounds: int = 1000) -> Turn:
    """Play a bare game; its time is that of its slowest host, the CPU that between the lines of its first host."""
    services = [f"coordinator {agents} {hosts}", f"adversary {agents} {hosts}"]
    players = [f"host {agents} {hosts} {number} {rounds}" for number in range(hosts)]
    async with started("benchmarks.bare", services, players) as (served, playing):
        names = ["coordinator", "adversary", *(f"agent-{number + 1}" for number in range(hosts))]
        pids = dict(zip(names, (child.process.pid for child in (*served, *playing)), strict=True))
        await playing[0].hear()
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        await playing[0].hear()
        window = 3 * rounds // 4 - rounds // 4
        cpu = {name: 1e3 * (cpu_seconds(pid) - before[name]) / window for name, pid in pids.items()}
        for child in playing[1:]:
            await child.hear()
            await child.hear()
        return Turn(max([float(await child.hear()) for child in playing]), cpu)


def main() -> None:
    """Be one process of a bare game, or play one."""
    roles: dict[str, Callable[..., Coroutine[None, None, None]]] = {
        "coordinator": coordinator,
        "adversary": adversary,
        "host": host,
    }
    role, *numbers = sys.argv[1:]
    if role in roles:
        uvloop.run(roles[role](*map(int, numbers)))
    else:
        print(asyncio.run(play(int(role), *map(int, numbers))))


if __name__ == "__main__":
    main()
