"""The adversary's streams in a game it has joined: messages in, events to the runtime, answers out.

Streams are read side by side, and one task works: it handles whatever has arrived as one batch, without waiting for
more, and does the work between replies.
"""

import asyncio
import functools
import hmac
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Iterator

import numpy as np
import structlog

from slaternet import codec, errors, model, tickets
from slaternet.limits import LIMITS
from slaternet.network.stream import Stream
from slaternet.service.membership import Membership
from slaternet.service.metrics import Reading
from slaternet.storage.failpoints import failpoint
from slaternet_adversary.engine.events import Asked, Commit, Questions, Used
from slaternet_adversary.journal.journal import AdversaryJournal
from slaternet_adversary.journal.query import purchases_of
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.shell.metrics import readings
from slaternet_adversary.shell.runtime import Runtime

log = structlog.get_logger()

_Bought = tuple[model.Question, model.Answer]
_FAILED = "the adversary cannot go on"
_FATAL = (errors.PluginFailed, errors.RunFailed, errors.Diverged)


class RevealServer:
    """The adversary in a game it has joined: one stream per host, work between replies."""

    def __init__(
        self,
        membership: Membership,
        runtime: Runtime,
        description: model.Description,
        *,
        journal: AdversaryJournal,
        durable: bool = False,
        metrics_values: bool = False,
    ) -> None:
        self._membership = membership
        self._runtime = runtime
        runtime.audience = self
        self._durable = durable
        self._metrics_values = metrics_values
        self._loop = asyncio.get_running_loop()
        self._reported_at = 0.0
        self._orders: deque[tuple[Callable[[], Awaitable[None]], Stream | None]] = deque()
        """Of the coordinator, and reports of hosts with their streams, in order."""
        self._asked: list[tuple[Asked, Stream]] = []
        """Questions that have arrived, and wait for those before them."""
        self._askers: dict[str, Stream] = {}
        """By host: the stream that has brought its last question; no other gets the answer."""
        self._unhandled: set[Stream] = set()
        """Streams with a question or a report that is not handled yet: no more is read from them."""
        self._handled: asyncio.Future[None] | None = None  # when one of those is handled
        self._journal = journal
        self._epoch = 0
        self._hosts: dict[str, model.Peer] = {}
        self._links: dict[str, Stream] = {}
        self._accepts: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._overdue = False  # whether work has waited for `report_seconds`
        self._timer: asyncio.TimerHandle
        membership.listen(self._hear, opened=lambda: membership.send(description))

    @property
    def run(self) -> str:
        """The id of the game."""
        return self._membership.run

    @property
    def round(self) -> int:
        """The last round scored."""
        return self._runtime.network.rounds

    def readings(self) -> Iterator[Reading]:
        """Return the adversary's metrics; callable from any thread."""
        runtime = self._runtime
        totals = runtime.totals if self._metrics_values else None
        return readings(self._membership, runtime.network, totals, len(self._links), self._accepts)

    async def play(self) -> None:
        """Reveal and score until the game is over."""
        try:
            async with asyncio.TaskGroup() as tasks:
                worker = tasks.create_task(self._work(), name="work")
                await self._membership.attend()
                worker.cancel()
        except* errors.SlaternetError as failed:
            raise failed.exceptions[0] from None

    def _hear(self, body: model.ControlDown) -> None:
        if self._membership.failed and not isinstance(body, model.GameOver):
            return
        match body:
            case model.Seating():
                if body.recall and self._runtime.forgetful:
                    self._refuse_policy()
                else:
                    self._seat(body)
            case model.LowWater() | model.StopAt():
                self._order(functools.partial(self._runtime.handle, body))
            case model.IncidentRecord():
                self._order(functools.partial(self._note, body))
            case model.GameOver():
                pass
            case _:
                raise errors.Malformed("the coordinator sent a message that is not for an adversary")

    async def _note(self, incident: model.IncidentRecord) -> None:
        self._runtime.note(incident)

    def _refuse_policy(self) -> None:
        self._membership.leave_for_restart(
            errors.BadSpec(
                "--journal-keep is not for a game whose coordinator gives hosts up: others then rebuild their state "
                "from the whole journal; start the adversary without it, or the coordinator with --policy wait"
            )
        )

    def _seat(self, seating: model.Seating) -> None:
        """Record the seating; end streams of older incarnations, and in a new seating all streams."""
        epoch, self._epoch = self._epoch, self._membership.epoch
        older, self._hosts = self._hosts, {peer.name: peer for peer in seating.peers}
        if epoch < self._epoch:
            log.info("seated", hosts=len(seating.peers), epoch=self._epoch)
        for name, link in self._links.items():
            if epoch < self._epoch or name not in self._hosts:  # its stream may still be ending
                link.end(errors.NotSeated("there is a new seating"))
            elif name in older and older[name].incarnation < self._hosts[name].incarnation:  # else it ends already
                link.end(errors.Superseded("a newer incarnation of this host has joined"))
            elif not self._hosts[name].address:
                link.end(errors.Superseded("this host is shut out"))
        seats = tuple((peer.name, peer.seats) for peer in seating.peers)
        self._order(functools.partial(self._runtime.seat, self._epoch, seats, seating.departures))

    async def recover(self) -> None:
        """Replay the journal of a previous process, and report how far the game is."""
        runtime = self._runtime
        for entry in self._journal.replay():
            await runtime.apply_entry(entry)
            for round in range(1, entry.round + 1) if isinstance(entry, Snapshot) else ():
                await runtime.replay_functions(round)
                await asyncio.sleep(0)
            if isinstance(entry, Commit):  # there is one for each burst of rounds, scored or not: forget older ones
                await runtime.handle(model.LowWater(self._membership.low_water))
            await asyncio.sleep(0)  # so that a stop need not wait for all of it
        await runtime.finish_recovery()
        log.info("going on from the journal", recorded=self.round)

    # called by the runtime

    def reply(self, host: str, answer: model.Answer) -> None:
        """Send the answer to the stream that has asked, unless that has ended or another has taken over: that asks."""
        link = self._links.get(host)
        if link is None or link is not self._askers.get(host):
            return
        for part in codec.encode_reveal_down(self._membership.head(answer.round), answer):
            link.send(part)
        failpoint("adversary_after_answer")

    def refuse(self, host: str, error: errors.SlaternetError) -> None:
        """End the stream of a host whose question is against the rules."""
        if (link := self._askers.get(host)) is not None:
            link.end(error, by_peer=True)

    def report(self, progress: model.Progress) -> None:
        """Report how far the game is scored."""
        self._reported_at = self._loop.time()
        self._membership.report(progress)

    def finish(self, progress: model.Progress) -> None:
        """Report that the summary is written."""
        self._membership.finish(progress)

    # the task that works

    async def _work(self) -> None:
        """Handle what has arrived; do work in bursts, and at the latest after `report_seconds`.

        Scores are the visible progress of a game.
        """
        self._tick()
        try:
            while not self._membership.failed:
                await self._wake.wait()
                self._wake.clear()
                await self._handle_all()
                if self._loop.time() - self._reported_at >= LIMITS.report_seconds and not self._membership.failed:
                    self.report(self._runtime.progress)
        finally:
            self._timer.cancel()
            self._release()

    def _tick(self) -> None:
        self._overdue = True
        self._wake.set()
        self._timer = self._loop.call_later(LIMITS.report_seconds, self._tick)

    async def _handle_all(self) -> None:
        """Handle what there is: orders first, then questions, then a burst of work where one is due."""
        runtime, working = self._runtime, self._overdue
        self._overdue = False
        while not self._membership.failed:
            if self._orders:
                order, link = self._orders.popleft()
                await self._perform(order(), link)
                if link is not None:
                    self._release(link)
            elif self._asked:
                await self._handle_questions()
            elif (working or runtime.due) and not runtime.idle:
                working = True
                await self._perform(runtime.work())
                await asyncio.sleep(0)  # what has arrived meanwhile goes first
            else:
                return

    async def _handle_questions(self) -> None:
        asked, self._asked = self._asked, []
        self._askers |= {each.host: link for each, link in asked}
        await self._perform(self._runtime.handle(Questions(tuple(each for each, _ in asked))))
        if self._membership.failed:
            for _, link in asked:
                link.end(errors.PluginFailed(_FAILED))
        self._release(*(link for _, link in asked))

    def _release(self, *links: Stream) -> None:
        """Let streams be read whose message is handled."""
        self._unhandled.difference_update(links)
        if self._handled is not None:
            self._handled.set_result(None)
            self._handled = None

    async def _wait_until_handled(self, link: Stream) -> None:
        """Wait until what a stream has brought is answered, recorded or refused."""
        while link in self._unhandled and not self._membership.failed:
            self._handled = self._handled or self._loop.create_future()
            await asyncio.shield(self._handled)

    def _order(self, work: Callable[[], Awaitable[None]], link: Stream | None = None) -> None:
        """Have something done in its turn; where that is refused, `link` has sent it."""
        self._orders.append((work, link))
        self._wake.set()

    async def _perform(self, work: Awaitable[None], link: Stream | None = None) -> None:
        """Call the plugin or write results; a failure pauses or ends the game, a refusal concerns its sender."""
        try:
            await work
        except _FATAL as error:
            self._fail(error)
        except errors.SlaternetError as refusal:
            if link is None:
                raise
            link.end(refusal, by_peer=True)

    def _fail(self, error: errors.SlaternetError) -> None:
        # of the disk, or of the plugin: once that is mended, a restarted process continues from the journal
        if self._durable and isinstance(error, errors.RunFailed | errors.PluginFailed):
            self._membership.leave_for_restart(error)
            return
        # the error may quote the plugin, which is for the operator alone; `reason` is sent to all
        self._membership.fail(error, reason="it cannot go on; its own log says why")

    async def accept(self, link: Stream) -> None:
        """Serve the stream of a host."""
        data = await link.read()
        if not self._hosts:
            raise errors.NotSeated("no host is seated yet")
        first = self._decoder(0).decode(data) if data else None
        peer, _ = self._membership.identify(first, self._hosts, link.caller)
        decoder = self._decoder(len(peer.seats))
        name = peer.name
        link.set_host(name)
        if (older := self._links.get(name)) is not None:
            older.end(errors.Replaced("a newer stream of this host has taken over"))
        self._links[name] = link
        self._accepts[name] = self._accepts.get(name, 0) + 1
        self._membership.peer_back(name)
        link.keep_alive(lambda: codec.encode_reveal_down(self._membership.head(), model.Heartbeat())[0])
        try:
            while (data := await link.read()) is not None:
                message = decoder.decode(data)
                if message is None:
                    continue
                self._membership.check(message[0], name)
                await self._take(link, peer, message[1])
                if link.crowded:  # answers that were asked for again wait until it reads
                    await link.drained()
            await self._wait_until_handled(link)  # a host may say that nothing follows, and its question be wrong
        finally:
            if self._askers.get(name) is link:
                del self._askers[name]
            if self._links.get(name) is link:
                del self._links[name]
                self._membership.peer_lost(name)

    def _decoder(self, seats: int) -> codec.RevealUpDecoder:
        """Return a decoder that takes no larger question than the declared one of so many agents."""
        run, asked = self._membership.spec.run, self._membership.spec.question
        assert asked is not None  # or there would be no referee
        anchored = asked.loss_gradient or asked.constraint_gradient
        largest = codec.question_bytes(seats, run.dimension, asked.points, anchored=anchored, memo=asked.memo)
        return codec.RevealUpDecoder(run.dimension, agents=run.agents, largest=largest)

    async def _take(self, link: Stream, peer: model.Peer, body: model.RevealUp) -> None:
        match body:
            case model.Question():
                if self._membership.failed:
                    raise errors.PluginFailed(_FAILED)
                await self._wait_until_handled(link)  # an honest host asks once, and waits for the answer
                self._asked.append((Asked(peer.name, body, self._runtime.seconds), link))
                self._unhandled.add(link)
                self._wake.set()
            case model.Usage():
                await self._wait_until_handled(link)
                self._unhandled.add(link)
                self._order(functools.partial(self._runtime.handle, Used(peer.name, peer.incarnation, body)), link)
                # after the last round no burst will fill up any more
                self._overdue = self._overdue or body.round == self._membership.spec.run.rounds
            case model.HistoryRequest():
                await self._recall(link, body)
            case model.Opening():
                raise errors.Malformed("a stream is opened once")
            case model.Heartbeat():
                pass

    async def _recall(self, link: Stream, wish: model.HistoryRequest) -> None:
        """Send a host purchases from the journal: of its own agents, or of those that the coordinator lets it judge.

        Of one round alone, only some of the agents may have bought it.
        """
        agents, own = wish.agents, np.isin(wish.agents, self._hosts[link.host].seats).all()
        judging = tickets.recall_ticket(self._membership.ticket, link.host, wish.last + 1, agents)
        if not own and not hmac.compare_digest(wish.ticket, judging):
            raise errors.NotYours("a host may request the history only of agents seated there")
        if self._runtime.forgetful and wish.round <= self._membership.low_water:
            raise errors.Forgotten("the adversary does not keep every round")
        bought, answered = self._runtime.bought(agents)
        alone = wish.round == wish.last
        if wish.round > wish.last or wish.last > (bought.max() if alone else bought.min()):
            raise errors.Malformed("a host may request the history only of rounds that the agents have bought")
        agents = agents[answered >= wish.last] if alone else agents
        if not agents.size or (not alone and answered.min() < wish.last):
            raise errors.RoundNotOpen("a history is of rounds whose values the agents have received")
        journal = self._journal
        past = purchases_of(journal.folder, agents, wish.round, wish.last, disk=journal.disk)
        while some := await self._recalled(past):
            for question, answer in some:
                for body in (question, answer):
                    for part in codec.encode_reveal_down(self._membership.head(question.round), body):
                        link.send(part)
            await link.drained()

    async def _recalled(self, past: Iterator[_Bought]) -> list[_Bought]:
        """Return the next purchases of the journal; one of ours that cannot be read ends the game."""
        try:
            return await asyncio.to_thread(lambda: list(itertools.islice(past, self._journal.limits.burst)))
        except errors.SlaternetError as error:
            self._fail(error)
            raise
