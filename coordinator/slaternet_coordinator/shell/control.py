"""The coordinator's RPCs: Join, Status and Stop, and the control stream of every process."""

from collections.abc import Callable

import structlog

from slaternet import codec
from slaternet.errors import Malformed, Mismatch, NotYours, Replaced, Superseded, WrongRun
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
from slaternet.network.certificates import Caller, CertificateRole, require_certificate
from slaternet.network.stream import Stream
from slaternet.storage.failpoints import failpoint
from slaternet_coordinator.engine.coordinator import Coordinator
from slaternet_coordinator.engine.events import Admit, Effect, Joined, Opened, Said, StopAsked, StreamClosed
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.shell.join_tickets import JoinTickets
from slaternet_coordinator.shell.monitor import AbsenceMonitor, Observations
from slaternet_coordinator.shell.register_db import RegisterWriter

log = structlog.get_logger()


class Control:
    """Turns requests and streams into events of the engine, and its answers into messages."""

    def __init__(
        self,
        engine: Coordinator,
        keeper: RegisterWriter,
        lives: JoinTickets,
        watch: Observations,
        vigil: AbsenceMonitor,
        *,
        spec: str,
        patience: str,
        execute: Callable[[list[Effect]], None],
    ) -> None:
        self._engine = engine
        self._keeper = keeper
        self._lives = lives
        self._watch = watch
        self._vigil = vigil
        self._spec = spec  # TOML
        self._patience = patience
        self._execute = execute
        self.run = ""
        self.links: dict[str, Stream] = {}
        """The control stream of each process that has one."""
        self.opened: dict[str, int] = {}
        """How often each process has opened its stream."""
        self.leaving = False

    def tell(self, name: str, body: ControlDown) -> None:
        """Send a message to a process, if its stream is open."""
        if (link := self.links.get(name)) is not None:
            for part in codec.encode_control_down(self._head(getattr(body, "round", 0)), body):
                link.send(part)

    def _head(self, round: int = 0) -> Head:
        return Head(self.run, self._engine.view().epoch, round, COORDINATOR)

    def _hear(self, name: str) -> None:
        self._watch.hear(name)
        self._vigil.hear(name)

    async def join(self, data: bytes, caller: Caller | None) -> bytes:
        """Answer Join."""
        head, join = codec.decode_join(data)
        require_certificate(caller, join.role, head.sender)
        try:
            answer = self._admitted(head.sender, join)
        except Mismatch as error:
            self._watch.trouble(str(error))
            raise
        return codec.encode_welcome(self._head(), answer)

    def _admitted(self, name: str, join: Join) -> Welcome | Challenge:
        """Give a process its place; one that asks for a name that is taken must show first that it lives."""
        self._engine.compare(name, join)
        if self._engine.member(name) is not None and not self._lives.shown(name, join.ticket):
            return Challenge(self._lives.challenge(name))
        effects = self._engine.handle(Joined(name, join))
        self._hear(name)
        admit = next(effect for effect in effects if isinstance(effect, Admit))
        if (older := self.links.pop(name, None)) is not None:
            older.end(Superseded(f"another process has joined as {name}; give each a --name of its own"))
        log.info("joined", name=name, role=str(join.role), address=join.address)
        self._execute(effects)
        self._keeper.check()
        failpoint("coordinator_during_join")
        return Welcome(admit.incarnation, admit.ticket, self._spec, self._engine.view().low_water)

    async def status(self, data: bytes, caller: Caller | None) -> bytes:
        """Answer Status."""
        _, again = codec.decode_status_request(data)
        if again and not self._engine.view().phase.ended:
            self._watch.show()
        status = self._engine.status(self._watch.observed())
        return codec.encode_status_reply(self._head(status.round), status)

    async def stop(self, data: bytes, caller: Caller | None) -> bytes:
        """Answer Stop."""
        head = codec.decode_stop_request(data)
        require_certificate(caller, CertificateRole.OPERATOR, head.sender)
        self._execute(self._engine.handle(StopAsked()))
        self._keeper.check()
        return codec.encode_stop_reply(self._head(self._engine.view().settled or 0))

    async def control(self, link: Stream) -> None:
        """Serve the control stream of a process."""
        name = await self._open(link)
        try:
            # what an older stream has brought in is not heard any more
            while (data := await link.read()) is not None and self.links.get(name) is link:
                if self._take(name, data):
                    return
        finally:
            if self.links.get(name) is link:
                del self.links[name]
                self._execute(self._engine.handle(StreamClosed(name)))
                self._miss(name)

    def _miss(self, name: str) -> None:
        phase, member = self._engine.view().phase, self._engine.member(name)
        if phase is Phase.GATHERING and not self.leaving:
            self._watch.miss(f"{name} has gone before the game has begun")
        elif phase.under_way and not self.leaving:
            spare = member is not None and member.spare
            self._watch.miss(f"{name}, a spare, has gone" if spare else f"{name} has gone; {self._patience}")

    async def _open(self, link: Stream) -> str:
        data = await link.read()
        head, body = codec.decode_control_up(data or b"")
        if not isinstance(body, Opening):
            raise Malformed("a control stream begins with an opening")
        self._check_run(head)
        name = head.sender
        if (member := self._engine.member(name)) is not None:
            require_certificate(link.caller, member.role, name)
        effects = self._engine.handle(Opened(name, body, stale=head.epoch < self._engine.view().epoch))
        link.host = name
        if member is not None and member.gone:
            self._watch.meet(name)
        self._hear(name)
        if (older := self.links.get(name)) is not None:
            older.end(Replaced("a newer stream of this process has taken over"))
        self.links[name] = link
        self.opened[name] = self.opened.get(name, 0) + 1
        link.keep_alive(lambda: codec.encode_control_down(self._head(), Heartbeat())[0])
        self._execute(effects)
        return name

    def _check_run(self, head: Head) -> None:
        if head.run != self.run:
            raise WrongRun("the coordinator was started anew and plays another run; start this process again, too")

    def _take(self, name: str, data: bytes) -> bool:
        """Take one message in; True where it was the last."""
        head, body = codec.decode_control_up(data)
        self._check_run(head)
        epoch = self._engine.view().epoch
        if head.sender != name or head.epoch > epoch:
            raise NotYours("a message must come from the process and the epoch of its stream")
        self._hear(name)
        match body:
            case Heartbeat():
                return False
            case Opening():
                raise Malformed("a stream is opened once")
        # an epoch behind ours is that of a message under way while the seating went out
        self._execute(self._engine.handle(Said(name, body, stale=head.epoch < epoch)))
        match body:
            case Progress(round) if (member := self._engine.member(name)) and member.role is Role.ADVERSARY:
                self._watch.score(round)
            case Refusals(breaches):
                self._watch.refuse(name, breaches)
        # a stream ends in order only when that is kept: else it is said again, to the next life
        return isinstance(body, Acknowledged) and self._keeper.broken is None
