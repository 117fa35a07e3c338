"""Plain grpc.aio streams between processes on this machine: what the bare game and the reference peer are made of.

A parent starts services and players as processes of one module. Each prints the port that it listens on. Every player
learns the ports of the services and of the players before it, and has one stream to every service and every other
player. All begin when the parent says so, and end with their standard input.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

SERVICE = "streams"
Stream = Any
"""A grpc.aio call, or the context of one at its server: `read` and `write` bytes."""


async def serve(handler: Callable[[Stream], Awaitable[None]]) -> tuple[grpc.aio.Server, int]:
    """Serve one stream method on a free port."""

    async def converse(_requests: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        await handler(context)

    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    methods: dict[str, Any] = {"Stream": grpc.stream_stream_rpc_method_handler(converse)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


def dial(port: int) -> Stream:
    """Open a stream to another process."""
    return grpc.aio.insecure_channel(f"127.0.0.1:{port}").stream_stream(f"/{SERVICE}/Stream")()


async def be_service(handler: Callable[[Stream], Awaitable[None]]) -> None:
    """Be a service: handle every stream until the end."""
    server, port = await serve(handler)
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(1)


@contextlib.asynccontextmanager
async def be_player() -> AsyncIterator[tuple[list[Stream], dict[int, Stream]]]:
    """Be a player: yield, when all may begin, the streams to the services, and those to other players by number."""
    accepted: asyncio.Queue[Stream] = asyncio.Queue()
    over = asyncio.Event()

    async def accept(context: Stream) -> None:
        accepted.put_nowait(context)
        await over.wait()

    server, port = await serve(accept)
    print(port, flush=True)
    told = json.loads(await asyncio.to_thread(sys.stdin.readline))
    services = [dial(each) for each in told["services"]]
    peers = {number: dial(each) for number, each in enumerate(told["before"])}
    for peer in peers.values():
        await peer.write(str(len(peers)).encode())  # our own number
    for _ in range(told["behind"]):
        peer = await accepted.get()
        peers[int(await peer.read())] = peer
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    yield services, peers
    await asyncio.to_thread(sys.stdin.read)
    over.set()
    await server.stop(1)


@dataclass(frozen=True)
class Child:
    """One process of a game, as its parent has it."""

    process: asyncio.subprocess.Process

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    async def hear(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if not line:
            raise RuntimeError("a process of the game has ended early")
        return line.decode().strip()


@contextlib.asynccontextmanager
async def started(
    module: str, services: Sequence[str], players: Sequence[str]
) -> AsyncIterator[tuple[list[Child], list[Child]]]:
    """Start a game's processes, given the arguments of each; they play from the moment that this yields."""
    pipe = asyncio.subprocess.PIPE
    children: list[Child] = []
    try:
        for arguments in (*services, *players):
            program = (sys.executable, "-m", module, *arguments.split())
            children.append(Child(await asyncio.create_subprocess_exec(*program, stdin=pipe, stdout=pipe)))
        ports = [int(await child.hear()) for child in children]
        split = len(services)
        for number, player in enumerate(children[split:]):
            before, behind = ports[split : split + number], len(players) - 1 - number
            player.tell(json.dumps({"services": ports[:split], "before": before, "behind": behind}))
        for player in children[split:]:
            assert await player.hear() == "ready"
        for player in children[split:]:
            player.tell("go")
        yield children[:split], children[split:]
    finally:
        for child in reversed(children):  # players first: services end when nobody speaks to them any more
            assert child.process.stdin is not None
            child.process.stdin.close()
            await child.process.wait()
