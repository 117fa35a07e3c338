"""A host's place in one seating: its engine, and the engine's effects executed over its streams.

A host with a past goes on from its checkpoint of the low-water mark. What it lacks there is recalled first: agents that
it has taken over from a host that never came back.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import structlog

from slaternet.attendance import Attendance
from slaternet.errors import Diverged, Malformed, Mismatch, NotSeated, PluginFailed, Refused, SlaternetError, Unready
from slaternet.model import (
    COORDINATOR,
    Answer,
    Hold,
    Holding,
    Progress,
    Question,
    Seating,
    StopAt,
    Topology,
    Waiting,
)
from slaternet.network.reconnecting import ReconnectingStream
from slaternet.network.stream import Stream
from slaternet.service.membership import Membership
from slaternet.spec.plugins import plugin_edge
from slaternet_agent.algorithms.state_vector import agents_of, restored, saved
from slaternet_agent.engine.events import (
    Ask,
    Checkpoint,
    Effect,
    Event,
    Finish,
    FrameArrived,
    PeerWants,
    ReportRound,
    Send,
)
from slaternet_agent.engine.host import Host
from slaternet_agent.engine.rebuild import StateRebuild
from slaternet_agent.shell.build import build_algorithm
from slaternet_agent.shell.checkpoint_writer import CheckpointWriter
from slaternet_agent.shell.gossip import GossipStreams
from slaternet_agent.shell.metering import HostMeter
from slaternet_agent.shell.reveal import RevealStream
from slaternet_agent.shell.stall_report import StallReport

log = structlog.get_logger()

_WRONG_INPUT = (Refused, Unready, Diverged)
"""What the engine raises where a message was wrong: no fault of the algorithm."""


class HostSession:
    """The agents of one host, from when it is seated until the game is over or there is a new seating."""

    def __init__(
        self,
        membership: Membership,
        seating: Seating,
        *,
        keeper: CheckpointWriter | None,
        tally: HostMeter,
        tasks: asyncio.TaskGroup,
    ) -> None:
        if seating.adversary is None or seating.description is None:
            raise Malformed("a host's seating names the adversary and describes its plugin")
        self._membership = membership
        self._seating = seating
        self._keeper = keeper
        self._tally = tally
        self._tasks = tasks
        self._lines: list[asyncio.Task[None]] = []
        self._early: list[Topology | Hold | StopAt] = []  # heard before there is an engine to hear it
        self._adoption: StateRebuild | None = None
        self._patience: StallReport | None = None
        self._loop = asyncio.get_running_loop()
        self._reported_at = 0.0
        self.host: Host | None = None
        """The engine, once all that it goes on from is there."""
        self.peers: GossipStreams | None = None
        self.reveal = RevealStream(membership, seating.adversary, self._take_revealed)
        try:
            self._algorithm = build_algorithm(membership.spec, seating.description)
            with self._algorithm_edge("start"):
                kept = self._kept()
        except SlaternetError as error:
            self._give_up(error)
        else:
            self._keep_up(self.reveal.line)
            if (adoption := self._adoption) is None:
                self._begin(kept)
            else:
                self.reveal.recall(lambda: adoption.wish)

    def _kept(self) -> Any:  # noqa: ANN401  the state is the algorithm's own type
        """Return the state that is left of an earlier life, if any; begin an adoption where it lacks agents."""
        mark, run = self._seating.low_water, self._membership.spec.run
        needed = Attendance(run.agents, self._seating.departures).of(self._seating.seats, mark + 1)
        if not mark or not needed.size:
            return None
        if self._keeper is None:
            raise Mismatch(
                f"{self._membership.name} must go on from round {mark}, and has kept nothing; start it with the "
                "--state it had before"
            )
        payload = self._keeper.recall(mark, dispensable=self._seating.recall)
        kept = None if payload is None else restored(self._algorithm, payload)
        missing = needed if kept is None else np.setdiff1d(needed, agents_of(kept))
        if missing.size and not self._seating.recall:
            raise Mismatch(
                f"the checkpoint of round {mark} lacks {missing.size} of the {needed.size} agents of "
                f"{self._membership.name}; put back the right one, or start the whole game anew"
            )
        if missing.size:
            self._adoption = StateRebuild(self._algorithm, kept, needed, mark)
        log.info("coming back", after=mark, recalling=len(missing))
        return kept

    def _give_up(self, error: SlaternetError) -> None:
        """End the game for all, unless it has begun: it waits then until this host is started with what it lacks."""
        if self._seating.low_water:
            self._membership.leave_for_restart(error)
        else:
            self._membership.fail_game(error)

    def _begin(self, state: Any) -> None:  # noqa: ANN401
        """Make the engine, from the state after round M where there is one, and gossip."""
        since = 0 if state is None else self._seating.low_water
        run, durable = self._membership.spec.run, self._keeper is not None
        try:
            with self._algorithm_edge("start"):
                self.host = Host(
                    self._algorithm,
                    self._seating,
                    run.agents,
                    run.rounds,
                    durable=durable,
                    since=since,
                    state=state,
                    limits=self._membership.environment.limits,
                )
        except SlaternetError as error:
            self._give_up(error)
            return
        if self._adoption is not None and self._keeper is not None:
            self._keeper.write(Checkpoint(since, saved(state)))  # a next life need not recall it again
        host = self.host
        self.peers = GossipStreams(
            self._membership, self._seating, self._algorithm.width, hear=self.handle, wanted=lambda: host.wanted
        )
        for line in self.peers.lines:
            self._keep_up(line)
        self._patience = StallReport(host, self._wait)
        seats = self._seating.seats
        log.info("seated", agents=len(seats), first=int(seats[0]), peers=len(self._seating.peers))
        if host.finished:  # in an earlier life
            self._finish(host.round - 1)
        early, self._early = self._early, []
        for body in early:
            self.obey(body)

    def _keep_up(self, line: ReconnectingStream) -> None:
        self._lines.append(self._tasks.create_task(self._keep(line)))

    async def _keep(self, line: ReconnectingStream) -> None:
        try:
            await line.run()
        except SlaternetError as error:
            self._membership.fail_game(error)

    def update(self, seating: Seating) -> None:
        """Hear who has come back."""
        if seating.adversary is None:
            raise Malformed("a host's seating names the adversary")
        self._seating = seating
        self.reveal.update(seating.adversary)
        if self.peers is not None:
            self.peers.update(seating)

    def hang_up(self) -> None:
        """Open no more streams."""
        for line in self._lines:
            line.cancel()
        if self._patience is not None:
            self._patience.end()

    def leave(self) -> None:
        """Make room for a new seating."""
        self.hang_up()
        if self.peers is not None:
            self.peers.close()
        if self._keeper is not None:
            self._keeper.begin_again()
        self._membership.begin_again()

    async def accept(self, link: Stream) -> None:
        """Serve a gossip stream that a peer opens."""
        if self.peers is None:
            raise NotSeated("this host has no seats yet")
        try:
            await self.peers.accept(link)
        except Diverged as error:
            self._membership.fail_game(error)
            raise

    def obey(self, body: Topology | Hold | StopAt) -> None:
        """Do what the coordinator says."""
        if self.host is None:
            self._early.append(body)
            if isinstance(body, Hold):  # nothing is entered while the past is recalled
                self._membership.send(Holding(self._seating.low_water), self._seating.low_water)
            return
        self.handle(body)
        if isinstance(body, Topology) and self._keeper is not None:
            self._keeper.forget_before(body.low_water)

    @property
    def have(self) -> int:
        """Up to which round the topology is known, or of no use."""
        if self.host is not None:
            return self.host.known
        early = (body.round + body.rounds - 1 for body in self._early if isinstance(body, Topology))
        return max(early, default=self._seating.low_water)

    def wait_aloud(self) -> None:
        """Say again for whom this host waits."""
        if self._patience is not None:
            self._patience.repeat()

    def _wait(self, round: int, names: tuple[str, ...]) -> None:
        if not self._membership.failed:
            self._membership.send(Waiting(round, names), round)

    @contextlib.contextmanager
    def _algorithm_edge(
        self, where: str | Callable[[], str], passing: tuple[type[SlaternetError], ...] = (SlaternetError,)
    ) -> Iterator[None]:
        """Fail the game, not just a stream, where a user's algorithm raises; PluginFailed says what it raised."""
        try:
            with plugin_edge("algorithm", self._membership.spec.algorithm.name, where, passing=passing):
                yield
        except PluginFailed as error:
            self._membership.fail_game(error)
            raise

    def handle(self, event: Event) -> None:
        """Hand an event to the engine, and do what comes of it."""
        host, peers = self.host, self.peers
        if host is None or peers is None:
            raise NotSeated("this host has no seats yet")
        if self._membership.failed:
            return
        try:
            effects = host.handle(event)
        except _WRONG_INPUT:
            raise
        except Exception as error:
            with contextlib.suppress(PluginFailed), self._algorithm_edge(f"round {host.round}"):
                raise error
            return
        if isinstance(event, Answer):
            self._tally.idle()
            late = self._loop.time() - self._reported_at >= self._membership.environment.limits.report_seconds
            report = ReportRound(host.round - 1)
            if late and not host.finished and report not in effects:
                effects.append(report)
        self._execute(effects, event, host, peers)

    def _execute(self, effects: list[Effect], event: Event, host: Host, peers: GossipStreams) -> None:
        for effect in effects:
            match effect:
                case Send(peer, frame):
                    self._tally.frames_sent += peers.send(peer, frame, later=isinstance(event, PeerWants))
                case Ask(question):
                    self._tally.ask(question.round, self._awaited(event, peers))
                    self.reveal.ask(question)
                case ReportRound(round):
                    self._report(round)
                case Holding(round):
                    self._membership.send(effect, round)
                case Checkpoint() if self._keeper is not None:
                    self._keeper.write(effect)
                case Finish():
                    self._finish(host.round - 1)

    def _awaited(self, event: Event, peers: GossipStreams) -> str:
        """Return who has sent the last thing that was missing before a question; empty: nothing was."""
        match event:
            case FrameArrived(peer):
                return peers.names[peer]
            case Answer():
                return ""
            case _:
                return COORDINATOR

    def _report(self, round: int) -> None:
        self._reported_at = self._loop.time()
        self._membership.report(Progress(round))
        self.reveal.tell(self._tally.usage(round))

    def _take_revealed(self, body: Question | Answer) -> None:
        if self.host is None and self._adoption is not None:
            self._adopt(self._adoption, body)
        elif isinstance(body, Answer):
            self._take_answer(body)

    def _adopt(self, adoption: StateRebuild, body: Question | Answer) -> None:
        """Take in what is recalled, and begin when that was all."""
        try:
            with self._algorithm_edge(f"round {body.round}, played again from the journal,", _WRONG_INPUT):
                adoption.take(body)
        except PluginFailed:
            return
        if adoption.complete:
            self.reveal.recalled()
            self._begin(adoption.state)

    def _take_answer(self, answer: Answer) -> None:
        if self.host is not None and (pending := self.host.pending) is not None and pending.round == answer.round:
            self.reveal.answered()
            self._tally.answered(self.reveal.name)
        self.handle(answer)

    def _finish(self, last: int) -> None:
        """Say that the last round is played, to the coordinator once its checkpoint is kept."""
        self.reveal.tell(self._tally.usage(last), last=True)
        log.info("finished", round=last)
        if self._keeper is None:
            self._membership.finish(Progress(last))
        else:
            self._keeper.then(lambda: self._membership.finish(Progress(last)))
