"""Who gets in where every connection is secured: nobody but the process that a certificate of the game's CA names."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from tests.support.forgery import DAY, Forger
from tests.support.services import (
    CONTROL,
    GOSSIP,
    LOOPBACK,
    REVEAL,
    Door,
    Game,
    Verdict,
    converse,
    playing,
    reference,
    small_spec,
)

from slaternet import codec
from slaternet.errors import Unreachable
from slaternet.model import Head, Join, Role
from slaternet.network.certificates import Credentials, read
from slaternet.network.client import call, open_channel
from slaternet.network.server import serve
from slaternet_lab.tools.certificates import make

JOIN = "/slaternet.v1.Coordinator/Join"
STOP = "/slaternet.v1.Coordinator/Stop"
HOSTS = ("agent-1", "agent-2", "agent-3")

REFUSED = (grpc.StatusCode.PERMISSION_DENIED, "NotYours")
NO_HANDSHAKE = (grpc.StatusCode.UNAVAILABLE, "")
WELCOME = (grpc.StatusCode.ABORTED, "Replaced")  # it got in, and the process whose stream it took has come back


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make(folder, HOSTS, days=1)
    return folder


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return certificates that say the same, by a CA that nobody knows."""
    folder = tmp_path_factory.mktemp("forged")
    make(folder, HOSTS, days=1)
    return folder


Shown = dict[str, grpc.ChannelCredentials | None]


@pytest.fixture(scope="module")
def shown(authority: Path, forged: Path) -> Shown:
    """Return what each caller shows when it says that it is agent-1; None: it does not even speak TLS."""
    lie = read(forged, "agent-1")
    return {
        "its own": read(authority, "agent-1").channel(),
        "another host's": read(authority, "agent-2").channel(),
        "the adversary's": read(authority, "adversary").channel(),
        "the operator's": read(authority, "operator").channel(),
        "the coordinator's": read(authority, "coordinator").channel(),
        "one by a forged CA": grpc.ssl_channel_credentials(read(authority, "agent-1").ca, lie.key, lie.certificate),
        "an expired one": Forger.holding(authority).credentials("agent-1", begins=-9 * DAY, ends=-DAY).channel(),
        "none": grpc.ssl_channel_credentials(read(authority, "agent-1").ca),
        "plaintext": None,
    }


VERDICTS = {
    "its own": WELCOME,
    "another host's": REFUSED,
    "the adversary's": REFUSED,
    "the operator's": REFUSED,
    "the coordinator's": REFUSED,
    "one by a forged CA": NO_HANDSHAKE,
    "an expired one": NO_HANDSHAKE,
    "none": NO_HANDSHAKE,
    "plaintext": NO_HANDSHAKE,
}


def connected(address: str, server: str, credentials: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
    if credentials is None:
        return grpc.aio.insecure_channel(address)
    override = ("grpc.ssl_target_name_override", f"{server}.slaternet")
    return grpc.aio.secure_channel(address, credentials, options=[override])


@pytest.mark.parametrize("door", [CONTROL, REVEAL, GOSSIP], ids=["control", "reveal", "gossip"])
async def test_a_stream_is_opened_by_the_process_that_its_certificate_names_and_by_nobody_else(
    door: Door, authority: Path, shown: Shown, tmp_path: Path
) -> None:
    async with playing(small_spec(rounds=None), tmp_path / "game", hosts=3, tls=authority) as game:
        insider = await door.find(game)
        # a true ticket of the newest incarnation: without TLS it would open the door to whoever holds it
        opening = door.encode(insider.head(), insider.opening())
        verdicts = {}
        for whose, credentials in shown.items():
            channel = connected(insider.address, insider.server, credentials)
            verdict = await converse(insider.address, door.method, [opening], channel)
            verdicts[whose] = verdict.code, verdict.error
        assert insider.holder == "agent-1"
        assert verdicts == VERDICTS
        await game.goes_on()
        await game.stop()
        run = await game.over()
        assert run.summary is not None
        assert run.summary["digest"] == reference(run.spec, tmp_path / "simulation")


async def asked(game: Game, method: str, request: bytes, credentials: grpc.ChannelCredentials | None) -> Verdict:
    async with connected(game.address, "coordinator", credentials) as channel:
        question: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        try:
            await question(request, timeout=5.0)
        except grpc.aio.AioRpcError as error:
            named = dict(error.trailing_metadata() or ()).get("slaternet-error", "")
            return Verdict(error.code(), str(named), error.details() or "")
    return Verdict(grpc.StatusCode.OK, "", "")


@pytest.mark.parametrize("role", Role)
async def test_a_place_is_given_only_to_the_name_and_role_of_the_certificate(
    role: Role, authority: Path, shown: Shown, tmp_path: Path
) -> None:
    request = codec.encode_join(Head("", 0, 0, "agent-1"), Join(role, "127.0.0.1:1", 0, 1, "0" * 64))
    async with playing(small_spec(rounds=None), tmp_path / "game", hosts=3, tls=authority) as game:
        verdicts = {whose: await asked(game, JOIN, request, each) for whose, each in shown.items()}
    # who may ask at all is told that its numerics differ; the others do not get so far
    welcome = (grpc.StatusCode.FAILED_PRECONDITION, "Mismatch") if role is Role.HOST else REFUSED
    assert {whose: (each.code, each.error) for whose, each in verdicts.items()} == VERDICTS | {"its own": welcome}


async def test_a_game_is_stopped_by_the_operator_alone(authority: Path, shown: Shown, tmp_path: Path) -> None:
    request = codec.encode_stop_request(Head("", 0, 0, "operator"))
    async with playing(small_spec(rounds=None), tmp_path / "game", hosts=3, tls=authority) as game:
        await game.goes_on()
        verdicts = {whose: await asked(game, STOP, request, each) for whose, each in shown.items()}
        await game.over()
    expected = VERDICTS | {"its own": REFUSED, "the operator's": (grpc.StatusCode.OK, "")}
    assert {whose: (each.code, each.error) for whose, each in verdicts.items()} == expected


@pytest.fixture(params=["another's name", "a forged CA"])
def impostor(request: pytest.FixtureRequest, authority: Path, forged: Path) -> Iterator[tuple[Credentials, str]]:
    """Return what a false server shows, and what is wrong with it."""
    if request.param == "another's name":
        yield read(authority, "agent-2"), r"its certificate is of another name"
    else:
        yield read(forged, "adversary"), r"its certificate is not of our CA"


async def test_a_false_server_is_not_talked_to_wherever_it_listens(
    impostor: tuple[Credentials, str], authority: Path
) -> None:
    credentials, reason = impostor
    heard = []

    async def hear(data: bytes, caller: object) -> bytes:
        heard.append(data)
        return b""

    service = "slaternet.v1.Adversary"
    server = await serve(LOOPBACK, service=service, unary={"Ask": hear}, streams={}, hosts=1, security=credentials)
    own = read(authority, "agent-1")
    try:
        async with open_channel(server.address, "adversary", security=own) as channel:
            with pytest.raises(Unreachable, match=rf"^{server.address} does not serve us \({reason}\); "):
                await call(channel, f"/{service}/Ask", b"a ticket")
    finally:
        await server.stop()
    assert not heard
