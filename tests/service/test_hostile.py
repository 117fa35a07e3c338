"""Whoever breaks the contract loses its own stream, learns why, and changes nothing for anyone else."""

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import grpc.aio
import numpy as np
import pytest
from tests.support.services import CONTROL, GOSSIP, REVEAL, Body, Door, Insider, Verdict, converse, playing, small_spec

from slaternet import codec, errors
from slaternet.limits import LIMITS
from slaternet.model import Array, Description, Frame, Head, Heartbeat, HistoryRequest, Holding, Progress, Question
from slaternet.network import server as transport
from slaternet.v1 import adversary_pb2 as pb
from slaternet_adversary.journal.journal import JOURNAL

ENDLESS = small_spec(rounds=None)
P = ENDLESS.run.dimension
FAR = 1 << 20
"""A round no game of these tests comes near to."""


@dataclass(frozen=True)
class Visit:
    """An insider at a door, writing messages."""

    door: Door
    insider: Insider

    def says(self, body: Body, head: Head | None = None) -> bytes:
        return self.door.encode(head or self.insider.head(getattr(body, "round", 0)), body)

    def opens(self, head: Head | None = None, **lies: str | int | bytes) -> bytes:
        return self.says(self.insider.opening(**lies), head or self.insider.head())  # type: ignore[arg-type]

    def asks(self, round: int = FAR, *, numbers: float = 0.0, points: int = 2, width: int = P, first: int = 0) -> bytes:
        return self.says(self.question(round, numbers=numbers, points=points, width=width, first=first))

    def asks_for_gradients(self) -> bytes:
        question = self.question(FAR)
        return self.says(replace(question, anchor=question.x, loss_gradient=True))

    def question(
        self, round: int, *, numbers: float = 0.0, points: int = 2, width: int = P, first: int = 0
    ) -> Question:
        agents = self.insider.seats + first
        x, at = np.full((len(agents), width), numbers), np.full((len(agents), points, width), numbers)
        return Question(round, agents, x, at)

    def frames(self, round: int = FAR, *, number: float = 0.0, width: int = P, first: int = 0) -> bytes:
        agents = self.insider.seats + first
        rows: Array = np.full((len(agents), width), number)
        return self.says(Frame(round, agents, rows))


@dataclass(frozen=True)
class Breach:
    """Messages that break the contract, and the error they deserve; None: gRPC refuses before we see them."""

    what: str
    messages: Callable[[Visit], list[bytes]]
    error: type[errors.SlaternetError] | None

    @property
    def verdict(self) -> tuple[grpc.StatusCode, str]:
        if self.error is None:
            return grpc.StatusCode.RESOURCE_EXHAUSTED, ""
        return grpc.StatusCode[self.error.status], self.error.__name__


TOO_LONG = bytes(LIMITS.message_bytes + 1)

EVERYWHERE = [
    Breach("bytes that are no message", lambda at: [b"\xff" * 99], errors.Malformed),
    Breach("an empty message", lambda at: [b""], errors.Malformed),
    Breach("a truncated opening", lambda at: [at.opens()[:-9]], errors.Malformed),
    Breach("a message above the limit", lambda at: [TOO_LONG], None),
    Breach("something else than an opening", lambda at: [at.says(Heartbeat())], errors.Malformed),
    Breach("the opening of another run", lambda at: [at.opens(at.insider.head(run="other"))], errors.WrongRun),
    Breach("a sender nobody knows", lambda at: [at.opens(at.insider.head(sender="nobody"))], errors.Unknown),
    Breach("a made-up ticket", lambda at: [at.opens(ticket=bytes(32))], errors.Unknown),
    Breach("a ticket for another server", lambda at: [at.opens(server="agent-9")], errors.Unknown),
    Breach("an old incarnation", lambda at: [at.opens(incarnation=1)], errors.Superseded),
    Breach("a second opening", lambda at: [at.opens(), at.opens()], errors.Malformed),
    Breach("no message after the opening", lambda at: [at.opens(), b"\xff" * 99], errors.Malformed),
    Breach("a body nobody knows", lambda at: [at.opens(), at.says(Heartbeat())[:-2]], errors.Malformed),
    Breach("a later message above the limit", lambda at: [at.opens(), TOO_LONG], None),
    Breach(
        "another run",
        lambda at: [at.opens(), at.says(Heartbeat(), at.insider.head(run="other"))],
        errors.WrongRun,
    ),
    Breach(
        "another sender",
        lambda at: [at.opens(), at.says(Heartbeat(), at.insider.head(sender="agent-9"))],
        errors.NotYours,
    ),
    Breach(
        "an epoch that has not come",
        lambda at: [at.opens(), at.says(Heartbeat(), at.insider.head(epoch=7))],
        errors.NotYours,
    ),
]

AT_THE_COORDINATOR = [
    Breach("an incarnation that never joined", lambda at: [at.opens(incarnation=3)], errors.Unknown),
    Breach("a score that is no number", lambda at: [at.opens(), at.says(Progress(1, np.nan))], errors.Malformed),
    Breach("a round nobody can have played", lambda at: [at.opens(), at.says(Progress(FAR))], errors.RoundNotOpen),
    Breach("a round nobody can have entered", lambda at: [at.opens(), at.says(Holding(FAR))], errors.RoundNotOpen),
    Breach("a host that describes the plugin", lambda at: [at.opens(), at.says(Description(1))], errors.NotYours),
]

# for all that others know, it may have joined just now
NEWCOMER = Breach("an incarnation not heard of", lambda at: [at.opens(incarnation=3)], errors.NotSeated)

AT_THE_ADVERSARY = [
    NEWCOMER,
    Breach("numbers that are none", lambda at: [at.opens(), at.asks(numbers=np.nan)], errors.Malformed),
    Breach("points of another dimension", lambda at: [at.opens(), at.asks(width=P + 1)], errors.Malformed),
    Breach("a question about no round", lambda at: [at.opens(), at.asks(0)], errors.Malformed),
    Breach("a round far ahead", lambda at: [at.opens(), at.asks(FAR)], errors.RoundNotOpen),
    Breach("a round long gone", lambda at: [at.opens(), at.asks(1)], errors.Forgotten),
    Breach("another host's agents", lambda at: [at.opens(), at.asks(first=1)], errors.NotYours),
    Breach("agents outside the game", lambda at: [at.opens(), at.asks(first=60)], errors.Malformed),
    Breach("points outside the set", lambda at: [at.opens(), at.asks(numbers=6.0)], errors.OutsideSet),
    Breach("more points than granted", lambda at: [at.opens(), at.asks(points=3)], errors.OverBudget),
    Breach("gradients that are not granted", lambda at: [at.opens(), at.asks_for_gradients()], errors.OverBudget),
]

AT_A_HOST = [
    NEWCOMER,
    Breach("numbers that are none", lambda at: [at.opens(), at.frames(number=np.inf)], errors.Malformed),
    Breach("rows of another width", lambda at: [at.opens(), at.frames(width=P - 1)], errors.Malformed),
    Breach("a frame of no round", lambda at: [at.opens(), at.frames(0)], errors.Malformed),
    Breach("a round far ahead", lambda at: [at.opens(), at.frames(FAR)], errors.RoundNotOpen),
    Breach("another host's agents", lambda at: [at.opens(), at.frames(first=1)], errors.NotYours),
    Breach("agents outside the game", lambda at: [at.opens(), at.frames(first=60)], errors.NotYours),
]

DOORS = pytest.mark.parametrize("door", [CONTROL, REVEAL, GOSSIP], ids=["coordinator", "adversary", "host"])


@pytest.mark.parametrize(
    ("door", "breaches"),
    [
        (CONTROL, EVERYWHERE + AT_THE_COORDINATOR),
        (REVEAL, EVERYWHERE + AT_THE_ADVERSARY),
        (GOSSIP, EVERYWHERE + AT_A_HOST),
    ],
    ids=["coordinator", "adversary", "host"],
)
async def test_a_breach_ends_its_own_stream_with_its_status_and_nothing_else(
    door: Door, breaches: list[Breach], tmp_path: Path
) -> None:
    verdicts: dict[str, Verdict] = {}
    async with playing(ENDLESS, tmp_path / "game", hosts=3) as game:
        await game.until(lambda status: status.round > 2 * LIMITS.window)
        visit = Visit(door, await door.find(game))
        for breach in breaches:
            verdicts[breach.what] = await converse(visit.insider.address, door.method, breach.messages(visit))
            await game.goes_on()
        await game.ends_as_its_simulation(tmp_path / "simulation")

    assert {what: (verdict.code, verdict.error) for what, verdict in verdicts.items()} == {
        breach.what: breach.verdict for breach in breaches
    }


async def test_a_question_of_many_parts_is_refused_with_the_first_of_them(tmp_path: Path) -> None:
    points, parts = 25_000, 181
    async with playing(small_spec("run.dimension=237", rounds=None), tmp_path / "game", hosts=3) as game:
        visit = Visit(REVEAL, await REVEAL.find(game))
        agents = visit.insider.seats.astype("<u4").tobytes()
        question = pb.Question(agents=agents, points=points, data=bytes(LIMITS.part_bytes), parts=parts)
        head = visit.insider.head(FAR)
        about = {"run": head.run, "epoch": head.epoch, "round": head.round, "sender": head.sender}
        first = pb.RevealUp(head=about, question=question).SerializeToString()
        whole = codec.question_bytes(len(visit.insider.seats), 237, points, anchored=False)
        assert parts == -(-whole // LIMITS.part_bytes)

        verdict = await converse(visit.insider.address, REVEAL.method, [visit.opens(), first])

        await game.goes_on()

    assert verdict.error == "OverBudget"


async def test_the_path_of_a_damaged_file_goes_to_no_peer(tmp_path: Path) -> None:
    async with playing(ENDLESS, tmp_path / "game", hosts=3) as game:
        await game.until(lambda status: status.round > LIMITS.window)
        visit = Visit(REVEAL, await REVEAL.find(game))
        with (tmp_path / "game" / JOURNAL).open("r+b") as journal:
            journal.seek(2000)
            journal.write(b"damage")
        recall = REVEAL.encode(visit.insider.head(1), HistoryRequest(1, 5, visit.insider.seats))

        verdict = await converse(visit.insider.address, REVEAL.method, [visit.opens(), recall])
        with pytest.raises(errors.SlaternetError):
            await game.over()
        ends = await asyncio.gather(*game.tasks, return_exceptions=True)

    assert (verdict.code, verdict.error) == (grpc.StatusCode.INTERNAL, "Damaged")
    assert verdict.details == "internal error"
    damaged = [each for each in ends if isinstance(each, errors.Damaged)]
    assert [str(JOURNAL) in str(each) for each in damaged] == [True]  # the adversary itself says which file
    assert all(str(tmp_path) not in str(each) for each in ends if each not in damaged)


@DOORS
async def test_who_does_not_open_in_time_is_sent_away(
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = functools.partial(transport.serve, limits=replace(LIMITS, opening_seconds=0.5))
    for module in ("slaternet_coordinator.shell.service", "slaternet.service.join"):
        monkeypatch.setattr(f"{module}.serve", hasty)

    async with playing(ENDLESS, tmp_path / "game", hosts=3) as game:
        insider = await door.find(game)
        verdict = await converse(insider.address, door.method, [])
        await game.ends_as_its_simulation(tmp_path / "simulation")

    assert (verdict.code, verdict.error) == (grpc.StatusCode.UNAVAILABLE, "Unreachable")
    assert "has been silent for 0.5 seconds" in verdict.details


@pytest.mark.parametrize("method", ["Join", "Status", "Stop"])
@pytest.mark.parametrize(
    ("message", "status"),
    [(b"\xff" * 99, grpc.StatusCode.INVALID_ARGUMENT), (TOO_LONG, grpc.StatusCode.RESOURCE_EXHAUSTED)],
    ids=["garbage", "too long"],
)
async def test_a_call_that_breaks_the_contract_is_refused(
    method: str, message: bytes, status: grpc.StatusCode, tmp_path: Path
) -> None:
    async with playing(ENDLESS, tmp_path / "game", hosts=1) as game:
        async with grpc.aio.insecure_channel(game.address) as channel:
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
            call = channel.unary_unary(f"/slaternet.v1.Coordinator/{method}")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(message, timeout=10)
        await game.ends_as_its_simulation(tmp_path / "simulation")

    assert refused.value.code() is status


async def test_a_host_is_not_dialled_by_those_it_dials(tmp_path: Path) -> None:
    async with playing(ENDLESS, tmp_path / "game", hosts=3) as game:
        first, *_, last = await game.hosts()
        visit = Visit(GOSSIP, await game.insider(last.name, first.name, incarnation=2))
        await game.outlives_its_window()
        verdict = await converse(visit.insider.address, GOSSIP.method, [visit.opens()])
        await game.ends_as_its_simulation(tmp_path / "simulation")

    assert (verdict.code, verdict.error) == (grpc.StatusCode.PERMISSION_DENIED, "NotYours")
