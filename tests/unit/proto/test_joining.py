"""How a process comes into a game: which calls it makes, and what its server is made for."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from slaternet import codec
from slaternet.errors import BadSpec
from slaternet.model import Challenge, Head, Join, Role, Welcome
from slaternet.network import server as transport
from slaternet.network.server import Server
from slaternet.network.stream import Stream
from slaternet.network.traffic import Meter
from slaternet.service import join
from slaternet.service.config import ProcessConfig
from slaternet.service.join import join_game
from slaternet.service.membership import Membership
from slaternet.storage.state_dir import StateDir

AGENTS = 7
SPEC = f"""
[run]
agents = {AGENTS}
dimension = 1
[set]
kind = "ball"
radius = 1.0
[algorithm]
name = "zhang2024"
schedule = "table2"
[graph]
name = "ring"
"""


class Coordinator:
    """Answers Join, at first with a challenge, and writes down which methods it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.joins: list[Join] = []
        self.answers: list[Challenge | Welcome] = [Challenge(bytes([7] * 32)), Welcome(2, bytes(32), SPEC, "5e" * 32)]

    async def start(self) -> Server:
        return await transport.serve(
            "127.0.0.1:0",
            service="slaternet.v1.Coordinator",
            unary={"Join": self._join, "Status": self._status},
            streams={},
            hosts=1,
        )

    async def _join(self, data: bytes, caller: object) -> bytes:
        self.asked.append("Join")
        self.joins.append(codec.decode_join(data)[1])
        return codec.encode_welcome(Head("run-1", 1, 0, "coordinator"), self.answers.pop(0))

    async def _status(self, data: bytes, caller: object) -> bytes:
        self.asked.append("Status")
        return b""


async def gossip(link: Stream) -> None:
    """Serve nothing."""


def entering(config: ProcessConfig) -> Any:
    return join_game(
        config,
        Role.HOST,
        service="slaternet.v1.Agent",
        streams={"Gossip": gossip},
        meter=Meter(),
        state=StateDir("agent-1", Role.HOST),
    )


async def test_a_process_that_comes_back_joins_and_asks_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}

    async def noted(listen: str, **settings: Any) -> Server:
        made.update(settings, listen=listen)
        return await transport.serve(listen, **settings)

    monkeypatch.setattr(join, "serve", noted)
    coordinator = Coordinator()
    server = await coordinator.start()
    try:
        async with asyncio.timeout(30), entering(ProcessConfig("agent-1", server.address)) as membership:
            assert isinstance(membership, Membership)
            assert coordinator.asked == ["Join", "Join"]  # the second answers the challenge
            # others reach it where it has said, with room for as many hosts as there are agents
            assert made["listen"] == coordinator.joins[-1].address
            assert made["hosts"] == AGENTS
            assert made["breaches"] is membership.breaches
            async with grpc.aio.insecure_channel(coordinator.joins[-1].address) as channel:
                await channel.channel_ready()
    finally:
        await server.stop()


@contextmanager
def taken() -> Iterator[str]:
    """Give an address that somebody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as there:
        yield "{}:{}".format(*there.getsockname())


async def test_who_cannot_listen_does_not_join() -> None:
    coordinator = Coordinator()
    server = await coordinator.start()
    try:
        with taken() as address, pytest.raises(BadSpec, match=f"cannot listen on {address}; choose a free port"):
            async with entering(ProcessConfig("agent-1", server.address, address)):
                raise AssertionError("it has joined")
        with pytest.raises(BadSpec, match=r"--listen 0.0.0.0:0 is not on loopback, and without TLS"):
            async with entering(ProcessConfig("agent-1", server.address, "0.0.0.0:0")):
                raise AssertionError("it has joined")
        assert coordinator.asked == []
    finally:
        await server.stop()
