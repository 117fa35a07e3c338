"""The coordinator's process: serve, gather, publish, wait until every process has left, leave."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from slaternet.errors import BadSpec, RunFailed
from slaternet.model import COORDINATOR
from slaternet.network.server import serve
from slaternet.network.traffic import Meter
from slaternet.refusals import RefusalCounter
from slaternet.service import metrics
from slaternet.service.config import ProcessConfig
from slaternet.service.logs import annotate
from slaternet.service.main import DEGRADED, interruptible
from slaternet.service.metrics import Numbers, Reading
from slaternet.spec import Spec
from slaternet.storage.failpoints import failpoint
from slaternet.storage.state_dir import StateDir
from slaternet_coordinator.engine.events import (
    Admit,
    Announce,
    AwaitHolding,
    AwaitQuiet,
    Effect,
    Event,
    HoldExpired,
    Keep,
    Leave,
    Lost,
    Quiet,
    Tell,
)
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.engine.rules import LOST_AFTER, Policy
from slaternet_coordinator.shell.build import build_coordinator
from slaternet_coordinator.shell.control import Control
from slaternet_coordinator.shell.join_tickets import JoinTickets
from slaternet_coordinator.shell.metrics import readings
from slaternet_coordinator.shell.monitor import AbsenceMonitor, Observations
from slaternet_coordinator.shell.register_db import REGISTER, GameIdentity, RegisterWriter

log = structlog.get_logger()


class CoordinatorService:
    """The coordinator of one game. No rule of the game lives here."""

    def __init__(
        self,
        spec: Spec,
        station: ProcessConfig,
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
        self._engine = build_coordinator(spec, hosts, policy, self._secret, limits)
        self._meter = Meter()
        self._breaches = RefusalCounter()
        self._over = asyncio.Event()
        self._watch = Observations(clock, self._breaches, limits)
        self._vigil = AbsenceMonitor(
            clock, lost_after, self._engine.members, give_up=self._give_up, miss=self._watch.miss
        )
        self._phase = Phase.GATHERING  # the last that was seen
        self._missing = ""
        self._state = StateDir(COORDINATOR, COORDINATOR)
        self._keeper = RegisterWriter(give_up=self._over.set)
        self._control = Control(
            self._engine,
            self._keeper,
            JoinTickets(lambda: random.randbytes(limits.ticket_bytes)),
            self._watch,
            self._vigil,
            spec=spec.to_toml(),
            patience="the game waits for it" if policy is Policy.WAIT else f"it has {lost_after:g} s to come back",
            execute=self._execute,
        )

    async def run(self, stop: asyncio.Event) -> int:
        """Live until the game is over or `stop` is set; return the exit code."""
        station = self._station
        with station.claim(COORDINATOR) as self._state:
            if self._state.epitaph:
                log.warning(self._state.epitaph)
                return 0
            with contextlib.closing(self._keeper):
                if self._state.folder is not None:
                    self._recall(self._state.folder)
                annotate(host=lambda: station.name, run=lambda: self._run, round=lambda: self._engine.view().scored)
                with metrics.serve(station.metrics, self._readings):
                    code = await interruptible(self._coordinate(), stop, self._parting)
                return DEGRADED if code == 0 and self._engine.view().departed else code

    def _parting(self) -> str:
        game = self._engine.view()
        return f"the coordinator leaves a game in phase {game.phase} with {game.scored} rounds scored"

    def _recall(self, folder: Path) -> None:
        """Restore the game that an older life has kept, or begin to keep one."""
        past, spec = self._state.past_spec, self._spec.digest()
        if past and past != spec:
            raise BadSpec(
                f"the state {folder} holds a game of spec {past[:16]}, not of spec {spec[:16]}; start with --fresh, or "
                "with another --state"
            )
        born = GameIdentity(self._run, self._secret, spec)
        born, memory = self._keeper.open(folder / REGISTER, born, fresh=self._station.fresh)
        self._run = born.run
        self._engine.restore(memory, born.secret)
        for entry in memory.members:
            self._watch.hear(entry.name)
            self._vigil.expect(entry.name, self._limits.gathering_seconds)  # it may be starting, too
        if memory.members:
            log.info("taking up a game", run=self._run, phase=memory.phase, published=memory.published)
        if not (phase := self._engine.view().phase).ended:
            self._phase = phase

    def _readings(self) -> Iterator[Reading]:
        yield metrics.of_process(COORDINATOR, self._station.name)
        yield metrics.of_game(self._run, self._spec)
        yield from metrics.of_traffic(self._meter, self._breaches)
        yield metrics.STREAMS.reads(len(self._control.links), "control")
        again: Numbers = {("control", name): times - 1 for name, times in tuple(self._control.opened.items())}
        yield Reading(metrics.RECONNECTIONS, again)
        yield from readings(self._engine.view(), self._engine.members())

    async def _coordinate(self) -> None:
        self._control.run = self._run
        server = await serve(
            self._station.listening,
            service="slaternet.v1.Coordinator",
            unary={"Join": self._control.join, "Status": self._control.status, "Stop": self._control.stop},
            streams={"Control": self._control.control},
            hosts=min(self._spec.run.agents + self._limits.spares, self._limits.hosts),
            security=await self._station.security(),
            meter=self._meter,
            breaches=self._breaches,
        )
        try:
            # not before there is a server: a user who corrects a wrong start may correct the spec as well
            self._state.remember(self._run, self._spec.digest())
            self._execute(self._engine.resume())
            self._keep_vigil()
            log.info("listening", address=server.address, run=self._run)
            self._ready(server.address)
            await self._over.wait()
            await asyncio.sleep(self._watch.owed)
        finally:
            self._control.leaving = True
            await server.stop()
        if self._keeper.broken is not None:
            raise self._keeper.broken
        game = self._engine.view()
        if game.phase is Phase.FAILED:
            raise RunFailed(f"the game failed: {game.failure}")
        failpoint("coordinator_after_last_report")
        try:
            self._state.close(game.last or 0)
        except BadSpec as error:  # the game is over all the same, and its results are safe with the adversary
            log.error("cannot remember that the game is over", reason=str(error))
        log.info("the game is over", rounds=game.last)

    def _keep_vigil(self) -> None:
        """Look for hosts that have been away for too long, again and again while there is a game."""
        if not (self._over.is_set() or self._control.leaving):
            self._vigil.look()
            asyncio.get_running_loop().call_later(self._vigil.step, self._keep_vigil)

    def _give_up(self, name: str) -> bool:
        """Report a host as lost; tell whether the engine gives it up."""
        self._dispatch(Lost(name))
        member = self._engine.member(name)
        return member is not None and member.lost

    def _dispatch(self, event: Event) -> None:
        self._execute(self._engine.handle(event))

    def _execute(self, effects: list[Effect]) -> None:  # noqa: C901 - one case for each kind of effect
        if self._keeper.broken is not None:
            return
        self._say_how_it_stands()
        loop = asyncio.get_running_loop()
        for effect in effects:
            match effect:
                case Keep(memory):
                    self._keeper.keep(memory)
                    if self._keeper.broken is not None:
                        return  # what follows may not be seen
                case Tell(name, body):
                    self._control.tell(name, body)
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
        """Log what has changed; the effects come after that."""
        game, before, missing = self._engine.view(), self._phase, self._missing
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
            self._watch.trouble(f"the game has failed: {game.failure}")
        if game.phase.ended:
            asyncio.get_running_loop().call_later(self._limits.farewell_seconds, self._over.set)
