"""The coordinator's process: restore the game, serve it, and end when every process has left."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from slaternet import tickets
from slaternet.errors import BadSpec, RunFailed
from slaternet.model import COORDINATOR, Role
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
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.engine.rules import LOST_AFTER, Policy
from slaternet_coordinator.shell.build import build_coordinator
from slaternet_coordinator.shell.control import Control
from slaternet_coordinator.shell.metrics import readings
from slaternet_coordinator.shell.register_db import REGISTER, GameIdentity, RegisterWriter

log = structlog.get_logger()


class CoordinatorService:
    """The process of the coordinator of one game: its state, its server, its metrics."""

    def __init__(
        self,
        spec: Spec,
        config: ProcessConfig,
        *,
        hosts: int | None = None,
        policy: Policy = Policy.WAIT,
        lost_after: float = LOST_AFTER,
        ready: Callable[[str], None] = lambda address: None,
    ) -> None:
        random, limits = config.environment.random, config.environment.limits
        self._spec = spec
        self._config = config
        self._ready = ready
        self._limits = limits
        run = uuid.UUID(int=random.getrandbits(128), version=4).hex
        self._identity = GameIdentity(run, random.randbytes(32), spec.digest())
        self._engine = build_coordinator(spec, hosts, policy, self._identity.secret, limits)
        self._meter = Meter()
        self._refusals = RefusalCounter()
        self._over = asyncio.Event()
        self._state = StateDir(COORDINATOR, COORDINATOR)
        self._writer = RegisterWriter(give_up=self._over.set)
        self._control = Control(
            self._engine,
            self._writer,
            self._refusals,
            config.environment,
            policy=policy,
            lost_after=lost_after,
            over=self._over,
        )

    async def run(self, stop: asyncio.Event) -> int:
        """Serve until the game is over or `stop` is set; return the exit code."""
        config = self._config
        with config.claim(COORDINATOR) as self._state:
            if self._state.finished_notice:
                log.warning(self._state.finished_notice)
                return 0
            with contextlib.closing(self._writer):
                if self._state.folder is not None:
                    self._restore(self._state.folder)
                annotate(
                    host=lambda: config.name, run=lambda: self._identity.run, round=lambda: self._engine.view.scored
                )
                with metrics.serve(config.metrics, self._readings):
                    code = await interruptible(self._coordinate(), stop, self._parting)
                game = self._engine.view
                return DEGRADED if code == 0 and (game.departed or game.disturbed) else code

    def _parting(self) -> str:
        game = self._engine.view
        return f"the coordinator leaves a game in phase {game.phase} with {game.scored} rounds scored"

    def _restore(self, folder: Path) -> None:
        """Restore the game that an older incarnation has stored, or begin to store one."""
        past, spec = self._state.past_spec, self._identity.spec
        if past and past != spec:
            raise BadSpec(
                f"the state {folder} holds a game of spec {past[:16]}, not of spec {spec[:16]}; start with --fresh, or "
                "with another --state"
            )
        self._identity, saved = self._writer.open(folder / REGISTER, self._identity, fresh=self._config.fresh)
        self._engine.restore(saved, self._identity.secret)
        self._control.expect(member.name for member in saved.members)
        if saved.members:
            log.info("taking up a game", run=self._identity.run, phase=saved.phase, published=saved.published)

    def _readings(self) -> Iterator[Reading]:
        yield metrics.process_info(COORDINATOR, self._config.name)
        yield metrics.game_info(self._identity.run, self._spec)
        yield from metrics.traffic_readings(self._meter, self._refusals)
        yield metrics.STREAMS.reads(len(self._control.streams), "control")
        again: Numbers = {("control", name): times - 1 for name, times in tuple(self._control.opened.items())}
        yield Reading(metrics.RECONNECTIONS, again)
        yield from readings(self._engine.view, self._engine.members())

    async def _coordinate(self) -> None:
        control, run = self._control, self._identity.run
        control.run, control.security = run, await self._config.security()
        whole = self._spec.with_drawn(tickets.drawn_seed(self._identity.secret))
        control.specs = {Role.HOST: whole.public.to_toml(), Role.ADVERSARY: whole.to_toml()}
        server = await serve(
            self._config.listening,
            service="slaternet.v1.Coordinator",
            unary={"Join": control.join, "Status": control.status, "Stop": control.stop},
            streams={"Control": control.control},
            hosts=min(self._spec.run.agents + self._limits.spares, self._limits.hosts),
            security=control.security,
            meter=self._meter,
            breaches=self._refusals,
        )
        try:
            # not before there is a server: a user who corrects a wrong start may correct the spec as well
            self._state.remember(run, self._identity.spec)
            control.start()
            log.info("listening", address=server.address, run=run)
            self._ready(server.address)
            await self._over.wait()
            await asyncio.sleep(control.observations.linger_seconds)
        finally:
            control.leaving = True
            await server.stop()
        if self._writer.broken is not None:
            raise self._writer.broken
        game = self._engine.view
        if game.phase is Phase.FAILED:
            raise RunFailed(f"the game failed: {self._engine.cause or game.failure}")
        failpoint("coordinator_after_last_report")
        try:
            self._state.close(game.last or 0)
        except BadSpec as error:  # the game is over all the same, and the adversary has its results
            log.error("cannot remember that the game is over", reason=str(error))
        log.info("the game is over", rounds=game.last)
