"""The gRPC face of the coordinator, and its life: serve, gather, publish, see everyone off, leave."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from slaternet import codec, metrics
from slaternet.breaches import Breaches
from slaternet.errors import (
    BadSpec,
    Malformed,
    Mismatch,
    NotYours,
    Replaced,
    RunFailed,
    Superseded,
    WrongRun,
)
from slaternet.failpoints import reach
from slaternet.link import Link
from slaternet.logs import annotate
from slaternet.meter import Meter
from slaternet.metrics import Numbers, Reading
from slaternet.model import (
    COORDINATOR,
    Acknowledged,
    Challenge,
    ControlDown,
    Head,
    Heartbeat,
    Join,
    Opening,
    Progress,
    Refusals,
    Role,
    Welcome,
)
from slaternet.process import DEGRADED, interruptible
from slaternet.security import vouch
from slaternet.spec import Spec
from slaternet.state import State
from slaternet.station import Station
from slaternet.tls import Caller, Office
from slaternet.transport import serve
from slaternet_coordinator.archive import REGISTER, Birth
from slaternet_coordinator.build import build_coordinator, build_register
from slaternet_coordinator.engine import Phase
from slaternet_coordinator.events import (
    Admit,
    Announce,
    AwaitHolding,
    AwaitQuiet,
    Closed,
    Effect,
    Event,
    HoldExpired,
    Joined,
    Keep,
    Leave,
    Lost,
    Opened,
    Quiet,
    Said,
    StopAsked,
    Tell,
)
from slaternet_coordinator.keeping import Keeper
from slaternet_coordinator.lives import Lives
from slaternet_coordinator.metrics import readings
from slaternet_coordinator.policy import LOST_AFTER, Policy
from slaternet_coordinator.vigil import Vigil
from slaternet_coordinator.watch import Watch

log = structlog.get_logger()


class CoordinatorService:
    """The coordinator of one game. No rule of the game lives here."""

    def __init__(
        self,
        spec: Spec,
        station: Station,
        *,
        hosts: int | None = None,
        policy: Policy = Policy.WAIT,
        lost_after: float = LOST_AFTER,
        ready: Callable[[str], None] = lambda address: None,
    ) -> None:
        clock, random, limits = station.environment.clock, station.environment.random, station.environment.limits
        self._spec = spec
        self._station = station
        self._ready = ready
        self._limits = limits
        self._run = uuid.UUID(int=random.getrandbits(128), version=4).hex
        self._secret = random.randbytes(32)
        self._register = build_register(spec, hosts, self._secret, limits)
        self._engine = build_coordinator(spec, self._register, policy, limits)
        self._patience = "the game waits for it" if policy is Policy.WAIT else f"it has {lost_after:g} s to come back"
        self._links: dict[str, Link] = {}
        self._opened: dict[str, int] = {}  # how often each process has opened its stream
        self._lives = Lives(lambda: random.randbytes(limits.ticket_bytes))
        self._meter = Meter()
        self._breaches = Breaches()
        self._over = asyncio.Event()
        self._leaving = False
        self._watch = Watch(clock, limits)
        self._vigil = Vigil(
            clock,
            lost_after,
            self._register,
            give_up=lambda name: self._dispatch(Lost(name)),
            miss=self._watch.miss,
        )
        self._phase = Phase.GATHERING  # the last that was seen
        self._missing = ""
        self._state = State(COORDINATOR, COORDINATOR)
        self._keeper = Keeper(give_up=self._over.set)

    async def run(self, stop: asyncio.Event) -> int:
        """Live until the game is over or `stop` is set; return the exit code."""
        station = self._station
        with station.claim(COORDINATOR) as self._state:
            if self._state.epitaph:
                log.warning(self._state.epitaph)
                return 0
            self._check_past()
            with contextlib.closing(self._keeper):
                if self._state.folder is not None:
                    self._recall(self._state.folder)
                annotate(host=lambda: station.name, run=lambda: self._run, round=lambda: self._engine.scored)
                code = await interruptible(self._live(), stop, self._parting)
                return DEGRADED if code == 0 and self._engine.departed else code

    def _parting(self) -> str:
        return f"the coordinator leaves a game in phase {self._engine.phase} with {self._engine.scored} rounds scored"

    def _check_past(self) -> None:
        past, spec = self._state.past_spec, self._spec.digest()
        if past and past != spec:
            raise BadSpec(
                f"the state {self._state.folder} holds a game of spec {past[:16]}, not of spec {spec[:16]}; "
                "start with --fresh, or with another --state"
            )

    def _recall(self, folder: Path) -> None:
        """Take up the game that an older life has kept, or begin to keep one."""
        born = Birth(self._run, self._secret, self._spec.digest())
        born, memory, entries = self._keeper.open(folder / REGISTER, born, fresh=self._station.fresh)
        self._run = born.run
        self._engine.restore(memory)
        self._register.restore(born.secret, entries, begun=self._engine.epoch > 0)
        for entry in entries:
            self._watch.hear(entry.name)
            self._vigil.expect(entry.name, self._limits.gathering_seconds)  # it may be starting, too
        if entries:
            log.info("taking up a game", run=self._run, phase=memory.phase, published=memory.published)
        if not self._engine.phase.ended:
            self._phase = self._engine.phase

    def _readings(self) -> Iterator[Reading]:
        yield metrics.of_process(COORDINATOR, self._station.name)
        yield metrics.of_game(self._run, self._spec)
        yield from metrics.of_traffic(self._meter, self._breaches)
        yield metrics.STREAMS.reads(len(self._links), "control")
        again: Numbers = {("control", name): times - 1 for name, times in tuple(self._opened.items())}
        yield Reading(metrics.RECONNECTIONS, again)
        yield from readings(self._engine, self._register)

    async def _live(self) -> None:
        with metrics.serve(self._station.metrics, self._readings):
            await self._coordinate()

    async def _coordinate(self) -> None:
        server = await serve(
            self._station.listening,
            service="slaternet.v1.Coordinator",
            unary={"Join": self._join, "Status": self._status, "Stop": self._stop},
            streams={"Control": self._control},
            hosts=min(self._spec.run.agents + self._limits.spares, self._limits.hosts),
            security=await self._station.security(),
            meter=self._meter,
        )
        self._breaches = server.breaches
        self._watch.mind(server.breaches)
        try:
            # not before there is a server: whoever corrects a wrong start may correct the spec as well
            self._state.remember(self._run, self._spec.digest())
            self._execute(self._engine.resume())
            self._keep_vigil()
            log.info("listening", address=server.address, run=self._run)
            self._ready(server.address)
            await self._over.wait()
            await asyncio.sleep(self._watch.owed)
        finally:
            self._leaving = True
            await server.stop()
        if self._keeper.broken is not None:
            raise self._keeper.broken
        if self._engine.phase is Phase.FAILED:
            raise RunFailed(f"the game failed: {self._engine.status().failure}")
        reach("coordinator_after_last_report")
        self._close()
        log.info("the game is over", rounds=self._engine.last)

    def _keep_vigil(self) -> None:
        """Look for hosts that have been away for too long, again and again while there is a game."""
        if not (self._over.is_set() or self._leaving):
            self._vigil.look()
            asyncio.get_running_loop().call_later(self._vigil.step, self._keep_vigil)

    def _hear(self, name: str) -> None:
        """Take down that a process was heard."""
        self._watch.hear(name)
        self._vigil.hear(name)

    def _head(self, round: int = 0) -> Head:
        return Head(self._run, self._engine.epoch, round, COORDINATOR)

    def _dispatch(self, event: Event) -> None:
        self._execute(self._engine.handle(event))

    def _execute(self, effects: list[Effect]) -> None:  # noqa: C901 - one case for each kind of effect
        if self._keeper.broken is not None:
            return
        self._say_how_it_stands()
        loop = asyncio.get_running_loop()
        for effect in effects:
            match effect:
                case Keep():
                    self._keeper.keep(effect)
                    if self._keeper.broken is not None:
                        return  # what follows may not be seen
                case Tell(name, body):
                    self._tell(name, body)
                case Announce(what):
                    self._watch.miss(what)
                case AwaitHolding():
                    loop.call_later(self._limits.hold_seconds, self._dispatch, HoldExpired())
                case AwaitQuiet(arrivals):
                    loop.call_later(self._limits.gathering_seconds, self._dispatch, Quiet(arrivals))
                case Leave():
                    self._over.set()
                case Admit():
                    pass  # the answer to a join, given there

    def _say_how_it_stands(self) -> None:
        if self._engine.phase is not self._phase:
            self._phase = self._engine.phase
            self._enter(self._phase)
        missing = self._register.missing() if self._phase is Phase.GATHERING else ""
        if missing and missing != self._missing:
            log.info("waiting", missing=missing)
        self._missing = missing

    def _enter(self, phase: Phase) -> None:
        """Say aloud that the game has come to another phase; its effects come after that."""
        match phase:
            case Phase.PLAYING:
                log.info("the game begins", hosts=len(self._register.players), spares=len(self._register.spares))
            case Phase.FAILED:
                failure = self._engine.status().failure
                log.error("the game has failed", reason=failure)
                self._watch.trouble(f"the game has failed: {failure}")
        if phase.ended:
            asyncio.get_running_loop().call_later(self._limits.farewell_seconds, self._over.set)

    def _close(self) -> None:
        try:
            self._state.close(self._engine.last or 0)
        except (BadSpec, RunFailed) as error:  # the game is over all the same, and the adversary has its results
            log.error("cannot remember that the game is over", reason=str(error))

    def _tell(self, name: str, body: ControlDown) -> None:
        if (link := self._links.get(name)) is not None:
            for part in codec.encode_control_down(self._head(getattr(body, "round", 0)), body):
                link.send(part)

    async def _join(self, data: bytes, caller: Caller | None) -> bytes:
        head, join = codec.decode_join(data)
        vouch(caller, join.role, head.sender)
        try:
            answer = self._admitted(head.sender, join)
        except Mismatch as error:
            self._watch.trouble(str(error))
            raise
        return codec.encode_welcome(self._head(), answer)

    def _admitted(self, name: str, join: Join) -> Welcome | Challenge:
        """Give a process its place; who asks for a name that is taken must show first that it lives."""
        self._register.compare(name, join)
        if name in self._register and not self._lives.shown(name, join.ticket):
            return Challenge(self._lives.challenge(name))
        effects = self._engine.handle(Joined(name, join))
        self._hear(name)
        admit = next(effect for effect in effects if isinstance(effect, Admit))
        if (older := self._links.pop(name, None)) is not None:
            older.end(Superseded(f"another process has joined as {name}; give each a --name of its own"))
        log.info("joined", name=name, role=str(join.role), address=join.address)
        self._execute(effects)
        self._keeper.check()
        reach("coordinator_during_join")
        return Welcome(admit.incarnation, admit.ticket, self._spec.to_toml(), self._engine.low_water)

    async def _status(self, data: bytes, caller: Caller | None) -> bytes:
        _, again = codec.decode_status_request(data)
        if again and not self._phase.ended:
            self._watch.show()
        status = self._engine.status(self._watch.observed())
        return codec.encode_status_reply(self._head(status.round), status)

    async def _stop(self, data: bytes, caller: Caller | None) -> bytes:
        head = codec.decode_stop_request(data)
        vouch(caller, Office.OPERATOR, head.sender)
        self._dispatch(StopAsked())
        self._keeper.check()
        return codec.encode_stop_reply(self._head(self._engine.settled or 0))

    async def _control(self, link: Link) -> None:
        name = await self._open(link)
        try:
            # what an older stream has brought in is not heard any more
            while (data := await link.read()) is not None and self._links.get(name) is link:
                if self._take(name, data):
                    return
        finally:
            if self._links.get(name) is link:
                del self._links[name]
                self._dispatch(Closed(name))
                self._miss(name)

    def _miss(self, name: str) -> None:
        if self._phase is Phase.GATHERING and not self._leaving:
            self._watch.miss(f"{name} has gone before the game has begun")
        elif self._phase.under_way and not self._leaving:
            spare = name in self._register.spares
            self._watch.miss(f"{name}, a spare, has gone" if spare else f"{name} has gone; {self._patience}")

    async def _open(self, link: Link) -> str:
        data = await link.read()
        head, body = codec.decode_control_up(data or b"")
        if not isinstance(body, Opening):
            raise Malformed("a control stream begins with an opening")
        self._check_run(head)
        gone = False
        if head.sender in self._register:
            member = self._register[head.sender]
            vouch(link.caller, member.role, member.name)
            gone = member.gone
        effects = self._engine.handle(Opened(head.sender, body, stale=head.epoch < self._engine.epoch))
        link.host = head.sender
        if gone:
            self._watch.meet(head.sender)
        self._hear(head.sender)
        if (older := self._links.get(head.sender)) is not None:
            older.end(Replaced("a newer stream of this process has taken over"))
        self._links[head.sender] = link
        self._opened[head.sender] = self._opened.get(head.sender, 0) + 1
        link.keep_alive(lambda: codec.encode_control_down(self._head(), Heartbeat())[0])
        self._execute(effects)
        return head.sender

    def _check_run(self, head: Head) -> None:
        if head.run != self._run:
            raise WrongRun("the coordinator was started anew and plays another run; start this process again, too")

    def _take(self, name: str, data: bytes) -> bool:
        """Take one message in; True where it was the last."""
        head, body = codec.decode_control_up(data)
        self._check_run(head)
        if head.sender != name or head.epoch > self._engine.epoch:
            raise NotYours("a message must come from the process and the epoch of its stream")
        self._hear(name)
        match body:
            case Heartbeat():
                return False
            case Opening():
                raise Malformed("a stream is opened once")
            case _:
                # an epoch behind ours is that of a message under way while the seating went out
                self._dispatch(Said(name, body, stale=head.epoch < self._engine.epoch))
        match body:
            case Progress(round) if self._register[name].role is Role.ADVERSARY:
                self._watch.score(round)
            case Refusals(breaches):
                self._watch.refuse(name, breaches)
        # a stream ends in order only when that is kept: else it is said again, to the next life
        return isinstance(body, Acknowledged) and self._keeper.broken is None
