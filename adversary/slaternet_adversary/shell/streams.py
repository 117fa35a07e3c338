"""The adversary's streams in a game it has joined: messages in, events to the runtime, answers out."""

import asyncio
import contextlib
import functools
import hmac
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import TypeVar

import numpy as np
import structlog

from slaternet import codec, errors, model, tickets
from slaternet.limits import LIMITS
from slaternet.network.stream import Stream
from slaternet.service.membership import Membership
from slaternet.service.metrics import Reading
from slaternet.storage.failpoints import failpoint
from slaternet_adversary.engine.events import Asked, Commit, Event, Used
from slaternet_adversary.journal.journal import AdversaryJournal
from slaternet_adversary.journal.query import purchases_of
from slaternet_adversary.journal.snapshot import Snapshot
from slaternet_adversary.shell.metrics import readings
from slaternet_adversary.shell.runtime import Runtime

log = structlog.get_logger()

T = TypeVar("T")
_Bought = tuple[model.Question, model.Answer]
_Work = Callable[[], None]
_FATAL = (errors.PluginFailed, errors.RunFailed, errors.Diverged)


class RevealServer:
    """The adversary in a game it has joined: one stream per host, work between replies.

    A plugin in this process is called here. One in another process is called in `thread`, so that heartbeats go on
    meanwhile: then only the task that works between replies uses the runtime, and everything else queues.
    """

    def __init__(
        self,
        membership: Membership,
        runtime: Runtime,
        description: model.Description,
        thread: Executor | None = None,
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
        self._thread = thread
        self._loop = asyncio.get_running_loop()
        self._reported_at = 0.0
        self._queue: deque[tuple[_Work, asyncio.Future[None] | None]] = deque()
        self._working = True
        self._journal = journal
        self._epoch = 0
        self._hosts: dict[str, model.Peer] = {}
        self._links: dict[str, Stream] = {}
        self._accepts: dict[str, int] = {}
        self._wake = asyncio.Event()
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
                worker = tasks.create_task(self._work(), name="work between replies")
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
                self._obey(lambda: self._runtime.handle(body))
            case model.IncidentRecord():
                self._obey(lambda: self._runtime.note(body))
            case model.GameOver():
                pass
            case _:
                raise errors.Malformed("the coordinator sent a message that is not for an adversary")

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
            if epoch < self._epoch:
                link.end(errors.NotSeated("there is a new seating"))
            elif name in older and older[name].incarnation < self._hosts[name].incarnation:  # else it ends already
                link.end(errors.Superseded("a newer incarnation of this host has joined"))
            elif not self._hosts[name].address:
                link.end(errors.Superseded("this host is shut out"))
        seats = tuple((peer.name, peer.seats) for peer in seating.peers)
        self._obey(functools.partial(self._runtime.seat, self._epoch, seats, seating.departures))

    async def recover(self) -> None:
        """Replay the journal of a previous process, and report how far the game is."""
        for entry in self._journal.replay():
            await self._redo(functools.partial(self._runtime.apply_entry, entry))
            for round in range(1, entry.round + 1) if isinstance(entry, Snapshot) else ():
                await self._redo(functools.partial(self._runtime.replay_functions, round))
            if isinstance(entry, Commit):  # there is one for each burst of rounds, scored or not: forget older ones
                await self._redo(functools.partial(self._runtime.handle, model.LowWater(self._membership.low_water)))
        self._runtime.finish_recovery()
        log.info("going on from the journal", recorded=self.round)

    async def _redo(self, work: _Work) -> None:
        if self._thread is None:
            work()
            await asyncio.sleep(0)  # so that a stop need not wait for all of it
        else:
            await run_in_thread(self._thread, work)

    # called by the runtime, in the thread in which it works

    def reply(self, host: str, answer: model.Answer) -> None:
        """Send the answer to a host's question, unless its stream has ended: then it asks again."""
        if (link := self._links.get(host)) is None:
            return
        for part in codec.encode_reveal_down(self._membership.head(answer.round), answer):
            if self._thread is None:
                link.send(part)
            else:
                self._loop.call_soon_threadsafe(link.send, part)
        failpoint("adversary_after_answer")

    def report(self, progress: model.Progress) -> None:
        """Report how far the game is scored."""
        self._reported_at = self._loop.time()
        self._loop.call_soon_threadsafe(self._membership.report, progress)

    def finish(self, progress: model.Progress) -> None:
        """Report that the summary is written."""
        self._loop.call_soon_threadsafe(self._membership.finish, progress)

    async def _work(self) -> None:
        """Do work in bursts, and at the latest after `report_seconds`: scores are the visible progress of a game."""
        try:
            while not self._membership.failed:
                with contextlib.suppress(TimeoutError):
                    # not wait_for: in Python 3.11 it loses a cancellation that comes together with what it waits for
                    async with asyncio.timeout(LIMITS.report_seconds):
                        await self._wake.wait()
                self._wake.clear()
                while (self._queue or not self._runtime.idle) and not self._membership.failed:
                    if self._thread is None:
                        self._perform(self._runtime.work)
                    else:
                        await self._perform_apart(self._thread)
                    await asyncio.sleep(0)  # a question that has arrived meanwhile goes first
                if self._loop.time() - self._reported_at >= LIMITS.report_seconds and not self._membership.failed:
                    self.report(self._runtime.progress)
        finally:
            self._working = False
            for _, done in self._queue:
                _settle(done)

    async def _hand_over(self, event: Asked | Used) -> None:
        """Give a host's message to the runtime; a question after a failure is refused without the reason."""
        if self._thread is None:
            self._perform(self._runtime.handle, event)
        elif self._working:
            done: asyncio.Future[None] = self._loop.create_future()
            self._queue.append((functools.partial(self._runtime.handle, event), done))
            self._wake.set()
            await done
        if self._membership.failed and isinstance(event, Asked):
            raise errors.PluginFailed("the adversary cannot go on")

    def _obey(self, work: _Work) -> None:
        """Do what the coordinator has sent, in order."""
        if self._thread is None:
            self._perform(work)
        else:
            self._queue.append((work, None))
            self._wake.set()

    def _perform(self, work: Callable[..., None], *event: Event) -> None:
        """Call the plugin or write results; the first failure ends the game for all."""
        if self._membership.failed:
            return
        try:
            work(*event)
        except _FATAL as error:
            self._fail(error)
        if self._runtime.due:
            self._wake.set()

    async def _perform_apart(self, thread: Executor) -> None:
        """Run the first of the queue in the thread, or else a piece of work; a refusal concerns only its sender."""
        work, done = self._queue.popleft() if self._queue else (self._runtime.work, None)
        try:
            await run_in_thread(thread, work)
            if self._runtime.due:
                self._wake.set()
        except _FATAL as error:
            self._fail(error)
        except errors.SlaternetError as refusal:
            if done is None:
                raise
            _settle(done, refusal)
        finally:
            _settle(done)

    def _fail(self, error: errors.SlaternetError) -> None:
        if self._durable and isinstance(error, errors.RunFailed):  # of the disk: after a repair a restart continues
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
        finally:
            if self._links.get(name) is link:
                del self._links[name]
                self._membership.peer_lost(name)

    def _decoder(self, seats: int) -> codec.RevealUpDecoder:
        """Return a decoder that takes no larger question than the declared one of so many agents."""
        run, asked = self._membership.spec.run, self._membership.spec.question
        assert asked is not None  # or there would be no referee
        anchored = asked.loss_gradient or asked.constraint_gradient
        largest = codec.question_bytes(seats, run.dimension, asked.points, anchored=anchored)
        return codec.RevealUpDecoder(run.dimension, agents=run.agents, largest=largest)

    async def _take(self, link: Stream, peer: model.Peer, body: model.RevealUp) -> None:
        match body:
            case model.Question():
                await self._hand_over(Asked(peer.name, body, self._runtime.seconds))
            case model.Usage():
                await self._hand_over(Used(peer.name, peer.incarnation, body))
                if body.round == self._membership.spec.run.rounds:
                    self._wake.set()  # no burst will fill up any more
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
        find = functools.partial(self._runtime.bought, agents)
        bought, answered = find() if self._thread is None else await run_in_thread(self._thread, find)
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


def _settle(done: asyncio.Future[None] | None, error: errors.SlaternetError | None = None) -> None:
    """Resolve the waiter's future unless it is already done."""
    if done is None or done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def run_in_thread(thread: Executor, work: Callable[[], T]) -> "asyncio.Future[T]":
    """Run work in a thread."""
    return asyncio.get_running_loop().run_in_executor(thread, work)
