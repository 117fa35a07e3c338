"""The three services play over real gRPC, end in the bits of a simulation, and say no where they must."""

import asyncio
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.support.services import Game, Gathering, digest, gathering, playing, reference, small_spec

from slaternet import codec
from slaternet.errors import Mismatch, NotSeated
from slaternet.model import PROTOCOL, Head, Join, Role
from slaternet.network.client import call, open_channel
from slaternet.numerics import fingerprint as identity
from slaternet.service.membership import Applicant, Membership
from slaternet.spec import Spec
from slaternet_lab.specs.resolve import load

FINGERPRINT = identity.fingerprint()


@pytest.mark.parametrize("hosts", [1, 3])
async def test_a_game_over_grpc_ends_in_the_digest_of_its_simulation(hosts: int, tmp_path: Path) -> None:
    spec = small_spec(rounds=150)

    async with playing(spec, tmp_path / "game", hosts=hosts) as game:
        run = await game.over()

    assert digest(run) == reference(spec, tmp_path / "simulation")
    assert run.summary is not None
    assert run.summary["hosts"] == hosts


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_forty_hosts_of_three_agents_end_in_the_digest_of_the_simulation(tmp_path: Path) -> None:
    spec = load("paper", ["run.agents=120", "run.rounds=40"])

    async with playing(spec, tmp_path / "game", hosts=40) as game:
        run = await game.over(within=290)

    assert digest(run) == reference(spec, tmp_path / "simulation")


async def test_a_game_without_end_stops_at_a_round_whose_simulation_has_its_digest(tmp_path: Path) -> None:
    async with playing(small_spec(rounds=None), tmp_path / "game", hosts=3) as game:
        await game.until(lambda status: status.round > 0)
        await game.outlives_its_window()
        await asyncio.gather(game.stop(), game.stop())  # asking twice changes nothing
        run = await game.over()

    assert run.summary is not None
    assert run.spec.run.rounds == run.summary["rounds"] == len(run.metrics["round"])
    assert digest(run) == reference(run.spec, tmp_path / "simulation")


async def test_a_game_that_has_not_begun_cannot_be_stopped() -> None:
    async with gathering(small_spec(rounds=None), hosts=1) as gathered:
        with pytest.raises(NotSeated, match="has not begun"):
            await Game(gathered.address, Path(), gathered.tasks, "").stop()


async def test_health_and_reflection_answer_on_every_server(tmp_path: Path) -> None:
    async with playing(small_spec(rounds=None), tmp_path / "game", hosts=1) as game:
        addresses = {each.name: each.address for each in (await game.until(lambda status: status.round > 0)).hosts}
        services = {
            "slaternet.v1.Coordinator": game.address,
            "slaternet.v1.Adversary": addresses["adversary"],
            "slaternet.v1.Agent": addresses["agent-1"],
        }
        for service, address in services.items():
            async with grpc.aio.insecure_channel(address) as channel:
                assert await health(channel, service) == health_pb2.HealthCheckResponse.SERVING
                assert service in await reflected(channel)


async def health(channel: grpc.aio.Channel, service: str) -> int:
    request = health_pb2.HealthCheckRequest(service=service)
    reply = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=10)
    return int(reply.status)


async def reflected(channel: grpc.aio.Channel) -> list[str]:
    """Return the services that a server says it has."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    replies = [reply async for reply in stub.ServerReflectionInfo(asked, timeout=10)]
    return [each.name for each in replies[0].list_services_response.service]


async def join(
    gathered: Gathering, *, protocol: int = PROTOCOL, fingerprint: str = FINGERPRINT, seats: int = 0
) -> None:
    """Ask for a place as a host."""
    request = codec.encode_join(Head("", 0, 0, "late"), Join(Role.HOST, "127.0.0.1:1", seats, protocol, fingerprint))
    async with open_channel(gathered.address) as channel:
        await call(channel, "/slaternet.v1.Coordinator/Join", request)


async def test_another_protocol_is_refused_with_both_numbers() -> None:
    async with gathering(small_spec(rounds=10), hosts=1) as gathered:
        with pytest.raises(Mismatch, match=f"late speaks protocol 99 and the coordinator protocol {PROTOCOL}; install"):
            await join(gathered, protocol=99)


async def test_another_arithmetic_is_refused_with_both_fingerprints() -> None:
    async with gathering(small_spec(rounds=10), hosts=1) as gathered:
        with pytest.raises(Mismatch, match=f"late has numerics fingerprint {'a' * 16}, .* {FINGERPRINT[:16]}; use"):
            await join(gathered, fingerprint="a" * 64)


async def test_another_arithmetic_may_play_where_the_spec_waives_it() -> None:
    spec = small_spec("run.reproducible=false", rounds=10)
    async with gathering(spec, hosts=1) as gathered:
        await join(gathered, fingerprint="a" * 64)


async def test_more_seats_than_agents_are_refused() -> None:
    spec: Spec = small_spec(rounds=10)
    async with gathering(spec, hosts=2) as gathered:
        with pytest.raises(Mismatch, match=f"late asks for 7 seats, but with it 7 of {spec.run.agents} would be taken"):
            await join(gathered, seats=7)


async def test_who_has_a_seat_in_a_game_cannot_join_it_once_more(tmp_path: Path) -> None:
    async with playing(small_spec(rounds=None), tmp_path / "game", hosts=1) as game:
        await game.until(lambda status: status.phase == "playing")

        with pytest.raises(Mismatch, match="agent-1 has its part in a game that is under way"):
            await Membership.join(game.address, Applicant("agent-1", Role.HOST, "127.0.0.1:1"))
