"""Membership of hosts and the adversary in a game: joining, and the control stream."""

import asyncio
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from slaternet import codec
from slaternet.environment import REAL, Environment
from slaternet.errors import (
    BadSpec,
    Malformed,
    NotSeated,
    NotYours,
    RunFailed,
    SlaternetError,
    Superseded,
    Unknown,
    Unreachable,
    WrongRun,
)
from slaternet.limits import LIMITS
from slaternet.model import (
    COORDINATOR,
    PROTOCOL,
    Acknowledged,
    Checkpointed,
    ControlDown,
    ControlUp,
    Failed,
    Finished,
    GameOver,
    Head,
    Heartbeat,
    Join,
    Opening,
    Peer,
    Progress,
    Refusals,
    Role,
    Seating,
    Welcome,
)
from slaternet.network.certificates import LOOPBACK, Caller, Security, require_certificate
from slaternet.network.client import call, open_channel
from slaternet.network.reconnecting import Backoff, ReconnectingStream
from slaternet.network.traffic import Meter
from slaternet.numerics import fingerprint as identity
from slaternet.refusals import RefusalCounter
from slaternet.spec import Spec
from slaternet.spec.seat_request import EVEN, SeatRequest
from slaternet.storage.state_dir import StateDir

log = structlog.get_logger()

_JOIN = "/slaternet.v1.Coordinator/Join"
_CONTROL = "/slaternet.v1.Coordinator/Control"


async def call_until_answered(
    coordinator: str, method: str, request: bytes, security: Security, environment: Environment = REAL
) -> bytes:
    """Call the coordinator and return its answer; while it does not answer, wait, with one line in the log."""
    backoff, waiting = Backoff(environment), False
    while True:
        try:
            async with open_channel(coordinator, COORDINATOR, security=security) as channel:
                return await call(channel, method, request)
        except Unreachable as error:
            if not waiting:
                log.info("waiting for the coordinator", address=coordinator, reason=str(error))
            waiting = True
        await backoff.wait()


async def _welcomed(
    coordinator: str, name: str, join: Join, security: Security, environment: Environment
) -> tuple[Head, Welcome]:
    """Ask for a place until it is granted; a taken name, usually by an earlier incarnation, needs several calls."""
    backoff = Backoff(environment)
    while True:
        request = codec.encode_join(Head("", 0, 0, name), join)
        head, answer = codec.decode_welcome(
            await call_until_answered(coordinator, _JOIN, request, security, environment)
        )
        if isinstance(answer, Welcome):
            return head, answer
        if join.ticket:  # another process has asked for the name since this ticket was given, and may do so again
            await backoff.wait()
        join = replace(join, ticket=answer.ticket)


@dataclass(frozen=True, slots=True)
class Applicant:
    """A process that asks for a place."""

    name: str
    role: Role
    address: str
    seats: SeatRequest = EVEN


class Membership:
    """A place in the game, once joined: the run's id, the spec, and the control stream."""

    def __init__(
        self,
        coordinator: str,
        applicant: Applicant,
        head: Head,
        welcome: Welcome,
        security: Security,
        meter: Meter,
        state: StateDir,
        environment: Environment = REAL,
    ) -> None:
        self.environment = environment
        self.name = applicant.name
        """The name under which this process plays."""
        self._state = state
        self.security = security
        self.meter = meter
        self.breaches = RefusalCounter()
        """The refusals of this process's own server; they are reported to the coordinator."""
        self._reporting: asyncio.TimerHandle | None = None
        self._ticket = welcome.ticket
        self.incarnation = welcome.incarnation
        self.low_water = welcome.low_water
        """M when this process joined: it continues from the checkpoint of this round; 0: from the beginning."""
        self.run = head.run
        self.spec = Spec.parse(welcome.spec, source="the coordinator's spec")
        self.epoch = 0
        self.begun = head.epoch > 0
        """Whether the game had begun when this process joined: then it is a spare, or has been restarted."""
        self._decoder = codec.ControlDownDecoder()
        self._progress = Progress(0)
        self._checkpoint = 0
        self._attending = False
        self._missed: set[str] = set()
        self._finished = False
        self._failure: SlaternetError | None = None
        self.failed = False
        """Whether this process cannot go on."""
        self._told = ""
        self._over: asyncio.Future[GameOver] = asyncio.get_running_loop().create_future()
        self.line = ReconnectingStream(
            COORDINATOR,
            coordinator,
            _CONTROL,
            security=security,
            traffic=meter.of(_CONTROL),
            opening=self._opening,
            heartbeat=lambda: codec.encode_control_up(self.head(), Heartbeat()),
            hear=self._receive,
            opened=self._repeat,
            environment=environment,
        )
        self._opened: Callable[[], None] = lambda: None
        self._have: Callable[[], int] = lambda: 0
        self._listener: Callable[[ControlDown], None] = lambda body: None
        self.breaches.watch(self._report_refusals_soon)

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
        """Ask for a place, and wait while the coordinator does not answer.

        `meter` counts the traffic of streams; `state` saves the game.
        """
        state = state or StateDir(applicant.name, applicant.role)
        join = Join(
            applicant.role,
            applicant.address,
            applicant.seats.count,
            PROTOCOL,
            identity.fingerprint(),
            applicant.seats.agents,
            state.past_spec,
            state.durable,
        )
        head, welcome = await _welcomed(coordinator, applicant.name, join, security, environment)
        joined = cls(coordinator, applicant, head, welcome, security, meter or Meter(), state, environment)
        state.remember(joined.run, joined.spec.digest())
        return joined

    def head(self, round: int = 0) -> Head:
        """Return the head of a message about a round."""
        return Head(self.run, self.epoch, round, self.name)

    def identify(
        self, message: tuple[Head, object] | None, peers: Mapping[str, Peer], caller: Caller | None
    ) -> tuple[Peer, Opening]:
        """Return the host that opens a stream here, by its first message.

        Only the newest incarnation is accepted, only with its ticket and, with TLS, only with its certificate.
        """
        if message is None or not isinstance(message[1], Opening):
            raise Malformed("a stream begins with an opening")
        head, opening = message[0], message[1]
        self._check_run(head)
        require_certificate(caller, Role.HOST, head.sender)
        if head.epoch != self.epoch:
            raise NotSeated("one of us has not received the new seating yet")
        peer = peers.get(head.sender)
        if peer is None:
            raise Unknown("the sender is no host of this game")
        if opening.incarnation < peer.incarnation:
            raise Superseded("a newer incarnation of this host has joined")
        if opening.incarnation > peer.incarnation:
            raise NotSeated("this incarnation has not been announced here yet")
        if not hmac.compare_digest(opening.ticket, peer.accept):
            raise Unknown("the ticket is not for this server")
        return peer, opening

    def peer_lost(self, caller: str) -> None:
        """Log that a stream served here has broken, unless the game or our part in it is ending."""
        if self._attending and not (self._finished or self.failed or self._over.done()):
            log.warning("stream broke", caller=caller)
            self._missed.add(caller)

    def peer_back(self, caller: str) -> None:
        """Log that a lost peer has opened a stream again."""
        if caller in self._missed:
            log.info("stream is back", caller=caller)
            self._missed.remove(caller)

    def check(self, head: Head, peer: str) -> None:
        """Refuse a message that does not belong to the stream of this peer."""
        if head.run != self.run:
            self._check_run(head)
        if head.sender != peer or head.epoch != self.epoch:
            raise NotYours("a message must come from the host and the epoch of its stream")

    def _check_run(self, head: Head) -> None:
        if head.run != self.run:
            raise WrongRun("the message belongs to another run")

    def listen(
        self,
        hear: Callable[[ControlDown], None],
        *,
        opened: Callable[[], None] = lambda: None,
        have: Callable[[], int] = lambda: 0,
    ) -> None:
        """Set the handler of the coordinator's messages, of a new stream, and the last round whose topology is held."""
        self._listener, self._opened, self._have = hear, opened, have

    async def attend(self) -> None:
        """Keep the control stream until the game is over; a failed game raises RunFailed."""
        line = asyncio.create_task(self.line.run(), name="control")
        self._attending = True
        try:
            await asyncio.wait((line, self._over), return_when=asyncio.FIRST_COMPLETED)
            if line.done():
                line.result()
            over = self._over.result()
            await self._wait_until_acknowledged(over, line)
        finally:
            self._attending = False
            line.cancel()
            await asyncio.gather(line, return_exceptions=True)
            if self._reporting is not None:
                self._reporting.cancel()
        if self._failure is not None:
            raise self._failure
        if over.failure:
            raise RunFailed(f"the game failed: {over.failure}")

    async def _wait_until_acknowledged(self, over: GameOver, line: asyncio.Task[None]) -> None:
        """Wait until the coordinator has stored our acknowledgement of the game's end; it then closes the stream.

        Leaving earlier would make a restarted coordinator wait for us.
        """
        ended = asyncio.create_task(self.line.wait_ended())
        patience = LIMITS.grace_seconds if over.failure else LIMITS.farewell_seconds
        try:
            await asyncio.wait((line, ended), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()

    def send(self, body: ControlUp, round: int = 0) -> None:
        """Send a message to the coordinator."""
        self.line.send(codec.encode_control_up(self.head(round), body))

    def report(self, progress: Progress) -> None:
        """Report progress, if it is newer than the last report."""
        if progress.round > self._progress.round:
            self._progress = progress
            self.send(progress, progress.round)

    def report_checkpoint(self, round: int) -> None:
        """Report that the checkpoint of a round is durable."""
        self._checkpoint = round
        self.send(Checkpointed(round), round)

    def begin_again(self) -> None:
        """Reset the progress: after a new seating this process plays rounds again."""
        self._progress, self._checkpoint, self._finished = Progress(0), 0, False

    def finish(self, progress: Progress) -> None:
        """Report that this process has finished its part."""
        self._progress, self._finished = progress, True
        self.send(progress, progress.round)
        self.send(Finished(), progress.round)

    def fail_game(self, error: SlaternetError, told: str = "") -> None:
        """End the game for all, because this process cannot go on; the others receive `told`, or else the error."""
        if not self.failed:
            self._failure, self._told, self.failed = error, told or str(error), True
            log.error("cannot go on", reason=str(error))
            self.send(Failed(self._told))

    def leave_for_restart(self, error: SlaternetError) -> None:
        """Leave the game, which waits until this process is started again."""
        if not self.failed and not self._over.done():
            self.failed = True
            log.error("leaving", reason=str(error))
            self._over.set_exception(error)

    def _report_refusals_soon(self) -> None:
        """Report refusals to the coordinator, many of them in one message."""
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().call_later(LIMITS.report_seconds, self._report_refusals)

    def _report_refusals(self) -> None:
        self._reporting = None
        self.send(Refusals(self.breaches.all))

    def _repeat(self) -> None:
        """Send on a new stream again what may have been lost with the previous one."""
        self._opened()
        if self.breaches.all:
            self.send(Refusals(self.breaches.all))
        if self._progress.round:
            self.send(self._progress, self._progress.round)
        if self._checkpoint:
            self.send(Checkpointed(self._checkpoint), self._checkpoint)
        if self._finished:
            self.send(Finished(), self._progress.round)
        if self._failure is not None:
            self.send(Failed(self._told))

    def _opening(self) -> bytes:
        self._decoder = codec.ControlDownDecoder()
        opening = Opening(self.incarnation, self._ticket, self._have())
        return codec.encode_control_up(self.head(), opening)

    def _receive(self, data: bytes) -> None:
        message = self._decoder.decode(data)
        if message is None:
            return
        head, body = message
        self._check_run(head)
        if head.sender != COORDINATOR:
            raise NotYours("a control message must come from the coordinator")
        match body:
            case Heartbeat():
                return
            case GameOver():
                self._listener(body)
                self._leave(body)
            case Seating():
                self.epoch = head.epoch
                self._listener(body)
            case _:
                self._listener(body)

    def _leave(self, over: GameOver) -> None:
        """Save that the game is over, and only then acknowledge it: the message is not sent again after that."""
        if self._over.done() and self._over.exception() is not None:
            return  # it could not be saved: do not acknowledge it
        if not self._over.done():
            try:
                if not over.failure:
                    self._state.close(self._progress.round)
            except (BadSpec, RunFailed) as error:
                self._over.set_exception(error)
                return
            self._over.set_result(over)
        self.send(Acknowledged())
