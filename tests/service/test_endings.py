"""The last words of a game reach everyone: whoever reconnects, comes late, or is at work when they are said."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from tests.support.faulty import GRAPH, HALVED, written
from tests.support.services import DEADLINE, LOOPBACK, SECRET, gathering, small_spec

from slaternet import codec
from slaternet.errors import NotSeated, RunFailed, SlaternetError
from slaternet.model import (
    PROTOCOL,
    Acknowledged,
    Answer,
    ControlDown,
    Description,
    Failed,
    Finished,
    GameOver,
    Head,
    Hold,
    Holding,
    Join,
    Opening,
    Peer,
    Progress,
    Question,
    Role,
    Seating,
    StopAt,
    Usage,
    Values,
)
from slaternet.network.client import call, open_channel
from slaternet.network.stream import Stream
from slaternet.service.config import ProcessConfig
from slaternet.service.membership import Applicant, Membership
from slaternet.tickets import ticket
from slaternet_adversary.journal.journal import AdversaryJournal
from slaternet_adversary.shell.runtime import Runtime
from slaternet_adversary.shell.service import AdversaryService
from slaternet_adversary.shell.streams import RevealServer
from slaternet_coordinator.engine.coordinator import Coordinator
from slaternet_coordinator.engine.events import (
    Admit,
    Effect,
    Event,
    Joined,
    Keep,
    Leave,
    Opened,
    Said,
    StreamClosed,
    Tell,
)
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.engine.rules import Rules
from slaternet_coordinator.graphs.fixed import Complete

EVE = "adversary"
COORDINATOR = "coordinator"


pytestmark = pytest.mark.usefixtures("nothing_is_left_behind")


# The coordinator's last words


def seen(coordinator: Coordinator, event: Event) -> list[Effect]:
    """Return what a coordinator does that others see."""
    return [effect for effect in coordinator.handle(event) if not isinstance(effect, Keep)]


def farewell(body: Finished | Failed) -> Coordinator:
    """Return a coordinator whose game has ended because everyone, or the adversary, said so."""
    coordinator = Coordinator(Complete(1, 1), Rules(agents=1, hosts=1, rounds=5), SECRET)
    for name, role in ((EVE, Role.ADVERSARY), ("agent-1", Role.HOST)):
        admit, *_ = seen(coordinator, Joined(name, Join(role, "localhost:1", 0, PROTOCOL, "")))
        assert isinstance(admit, Admit)
        coordinator.handle(Opened(name, Opening(admit.incarnation, admit.ticket)))
    coordinator.handle(Said(EVE, Description(1)))
    for name in (EVE,) if isinstance(body, Failed) else (EVE, "agent-1"):
        coordinator.handle(Said(name, Progress(5)))
        coordinator.handle(Said(name, body))
    return coordinator


def test_a_member_that_is_only_reconnecting_hears_of_the_end_before_the_coordinator_leaves() -> None:
    coordinator = farewell(Finished())
    assert coordinator.view.phase is Phase.OVER

    assert seen(coordinator, StreamClosed("agent-1")) == []
    assert seen(coordinator, Said(EVE, Acknowledged())) == []
    assert seen(coordinator, StreamClosed(EVE)) == []  # nobody is connected any more, but one has not heard
    again = coordinator.handle(Opened("agent-1", Opening(1, ticket(SECRET, "agent-1", 1, COORDINATOR))))
    assert again[-1] == Tell("agent-1", GameOver())
    assert seen(coordinator, Said("agent-1", Acknowledged())) == [Leave()]


def test_after_a_failure_a_member_that_is_gone_is_not_waited_for() -> None:
    coordinator = farewell(Failed("enough"))
    assert coordinator.view.phase is Phase.FAILED

    assert seen(coordinator, StreamClosed("agent-1")) == []
    assert seen(coordinator, Said(EVE, Acknowledged())) == [Leave()]


async def test_a_member_that_opens_its_stream_after_the_failure_hears_of_it(tmp_path: Path) -> None:
    target = written(tmp_path, "Faulty", GRAPH.format(first=1, fault=HALVED))
    spec = small_spec(rounds=None).replace(**{"graph.name": target, "graph.rho": None})
    async with (
        gathering(spec, hosts=1) as gathered,
        attending(gathered.address, "agent-1", Role.HOST, asyncio.Queue()),
    ):
        late = await Membership.join(gathered.address, Applicant("agent-2", Role.HOST, "127.0.0.1:1"))
        gathered.start(AdversaryService(ProcessConfig("adversary", gathered.address, LOOPBACK), tmp_path / "game"))
        coordinator, adversary = gathered.tasks
        async with asyncio.timeout(DEADLINE):
            await asyncio.wait([adversary])
            with pytest.raises(RunFailed, match="row 0 sums to"):
                await late.attend()
            with pytest.raises(RunFailed, match="row 0 sums to"):
                await coordinator


@asynccontextmanager
async def attending(
    address: str, name: str, role: Role, heard: asyncio.Queue[ControlDown]
) -> AsyncIterator[Membership]:
    """Be a member that does nothing but listen."""
    membership = await Membership.join(address, Applicant(name, role, "127.0.0.1:1"))
    membership.listen(
        heard.put_nowait, opened=lambda: membership.send(Description(1)) if role is Role.ADVERSARY else None
    )
    task = asyncio.create_task(membership.attend())
    try:
        yield membership
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def stop(address: str) -> int:
    """Ask for the end of the game; return the round that is said to be the last."""
    request = codec.encode_stop_request(Head("", 0, 0, "test"))
    async with open_channel(address) as channel:
        return codec.decode_stop_reply(await call(channel, "/slaternet.v1.Coordinator/Stop", request)).round


async def until(heard: asyncio.Queue[ControlDown], kind: type[ControlDown]) -> ControlDown:
    """Return the next thing of a kind that is heard."""
    async with asyncio.timeout(DEADLINE):
        while not isinstance(body := await heard.get(), kind):
            pass
    return body


@pytest.mark.parametrize("rounds", [None, 200])
async def test_who_asks_for_the_end_hears_no_last_round_until_it_is_settled(rounds: int | None) -> None:
    heard: asyncio.Queue[ControlDown] = asyncio.Queue()
    async with (
        gathering(small_spec(rounds=rounds), hosts=1) as gathered,
        attending(gathered.address, "agent-1", Role.HOST, heard) as host,
        attending(gathered.address, EVE, Role.ADVERSARY, asyncio.Queue()),
    ):
        await until(heard, Seating)
        assert await stop(gathered.address) == 0
        await until(heard, Hold)
        assert await stop(gathered.address) == 0
        host.send(Holding(3), 3)
        assert await until(heard, StopAt) == StopAt(3)
        assert await stop(gathered.address) == 3


# An adversary that is told of the end while it works


class Abrupt:
    """A membership in a game that fails a few turns of the loop after the seating."""

    failed = False
    epoch = 1
    spec = SimpleNamespace(run=SimpleNamespace(rounds=None))

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._hear: Callable[[ControlDown], None] = lambda body: None

    def listen(self, hear: Callable[[ControlDown], None], *, opened: Callable[[], None]) -> None:
        self._hear = hear

    def report(self, progress: Progress) -> None:
        pass

    async def attend(self) -> None:
        await asyncio.sleep(0)  # the worker begins to wait
        await asyncio.sleep(0)
        self._hear(Seating(np.empty(0, np.intp), (Peer("agent-1", "127.0.0.1:1", 1, np.array([0])),)))
        for _ in range(self._turns):
            await asyncio.sleep(0)
        raise RunFailed("the game failed: agent-1: enough")


class Due:
    """A runtime that has work to do once it is seated, and none when asked."""

    due = idle = True
    forgetful = False

    progress = Progress(0)
    seconds = 0.0

    async def seat(self, epoch: int, hosts: object, departures: object) -> None:
        pass

    async def handle(self, event: object) -> None:
        pass


@pytest.mark.parametrize("turns", range(5))
async def test_an_end_that_comes_together_with_work_is_not_missed(turns: int) -> None:
    there, due = cast("Membership", Abrupt(turns)), cast("Runtime", Due())
    revealer = RevealServer(there, due, Description(1), journal=cast("AdversaryJournal", None))
    playing = asyncio.create_task(revealer.play())
    await asyncio.wait([playing], timeout=DEADLINE)

    assert playing.done()
    with pytest.raises(RunFailed, match="enough"):
        playing.result()


class Leaving:
    """The stream of a host that has no seat any more, which has not ended yet."""

    def __init__(self) -> None:
        self.errors: list[SlaternetError] = []

    def end(self, error: SlaternetError, *, by_peer: bool = False) -> None:
        self.errors.append(error)


async def test_a_seating_that_is_repeated_before_the_stream_of_a_lost_host_has_ended_is_obeyed() -> None:
    there, due, leaving = Abrupt(0), cast("Runtime", Due()), Leaving()
    revealer = RevealServer(cast("Membership", there), due, Description(1), journal=cast("AdversaryJournal", None))
    revealer._links["agent-2"] = cast("Stream", leaving)
    seating = Seating(np.empty(0, np.intp), (Peer("agent-1", "127.0.0.1:1", 1, np.array([0])),))

    for _ in range(2):
        there._hear(seating)

    assert [type(error) for error in leaving.errors] == [NotSeated, NotSeated]


async def test_of_a_host_that_sends_more_than_it_may_no_more_is_read_than_is_handled() -> None:
    there, runtime = Abrupt(0), cast("Runtime", Due())
    revealer = RevealServer(cast("Membership", there), runtime, Description(1), journal=cast("AdversaryJournal", None))
    there._hear(Seating(np.empty(0, np.intp), (Peer("agent-1", "127.0.0.1:1", 1, np.array([0])),)))
    link, peer = cast("Stream", Leaving()), revealer._hosts["agent-1"]
    x = np.zeros((1, 1))
    for body in (Usage(1), Question(1, np.array([0]), x, x[:, None])):
        await revealer._take(link, peer, body)
        more = [asyncio.create_task(revealer._take(link, peer, Usage(t))) for t in range(2, 5)]
        for _ in range(5):
            await asyncio.sleep(0)

        assert not any(each.done() for each in more)
        for each in more:
            each.cancel()
        revealer._release(link)


async def test_an_answer_goes_to_the_stream_that_has_asked_and_to_no_other() -> None:
    membership = cast("Membership", Abrupt(0))
    revealer = RevealServer(membership, cast("Runtime", Due()), Description(1), journal=cast("AdversaryJournal", None))
    asking, other = cast("Stream", Leaving()), cast("Stream", Leaving())
    x = np.zeros((1, 1))
    revealer._links["agent-1"] = asking
    await revealer._take(
        asking, Peer("agent-1", "127.0.0.1:1", 1, np.array([0])), Question(1, np.array([0]), x, x[:, None])
    )
    revealer._links["agent-1"] = other  # which has taken over before the question is handled
    await revealer._handle_questions()

    revealer.reply("agent-1", Answer(1, np.array([0]), Values(x, x[:, None])))  # neither of them could send it
