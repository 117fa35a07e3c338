"""A host that cheats the referee over real gRPC: it obtains no value, hears the right status, and is found out.

One game of three honest hosts. The questions of the first pass a gate on their way to the adversary; while it is shut
the game stands still, and whoever knows that host's tickets cheats in its name. Then the honest game goes on.
"""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import grpc
import numpy as np
import pytest
import structlog
from tests.support.services import (
    CONTROL,
    DEADLINE,
    GOSSIP,
    LOOPBACK,
    REVEAL,
    Game,
    Insider,
    Verdict,
    converse,
    digest,
    gathering,
    reference,
    small_spec,
)
from typer.testing import CliRunner

from slaternet import codec, errors
from slaternet.errors import SlaternetError
from slaternet.model import Answer, HistoryRequest, Opening, Question, Refusal, Role
from slaternet.network.client import dial, open_channel
from slaternet.network.server import serve
from slaternet.network.stream import Stream
from slaternet.service.config import ProcessConfig
from slaternet.service.membership import Applicant, Membership
from slaternet.spec import Spec
from slaternet_adversary.engine.batches import select_agents
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_lab.cli import app

SPEC = small_spec(rounds=40)  # within one window: nothing is forgotten
P = SPEC.run.dimension
NAMES = ("agent-1", "agent-2", "agent-3")
CHEAT = NAMES[0]
NEXT = 12
"""The round whose question the gate holds back: the cheat has bought all before it."""


# The gate


@dataclass
class Gate:
    """Carries streams to the adversary, but no question of the cheat about round NEXT until it is opened."""

    adversary: str
    asked: dict[int, Question] = field(default_factory=dict)  # by the cheat, honestly
    answered: dict[int, Answer] = field(default_factory=dict)
    shut: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def carry(self, link: Stream) -> None:
        """Carry one stream both ways."""
        decoder = codec.RevealUpDecoder(P)
        first = await link.read() or b""
        message = decoder.decode(first)
        cheat = message is not None and message[0].sender == CHEAT
        if cheat and self.shut.is_set():
            await self.opened.wait()
        async with open_channel(self.adversary) as channel, dial(channel, REVEAL.method) as onward:
            onward.send(first)
            back = asyncio.create_task(self._back(onward, link, cheat=cheat))
            try:
                while (data := await link.read()) is not None:
                    if cheat:
                        await self._pass(decoder.decode(data))
                    onward.send(data)
            finally:
                back.cancel()
                await asyncio.gather(back, return_exceptions=True)

    async def _pass(self, message: tuple[object, object] | None) -> None:
        body = message[1] if message else None
        if isinstance(body, Question):
            self.asked[body.round] = body
            if body.round == NEXT:
                self.shut.set()
                await self.opened.wait()

    async def _back(self, onward: Stream, link: Stream, *, cheat: bool) -> None:
        decoder = codec.RevealDownDecoder()
        try:
            while (data := await onward.read()) is not None:
                message = decoder.decode(data)
                if cheat and message is not None and isinstance(message[1], Answer):
                    self.answered[message[1].round] = message[1]
                link.send(data)
        except SlaternetError as error:
            link.end(error)


def free_address() -> str:
    """Return an address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@asynccontextmanager
async def gated(spec: Spec, folder: Path) -> AsyncIterator[tuple[Game, Gate]]:
    """Start a game whose hosts, incarnations 2, reach the adversary through a gate; wait until it is shut."""
    gate = Gate(free_address())
    server = await serve(
        LOOPBACK, service="slaternet.v1.Adversary", unary={}, streams={"Reveal": gate.carry}, hosts=len(NAMES)
    )
    try:
        async with gathering(spec, hosts=len(NAMES)) as gathered:
            for name in NAMES:
                stale = await Membership.join(gathered.address, Applicant(name, Role.HOST, "127.0.0.1:1"))
                gathered.start(HostService(ProcessConfig(name, gathered.address, LOOPBACK)))
            game = Game(gathered.address, folder, gathered.tasks, stale.run)
            await game.until(lambda status: all(each.connected for each in status.hosts))
            config = ProcessConfig("adversary", gathered.address, gate.adversary, server.address)
            gathered.start(AdversaryService(config, folder))
            async with asyncio.timeout(DEADLINE):
                await gate.shut.wait()
            yield game, gate
    finally:
        await server.stop()


# The cheat


@dataclass(frozen=True)
class Spoils:
    """What a stream has brought: answers with values, and how it ended."""

    answers: list[Answer]
    verdict: Verdict


@dataclass(frozen=True)
class Cheat:
    """The insider, and all that its host has honestly asked."""

    insider: Insider
    gate: Gate

    def opens(self, opening: Opening | None = None) -> bytes:
        return REVEAL.encode(self.insider.head(), opening or self.insider.opening())

    def asks(self, question: Question) -> bytes:
        return REVEAL.encode(self.insider.head(question.round), question)

    def honest(self, round: int) -> Question:
        """Return the question that the host has asked, or is about to ask, about a round."""
        return self.gate.asked.get(round) or replace(self.gate.asked[NEXT], round=round)

    async def tries(self, *messages: bytes) -> Spoils:
        """Send these on a stream of its own, and read until the adversary ends it."""
        return await asyncio.to_thread(self._tries, messages)

    def _tries(self, messages: tuple[bytes, ...]) -> Spoils:
        # not grpc.aio: a write that meets the end of the stream there hides the status it ended with
        received: list[bytes] = []
        with grpc.insecure_channel(self.insider.address) as channel:
            stream = channel.stream_stream(REVEAL.method)(iter(messages), timeout=DEADLINE)
            with suppress(grpc.RpcError):
                received += stream
            error = dict(stream.trailing_metadata()).get("slaternet-error", "")
            verdict = Verdict(stream.code(), str(error), stream.details())
        decoder = codec.RevealDownDecoder()
        bodies = [message[1] for message in map(decoder.decode, received) if message is not None]
        return Spoils([body for body in bodies if isinstance(body, Answer)], verdict)


Messages = Callable[[Cheat], list[bytes]]


@dataclass(frozen=True)
class Attack:
    """Messages that would obtain more than the game grants, and the error they deserve."""

    what: str
    error: type[SlaternetError]
    messages: Messages
    by: str = CHEAT  # whom the breach is counted against; empty: the caller is unknown


def asking(change: Callable[[Question], Question], round: int = NEXT) -> Messages:
    """Open a stream in order and ask the honest question of a round, changed."""
    return lambda cheat: [cheat.opens(), cheat.asks(change(cheat.honest(round)))]


def opening(change: Callable[[Insider], Opening], round: int = NEXT) -> Messages:
    """Open a stream otherwise and ask the honest question of a round."""
    return lambda cheat: [cheat.opens(change(cheat.insider)), cheat.asks(cheat.honest(round))]


def of_others(question: Question) -> Question:
    return replace(question, agents=question.agents + len(question.agents))


def partly_of_others(question: Question) -> Question:
    return replace(question, agents=question.agents + 1)


def with_a_third_point(question: Question) -> Question:
    return replace(question, points=np.concatenate((question.points, question.points[:, :1]), axis=1))


def elsewhere(question: Question) -> Question:
    return replace(question, points=0.5 * question.points)


def with_one_bit_changed(question: Question) -> Question:
    points = question.points.copy()
    points[-1, -1, -1] = np.nextafter(points[-1, -1, -1], 0.0)
    return replace(question, points=points)


def with_fewer_points(question: Question) -> Question:
    return replace(question, points=question.points[:, :1])


def decided_otherwise(question: Question) -> Question:
    return replace(question, x=0.5 * question.x, x_is_first_point=False)


def outside(question: Question) -> Question:
    points = question.points.copy()
    points[0, 0] = 1e3
    return replace(question, points=points)


def decided_outside(question: Question) -> Question:
    return replace(question, x=question.x + 1e3, x_is_first_point=False)


def with_gradients(question: Question) -> Question:
    return replace(question, anchor=question.x, loss_gradient=True, constraint_gradient=True)


def of_a_part(question: Question) -> Question:
    return select_agents(question, question.agents == question.agents[0])


def unchanged(question: Question) -> Question:
    return question


def recalling(first: int, last: int) -> Messages:
    """Open a stream in order and ask for the history of one's own agents."""

    def messages(cheat: Cheat) -> list[bytes]:
        wish = HistoryRequest(first, last, cheat.insider.seats)
        return [cheat.opens(), REVEAL.encode(cheat.insider.head(first), wish)]

    return messages


ATTACKS = [
    Attack("another agent's function", errors.NotYours, asking(of_others)),
    Attack("another agent's function besides one's own", errors.NotYours, asking(partly_of_others)),
    Attack("an old round of another agent", errors.NotYours, asking(of_others, 3)),
    Attack("a third point", errors.OverBudget, asking(with_a_third_point)),
    Attack("a third point of a round that was asked about", errors.OverBudget, asking(with_a_third_point, NEXT - 1)),
    Attack("a second, different question", errors.AlreadyAsked, asking(elsewhere, NEXT - 1)),
    Attack("a second question that differs in one bit", errors.AlreadyAsked, asking(with_one_bit_changed, NEXT - 1)),
    Attack("fewer points", errors.Malformed, asking(with_fewer_points)),
    Attack("a second question about fewer points", errors.Malformed, asking(with_fewer_points, NEXT - 1)),
    Attack("a part of its agents", errors.Malformed, asking(of_a_part)),
    Attack("a part of its agents again", errors.Malformed, asking(of_a_part, NEXT - 1)),
    Attack("the history of a round that is not bought yet", errors.Malformed, recalling(1, NEXT)),
    Attack("the history of rounds never played", errors.Malformed, recalling(1000, 2000)),
    Attack("a history that ends before it begins", errors.Malformed, recalling(5, 4)),
    Attack("a history that ends with no round", errors.Malformed, recalling(1, 0)),
    Attack("a second decision", errors.AlreadyAsked, asking(decided_otherwise, NEXT - 1)),
    Attack("a different question about an old round", errors.AlreadyAsked, asking(elsewhere, 3)),
    Attack("the round after the next", errors.RoundNotOpen, asking(unchanged, NEXT + 1)),
    Attack("a round after the last", errors.RoundNotOpen, asking(unchanged, 41)),
    Attack("a point outside X", errors.OutsideSet, asking(outside)),
    Attack("a decision outside X", errors.OutsideSet, asking(decided_outside)),
    Attack("gradients in a bandit game", errors.OverBudget, asking(with_gradients)),
    Attack("gradients of an old round", errors.OverBudget, asking(with_gradients, 3)),
    Attack("an old incarnation", errors.Superseded, opening(lambda insider: insider.opening(incarnation=1)), by=""),
    Attack(
        "an old incarnation's ticket",
        errors.Unknown,
        opening(lambda insider: replace(insider.opening(incarnation=1), incarnation=2)),
        by="",
    ),
    Attack(
        "a ticket meant for a peer", errors.Unknown, opening(lambda insider: insider.opening(server="agent-2")), by=""
    ),
    Attack(
        "the ticket of a peer",
        errors.Unknown,
        opening(lambda insider: replace(insider, holder=NAMES[1]).opening()),
        by="",
    ),
    Attack("no opening", errors.Malformed, lambda cheat: [cheat.asks(cheat.honest(NEXT))], by=""),
]


async def from_two_connections(cheat: Cheat) -> list[Spoils]:
    """Ask different questions about one round on two streams that are open at once, again and again."""
    questions = [elsewhere, decided_otherwise] * 4
    attempts = [cheat.tries(*asking(change, NEXT - 1)(cheat)) for change in questions]
    return await asyncio.gather(*attempts)


def found_out(breaches: tuple[Refusal, ...], server: str) -> Counter[tuple[str, str]]:
    """Return how often a server has refused which kind of breach by whom."""
    return Counter({(each.kind, each.host): each.count for each in breaches if each.server == server})


def leaked(text: str, values: np.ndarray) -> list[str]:
    """Return the values that a text repeats, by their leading digits."""
    leading = [f"{abs(value):.16e}".replace(".", "")[:8] for value in values]
    return [digits for digits in leading if digits in text.replace(".", "")]


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_a_cheating_host_obtains_no_value_and_is_found_out(isolation: str, tmp_path: Path) -> None:
    verdicts: dict[str, tuple[grpc.StatusCode, str]] = {}
    texts: list[str] = []
    with structlog.testing.capture_logs() as logged:
        spec = SPEC.replace(**{"adversary.isolation": isolation})
        async with gated(spec, tmp_path / "game") as (game, gate):
            insider = replace(await game.insider(CHEAT, "adversary", incarnation=2), address=gate.adversary)
            cheat = Cheat(insider, gate)
            expected: Counter[tuple[str, str]] = Counter()

            for attack in ATTACKS:
                spoils = await cheat.tries(*attack.messages(cheat))
                assert spoils.answers == [], attack.what
                verdicts[attack.what] = spoils.verdict.code, spoils.verdict.error
                texts.append(spoils.verdict.details)
                expected[attack.error.__name__, attack.by] += 1

            for spoils in await from_two_connections(cheat):
                assert spoils.answers == []
                assert spoils.verdict.error in ("AlreadyAsked", "Replaced")
                expected["AlreadyAsked", CHEAT] += spoils.verdict.error == "AlreadyAsked"

            # after a reconnection there is what was bought, to the bit, and nothing else
            again = await cheat.tries(
                *asking(unchanged, NEXT - 1)(cheat), cheat.asks(elsewhere(cheat.honest(NEXT - 1)))
            )
            assert [each.values.f.tobytes() for each in again.answers] == [gate.answered[NEXT - 1].values.f.tobytes()]
            assert again.verdict.error == "AlreadyAsked"
            expected["AlreadyAsked", CHEAT] += 1

            status = await game.until(lambda status: found_out(status.breaches, "adversary") == expected)
            shown = await asyncio.to_thread(CliRunner().invoke, app, ["status", game.address])
            assert status.round < NEXT  # the game still stands
            gate.opened.set()
            run = await game.over()

    assert verdicts == {each.what: (grpc.StatusCode[each.error.status], each.error.__name__) for each in ATTACKS}
    assert digest(run) == reference(SPEC, tmp_path / "simulation")

    kinds: Counter[str] = Counter()
    for (kind, host), count in expected.items():
        kinds[kind] += count
        assert any(
            line.split() == [kind, host or "unknown", "adversary", str(count)] for line in shown.output.splitlines()
        )
    assert json.loads((tmp_path / "game" / "summary.json").read_text())["breaches"] == kinds
    assert Counter(each["kind"] for each in logged if each["event"] == "refused") == kinds

    answers = [each.values for each in gate.answered.values()]
    values = np.concatenate([part.ravel() for each in answers for part in (each.f, each.g)])
    assert len(gate.answered) == SPEC.run.rounds
    assert leaked(" ".join(texts) + str(logged), values) == []
    assert [text for text in texts if "/" in text] == []  # no path of ours


async def test_breaches_at_the_coordinator_and_between_hosts_are_shown_too(tmp_path: Path) -> None:
    async with gated(SPEC, tmp_path / "game") as (game, gate):
        for door in (CONTROL, GOSSIP):
            insider = await door.find(game)
            opened = door.encode(insider.head(), insider.opening())
            stranger = door.encode(insider.head(), insider.opening(ticket=bytes(32)))
            assert (await converse(insider.address, door.method, [opened, b"\xff"])).error == "Malformed"
            assert (await converse(insider.address, door.method, [stranger])).error == "Unknown"

        expected = Counter({("Malformed", CHEAT): 1, ("Unknown", ""): 1})
        for server in ("coordinator", NAMES[-1]):
            await game.until(lambda status, server=server: found_out(status.breaches, server) == expected)  # type: ignore[misc]
        gate.opened.set()
        run = await game.over()

    assert run.summary is not None
    assert run.summary["breaches"] == {}  # those are the referee's own


async def test_a_process_that_is_started_again_breaks_no_rule() -> None:
    async with gathering(SPEC, hosts=1) as gathered:
        game = Game(gathered.address, Path(), gathered.tasks, "")
        older = await Membership.join(gathered.address, Applicant(CHEAT, Role.HOST, "127.0.0.1:1"))
        attending = asyncio.create_task(older.attend())
        await game.until(lambda status: any(each.connected for each in status.hosts))

        await Membership.join(gathered.address, Applicant(CHEAT, Role.HOST, "127.0.0.1:1"))
        with pytest.raises(errors.Superseded, match="another process has joined as"):
            await attending
        assert (await game.status()).breaches == ()


def test_a_value_in_a_text_would_be_noticed() -> None:
    values = np.array([0.123456789012, -1234.56789])
    for text in (f"the loss is {values[0]}, they say", f"f={values}", f"f={values.tolist()}"):
        assert leaked(text, values)
    assert not leaked("peer=ipv4:127.0.0.1:45678 kind=OverBudget", values)
