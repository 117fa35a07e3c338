"""A bare gRPC game: the same hosts and the same messages as `slaternet run`, and nothing else.

Per round every host sends one frame to every other and waits for theirs, asks one question and waits for its answer;
every few rounds it reports to the coordinator, which sends the next topologies, and nobody waits for those. All
messages are encoded once, with the sizes of the paper's example. No mathematics, no checks, no decoding, plain grpc.aio
streams: what remains of a game when everything of ours is taken away.

    python -m benchmarks.bare HOSTS [ROUNDS]       prints milliseconds per round
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from slaternet.service.library_defaults import set_library_defaults

set_library_defaults()  # gRPC as the game has it

import grpc
import grpc.aio
import numpy as np
import uvloop

from slaternet import codec
from slaternet.limits import LIMITS
from slaternet.model import Answer, Frame, Head, Progress, Question, Values
from slaternet_coordinator.engine.topology import cut
from slaternet_coordinator.graphs.erdos_renyi import Paper

AGENTS, DIMENSION, POINTS, CONSTRAINTS = 100, 10, 2, 2
SERVICE = "bare"
STEP = LIMITS.window // 4
HEAD = Head("0" * 32, 1, 1000, "agent-1")


def topology(hosts: int) -> bytes:
    """Return the topology of one host for a quarter of the window."""
    seats = np.array_split(np.arange(AGENTS), hosts)
    return codec.encode_control_down(HEAD, cut(1000, Paper(AGENTS, 1).matrices(1000, STEP), seats, 900)[0])[0]


def messages(agents: int) -> tuple[bytes, bytes, bytes]:
    """Return a frame, a question and an answer of a host with this many agents."""
    head = HEAD
    ids, rng = np.arange(agents), np.random.default_rng(1)
    rows, points = rng.random((agents, DIMENSION)), rng.random((agents, POINTS, DIMENSION))
    frame = Frame(1000, ids, rows)
    question = Question(1000, ids, rows, points)
    answer = Answer(1000, ids, Values(points[:, :, 0].copy(), points[:, :, :CONSTRAINTS].copy()))
    return (
        codec.encode_gossip(head, frame)[0],
        codec.encode_reveal_up(head, question)[0],
        codec.encode_reveal_down(head, answer)[0],
    )


async def serve(handler: Callable[[Any], Awaitable[None]]) -> tuple[grpc.aio.Server, int]:
    """Serve one stream method on a free port."""

    async def converse(_requests: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        await handler(context)

    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    methods: dict[str, Any] = {"Stream": grpc.stream_stream_rpc_method_handler(converse)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


def dial(port: int) -> Any:  # noqa: ANN401  a grpc.aio stream
    """Open a stream to a server of this game."""
    return grpc.aio.insecure_channel(f"127.0.0.1:{port}").stream_stream(f"/{SERVICE}/Stream")()


async def adversary(answer: bytes) -> None:
    """Answer every question on every stream; ends with standard input."""

    async def reply(context: Any) -> None:  # noqa: ANN401
        while await context.read() is not grpc.aio.EOF:
            await context.write(answer)

    server, port = await serve(reply)
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)


async def coordinator(message: bytes) -> None:
    """Send a topology for every report; ends with standard input."""

    async def publish(context: Any) -> None:  # noqa: ANN401
        for _ in range(LIMITS.window // STEP):
            await context.write(message)
        while await context.read() is not grpc.aio.EOF:
            await context.write(message)

    server, port = await serve(publish)
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)


async def listen(control: Any) -> None:  # noqa: ANN401
    """Take topologies in."""
    while await control.read() is not grpc.aio.EOF:
        pass


async def host(rounds: int, frame: bytes, question: bytes) -> None:
    """Play as one host: the ports of the others come in on standard input."""
    accepted: asyncio.Queue[tuple[Any, asyncio.Event]] = asyncio.Queue()

    async def take(context: Any) -> None:  # noqa: ANN401
        done = asyncio.Event()
        accepted.put_nowait((context, done))
        await done.wait()

    server, port = await serve(take)
    print(port, flush=True)
    line = await asyncio.to_thread(sys.stdin.readline)
    control_port, reveal_port, later, *earlier = map(int, line.split())
    control, reveal = dial(control_port), dial(reveal_port)
    listening = asyncio.create_task(listen(control))
    report = codec.encode_control_up(HEAD, Progress(1000))
    dialled = [dial(each) for each in earlier]
    for each in dialled:
        await each.write(b"hello")
    taken = [await accepted.get() for _ in range(later)]
    for context, _ in taken:
        await context.read()
    peers = [*dialled, *(context for context, _ in taken)]

    began = time.perf_counter()
    for t in range(rounds):
        if t % STEP == 0:
            await control.write(report)
        await asyncio.gather(*(peer.write(frame) for peer in peers))
        await asyncio.gather(*(peer.read() for peer in peers))
        await reveal.write(question)
        await reveal.read()
    print(1e3 * (time.perf_counter() - began) / rounds, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    listening.cancel()
    for _, done in taken:
        done.set()
    await server.stop(0)


async def child(*arguments: str) -> asyncio.subprocess.Process:
    """Start one process of the game."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.bare", *arguments, stdin=pipe, stdout=pipe
    )


async def line(process: asyncio.subprocess.Process) -> float:
    """Return the number a process prints next."""
    assert process.stdout is not None
    return float(await process.stdout.readline())


async def play(hosts: int, rounds: int) -> float:
    """Play a bare game; return milliseconds per round of its slowest host."""
    share = str(AGENTS // hosts)
    publisher, opponent = await child("coordinator", str(hosts)), await child("adversary", share)
    players = [await child("host", share, str(rounds)) for _ in range(hosts)]
    control, reveal = int(await line(publisher)), int(await line(opponent))
    ports = [int(await line(player)) for player in players]
    for index, player in enumerate(players):
        assert player.stdin is not None
        earlier = " ".join(map(str, ports[:index]))
        player.stdin.write(f"{control} {reveal} {hosts - 1 - index} {earlier}\n".encode())
    slowest = max([await line(player) for player in players])
    for process in (*players, opponent, publisher):
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
    return slowest


def main() -> None:
    """Be one process of a bare game, or play one."""
    role, *numbers = sys.argv[1:]
    if role == "coordinator":
        uvloop.run(coordinator(topology(int(numbers[0]))))
    elif role == "adversary":
        uvloop.run(adversary(messages(int(numbers[0]))[2]))
    elif role == "host":
        frame, question, _ = messages(int(numbers[0]))
        uvloop.run(host(int(numbers[1]), frame, question))
    else:
        rounds = int(numbers[0]) if numbers else 1000
        print(f"{asyncio.run(play(int(role), rounds)):.3f} ms per round")


if __name__ == "__main__":
    main()
