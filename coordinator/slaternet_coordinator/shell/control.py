"""The coordinator's server: Join, Status and Stop, the control stream of every process, and the engine's effects."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

import structlog

from slaternet import codec, model
from slaternet.environment import Environment
from slaternet.errors import BadSpec, Malformed, Mismatch, NotYours, Replaced, Superseded, WrongRun
from slaternet.network.addresses import check_address, check_plaintext
from slaternet.network.certificates import LOOPBACK, Caller, CertificateRole, Plain, Security, require_certificate
from slaternet.network.stream import Stream
from slaternet.refusals import RefusalCounter
from slaternet.storage.failpoints import failpoint
from slaternet_coordinator.engine import events
from slaternet_coordinator.engine.coordinator import Coordinator
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.engine.rules import Policy
from slaternet_coordinator.shell.monitor import AbsenceMonitor, Observations
from slaternet_coordinator.shell.register_db import RegisterWriter

log = structlog.get_logger()


class Control:
    """Turns requests and messages into events of the engine, and its effects into messages and timers."""

    def __init__(
        self,
        engine: Coordinator,
        writer: RegisterWriter,
        refusals: RefusalCounter,
        environment: Environment,
        *,
        policy: Policy,
        lost_after: float,
        over: asyncio.Event,
    ) -> None:
        self.security: Security = LOOPBACK
        """Of the server, once it is known."""
        limits = environment.limits
        self._engine = engine
        self._writer = writer
        self._limits = limits
        self._over = over
        self._patience = "the game waits for it" if policy is Policy.WAIT else f"it has {lost_after:g} s to come back"
        self.observations = Observations(
            environment.clock, refusals, limits, now=environment.now, round=lambda: engine.view.scored
        )
        self.observations.on_record = lambda record: self.tell(self._adversary, record)
        self._adversary = ""  # its name, once it is here
        self._absences = AbsenceMonitor(
            environment.clock, lost_after, engine.members, give_up=self._give_up, warn=self.observations.warn
        )
        self._phase = Phase.GATHERING  # as it was last logged
        self._missing = ""
        self.run = ""
        self.specs: Mapping[model.Role, str] = {}
        """TOML, by who gets it; set with `run` before anyone joins."""
        self.streams: dict[str, Stream] = {}
        """The control stream of each process that has one."""
        self.opened: dict[str, int] = {}
        """How often each process has opened its stream."""
        self._gone: set[str] = set()  # the processes whose stream has ended since they joined
        self.leaving = False

    def expect(self, names: Iterable[str]) -> None:
        """Expect the processes of a restored game to reconnect."""
        for name in names:
            self.observations.note_contact(name)
            self._absences.expect(name, self._limits.gathering_seconds)  # it may be starting, too
        game = self._engine.view
        if not game.phase.ended:
            self._phase = game.phase
        if game.disturbed:  # the adversary may not have written it yet
            sentence = "the game was disturbed before the coordinator was started again"
            self.observations.record(model.COORDINATOR, model.DISTURBED, sentence)

    def start(self) -> None:
        """Begin, or continue, the game; the server is up."""
        self._execute(self._engine.resume())
        self._look_for_absences()

    def _look_for_absences(self) -> None:
        if not (self._over.is_set() or self.leaving):
            self._absences.look()
            asyncio.get_running_loop().call_later(self._absences.step, self._look_for_absences)

    def _give_up(self, name: str) -> bool:
        """Report a host as lost; return whether the engine gives it up."""
        self._dispatch(events.Lost(name))
        member = self._engine.member(name)
        return member is not None and member.lost

    def _dispatch(self, event: events.Event) -> None:
        self._execute(self._engine.handle(event))

    def _execute(self, effects: list[events.Effect]) -> None:  # noqa: C901 - one case for each effect
        if self._writer.broken is not None:
            return
        self._log_changes()
        for effect in effects:
            match effect:
                case events.Keep(saved):
                    self._writer.save(saved)
                    if self._writer.broken is not None:
                        return  # the effects that follow must not be seen
                case events.Tell(name, body):
                    self.tell(name, body)
                case events.Announce(process, kind, sentence, evidence):
                    self.observations.warn(process, kind, sentence, evidence)
                case events.Dismiss(name, reason):
                    if (stream := self.streams.get(name)) is not None:
                        stream.end(Mismatch(f"{name} is shut out: {reason}"))
                case events.SetTimer(seconds, event):
                    asyncio.get_running_loop().call_later(seconds, self._dispatch, event)
                case events.Leave():
                    self._over.set()
                case events.Admit():
                    pass  # `join` sends it as its answer

    def _log_changes(self) -> None:
        """Log a change of phase, and what the game waits for; after its end, allow some time for farewells."""
        game, before, missing = self._engine.view, self._phase, self._missing
        self._phase, self._missing = game.phase, game.missing
        if game.missing and game.missing != missing:
            log.info("waiting", missing=game.missing)
        if game.phase is before:
            return
        if game.phase is Phase.PLAYING:
            members = self._engine.members()
            seated, spares = sum(each.seats > 0 for each in members), sum(each.spare for each in members)
            log.info("the game begins", hosts=seated, spares=spares)
        if game.phase is Phase.FAILED:
            log.error("the game has failed", reason=game.failure)
            self.observations.record(model.COORDINATOR, "ended", f"the game has failed: {game.failure}")
        if game.phase.ended:
            asyncio.get_running_loop().call_later(self._limits.farewell_seconds, self._over.set)

    def tell(self, name: str, body: model.ControlDown) -> None:
        """Send a message to a process, if its stream is open."""
        if (stream := self.streams.get(name)) is not None:
            for part in codec.encode_control_down(self._head(getattr(body, "round", 0)), body):
                stream.send(part)

    def _head(self, round: int = 0) -> model.Head:
        return model.Head(self.run, self._engine.view.epoch, round, model.COORDINATOR)

    def _note_contact(self, name: str) -> None:
        self.observations.note_contact(name)
        self._absences.note_contact(name)

    async def join(self, data: bytes, caller: Caller | None) -> bytes:
        """Answer Join."""
        head, join = codec.decode_join(data)
        require_certificate(caller, join.role, head.sender)
        try:
            self._check_address(head.sender, join.address)
            answer = self._admit(head.sender, join)
        except Mismatch as error:
            self.observations.record_refusal(model.COORDINATOR, head.sender, str(error))
            raise
        return codec.encode_welcome(self._head(), answer)

    def _check_address(self, name: str, address: str) -> None:
        """Refuse an address that the other processes could not, or would not, dial."""
        try:
            check_address(address, what=f"{name} is to be dialled at")
            if isinstance(self.security, Plain):
                check_plaintext(address, insecure=self.security.anywhere, what=f"{name} is to be dialled at")
        except BadSpec as error:
            raise Mismatch(str(error)) from None

    def _admit(self, name: str, join: model.Join) -> model.Welcome | model.Challenge:
        """Admit a process; for a name that is taken, it must first show that it is alive."""
        self._engine.compare(name, join)
        if (ticket := self._engine.challenge(name, join)) is not None:
            return model.Challenge(ticket)
        effects = self._engine.handle(events.Joined(name, join))
        self._note_contact(name)
        self._gone.discard(name)
        admit = next(effect for effect in effects if isinstance(effect, events.Admit))
        if (older := self.streams.pop(name, None)) is not None:
            older.end(Superseded(f"another process has joined as {name}; give each a --name of its own"))
        log.info("joined", name=name, role=str(join.role), address=join.address)
        self._execute(effects)
        self._writer.check()
        failpoint("coordinator_during_join")
        spec, low_water = self.specs[join.role], self._engine.view.low_water
        description = admit.description
        return model.Welcome(admit.incarnation, admit.ticket, spec, admit.spec_tag, low_water, description)

    async def status(self, data: bytes, caller: Caller | None) -> bytes:
        """Answer Status; with TLS, scores are for the operator alone."""
        _, again = codec.decode_status_request(data)
        if again and not self._engine.view.phase.ended:
            self.observations.note_watcher()
        status = self._engine.status(self.observations.observed())
        if caller is not None and caller.role != CertificateRole.OPERATOR:
            status = replace(status, cumulative_loss=None, cumulative_violation=None)
        return codec.encode_status_reply(self._head(status.round), status)

    async def stop(self, data: bytes, caller: Caller | None) -> bytes:
        """Answer Stop."""
        head = codec.decode_stop_request(data)
        require_certificate(caller, CertificateRole.OPERATOR, head.sender)
        self._dispatch(events.StopAsked())
        self._writer.check()
        return codec.encode_stop_reply(self._head(self._engine.view.settled or 0))

    async def control(self, stream: Stream) -> None:
        """Serve the control stream of a process."""
        name = await self._open(stream)
        try:
            # messages of an older stream are ignored
            while (data := await stream.read()) is not None and self.streams.get(name) is stream:
                if self._receive(name, data):
                    return
        finally:
            if self.streams.get(name) is stream:
                del self.streams[name]
                self._gone.add(name)
                self._dispatch(events.StreamClosed(name))
                self._report_absence(name)

    def _report_absence(self, name: str) -> None:
        phase, member = self._engine.view.phase, self._engine.member(name)
        if member is not None and (member.lost or member.shut_out):
            return  # that it goes was ordered
        if phase is Phase.GATHERING and not self.leaving:
            self.observations.warn(name, "gone", f"{name} has gone before the game has begun")
        elif phase.under_way and not self.leaving:
            spare = member is not None and member.spare
            what = f"{name}, a spare, has gone" if spare else f"{name} has gone; {self._patience}"
            self.observations.warn(name, "gone", what)

    async def _open(self, stream: Stream) -> str:
        data = await stream.read()
        head, body = codec.decode_control_up(data or b"")
        if not isinstance(body, model.Opening):
            raise Malformed("a control stream begins with an opening")
        self._check_run(head)
        name = head.sender
        if (member := self._engine.member(name)) is not None:
            require_certificate(stream.caller, member.role, name)
        effects = self._engine.handle(events.Opened(name, body, stale=head.epoch < self._engine.view.epoch))
        stream.set_host(name)
        if name in self._gone:
            self._gone.remove(name)
            self.observations.report_return(name)
        self._note_contact(name)
        if (older := self.streams.get(name)) is not None:
            older.end(Replaced("a newer stream of this process has taken over"))
        self.streams[name] = stream
        self.opened[name] = self.opened.get(name, 0) + 1
        stream.keep_alive(lambda: codec.encode_control_down(self._head(), model.Heartbeat())[0])
        self._execute(effects)
        if member is not None and member.role is model.Role.ADVERSARY:
            self._adversary = name
            for record in self.observations.records:
                self.tell(name, record)
        return name

    def _check_run(self, head: model.Head) -> None:
        if head.run != self.run:
            raise WrongRun(
                "the coordinator was started anew and plays another run; start this process again, too, with --fresh "
                "where it has a --state"
            )

    def _receive(self, name: str, data: bytes) -> bool:
        """Handle one message; return whether it was the last of its stream."""
        head, body = codec.decode_control_up(data)
        self._check_run(head)
        game = self._engine.view
        if head.sender != name or head.epoch > game.epoch:
            raise NotYours("a message must come from the process and the epoch of its stream")
        self._note_contact(name)
        match body:
            case model.Heartbeat():
                return False
            case model.Opening():
                raise Malformed("a stream is opened once")
        # a message with an older epoch was sent before the newest seating arrived
        self._dispatch(events.Said(name, body, stale=head.epoch < game.epoch))
        if self._engine.view.scored > game.scored:
            self.observations.note_score(self._engine.view.scored)
        if isinstance(body, model.Refusals):
            self.observations.record_refusals(name, body.breaches, claimed=name != self._adversary)
        # a stream ends in order only when that is stored: else the acknowledgement is sent again after a restart
        return isinstance(body, model.Acknowledged) and self._writer.broken is None
