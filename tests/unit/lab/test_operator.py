"""Operators' questions over real connections, plain and secured."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from typer.testing import CliRunner, Result

from slaternet import codec
from slaternet.errors import BadSpec, Unreachable
from slaternet.model import Head, Status
from slaternet.network.certificates import LOOPBACK, Caller, Credentials, Plain, Security, read
from slaternet.network.server import Server, serve
from slaternet_lab.cli import app
from slaternet_lab.status.operator import ask, ask_health, ask_status, secured
from slaternet_lab.tools.certificates import make

STATUS = Status(7, "playing", 6, 1000, 64, 1.5, 0.25, ())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make(folder, ["agent-1"], days=1)
    return folder


@asynccontextmanager
async def served(security: Security = LOOPBACK) -> AsyncIterator[Server]:
    async def status(data: bytes, caller: Caller | None) -> bytes:
        codec.decode_status_request(data)
        return codec.encode_status_reply(Head("run-1", 1, STATUS.round, "coordinator"), STATUS)

    service = "slaternet.v1.Coordinator"
    unary = {"Status": status}
    server = await serve("127.0.0.1:0", service=service, unary=unary, streams={}, hosts=1, security=security)
    try:
        yield server
    finally:
        await server.stop()


async def slaternet(*arguments: object) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, [str(each) for each in arguments])


async def test_a_server_is_healthy_until_it_ends() -> None:
    async with served() as server:
        answer = await slaternet("health", server.address)
        assert (answer.exit_code, answer.output) == (0, "serving\n")
        assert (await slaternet("health", server.address, "--json")).output == '{\n  "serving": true\n}\n'

    await nobody_listens(server.address)
    reason = ""
    while "connection refused" not in reason:  # an attempt that meets the closing of the port may be timed out
        with pytest.raises(Unreachable, match=f"{server.address} does not serve us ") as refused:
            await asyncio.to_thread(ask, ask_health, server.address)
        reason = str(refused.value)


async def nobody_listens(address: str) -> None:
    """Wait until nobody listens at an address: gRPC closes the port of a server some time after it has stopped."""
    host, _, port = address.rpartition(":")
    with suppress(ConnectionRefusedError):
        while True:
            with suppress(ConnectionResetError):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.close()


async def test_a_server_that_is_about_to_end_is_not_healthy() -> None:
    server, state = grpc.aio.server(), health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(state, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await state.set("", health_pb2.HealthCheckResponse.NOT_SERVING)

    try:
        with pytest.raises(Unreachable, match="does not serve any more") as refused:
            await asyncio.to_thread(ask, ask_health, f"127.0.0.1:{port}")
        assert refused.value.exit_code == 4
    finally:
        await server.stop(None)


async def test_a_server_whose_health_makes_no_sense_is_none_of_ours() -> None:
    async def babble(data: bytes, context: object) -> bytes:
        return b"\xff"

    server = grpc.aio.server()
    handlers: dict[str, Any] = {"Check": grpc.unary_unary_rpc_method_handler(babble)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()

    try:
        with pytest.raises(Unreachable, match="is no process of a game; correct the address"):
            await asyncio.to_thread(ask, ask_health, f"127.0.0.1:{port}")
    finally:
        await server.stop(None)


async def test_with_tls_a_server_is_healthy_that_has_the_name_or_the_role(certificates: Path) -> None:
    async with served(read(certificates, "agent-1")) as server:
        there = ("health", server.address, "--tls", certificates)
        answers = {name: (await slaternet(*there, "--identity", name)).exit_code for name in ("agent-1", "host")}
        strangers = {name: await slaternet(*there, "--identity", name) for name in ("coordinator", "agent-2")}
        plain = await slaternet("health", server.address)

    assert answers == {"agent-1": 0, "host": 0}
    for each in (*strangers.values(), plain):
        assert isinstance(each.exception, Unreachable)


async def test_with_tls_an_operator_asks_how_a_game_stands(certificates: Path) -> None:
    async with served(read(certificates, "coordinator")) as server:
        found = await asyncio.to_thread(ask, ask_status, server.address, secured(certificates, insecure=False))
        asked = await slaternet("status", server.address, "--tls", certificates, "--json")

    assert (found.run, found.status) == ("run-1", STATUS)
    assert '"run": "run-1"' in asked.output


def test_a_question_is_secured_by_the_operators_certificate_or_stays_on_this_machine(
    certificates: Path, tmp_path: Path
) -> None:
    mine = secured(certificates, insecure=False)
    assert isinstance(mine, Credentials)
    assert (mine.role, mine.name) == ("operator", "operator")
    assert (secured(None, insecure=False), secured(None, insecure=True)) == (LOOPBACK, Plain(anywhere=True))
    with pytest.raises(BadSpec, match="holds no identity"):
        secured(tmp_path, insecure=True)
    with pytest.raises(BadSpec, match="is not on loopback"):
        ask(ask_status, "192.0.2.1:7000", LOOPBACK)
