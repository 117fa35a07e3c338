"""The adversary's service: join the game, open or replay the journal, serve reveal streams, write the summary."""

import asyncio
import functools
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path

import structlog

from slaternet.errors import BadSpec, Mismatch, NotSeated, PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import Description, IncidentRecord, Role
from slaternet.network.addresses import check_address, is_loopback
from slaternet.network.stream import Stream
from slaternet.network.traffic import Meter
from slaternet.service import metrics
from slaternet.service.config import ProcessConfig
from slaternet.service.join import join_game
from slaternet.service.logs import annotate
from slaternet.service.main import interruptible
from slaternet.service.membership import Membership
from slaternet.service.metrics import Reading
from slaternet.spec import Spec
from slaternet.spec.paths import located
from slaternet.spec.plugins import FOREIGN, is_foreign
from slaternet.storage.state_dir import StateDir
from slaternet.texts import cleaned
from slaternet_adversary.engine.amendments import Segment
from slaternet_adversary.journal.compaction import JournalTrimmer, check_keep
from slaternet_adversary.journal.journal import JOURNAL, AdversaryJournal, begun
from slaternet_adversary.plugin.data import with_data
from slaternet_adversary.plugin.makers import is_built_in, make_plugin, plays_apart, plugin_maker
from slaternet_adversary.plugin.open_rounds import OpenRounds
from slaternet_adversary.plugin.plugin_calls import ApartCalls, PluginCalls
from slaternet_adversary.plugin.remote import Remote
from slaternet_adversary.plugin.slow_calls import report_slow_calls
from slaternet_adversary.shell.build import build_referee
from slaternet_adversary.shell.findings import observed
from slaternet_adversary.shell.run_folder import RunFolder, claim, is_complete, new_folder
from slaternet_adversary.shell.runtime import Runtime
from slaternet_adversary.shell.streams import RevealServer

log = structlog.get_logger()


class AdversaryService:
    """The adversary of one game."""

    def __init__(
        self,
        config: ProcessConfig,
        out: Path | None,
        *,
        force: bool = False,
        journal_keep: int | None = None,
        metrics_values: bool = False,
        plugin_patience: float = LIMITS.plugin_patience,
        served: str = "",
    ) -> None:
        check_keep(journal_keep)
        if served:
            check_address(served, what="--served")
        self._served = served
        self._plugin_patience = plugin_patience
        self._metrics_values = metrics_values
        self._journal_keep = journal_keep
        self._config = config
        self._out = out
        self._force = force
        self._revealer: RevealServer | None = None
        self._meter = Meter()
        self.folder: Path | None = None

    async def run(self, stop: asyncio.Event) -> int:
        """Serve until the game is over or `stop` is set; return the exit code."""
        with self._config.claim(Role.ADVERSARY) as state:
            if state.finished_notice:
                log.warning(state.finished_notice)
                return 0
            annotate(
                host=lambda: self._config.name,
                run=lambda: self._revealer.run if self._revealer else "",
                round=lambda: self._round,
            )
            return await interruptible(self._live(state), stop, self._parting)

    @property
    def _round(self) -> int:
        return self._revealer.round if self._revealer else 0

    def _parting(self) -> str:
        if self.folder is None:
            return "the adversary leaves before the game has begun"
        return f"the adversary leaves with {self._round} rounds scored; {self.folder} holds what was recorded"

    def _readings(self) -> Iterator[Reading]:
        yield metrics.process_info(Role.ADVERSARY, self._config.name)
        if self._revealer is not None:
            yield from self._revealer.readings()

    async def _live(self, state: StateDir) -> None:
        coming = join_game(
            self._config,
            Role.ADVERSARY,
            service="slaternet.v1.Adversary",
            streams={"Reveal": self._reveal},
            meter=self._meter,
            state=state,
        )
        with metrics.serve(self._config.metrics, self._readings):
            async with coming as membership:
                await self._play(membership, state)

    async def _play(self, membership: Membership, state: StateDir) -> None:
        spec = membership.spec
        assert isinstance(spec, Spec)  # as every adversary's
        self._check_seam(FOREIGN + self._served if self._served else spec.adversary.plugin)
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(ExitStack())
            thread = ThreadPoolExecutor(1, "plugin") if self._served or plays_apart(spec) else None
            if thread is not None:
                stack.push_async_callback(asyncio.to_thread, thread.shutdown)  # its last call may take a moment
            maker = stack.enter_context(plugin_maker(spec, self._plugin_patience, self._served))
            if thread is not None:
                building = functools.partial(make_plugin, spec, maker)
                plugin, description = await asyncio.get_running_loop().run_in_executor(thread, building)
                assert isinstance(plugin, Remote)  # as every plugin outside this process
                functions: PluginCalls = ApartCalls(plugin, thread)
                stack.callback(asyncio.create_task(report_slow_calls(plugin), name="slow calls").cancel)
            else:
                plugin, description = make_plugin(spec, maker)
                functions = PluginCalls(OpenRounds(plugin))
            self._check_keep(spec, description)
            _check_replacement(spec, membership.description, description)
            journal, again = self._open(membership, state)
            folder.callback(journal.close)  # after the thread, which ends after the plugin
            begun_with = (membership.description or description).code
            if is_complete(journal.folder, disk=self._config.environment.disk):  # it is asked nothing any more
                description = replace(description, code=journal.last_code(begun_with))
            played = journal.segments(begun_with, description.code)
            if journal.amendment is not None:
                log.warning(
                    "the plugin's code has changed: all that it has answered is compared before the game goes on"
                )
            results = RunFolder(
                journal.folder,
                _recorded(spec, played, warned=not again),
                run=membership.run,
                breaches=membership.breaches,
                again=again,
                disk=self._config.environment.disk,
            )
            folder.callback(results.close)
            trimmer = None if self._journal_keep is None else JournalTrimmer(journal.file, self._journal_keep)
            limits = self._config.environment.limits
            referee = build_referee(spec, description, limits, played)
            clock = self._config.environment.clock
            if not is_built_in(spec.adversary.plugin):
                functions = observed(functions, plugin, results, clock)
            runtime = Runtime(functions, referee, results, clock, journal=journal, trimmer=trimmer)
            revealer = RevealServer(
                membership,
                runtime,
                description,
                journal=journal,
                durable=state.durable,
                metrics_values=self._metrics_values,
            )
            try:
                if again:
                    await revealer.recover()
                self._revealer = revealer
                await revealer.play()
            except PluginFailed as failed:
                if state.durable:
                    self._note_pause(runtime, failed)
                raise
            log.info("the game is over", folder=str(self.folder))

    def _note_pause(self, runtime: Runtime, failed: PluginFailed) -> None:
        """Record that the game waits, and say how it goes on; nothing that the journal holds is lost."""
        environment, sentence = self._config.environment, cleaned(str(failed))
        runtime.note(IncidentRecord(runtime.network.rounds, environment.now(), self._config.name, "paused", sentence))
        log.warning(
            "the game is paused; correct the plugin, then start the adversary again with the same command "
            "(or, where `slaternet run` has started it, continue with `slaternet resume RUN`)"
        )

    def _open(self, membership: Membership, state: StateDir) -> tuple[AdversaryJournal, bool]:
        """Open the journal in the run folder; return it, and whether a previous process has begun it."""
        folder, durability = state.results, self._config.durability
        disk, limits = self._config.environment.disk, self._config.environment.limits
        if folder is not None and self._out is not None and self._out.absolute() != folder:
            raise BadSpec(f"this game is recorded in {folder}, not in {self._out}; start with --out {folder}")
        again = folder is not None and begun(folder, disk=disk)
        if membership.begun and not again:
            raise Mismatch(
                f"the game is under way, and its journal {(folder or Path('RUN')) / JOURNAL} is missing; put back the "
                "run folder and the --state that it was played with, or begin the whole game anew"
            )
        self.folder = folder = folder or self._out or new_folder(membership.spec)
        if not again:
            claim(folder, force=self._force)
            state.keep(folder)
        run, mark = membership.run, membership.low_water
        journal = AdversaryJournal.open(
            folder, run, again=again, low_water=mark, durability=durability, disk=disk, limits=limits
        )
        return journal, again

    def _check_keep(self, spec: Spec, description: Description) -> None:
        if self._journal_keep is not None and description.history:
            raise BadSpec(
                f"--journal-keep is not for {spec.adversary.plugin}, which looks back: after a crash it must be told "
                "all decisions again, and they stand in the journal alone; leave the option out"
            )

    def _check_seam(self, target: str) -> None:
        """Refuse a plugin that is called over the network in plaintext, unless that was permitted explicitly."""
        if is_foreign(target) and not self._config.insecure and not is_loopback(target.removeprefix(FOREIGN)):
            raise BadSpec(
                f'adversary.plugin = "{target}" is not on loopback, and calls of it are not secured; run it beside the '
                "adversary, or start the adversary with --insecure (SLATERNET_INSECURE=1)"
            )

    def _reveal(self, link: Stream) -> Awaitable[None]:
        if self._revealer is None:
            raise NotSeated("the adversary has not joined yet")
        return self._revealer.accept(link)


def _check_replacement(spec: Spec, before: Description | None, now: Description) -> None:
    """Refuse a plugin that has changed by more than its code since the game began."""
    if before is None or now.replaces(before):
        return
    kinds = ("constraints", "history", "loss_gradient", "constraint_gradient")
    changed = next(name for name in kinds if getattr(before, name) != getattr(now, name))
    raise BadSpec(
        f"{spec.adversary.plugin} has {changed} = {getattr(now, changed)} now, and the game was begun with "
        f"{getattr(before, changed)}, which stays; correct the plugin, or begin the game anew"
    )


def _recorded(spec: Spec, played: tuple[Segment, ...], *, warned: bool) -> Spec:
    """Return the spec for the run folder, from which it can be played again: with the plugin's hash and full paths."""
    code = played[-1].code
    if warned and spec.adversary.sha256 not in ("", code):
        log.warning(f"{with_data(spec)} is not the code the spec was resolved with; expect another digest")
    listed = [{"round": each.round, "sha256": each.code} for each in played] if len(played) > 1 else None
    recorded = spec.replace(**{"adversary.sha256": code, "adversary.segments": listed})
    return located(recorded, Path.cwd())
