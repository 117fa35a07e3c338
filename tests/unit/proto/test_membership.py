"""What a process has to say survives its control stream: a coordinator of a few lines hears it on the next one."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from slaternet import codec
from slaternet.errors import (
    BadSpec,
    Malformed,
    NotSeated,
    PluginFailed,
    RunFailed,
    SlaternetError,
    Superseded,
    Unreachable,
)
from slaternet.limits import LIMITS
from slaternet.model import (
    Acknowledged,
    Challenge,
    Checkpointed,
    ControlDown,
    ControlUp,
    Failed,
    Finished,
    GameOver,
    Head,
    Heartbeat,
    Join,
    Opening,
    Peer,
    Progress,
    Role,
    Standby,
    Welcome,
)
from slaternet.network.certificates import LOOPBACK
from slaternet.network.client import Channel, open_channel
from slaternet.network.server import serve
from slaternet.network.stream import Stream
from slaternet.service import membership
from slaternet.service.membership import Applicant, Membership
from slaternet.spec import Spec
from slaternet.spec.seat_request import EVEN, SeatRequest, parse
from slaternet.storage.state_dir import StateDir

HEAD = Head("run-1", 1, 0, "coordinator")
SPEC = """
[run]
agents = 1
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
TAG = "5e" * 32

Control = Callable[[Stream], Awaitable[None]]


async def hear(link: Stream) -> ControlUp:
    """Return what the member says next, heartbeats aside."""
    while (data := await link.read()) is not None:
        _, body = codec.decode_control_up(data)
        if not isinstance(body, Heartbeat):
            return body
    raise AssertionError("the member has left")


async def hear_all(link: Stream, count: int) -> list[ControlUp]:
    return [await hear(link) for _ in range(count)]


async def hear_opening(link: Stream) -> None:
    assert isinstance(await hear(link), Opening)


def tell(link: Stream, body: ControlDown) -> None:
    for part in codec.encode_control_down(HEAD, body):
        link.send(part)


async def see_off(link: Stream, failure: str = "") -> None:
    """End the game, as the coordinator does."""
    tell(link, GameOver(failure))
    assert await hear(link) == Acknowledged()


@asynccontextmanager
async def member(
    control: Control,
    state: StateDir | None = None,
    seats: SeatRequest = EVEN,
    joins: list[Join] | None = None,
    challenges: tuple[bytes, ...] = (),
) -> AsyncIterator[Membership]:
    """Join a game whose coordinator serves control streams this way, notes who joins, and challenges him first."""
    answers: list[Challenge | Welcome] = [*map(Challenge, challenges), Welcome(1, bytes(32), SPEC, TAG)]

    async def admit(data: bytes, caller: object) -> bytes:
        (joins if joins is not None else []).append(codec.decode_join(data)[1])
        return codec.encode_welcome(HEAD, answers.pop(0))

    service = "slaternet.v1.Coordinator"
    server = await serve("127.0.0.1:0", service=service, unary={"Join": admit}, streams={"Control": control}, hosts=1)
    try:
        async with asyncio.timeout(30):
            applicant = Applicant("agent-1", Role.HOST, "127.0.0.1:1", seats)
            yield await Membership.join(server.address, applicant, state=state)
    finally:
        await server.stop()


async def test_who_is_challenged_asks_again_with_the_newest_ticket() -> None:
    joins: list[Join] = []

    async with member(see_off, joins=joins, challenges=(bytes([1] * 32), bytes([2] * 32))) as membership:
        assert membership.incarnation == 1

    assert [join.ticket for join in joins] == [b"", bytes([1] * 32), bytes([2] * 32)]


async def test_a_refusal_after_the_end_of_the_game_is_not_reported() -> None:
    """It could be written while the coordinator ends the stream, and gRPC would lose that it did so in order."""
    joined: list[Membership] = []

    async def control(link: Stream) -> None:
        await hear_opening(link)
        await see_off(link)
        joined[0].breaches.count(Malformed("said after the end"), "")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3 * LIMITS.report_seconds):
                await link.read()

    async with member(control) as membership:
        joined.append(membership)
        await membership.attend()


async def test_progress_reported_before_the_stream_opens_is_said_when_it_does() -> None:
    heard: list[ControlUp] = []

    async def control(link: Stream) -> None:
        await hear_opening(link)
        heard.append(await hear(link))
        await see_off(link)

    async with member(control) as membership:
        membership.report(Progress(7))  # lost: there is no stream
        membership.report(Progress(8))  # held back: too soon after the other
        await membership.attend()

    assert heard == [Progress(8)]


async def test_progress_held_back_or_lost_with_a_stream_is_said_on_the_next() -> None:
    opened = asyncio.Event()
    heard: list[ControlUp] = []

    async def control(link: Stream) -> None:
        await hear_opening(link)
        if not opened.is_set():
            opened.set()
            assert await hear(link) == Progress(1)
            return  # whatever else was said on this stream is lost
        heard.append(await hear(link))
        await see_off(link)

    async with member(control) as membership:
        attending = asyncio.create_task(membership.attend())
        await opened.wait()
        membership.report(Progress(1))
        membership.report(Progress(2, 0.5, 0.25))
        await attending

    assert heard == [Progress(2, 0.5, 0.25)]


@pytest.mark.parametrize("cuts", [0, 2])
async def test_the_end_of_the_work_is_said_on_every_stream_until_the_game_is_over(cuts: int) -> None:
    streams: list[list[ControlUp]] = []

    async def control(link: Stream) -> None:
        await hear_opening(link)
        streams.append(await hear_all(link, 2))
        if len(streams) > cuts:
            await see_off(link)

    async with member(control) as membership:
        membership.finish(Progress(40))
        await membership.attend()

    assert streams == [[Progress(40), Finished()]] * (cuts + 1)


@pytest.mark.parametrize("cuts", [0, 2])
async def test_a_failure_is_said_on_every_stream_and_raised_when_the_game_is_over(cuts: int) -> None:
    streams: list[list[ControlUp]] = []

    async def control(link: Stream) -> None:
        await hear_opening(link)
        streams.append(await hear_all(link, 2))
        if len(streams) > cuts:
            await see_off(link, "agent-1: see its log")

    async with member(control) as membership:
        membership.report(Progress(3))
        membership.fail(PluginFailed("a secret of the plugin"), reason="see its log")
        membership.fail(RunFailed("what came of it"))  # the first failure is the cause
        with pytest.raises(PluginFailed, match="a secret of the plugin"):
            await membership.attend()

    assert streams == [[Progress(3), Failed("see its log")]] * (cuts + 1)


async def test_the_failure_of_another_is_raised_as_that_of_the_game() -> None:
    async def control(link: Stream) -> None:
        await hear_opening(link)
        await see_off(link, "agent-2: the disk is full")

    async with member(control) as membership:
        with pytest.raises(RunFailed, match="the game failed: agent-2: the disk is full"):
            await membership.attend()


async def test_the_newest_checkpoint_is_said_at_once_and_on_every_stream_after_the_progress() -> None:
    opened = asyncio.Event()
    streams: list[list[ControlUp]] = []

    async def control(link: Stream) -> None:
        await hear_opening(link)
        opened.set()
        streams.append(await hear_all(link, 3 if not streams else 2))
        if len(streams) == 2:
            await see_off(link)

    async with member(control) as membership:
        attending = asyncio.create_task(membership.attend())
        await opened.wait()
        membership.report(Progress(70))
        membership.report_checkpoint(64)
        membership.report_checkpoint(128)
        await attending

    assert streams == [[Progress(70), Checkpointed(64), Checkpointed(128)], [Progress(70), Checkpointed(128)]]


async def test_who_abandons_a_game_leaves_it_with_the_reason_and_without_a_word() -> None:
    heard: list[ControlUp] = []

    async def control(link: Stream) -> None:
        await hear_opening(link)
        tell(link, Standby())
        with suppress(Unreachable):  # it may hang up instead
            while (data := await link.read()) is not None:
                heard.append(codec.decode_control_up(data)[1])

    async with member(control) as membership:
        membership.listen(lambda body: membership.leave_for_restart(RunFailed("the disk is full")))
        with pytest.raises(RunFailed, match="the disk is full"):
            await membership.attend()
        assert membership.failed
        membership.fail(PluginFailed("what came of it"))

    assert heard == []


@pytest.mark.parametrize(
    ("incarnation", "epoch", "error"),
    [(1, 0, Superseded), (2, 0, None), (3, 0, NotSeated), (2, 1, NotSeated)],
    ids=["older", "known", "newer", "of another seating"],
)
async def test_a_host_opens_streams_as_the_incarnation_that_was_announced(
    incarnation: int, epoch: int, error: type[SlaternetError] | None
) -> None:
    peers = {"agent-2": Peer("agent-2", "127.0.0.1:1", 2, np.array([0]), accept=bytes(32))}
    message = Head("run-1", epoch, 0, "agent-2"), Opening(incarnation, bytes(32))
    async with member(hang_up) as membership:
        if error is None:
            assert membership.identify(message, peers, None)[0] is peers["agent-2"]
        else:
            with pytest.raises(error):
                membership.identify(message, peers, None)


# What is remembered


async def hang_up(link: Stream) -> None:
    await hear_opening(link)


@pytest.mark.parametrize(("seats", "agents"), [("", []), ("2", []), ("3,7", [3, 7])])
async def test_who_joins_says_what_it_wants_and_what_it_has_begun(
    seats: str, agents: list[int], tmp_path: Path
) -> None:
    joins: list[Join] = []
    for _ in range(2):
        with StateDir.claim(tmp_path, "agent-1", role="host") as state:
            async with member(hang_up, state, parse(seats), joins):
                pass

    assert [(each.seats, each.agents.tolist(), each.spec_tag, each.durable) for each in joins] == [
        (parse(seats).count, agents, "", True),
        (parse(seats).count, agents, TAG, True),
    ]


@pytest.mark.parametrize("role", Role)
async def test_the_adversary_is_told_the_whole_spec_and_a_host_that_is_told_more_than_its_part_refuses(
    role: Role,
) -> None:
    whole = f'{SPEC}[adversary]\nplugin = "mine"\n'

    async def admit(data: bytes, caller: object) -> bytes:
        return codec.encode_welcome(HEAD, Welcome(1, bytes(32), whole, TAG))

    server = await serve("127.0.0.1:0", service="slaternet.v1.Coordinator", unary={"Join": admit}, streams={}, hosts=1)
    try:
        joining = Membership.join(server.address, Applicant("one", role, "127.0.0.1:1"))
        if role is Role.HOST:
            with pytest.raises(BadSpec, match=r"the coordinator's spec: \[adversary\] is not a section"):
                await joining
        else:
            assert (await joining).spec == Spec.parse(whole, source="test")
    finally:
        await server.stop()


async def test_that_the_game_is_over_is_remembered_before_it_is_acknowledged(tmp_path: Path) -> None:
    remembered: list[str] = []

    async def control(link: Stream) -> None:
        await hear_opening(link)
        await hear_all(link, 2)
        await see_off(link)
        remembered.append((tmp_path / "agent-1" / "state.json").read_text())

    with StateDir.claim(tmp_path, "agent-1", role="host") as state:
        async with member(control, state) as membership:
            membership.finish(Progress(40))
            await membership.attend()

    assert '"over": true' in remembered[0]
    assert '"rounds": 40' in remembered[0]


async def test_who_knows_of_the_end_says_so_until_the_coordinator_has_heard_it() -> None:
    heard: list[ControlUp] = []

    async def control(link: Stream) -> None:
        await hear_opening(link)
        tell(link, GameOver())
        heard.append(await hear(link))
        if len(heard) < 3:
            raise Unreachable("the coordinator dies before it has written that down")

    async with member(control) as membership:
        await membership.attend()

    assert heard == [Acknowledged()] * 3


async def test_a_game_that_has_failed_may_be_begun_again(tmp_path: Path) -> None:
    async def control(link: Stream) -> None:
        await hear_opening(link)
        await see_off(link, "agent-2: the disk is full")

    with StateDir.claim(tmp_path, "agent-1", role="host") as state:
        async with member(control, state) as membership:
            with pytest.raises(RunFailed):
                await membership.attend()
        assert (state.finished_notice, bool(state.past_spec)) == ("", True)


async def test_who_cannot_remember_the_end_does_not_say_that_it_knows_it(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def control(link: Stream) -> None:
        await hear_opening(link)
        (tmp_path / "agent-1" / "state.json.draft").mkdir()
        tell(link, GameOver())
        with suppress(Unreachable):  # it may hang up instead
            assert await link.read() is None
        left.set()

    with StateDir.claim(tmp_path, "agent-1", role="host") as state:
        async with member(control, state) as membership:
            with pytest.raises(BadSpec, match=r"state\.json\.draft cannot be used: Is a directory"):
                await membership.attend()
            await left.wait()


async def test_a_process_whose_stream_ends_is_missed_until_it_is_back_or_our_own_part_is_done() -> None:
    async def control(link: Stream) -> None:
        await hear_opening(link)
        await hear_all(link, 2)
        await see_off(link)

    async with member(control) as membership:
        with capture_logs() as said:
            membership.peer_lost("agent-2")  # nothing is played yet
            attending = asyncio.create_task(membership.attend())
            await asyncio.sleep(0)
            membership.peer_back("agent-2")
            membership.peer_lost("agent-2")
            membership.peer_back("agent-2")
            membership.finish(Progress(40))
            membership.peer_lost("agent-2")  # it leaves, as all do in the end
            await attending
            membership.peer_lost("agent-2")

    assert [(each["event"], each["caller"]) for each in said if "caller" in each] == [
        ("stream broke", "agent-2"),
        ("stream is back", "agent-2"),
    ]


async def test_a_coordinator_that_does_not_answer_yet_is_waited_for_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def echo(data: bytes, caller: object) -> bytes:
        return data

    attempts = asyncio.Queue[str]()

    def opening(address: str, *named: str, **how: Any) -> Channel:
        attempts.put_nowait(address)
        return open_channel(address, *named, **how)

    monkeypatch.setattr(membership, "open_channel", opening)
    game = functools.partial(serve, service="slaternet.v1.Coordinator", unary={"Join": echo}, streams={}, hosts=1)
    server = await game("127.0.0.1:0")
    await server.stop()
    with capture_logs() as said:
        asking = asyncio.create_task(
            membership.call_until_answered(server.address, "/slaternet.v1.Coordinator/Join", b"x", LOOPBACK)
        )
        async with asyncio.timeout(30):
            for _ in range(4):
                await attempts.get()
            server = await game(server.address)
            assert await asking == b"x"
    await server.stop()

    assert [each["event"] for each in said if each["log_level"] == "info"] == ["waiting for the coordinator"]
