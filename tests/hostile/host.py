"""An agent host that is admitted to a game and does what no honest one does.

    python -m tests.hostile.host COORDINATOR NAME SEATS STATE SEED

It is the honest host with some of its parts replaced: it plays by the rules, so that the game goes on, and misbehaves
in between as `Plan` draws from the seed. In the end it fails, vanishes, or states false rows.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import grpc.aio
import numpy as np

from slaternet import codec, model
from slaternet.errors import Diverged, Malformed, SlaternetError
from slaternet.limits import LIMITS
from slaternet.network.client import call, open_channel
from slaternet.network.stream import Stream
from slaternet.numerics.fingerprint import fingerprint
from slaternet.service.config import ProcessConfig
from slaternet.service.main import run
from slaternet.spec.seat_request import parse
from slaternet.v1 import adversary_pb2 as pb
from slaternet_agent.engine.host import Host
from slaternet_agent.shell.gossip import GossipStreams
from slaternet_agent.shell.reveal import RevealStream
from slaternet_agent.shell.service import HostService
from slaternet_agent.shell.session import HostSession

ACTS = (
    "addresses",
    "statuses",
    "false-first",
    "false-second",
    "impossible",
    "ahead",
    "questions",
    "resends",
    "parts",
    "claims",
    "accuses",
)
ENDS = ("fail", "vanish", "testify")
FIRST, LAST = 5, 100
"""The rounds in which it misbehaves; the end comes a few rounds later."""
REASON = "\x1b[2J\x1b]0;owned\x07\nTraceback [bold red]it is all over[/]\u202e"

_AHEAD = 150  # rounds that are not published yet, and within what a host takes
_FRAMES = 6  # rounds in a row, since it does not send rows to every host in every round
_RESENDS = 20_000
_POINTS, _PARTS = 25_000, 181


@dataclass(frozen=True)
class Plan:
    """What a hostile host does, and when."""

    acts: dict[int, str]  # by the round in which each begins
    end: str
    last: int  # the round of the end

    @classmethod
    def draw(cls, seed: int) -> "Plan":
        """Return the plan of a seed; whatever the seed, every act and end is in some plan of ten."""
        random = Random(seed)
        first = [ACTS[seed % len(ACTS)]]
        others = random.sample([act for act in ACTS if act not in first], 4)
        end = ENDS[seed // len(ENDS) % len(ENDS)]  # so that nine games in a row, over three policies, have all pairs
        acts = sorted({*first, *others} | ({"false-second"} if end == "testify" else set()))
        random.shuffle(acts)
        rounds = sorted(random.sample(range(FIRST, LAST, 2 * _FRAMES), len(acts)))
        return cls(dict(zip(rounds, acts, strict=True)), end, LAST + random.randrange(20))

    @property
    def mixes_false_rows(self) -> bool:
        """Whether another host may mix a row before it is disputed."""
        return "false-first" in self.acts.values()

    def act(self, round: int) -> str:
        """Return the act that begins in a round; empty: none."""
        return self.acts.get(round, "")

    def frames(self, round: int) -> str:
        """Return the act that falsifies frames of a round; empty: none."""
        recent = (self.acts.get(round - offset, "") for offset in range(_FRAMES))
        return next((act for act in recent if act in ("false-first", "false-second", "impossible", "ahead")), "")


class Hostile:
    """The replaced parts of one host."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked = 0  # the last round in which it has acted: rounds come again after a new seating
        self._refusals = 4 if "statuses" in plan.acts.values() else 0

    def install(self) -> None:
        """Replace the parts; this process plays nothing else."""
        self._replace(GossipStreams, "send", self._send)
        self._replace(GossipStreams, "accept", self._accept)
        self._replace(RevealStream, "ask", self._ask)
        self._replace(HostSession, "_on_refusal", self._on_refusal)
        self._replace(Host, "_rows_sent", self._state_rows)
        before = HostSession._begin

        def begin(session: HostSession, state: object) -> None:
            self.session = session
            before(session, state)

        HostSession._begin = begin  # type: ignore[method-assign]

    @staticmethod
    def _replace(owner: type, name: str, by: Callable[..., object]) -> None:
        honest = getattr(owner, name)
        setattr(owner, name, lambda self, *args, **options: by(honest, self, *args, **options))

    def _send(
        self,
        honest: Callable[..., bool],
        streams: GossipStreams,
        index: int,
        frame: model.Frame,
        *,
        later: bool = False,
    ) -> bool:
        false = replace(frame, rows=frame.rows + 1e-3)
        match self._plan.frames(frame.round):
            case "false-first":
                honest(streams, index, false, later=later)
            case "impossible":
                honest(streams, index, replace(frame, rows=np.full_like(frame.rows, 1e300)), later=later)
            case "ahead":
                for rows in (frame, false):
                    honest(streams, index, replace(rows, round=frame.round + _AHEAD), later=later)
            case "false-second":
                honest(streams, index, frame, later=later)
                return honest(streams, index, false, later=later)
        return honest(streams, index, frame, later=later)

    async def _accept(self, honest: Callable[..., object], streams: GossipStreams, link: Stream) -> None:
        if self._refusals:
            self._refusals -= 1
            await link.read()
            raise (Diverged if self._refusals % 2 else Malformed)(REASON)
        await honest(streams, link)  # type: ignore[misc]

    def _state_rows(
        self, honest: Callable[..., model.Array], host: Host, round: int, agents: model.Agents
    ) -> model.Array:
        rows = honest(host, round, agents)
        return rows + 1.0 if self._plan.end == "testify" else rows

    def _on_refusal(self, honest: Callable[..., bool], session: HostSession, error: SlaternetError) -> bool:
        return honest(session, error) or True

    def _ask(self, honest: Callable[..., None], reveal: RevealStream, question: model.Question) -> None:
        if question.round > self._asked:
            self._asked = question.round
            self._misbehave(reveal, question)
        honest(reveal, question)

    def _misbehave(self, reveal: RevealStream, question: model.Question) -> None:
        match self._plan.act(question.round):
            case "statuses":
                self._refuse()
            case "questions":
                self._tell(reveal, question.round, self._wrong_question(question))
            case "claims":
                self._claim()
            case "accuses":
                self._accuse(question.round)
            case "resends":
                self._start(self._resend())
            case "parts":
                for part in range(_PARTS - 1):
                    self._tell(reveal, question.round, _part(question, part))
        if question.round == self._plan.last and self._plan.end == "vanish":
            os._exit(9)
        if question.round == self._plan.last:  # whoever meant to be caught by its rows, and was not, fails as well
            self.session._membership.send(model.Failed(REASON))

    def _refuse(self) -> None:
        """End the streams that peers have opened, and their next ones, with false statuses."""
        for link in tuple(self.session.peers._accepted.values()) if self.session.peers is not None else ():
            link.end(Diverged(REASON))
        self._refusals = 4

    def _claim(self) -> None:
        """Claim to have played, and stored, all that is published."""
        host, membership = self.session.host, self.session._membership
        assert host is not None
        mark = host.known - host.known % LIMITS.checkpoint_every
        membership.send(model.Progress(host.known), host.known)
        if mark:
            membership.send(model.Checkpointed(mark), mark)

    def _accuse(self, round: int) -> None:
        """Dispute rows of the round before that an honest peer has sent."""
        host, membership = self.session.host, self.session._membership
        assert host is not None
        for peer in self.session._seating.peers:
            agents = np.intersect1d(peer.seats, host._plans[round - 1].needed)
            if agents.size:
                membership.send(model.Dispute(round - 1, peer.name, agents, np.ones((agents.size, 3))), round - 1)

    def _tell(self, reveal: RevealStream, round: int, body: pb.Question) -> None:
        head = reveal._membership.head(round)
        message = pb.RevealUp(question=body)
        message.head.run, message.head.epoch = head.run, head.epoch
        message.head.round, message.head.sender = head.round, head.sender
        reveal.line.send(message.SerializeToString())

    def _wrong_question(self, question: model.Question) -> pb.Question:
        """Return a question about fewer points, or about a part of the agents."""
        if question.round % 2:
            return _question(question.agents, question.points[:, :1])
        return _question(question.agents[:1], question.points[:1])

    async def _resend(self) -> None:
        """Ask a peer for frames again and again, and read none of them."""
        membership, peers = self.session._membership, self.session.peers
        assert peers is not None
        for line in peers.lines[:1]:
            peer = peers._by_name[line.server]
            async with grpc.aio.insecure_channel(peer.address) as channel:
                stream: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream("/slaternet.v1.Agent/Gossip")()
                opening = model.Opening(membership.incarnation, peer.present, membership.low_water + 1)
                wish = codec.encode_gossip(membership.head(1), model.ResendFrom(1))[0]
                with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await stream.write(codec.encode_gossip(membership.head(), opening)[0])
                    for _ in range(_RESENDS):
                        await stream.write(wish)

    def _start(self, work: "asyncio.Future[None] | object") -> None:
        task = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _question(agents: model.Agents, points: model.Array) -> pb.Question:
    data = points.astype("<f8").tobytes()
    return pb.Question(agents=agents.astype("<u4").tobytes(), points=points.shape[1], data=data, x_is_first_point=True)


def _part(question: model.Question, part: int) -> pb.Question:
    """Return a part of a question about far more points than are granted."""
    k, _, p = question.points.shape
    size = 8 * (k * p * _POINTS // _PARTS)
    return pb.Question(
        agents=question.agents.astype("<u4").tobytes(),
        points=_POINTS,
        data=bytes(size),
        part=part,
        parts=_PARTS,
        x_is_first_point=True,
    )


async def join_falsely(coordinator: str, name: str) -> None:
    """Ask to join under addresses that others could not dial, or should not."""
    async with open_channel(coordinator) as channel:
        for address in ("x", "unix:/etc/passwd", "10.0.0.1:1", "127.0.0.1"):
            join = model.Join(model.Role.HOST, address, 0, model.PROTOCOL, fingerprint(), durable=True)
            request = codec.encode_join(model.Head("", 0, 0, name), join)
            with suppress(SlaternetError):
                await call(channel, "/slaternet.v1.Coordinator/Join", request)
                os._exit(8)  # it was admitted


def main() -> int:
    """Misbehave until the end of the plan, or until shut out."""
    coordinator, name, seats, state, seed = sys.argv[1:]
    plan = Plan.draw(int(seed))
    if "addresses" in plan.acts.values():
        asyncio.run(join_falsely(coordinator, name))
    Hostile(plan).install()
    config = ProcessConfig(name, coordinator, "127.0.0.1:0", state=Path(state))
    return run(HostService(config, seats=parse(seats)).run)


if __name__ == "__main__":
    sys.exit(main())
