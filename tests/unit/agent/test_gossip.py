import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from slaternet import codec
from slaternet.environment import REAL
from slaternet.model import Frame, Head, Peer, ResendFrom, Seating
from slaternet.network.certificates import LOOPBACK
from slaternet.network.server import Server, serve
from slaternet.network.stream import Stream
from slaternet.network.traffic import Meter
from slaternet_agent.engine.events import PeerWants
from slaternet_agent.shell.gossip import GossipStreams

HEAD = Head("run-1", 1, 1, "agent-2")


async def serving(peer: Callable[[Stream], Awaitable[None]]) -> Server:
    return await serve("127.0.0.1:0", service="slaternet.v1.Agent", unary={}, streams={"Gossip": peer}, hosts=1)


def streams_to(
    server: Server, on_event: Callable[[object], None], sent: list[tuple[int, int]] | None = None
) -> GossipStreams:
    """Return the streams of a host that dials its only peer there."""
    member: Any = SimpleNamespace(
        incarnation=1,
        meter=Meter(),
        security=LOOPBACK,
        head=lambda *_: HEAD,
        check=lambda head, peer: None,
        environment=REAL,
    )
    peer = Peer("agent-2", server.address, 1, np.array([1]), bytes(32), bytes(32))
    sent = sent if sent is not None else []
    return GossipStreams(
        member,
        Seating(np.array([0]), (peer,)),
        1,
        on_event=on_event,
        on_sent=lambda rows, size: sent.append((rows, size)),
        wanted=lambda: 1,
    )


async def test_a_frame_for_a_peer_whose_stream_is_down_counts_as_not_sent() -> None:
    async def want(link: Stream) -> None:
        await link.read()
        link.send(codec.encode_gossip(HEAD, ResendFrom(1))[0])
        await link.read()

    server = await serving(want)
    heard: asyncio.Queue[object] = asyncio.Queue()
    sent: list[tuple[int, int]] = []
    peers = streams_to(server, heard.put_nowait, sent)
    frame = Frame(1, np.array([0]), np.zeros((1, 1)))
    size = len(codec.encode_gossip(HEAD, frame)[0]) + 5
    peers.send(0, frame)
    assert (peers.open, sent) == (0, [])

    line = asyncio.create_task(peers.lines[0].run())
    async with asyncio.timeout(30):
        assert await heard.get() == PeerWants(0, 1)
        peers.send(0, frame)
        assert (peers.open, sent) == (1, [(1, size)])
        await server.stop()
        while peers.open:  # noqa: ASYNC110 - a stream that is down sets no event
            await asyncio.sleep(0.01)
    line.cancel()

    peers.send(0, frame)
    assert (peers.open, sent) == (0, [(1, size)])


async def test_a_peer_that_was_dialled_and_wants_frames_twice_loses_its_stream() -> None:
    ended: asyncio.Queue[None] = asyncio.Queue()

    async def want(link: Stream) -> None:
        await link.read()
        for _ in range(3):
            link.send(codec.encode_gossip(HEAD, ResendFrom(1))[0])
        try:
            await link.read()
        finally:
            ended.put_nowait(None)

    server = await serving(want)
    heard: list[object] = []
    peers = streams_to(server, heard.append)
    line = asyncio.create_task(peers.lines[0].run())
    async with asyncio.timeout(30):
        await ended.get()
        await ended.get()  # it is dialled again, and the next stream is as good as the first
    line.cancel()
    await asyncio.gather(line, return_exceptions=True)
    await server.stop()

    assert heard[:2] == [PeerWants(0, 1)] * 2
    assert len(heard) <= 3  # one wish a stream
