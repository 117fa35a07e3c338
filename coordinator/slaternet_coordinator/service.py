"""The gRPC face of the coordinator, and its life: serve, gather, publish, see everyone off, leave."""

import asyncio
import secrets
import uuid
from collections.abc import Callable

import structlog

from slaternet import codec, identity
from slaternet.breaches import Breaches
from slaternet.errors import Malformed, NotYours, Replaced, RunFailed, Superseded, WrongRun
from slaternet.limits import LIMITS
from slaternet.link import Link
from slaternet.model import Acknowledged, ControlDown, Head, Heartbeat, Opening, Welcome
from slaternet.process import interruptible
from slaternet.spec import Spec
from slaternet.transport import serve
from slaternet_coordinator.engine import (
    Admit,
    AwaitHolding,
    Closed,
    Coordinator,
    Effect,
    Event,
    HoldExpired,
    Joined,
    Leave,
    Opened,
    Phase,
    Said,
    StopAsked,
    Tell,
)
from slaternet_coordinator.graphs import build as build_graph
from slaternet_coordinator.register import NAME, Register

log = structlog.get_logger()


class CoordinatorService:
    """The coordinator of one game. No rule of the game lives here."""

    def __init__(
        self, spec: Spec, *, listen: str, hosts: int | None = None, ready: Callable[[str], None] = lambda address: None
    ) -> None:
        self._spec = spec
        self._listen = listen
        self._ready = ready
        self._run = uuid.uuid4().hex
        register = Register(
            spec.run.agents,
            hosts=hosts,
            secret=secrets.token_bytes(32),
            fingerprint=identity.fingerprint(),
            reproducible=spec.run.reproducible,
        )
        graph = build_graph(spec.graph, spec.run.agents, spec.run.seed)
        self._engine = Coordinator(graph, register, spec.run.rounds)
        self._links: dict[str, Link] = {}
        self._over = asyncio.Event()
        self._breaches = Breaches()
        self._farewell: asyncio.TimerHandle | None = None

    async def run(self, stop: asyncio.Event) -> int:
        """Live until the game is over or `stop` is set; return the exit code."""
        return await interruptible(
            self._live(), stop, lambda: f"the coordinator leaves a game in phase {self._engine.phase}"
        )

    async def _live(self) -> None:
        server = await serve(
            self._listen,
            service="slaternet.v1.Coordinator",
            unary={"Join": self._join, "Status": self._status, "Stop": self._stop},
            streams={"Control": self._control},
            hosts=min(self._spec.run.agents, LIMITS.hosts),
        )
        self._breaches = server.breaches
        try:
            log.info("listening", address=server.address, run=self._run)
            self._ready(server.address)
            await self._over.wait()
        finally:
            await server.stop()
        if self._engine.phase is Phase.FAILED:
            raise RunFailed(f"the game failed: {self._engine.status().failure}")
        log.info("the game is over", rounds=self._engine.last)

    def _head(self, round: int = 0) -> Head:
        return Head(self._run, self._engine.epoch, round, NAME)

    def _dispatch(self, event: Event) -> None:
        self._execute(self._engine.handle(event))

    def _execute(self, effects: list[Effect]) -> None:
        loop = asyncio.get_running_loop()
        for effect in effects:
            match effect:
                case Tell(name, body):
                    self._tell(name, body)
                case AwaitHolding():
                    loop.call_later(LIMITS.hold_seconds, self._dispatch, HoldExpired())
                case Leave():
                    self._over.set()
                case Admit():
                    pass  # the answer to a join, given there
        if self._engine.phase in (Phase.OVER, Phase.FAILED) and self._farewell is None:
            self._farewell = loop.call_later(LIMITS.farewell_seconds, self._over.set)

    def _tell(self, name: str, body: ControlDown) -> None:
        if (link := self._links.get(name)) is not None:
            for part in codec.encode_control_down(self._head(getattr(body, "round", 0)), body):
                link.send(part)

    async def _join(self, data: bytes) -> bytes:
        head, join = codec.decode_join(data)
        effects = self._engine.handle(Joined(head.sender, join))
        admit = next(effect for effect in effects if isinstance(effect, Admit))
        if (older := self._links.pop(head.sender, None)) is not None:
            older.end(Superseded("a newer incarnation of this name has joined"))
        self._execute(effects)
        log.info("joined", name=head.sender, role=str(join.role), address=join.address)
        if missing := self._engine.status().waiting_for:
            log.info("waiting", missing=missing)
        return codec.encode_welcome(self._head(), Welcome(admit.incarnation, admit.ticket, self._spec.to_toml()))

    async def _status(self, data: bytes) -> bytes:
        codec.decode_status_request(data)
        status = self._engine.status(self._breaches.all)
        return codec.encode_status_reply(self._head(status.round), status)

    async def _stop(self, data: bytes) -> bytes:
        codec.decode_stop_request(data)
        self._dispatch(StopAsked())
        return codec.encode_stop_reply(self._head(self._engine.settled or 0))

    async def _control(self, link: Link) -> None:
        name = await self._open(link)
        try:
            while (data := await link.read()) is not None:
                if self._take(name, data):
                    return
        finally:
            if self._links.get(name) is link:
                del self._links[name]
                self._dispatch(Closed(name))

    async def _open(self, link: Link) -> str:
        data = await link.read()
        head, body = codec.decode_control_up(data or b"")
        if not isinstance(body, Opening):
            raise Malformed("a control stream begins with an opening")
        self._check_run(head)
        effects = self._engine.handle(Opened(head.sender, body))
        link.host = head.sender
        if (older := self._links.get(head.sender)) is not None:
            older.end(Replaced("a newer stream of this process has taken over"))
        self._links[head.sender] = link
        link.keep_alive(lambda: codec.encode_control_down(self._head(), Heartbeat())[0])
        self._execute(effects)
        return head.sender

    def _check_run(self, head: Head) -> None:
        if head.run != self._run:
            raise WrongRun("the message belongs to another run")

    def _take(self, name: str, data: bytes) -> bool:
        """Take one message in; True where it was the last."""
        head, body = codec.decode_control_up(data)
        self._check_run(head)
        # an epoch behind ours is that of a message under way while the seating went out
        if head.sender != name or head.epoch > self._engine.epoch:
            raise NotYours("a message must come from the process and the epoch of its stream")
        match body:
            case Heartbeat():
                return False
            case Opening():
                raise Malformed("a stream is opened once")
            case _:
                self._dispatch(Said(name, body))
                return isinstance(body, Acknowledged)
