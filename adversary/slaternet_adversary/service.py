"""The gRPC face of the adversary, and its life: find the coordinator, serve, join, reveal, sum up, leave."""

import asyncio
import contextlib
import functools
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import TypeVar

import structlog

from slaternet import codec
from slaternet.errors import Malformed, NotSeated, PluginFailed, Replaced, RunFailed, SlaternetError
from slaternet.limits import LIMITS
from slaternet.link import Link
from slaternet.membership import Applicant, Membership, find, reachable
from slaternet.model import (
    Closing,
    ControlDown,
    Description,
    Heartbeat,
    LowWater,
    Opening,
    Over,
    Peer,
    Progress,
    Question,
    Role,
    Seating,
    StopAt,
)
from slaternet.process import interruptible
from slaternet.transport import serve
from slaternet_adversary.build import build_referee, made, making, plays_apart
from slaternet_adversary.referee import Asked, Closed, Event, Record, Reply, Summarise
from slaternet_adversary.results import Results, claim, new_folder
from slaternet_adversary.runtime import Outward, Runtime

log = structlog.get_logger()

T = TypeVar("T")
_Work = Callable[[], list[Outward]]


class Revealer:
    """The adversary in a game it has joined: one stream per host, work between replies.

    A plugin in this process is called here. One apart is called in `thread`, so that heartbeats go on while it thinks:
    then the task that works between replies is the only one that touches the runtime, and everything else queues.
    """

    def __init__(
        self, membership: Membership, runtime: Runtime, description: Description, thread: Executor | None = None
    ) -> None:
        self._membership = membership
        self._runtime = runtime
        self._thread = thread
        self._queue: deque[tuple[_Work, asyncio.Future[None] | None]] = deque()
        self._working = True
        self._hosts: dict[str, Peer] = {}
        self._links: dict[str, Link] = {}
        self._wake = asyncio.Event()
        membership.listen(self._hear, opened=lambda: membership.say(description))

    async def play(self) -> None:
        """Reveal and score until the game is over."""
        try:
            async with asyncio.TaskGroup() as tasks:
                worker = tasks.create_task(self._work(), name="work between replies")
                await self._membership.attend()
                worker.cancel()
        except* SlaternetError as failed:
            raise failed.exceptions[0] from None

    def _hear(self, body: ControlDown) -> None:
        if self._membership.failed and not isinstance(body, Over):
            return
        match body:
            case Seating(peers=peers):
                if not self._hosts:
                    self._hosts = {peer.name: peer for peer in peers}
                    self._obey(lambda: self._runtime.seat((peer.name, peer.seats) for peer in peers))
                    log.info("seated", hosts=len(peers))
            case LowWater() | StopAt():
                self._obey(lambda: self._runtime.handle(body))
            case Over():
                pass
            case _:
                raise Malformed("the coordinator says to the adversary what is not meant for it")

    def _say(self, effects: list[Outward]) -> None:
        for effect in effects:
            match effect:
                case Reply(host, answer):
                    if (link := self._links.get(host)) is not None:
                        for part in codec.encode_reveal_down(self._membership.head(answer.round), answer):
                            link.send(part)
                case Record(round, totals=totals):
                    self._membership.report(Progress(round, totals[0], totals[1]))
                case Summarise(rounds):
                    loss, violation, *_ = self._runtime.totals
                    self._membership.finish(Progress(rounds, loss, violation))
        if self._runtime.due:
            self._wake.set()

    async def _work(self) -> None:
        """Do what waits in bursts, and in any case before long: scores are what others see of the game."""
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
                    await asyncio.sleep(0)  # a question that has come meanwhile goes first
        finally:
            self._working = False
            for _, done in self._queue:
                _settle(done)

    async def _handle(self, event: Event) -> None:
        """Hand an event to the referee; a host that asks after a failure hears no more than that there was one."""
        work = functools.partial(self._runtime.handle, event)
        if self._thread is None:
            self._perform(work)
        elif self._working:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append((work, done))
            self._wake.set()
            await done
        if self._membership.failed and isinstance(event, Asked):
            raise PluginFailed("the adversary cannot go on")

    def _obey(self, work: _Work) -> None:
        """Do what the coordinator says, in its turn."""
        if self._thread is None:
            self._perform(work)
        else:
            self._queue.append((work, None))
            self._wake.set()

    def _perform(self, work: _Work) -> None:
        """Do something that calls the plugin or writes results; the first failure ends the game for all."""
        if self._membership.failed:
            return
        try:
            self._say(work())
        except (PluginFailed, RunFailed) as error:
            self._fail(error)

    async def _perform_apart(self, thread: Executor) -> None:
        """Do in the thread what has queued first, or else a piece of work; a refusal is its asker's alone."""
        work, done = self._queue.popleft() if self._queue else (self._runtime.work, None)
        try:
            self._say(await _within(thread, work))
        except (PluginFailed, RunFailed) as error:
            self._fail(error)
        except SlaternetError as refusal:
            if done is None:
                raise
            _settle(done, refusal)
        finally:
            _settle(done)

    def _fail(self, error: SlaternetError) -> None:
        # the error may repeat the plugin's own words, which are for the operator; what is said here goes to all
        self._membership.fail(error, told="it cannot go on; its own log says why")

    async def accept(self, link: Link) -> None:
        """Serve the stream of a host."""
        spec = self._membership.spec
        decoder = codec.RevealUpDecoder(spec.run.dimension, agents=spec.run.agents)
        data = await link.read()
        if not self._hosts:
            raise NotSeated("no host is seated yet")
        peer, _ = self._membership.identify(decoder.decode(data) if data else None, self._hosts)
        link.host = name = peer.name
        if (older := self._links.get(name)) is not None:
            older.end(Replaced("a newer stream of this host has taken over"))
        self._links[name] = link
        link.keep_alive(lambda: codec.encode_reveal_down(self._membership.head(), Heartbeat())[0])
        try:
            while (data := await link.read()) is not None:
                await self._take(name, decoder, data)
        finally:
            if self._links.get(name) is link:
                del self._links[name]

    async def _take(self, name: str, decoder: codec.RevealUpDecoder, data: bytes) -> None:
        message = decoder.decode(data)
        if message is None:
            return
        head, body = message
        self._membership.check(head, name)
        match body:
            case Question():
                await self._handle(Asked(name, body))
            case Closing():
                await self._handle(Closed(name, body))
                self._wake.set()  # no burst will fill up any more
            case Opening():
                raise Malformed("a stream is opened once")
            case Heartbeat():
                pass


def _settle(done: asyncio.Future[None] | None, error: SlaternetError | None = None) -> None:
    """Let go whoever waits, unless he has gone."""
    if done is None or done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


class AdversaryService:
    """The adversary of one game."""

    def __init__(
        self, coordinator: str, out: Path | None, *, listen: str, advertise: str = "", force: bool = False
    ) -> None:
        self._coordinator = coordinator
        self._out = out
        self._listen = listen
        self._advertise = advertise
        self._force = force
        self._revealer: Revealer | None = None
        self.folder: Path | None = None

    async def run(self, stop: asyncio.Event) -> int:
        """Live until the game is over or `stop` is set; return the exit code."""
        return await interruptible(
            self._live(), stop, lambda: f"the adversary leaves; {self.folder} holds what was recorded"
        )

    async def _live(self) -> None:
        name = Role.ADVERSARY.value
        status = await find(self._coordinator, name)
        server = await serve(
            self._listen,
            service="slaternet.v1.Adversary",
            unary={},
            streams={"Reveal": self._reveal},
            hosts=min(status.agents, LIMITS.hosts),
        )
        try:
            address = self._advertise or reachable(server.address, self._coordinator)
            log.info("listening", address=server.address)
            membership = await Membership.join(
                self._coordinator, Applicant(name, Role.ADVERSARY, address), server.breaches
            )
            await self._play(membership)
        finally:
            await server.stop()

    async def _play(self, membership: Membership) -> None:
        spec = membership.spec
        async with AsyncExitStack() as life:
            folder = life.enter_context(ExitStack())
            thread = _thread(life) if plays_apart(spec) else None
            building = functools.partial(made, spec, life.enter_context(making(spec)))
            plugin, description = building() if thread is None else await _within(thread, building)
            self.folder = self._out or new_folder(spec)
            claim(self.folder, force=self._force)
            results = Results(self.folder, spec, run=membership.run, breaches=membership.breaches)
            runtime = Runtime(plugin, build_referee(spec, description), results)
            folder.callback(runtime.close)  # when the thread has ended, which ends with the plugin
            self._revealer = Revealer(membership, runtime, description, thread)
            await self._revealer.play()
            log.info("the game is over", folder=str(self.folder))

    async def _reveal(self, link: Link) -> None:
        if self._revealer is None:
            raise NotSeated("the adversary has not joined yet")
        await self._revealer.accept(link)


def _thread(life: AsyncExitStack) -> Executor:
    """Return the thread in which a plugin apart is called."""
    thread = ThreadPoolExecutor(1, "plugin")
    life.push_async_callback(asyncio.to_thread, thread.shutdown)  # its last call may take a moment to break off
    return thread


def _within(thread: Executor, work: Callable[[], T]) -> "asyncio.Future[T]":
    return asyncio.get_running_loop().run_in_executor(thread, work)
