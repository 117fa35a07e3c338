"""Membership of a game, for hosts and the adversary alike: joining, and the control stream."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from slaternet import codec, errors, model
from slaternet.environment import REAL, Environment
from slaternet.limits import LIMITS
from slaternet.network.certificates import LOOPBACK, Caller, Security, require_certificate
from slaternet.network.client import call, open_channel
from slaternet.network.reconnecting import Backoff, ReconnectingStream
from slaternet.network.traffic import Meter
from slaternet.numerics.fingerprint import fingerprint
from slaternet.refusals import RefusalCounter
from slaternet.spec import PublicSpec, Spec
from slaternet.spec.seat_request import EVEN, SeatRequest
from slaternet.storage.state_dir import StateDir

log = structlog.get_logger()

T = TypeVar("T")

_JOIN = "/slaternet.v1.Coordinator/Join"
_CONTROL = "/slaternet.v1.Coordinator/Control"


async def until_reached(coordinator: str, attempt: Callable[[], Awaitable[T]], environment: Environment = REAL) -> T:
    """Repeat an attempt until the coordinator is reached, and return its result; that it is not is logged once."""
    backoff, waiting = Backoff(environment), False
    while True:
        try:
            return await attempt()
        except errors.Unreachable as error:
            if not waiting:
                log.info("waiting for the coordinator", address=coordinator, reason=str(error))
            waiting = True
        await backoff.wait()


async def call_until_answered(
    coordinator: str, method: str, request: bytes, security: Security, environment: Environment = REAL
) -> bytes:
    """Call the coordinator until it answers, and return its answer."""

    async def attempt() -> bytes:
        async with open_channel(coordinator, model.COORDINATOR, security=security) as channel:
            return await call(channel, method, request)

    return await until_reached(coordinator, attempt, environment)


async def _ask_to_join(
    coordinator: str, name: str, join: model.Join, security: Security, environment: Environment
) -> tuple[model.Head, model.Welcome]:
    """Send Join until there is a Welcome. A name that is taken, usually by an earlier incarnation, needs a ticket."""
    backoff = Backoff(environment)
    while True:
        request = codec.encode_join(model.Head("", 0, 0, name), join)
        reply = await call_until_answered(coordinator, _JOIN, request, security, environment)
        head, answer = codec.decode_welcome(reply)
        if isinstance(answer, model.Welcome):
            return head, answer
        if join.ticket:  # it was valid when it was given: another process has joined since, and may do so again
            await backoff.wait()
        join = replace(join, ticket=answer.ticket)


@dataclass(frozen=True, slots=True)
class Applicant:
    """A process that asks to join."""

    name: str
    role: model.Role
    address: str
    seats: SeatRequest = EVEN


class Membership:
    """A process that has joined a game: the run's id, the spec, and the control stream."""

    def __init__(
        self,
        coordinator: str,
        applicant: Applicant,
        head: model.Head,
        welcome: model.Welcome,
        security: Security,
        meter: Meter,
        state: StateDir,
        environment: Environment = REAL,
    ) -> None:
        self.environment = environment
        self.name = applicant.name
        self.run = head.run
        kind = Spec if applicant.role is model.Role.ADVERSARY else PublicSpec
        self.spec: PublicSpec = kind.parse(welcome.spec, source="the coordinator's spec")
        """Of the adversary a `Spec`; hosts get no more than this."""
        self.spec_tag = welcome.spec_tag
        """By which this process knows the whole spec again."""
        self.incarnation = welcome.incarnation
        self.low_water = welcome.low_water
        """M when this process joined: it goes on from its checkpoint of that round; 0: from the beginning."""
        self.description = welcome.description
        """Of the plugin that a game under way has been played with; None for hosts, and before the game begins."""
        self.begun = head.epoch > 0
        """Whether the game had begun when this process joined: then it is a spare, or was in it before."""
        self.epoch = 0
        self._head = model.Head(self.run, 0, 0, self.name)
        self.security = security
        self.meter = meter
        self.breaches = RefusalCounter()
        """Of this process's own server; they are reported to the coordinator."""
        self.breaches.watch(self._report_refusals_soon)
        self._refusals_timer: asyncio.TimerHandle | None = None
        self._state = state
        self.ticket = welcome.ticket
        """For the coordinator, and known to no other process."""
        self._decoder = codec.ControlDownDecoder(self.spec.run.agents)
        self._progress = model.Progress(0)
        self._checkpoint = 0
        self._attending = False
        self._lost: set[str] = set()
        self._finished = False
        self.failed = False
        """Whether this process cannot go on."""
        self._failure: errors.SlaternetError | None = None
        self._reason = ""  # of the failure, as it is sent
        self._over: asyncio.Future[model.GameOver] = asyncio.get_running_loop().create_future()
        self.line = ReconnectingStream(
            model.COORDINATOR,
            coordinator,
            _CONTROL,
            security=security,
            traffic=meter.of(_CONTROL),
            opening=self._opening,
            heartbeat=lambda: codec.encode_control_up(self.head(), model.Heartbeat()),
            on_message=self._receive,
            opened=self._resend,
            environment=environment,
        )
        self._on_message: Callable[[model.ControlDown], None] = lambda body: None
        self._opened: Callable[[], None] = lambda: None
        self._have: Callable[[], int] = lambda: 0

    @classmethod
    async def join(
        cls,
        coordinator: str,
        applicant: Applicant,
        security: Security = LOOPBACK,
        meter: Meter | None = None,
        state: StateDir | None = None,
        environment: Environment = REAL,
    ) -> "Membership":
        """Join the game; wait for a coordinator that does not answer yet.

        `meter` counts what streams carry; `state` remembers the game.
        """
        state = state or StateDir(applicant.name, applicant.role)
        join = model.Join(
            applicant.role,
            applicant.address,
            applicant.seats.count,
            model.PROTOCOL,
            fingerprint(),
            applicant.seats.agents,
            state.past_spec,
            state.durable,
        )
        head, welcome = await _ask_to_join(coordinator, applicant.name, join, security, environment)
        joined = cls(coordinator, applicant, head, welcome, security, meter or Meter(), state, environment)
        state.remember(joined.run, joined.spec_tag)
        return joined

    def head(self, round: int = 0) -> model.Head:
        """Return the head of a message about a round."""
        head = self._head
        if head.round != round or head.epoch != self.epoch:  # several messages in a row are about one round
            head = self._head = model.Head(self.run, self.epoch, round, self.name)
        return head

    def identify(
        self, message: tuple[model.Head, object] | None, peers: Mapping[str, model.Peer], caller: Caller | None
    ) -> tuple[model.Peer, model.Opening]:
        """Return which host opens a stream here, by its first message.

        Only the newest incarnation, only with its ticket and, where connections are secured, only with its certificate.
        """
        if message is None or not isinstance(message[1], model.Opening):
            raise errors.Malformed("a stream begins with an opening")
        head, opening = message[0], message[1]
        self._check_run(head)
        require_certificate(caller, model.Role.HOST, head.sender)
        if head.epoch != self.epoch:
            raise errors.NotSeated("one of us has yet to hear of a new seating")
        peer = peers.get(head.sender)
        if peer is None:
            raise errors.Unknown("the sender is no host of this game")
        if opening.incarnation < peer.incarnation:
            raise errors.Superseded("a newer incarnation of this host has joined")
        if opening.incarnation > peer.incarnation:
            raise errors.NotSeated("this incarnation has not been announced here yet")
        if not hmac.compare_digest(opening.ticket, peer.accept):
            raise errors.Unknown("the ticket is not for this server")
        return peer, opening

    def check(self, head: model.Head, peer: str) -> None:
        """Refuse a message that does not belong on the stream of this peer."""
        if head.run != self.run or head.sender != peer or head.epoch != self.epoch:
            self._check_run(head)
            raise errors.NotYours("a message must come from the host and the epoch of its stream")

    def _check_run(self, head: model.Head) -> None:
        if head.run != self.run:
            raise errors.WrongRun("the message belongs to another run")

    def peer_lost(self, peer: str) -> None:
        """Log that the stream of a peer has ended, unless the game is ending, or our part in it."""
        if self._attending and not (self._finished or self.failed or self._over.done()):
            log.warning("stream broke", caller=peer)
            self._lost.add(peer)

    def peer_back(self, peer: str) -> None:
        """Log that a lost peer has a stream again."""
        if peer in self._lost:
            log.info("stream is back", caller=peer)
            self._lost.remove(peer)

    def listen(
        self,
        on_message: Callable[[model.ControlDown], None],
        *,
        opened: Callable[[], None] = lambda: None,
        have: Callable[[], int] = lambda: 0,
    ) -> None:
        """Set what handles the coordinator's messages, what sends first on every stream, and which topology is held."""
        self._on_message, self._opened, self._have = on_message, opened, have

    async def attend(self) -> None:
        """Keep the control stream until the game is over; a failed game raises RunFailed."""
        line = asyncio.create_task(self.line.run(), name="control")
        self._attending = True
        try:
            await asyncio.wait((line, self._over), return_when=asyncio.FIRST_COMPLETED)
            if not self._over.done():  # whoever has failed may be shut out before it can say so
                if self._failure is not None:
                    raise self._failure
                line.result()
            over = self._over.result()
            await self._wait_until_acknowledged(over, line)
        finally:
            self._attending = False
            line.cancel()
            await asyncio.gather(line, return_exceptions=True)
            if self._refusals_timer is not None:
                self._refusals_timer.cancel()
        if self._failure is not None:
            raise self._failure
        if over.failure:
            raise errors.RunFailed(f"the game failed: {over.failure}")

    async def _wait_until_acknowledged(self, over: model.GameOver, line: asyncio.Task[None]) -> None:
        """Wait until the coordinator has stored our acknowledgement of the game's end: it then ends the stream.

        Leaving earlier would make a restarted coordinator wait for us.
        """
        stored = asyncio.create_task(self.line.ended.wait())
        patience = LIMITS.grace_seconds if over.failure else LIMITS.farewell_seconds
        try:
            await asyncio.wait((line, stored), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stored.cancel()

    def send(self, body: model.ControlUp, round: int = 0) -> None:
        """Send the coordinator a message."""
        self.line.send(codec.encode_control_up(self.head(round), body))

    def report(self, progress: model.Progress) -> None:
        """Report progress, if it is any."""
        if progress.round > self._progress.round:
            self._progress = progress
            self.send(progress, progress.round)

    def report_checkpoint(self, round: int) -> None:
        """Report that this process can restart from a round: its checkpoint is durable."""
        self._checkpoint = round
        self.send(model.Checkpointed(round), round)

    def reset_progress(self) -> None:
        """Forget what was reported: in a new seating this process plays rounds once more."""
        self._progress, self._checkpoint, self._finished = model.Progress(0), 0, False

    def finish(self, progress: model.Progress) -> None:
        """Report that this process has done everything it had to do."""
        self._progress, self._finished = progress, True
        self.send(progress, progress.round)
        self.send(model.Finished(), progress.round)

    def fail(self, error: errors.SlaternetError, reason: str = "") -> None:
        """End our part in the game, and the adversary the game: this process cannot go on.

        The coordinator receives `reason`; by default, the error, but nothing of what a plugin has said.
        """
        if not self.failed:
            self._failure, self._reason, self.failed = error, reason or error.told, True
            log.error("cannot go on", reason=str(error))
            self.send(model.Failed(self._reason))

    def leave_for_restart(self, error: errors.SlaternetError) -> None:
        """Leave the game, which waits until this process is started again."""
        if not self.failed and not self._over.done():
            self.failed = True
            log.error("leaving", reason=str(error))
            self._over.set_exception(error)

    def _report_refusals_soon(self) -> None:
        """Report refusals in a moment, many that come together once."""
        if self._refusals_timer is None:
            self._refusals_timer = asyncio.get_running_loop().call_later(LIMITS.report_seconds, self._report_refusals)

    def _report_refusals(self) -> None:
        self._refusals_timer = None
        if not self._over.done():  # the coordinator ends the stream then, and gRPC loses that it did so during a write
            self.send(model.Refusals(self.breaches.all))

    def _resend(self) -> None:
        """Repeat on a new stream what may have been lost with an older one."""
        self._opened()
        if self.breaches.all:
            self.send(model.Refusals(self.breaches.all))
        if self._progress.round:
            self.send(self._progress, self._progress.round)
        if self._checkpoint:
            self.send(model.Checkpointed(self._checkpoint), self._checkpoint)
        if self._finished:
            self.send(model.Finished(), self._progress.round)
        if self._failure is not None:
            self.send(model.Failed(self._reason))

    def _opening(self) -> bytes:
        self._decoder = codec.ControlDownDecoder(self.spec.run.agents)
        return codec.encode_control_up(self.head(), model.Opening(self.incarnation, self.ticket, self._have()))

    def _receive(self, data: bytes) -> None:
        message = self._decoder.decode(data)
        if message is None:
            return
        head, body = message
        self._check_run(head)
        if head.sender != model.COORDINATOR:
            raise errors.NotYours("a control message must come from the coordinator")
        if isinstance(body, model.Heartbeat):
            return
        if isinstance(body, model.Seating):
            self.epoch = head.epoch
        self._on_message(body)
        if isinstance(body, model.GameOver):
            self._end(body)

    def _end(self, over: model.GameOver) -> None:
        """Store that the game is over, and only then acknowledge it: it will not be sent again."""
        if self._over.done() and self._over.exception() is not None:
            return  # an end that was not stored is not acknowledged
        if not self._over.done():
            try:
                if not over.failure:
                    self._state.close(self._progress.round)
            except (errors.BadSpec, errors.RunFailed) as error:
                self._over.set_exception(error)
                return
            self._over.set_result(over)
        self.send(model.Acknowledged())
