"""A host in one seating: its engine, and the engine's effects executed over its streams.

A restarted host goes on from its checkpoint of the low-water mark. Agents that the checkpoint lacks, because the host
has adopted them from a lost one, are rebuilt from the adversary's journal first.
"""

import asyncio
import contextlib
from collections.abc import Iterator

import numpy as np
import structlog

from slaternet import model
from slaternet.attendance import Attendance
from slaternet.errors import (
    AlreadyAsked,
    Malformed,
    Mismatch,
    NotSeated,
    PluginFailed,
    Refused,
    SlaternetError,
    Unready,
)
from slaternet.model import COORDINATOR, Answer, Hold, Holding, Progress, Question, Seating, StopAt, Topology, Waiting
from slaternet.network.reconnecting import ReconnectingStream
from slaternet.network.stream import Stream
from slaternet.service.membership import Membership
from slaternet.spec.plugins import plugin_edge
from slaternet_agent.engine import events
from slaternet_agent.engine.host import Host
from slaternet_agent.engine.host_state import HostState, restored, saved
from slaternet_agent.engine.rebuild import StateRebuild
from slaternet_agent.engine.rows import sendable
from slaternet_agent.shell.build import build_algorithm, build_copies
from slaternet_agent.shell.checkpoint_writer import CheckpointWriter
from slaternet_agent.shell.gossip import GossipStreams
from slaternet_agent.shell.metering import HostMeter
from slaternet_agent.shell.recalls import PastQuestion, Recalls
from slaternet_agent.shell.reveal import RevealStream
from slaternet_agent.shell.stall_report import StallReport

log = structlog.get_logger()

_WRONG_INPUT = (Refused, Unready)
"""The engine raises these for a wrong message: the algorithm is not at fault."""


class HostSession:
    """The agents of one host, from its seating until the game is over or there is a new seating."""

    def __init__(
        self,
        membership: Membership,
        seating: Seating,
        *,
        writer: CheckpointWriter | None,
        tally: HostMeter,
        tasks: asyncio.TaskGroup,
    ) -> None:
        if seating.adversary is None or seating.description is None:
            raise Malformed("a host's seating names the adversary and describes its plugin")
        self._membership = membership
        self._seating = seating
        self._writer = writer
        self._tally = tally
        self._tasks = tasks
        self._lines: list[asyncio.Task[None]] = []
        self._early: list[Topology | Hold | StopAt] = []  # received before there is an engine
        self._rebuild: StateRebuild | None = None
        self._taken_back = 0  # the last round in which a question was taken back
        self._stall_report: StallReport | None = None
        self._loop = asyncio.get_running_loop()
        self._reported_at = 0.0
        self.host: Host | None = None
        """The engine, once the state that it goes on from is complete."""
        self.peers: GossipStreams | None = None
        self.reveal = RevealStream(
            membership,
            seating.adversary,
            self._on_answer,
            self._on_recalled,
            self._on_refusal,
            seats=max(len(each) for each in (seating.seats, *(peer.seats for peer in seating.peers))),
            constraints=seating.description.constraints,
        )
        self._recalls = Recalls(self.reveal)
        try:
            self._algorithm = build_algorithm(membership.spec, seating.description)
            self._copies = build_copies(membership.spec, seating.description, self._algorithm)
            with self._algorithm_edge("start"):
                kept = self._read_checkpoint()
        except SlaternetError as error:
            self._give_up(error)
        else:
            self._keep_open(self.reveal.line)
            if (rebuild := self._rebuild) is None:
                self._begin(kept)
            else:
                self._recalls.add(rebuild, lambda: self._begin(rebuild.state))

    def _read_checkpoint(self) -> HostState | None:
        """Return the state of an earlier incarnation, if any; begin to rebuild the agents that it lacks."""
        mark, run = self._seating.low_water, self._membership.spec.run
        needed = Attendance(run.agents, self._seating.departures).of(self._seating.seats, mark + 1)
        if not mark or not needed.size:
            return None
        if self._writer is None:
            raise Mismatch(
                f"{self._membership.name} must go on from round {mark}, and has kept nothing; start it with the "
                "--state it had before"
            )
        payload = self._writer.read(mark, dispensable=self._seating.recall)
        width = 0 if self._copies is None else self._copies.width
        kept = None if payload is None else restored(self._algorithm, payload, width)
        missing = needed if kept is None else np.setdiff1d(needed, kept.agents)
        if missing.size and not self._seating.recall:
            raise Mismatch(
                f"the checkpoint of round {mark} lacks {missing.size} of the {needed.size} agents of "
                f"{self._membership.name}; put back the right one, or start the whole game anew"
            )
        if missing.size:
            self._rebuild = StateRebuild(self._algorithm, self._copies, kept, needed, mark)
        log.info("coming back", after=mark, recalling=len(missing))
        return kept

    def _give_up(self, error: SlaternetError) -> None:
        """End our part in the game; in one that has begun, leave it: it waits until this host is started again."""
        if self._seating.low_water:
            self._membership.leave_for_restart(error)
        else:
            self._membership.fail(error)

    def _begin(self, state: HostState | None) -> None:
        """Make the engine, from the state after round M where there is one, and open the gossip streams."""
        since = 0 if state is None else self._seating.low_water
        run, durable = self._membership.spec.run, self._writer is not None
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
                    set=self._membership.spec.feasible_set(),
                    copies=self._copies,
                )
        except SlaternetError as error:
            self._give_up(error)
            return
        if self._rebuild is not None and self._writer is not None and state is not None:
            self._writer.write(events.Checkpoint(since, saved(state)))  # a restart need not rebuild it again
        host = self.host
        self.peers = GossipStreams(
            self._membership,
            self._seating,
            self._algorithm.width,
            copies=self._copies,
            on_event=self.handle,
            on_sent=self._tally.count_frame,
            wanted=lambda: host.wanted,
        )
        for line in self.peers.lines:
            self._keep_open(line)
        self._stall_report = StallReport(host, self._send_waiting)
        seats = self._seating.seats
        log.info("seated", agents=len(seats), first=int(seats[0]), peers=len(self._seating.peers))
        if host.finished:  # before it was restarted
            self._finish(host.round - 1)
        early, self._early = self._early, []
        for body in early:
            self.on_control(body)

    def _keep_open(self, line: ReconnectingStream) -> None:
        async def run() -> None:
            try:
                await line.run()
            except SlaternetError as error:
                self._membership.fail(error)

        self._lines.append(self._tasks.create_task(run()))

    def update(self, seating: Seating) -> None:
        """Use the addresses and tickets of restarted processes."""
        if seating.adversary is None:
            raise Malformed("a host's seating names the adversary")
        self._seating = seating
        self.reveal.update(seating.adversary)
        if self.peers is not None:
            self.peers.update(seating)

    def close_streams(self) -> None:
        """Close this host's streams, and open no more."""
        for line in self._lines:
            line.cancel()
        if self._stall_report is not None:
            self._stall_report.end()

    def leave(self) -> None:
        """End the session: there is a new seating."""
        self.close_streams()
        if self.peers is not None:
            self.peers.close()
        if self._writer is not None:
            self._writer.drop_queued()
        self._membership.reset_progress()

    async def accept(self, link: Stream) -> None:
        """Serve a gossip stream that a peer opens."""
        if self.peers is None:
            raise NotSeated("this host has no seats yet")
        await self.peers.accept(link)

    def on_control(self, body: Topology | Hold | StopAt | model.RowRequest | model.DisputedRows) -> None:
        """Handle a message of the coordinator."""
        if isinstance(body, model.RowRequest) and (body.ticket or self.host is None):
            self._rebuild_rows(body)
            return
        if self.host is None:
            if isinstance(body, model.DisputedRows | model.RowRequest):
                return  # of an earlier incarnation
            self._early.append(body)
            if isinstance(body, Hold):  # no round is entered while states are rebuilt
                self._membership.send(Holding(self._seating.low_water), self._seating.low_water)
            return
        self.handle(body)
        if isinstance(body, Topology) and self._writer is not None:
            self._writer.forget_before(body.low_water)

    @property
    def have(self) -> int:
        """The last round whose topology is known, or not needed."""
        if self.host is not None:
            return self.host.known
        early = (body.round + body.rounds - 1 for body in self._early if isinstance(body, Topology))
        return max(early, default=self._seating.low_water)

    def repeat_reports(self) -> None:
        """Report again for whom this host waits, and which rows it disputes."""
        if self._stall_report is not None:
            self._stall_report.repeat()
        for dispute in self.host.disputes if self.host is not None else ():
            self._membership.send(dispute, dispute.round)

    def _send_waiting(self, round: int, names: tuple[str, ...]) -> None:
        if not self._membership.failed:
            self._membership.send(Waiting(round, names), round)

    @contextlib.contextmanager
    def _algorithm_edge(
        self, method: str = "", round: int = 0, passing: tuple[type[SlaternetError], ...] = (SlaternetError,)
    ) -> Iterator[None]:
        """End our part, not just a stream, where a user's algorithm raises; PluginFailed names what it raised."""
        try:
            name, seats = self._membership.spec.algorithm.name, self._seating.seats
            with plugin_edge("algorithm", name, method, round, seats, of=self._algorithm, passing=passing):
                yield
        except PluginFailed as error:
            self._membership.fail(error)
            raise

    def handle(self, event: events.Event) -> None:
        """Pass an event to the engine, and execute its effects."""
        host, peers = self.host, self.peers
        if host is None or peers is None:
            raise NotSeated("this host has no seats yet")
        if self._membership.failed:
            return
        try:
            effects = host.handle(event)
        except _WRONG_INPUT:
            raise
        except BaseException as error:  # an exit, or a panic of a library, too: the edge lets pass what is not its own
            with contextlib.suppress(PluginFailed), self._algorithm_edge(round=host.round):
                raise error
            return
        if isinstance(event, Answer):
            self._tally.idle()
            late = self._loop.time() - self._reported_at >= self._membership.environment.limits.report_seconds
            if late and not host.finished and (report := events.ReportRound(host.round - 1)) not in effects:
                effects.append(report)
        if effects:
            self._execute(effects, event, host, peers)

    def _execute(self, effects: list[events.Effect], event: events.Event, host: Host, peers: GossipStreams) -> None:
        for effect in effects:
            match effect:
                case events.Send(peer, frame):
                    peers.send(peer, frame, later=isinstance(event, events.PeerWants))
                case events.Ask(question):
                    awaited = "" if isinstance(event, Answer) else COORDINATOR
                    if isinstance(event, events.FrameArrived):
                        awaited = peers.names[event.peer]
                    self._tally.ask(question.round, awaited)
                    self.reveal.ask(question)
                case events.ReportRound(round):
                    self._reported_at = self._loop.time()
                    self._membership.report(Progress(round))
                    self.reveal.report_usage(self._tally.usage(round))
                case Holding(round) | model.Dispute(round) | model.DisputedRows(round) | model.Disturbed(round):
                    self._membership.send(effect, round)
                case events.Checkpoint() if self._writer is not None:
                    self._writer.write(effect)
                case events.Finish():
                    self._finish(host.round - 1)

    def _on_answer(self, answer: Answer) -> None:
        if self.host is not None:
            if self.host.pending is not None and self.host.pending.round == answer.round:
                self._tally.answered(self.reveal.name)
            self.handle(answer)

    def _on_recalled(self, body: Question | Answer) -> None:
        """Use an entry of the journal."""
        try:
            with plugin_edge(
                "algorithm",
                self._membership.spec.algorithm.name,
                "",
                body.round,
                body.agents,
                passing=(*_WRONG_INPUT, PluginFailed),
            ):
                self._recalls.apply(body)
        except PluginFailed as error:
            if self._recalls.refuse():
                log.warning("rows of others cannot be rebuilt", reason=str(error))
            else:
                self._membership.fail(error)
            return
        self._recalls.advance()

    def _on_refusal(self, error: SlaternetError) -> bool:
        """Return whether what the adversary refuses is no reason to end our part.

        Where a question differs from what this host, or the one before it, has asked, that stays: it is asked again.
        """
        host = self.host
        if isinstance(error, AlreadyAsked) and host is not None and host.pending is not None:
            if self._taken_back == host.round:
                return False
            self._taken_back, past = host.round, PastQuestion(host.round, host.pending.agents)
            self.reveal.withdraw()
            self._recalls.add(past, lambda: self.handle(events.AskedBefore(past.question)))
            return True
        return isinstance(error, Refused | Unready) and self._recalls.refuse()

    def _rebuild_rows(self, request: model.RowRequest) -> None:
        """Rebuild rows that others dispute, from the journal; where that fails, only the answer is missing."""
        round, agents = request.round, request.agents

        def answer(rows: model.Array) -> None:
            fitting = sendable(rows, self._membership.environment.limits)
            self._membership.send(model.DisputedRows(round, agents, fitting), round)

        def rebuilt() -> None:
            try:
                with plugin_edge("algorithm", self._membership.spec.algorithm.name, "outgoing", round, agents):
                    rows = rebuild.next_rows
            except PluginFailed as error:
                log.warning("rows of others cannot be rebuilt", reason=str(error))
                rows = unknown
            answer(rows)

        unknown = np.empty((len(agents), 0))
        try:
            rebuild = StateRebuild(self._algorithm, self._copies, None, agents, round - 1, request.ticket)
            self._recalls.add(rebuild, rebuilt, failed=lambda: answer(unknown))
        except (Mismatch, PluginFailed):
            answer(unknown)

    def _finish(self, last: int) -> None:
        """Report that the last round is played, to the coordinator once its checkpoint is durable."""
        self.reveal.report_usage(self._tally.usage(last), last=True)
        log.info("finished", round=last)
        if self._writer is None:
            self._membership.finish(Progress(last))
        else:
            self._writer.then(lambda: self._membership.finish(Progress(last)))
