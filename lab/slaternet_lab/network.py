"""`slaternet run`: the services of a game as child processes on this machine, over gRPC on loopback."""

import asyncio
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from slaternet.errors import BadSpec, Diverged, NotSeated, PluginFailed, RunFailed, SlaternetError, Unreachable
from slaternet.limits import LIMITS
from slaternet.spec import Spec
from slaternet.transport import Channel, open_channel
from slaternet_adversary.results import claim, new_folder
from slaternet_lab.children import Child, end_all
from slaternet_lab.finish import finish
from slaternet_lab.folder import Run
from slaternet_lab.interrupts import Interrupts
from slaternet_lab.progress import Watcher
from slaternet_lab.remote import ask_status, ask_stop

_LOOPBACK = "127.0.0.1:0"
_START_SECONDS = 60.0
"""How long the coordinator may take to say where it listens."""
_LOOK_SECONDS = 0.25
_PARTING_SECONDS = LIMITS.grace_seconds + 3
"""How long after the game is over, or after another has ended, the next process may take to end."""
_CAUSE_SECONDS = 2.0
"""How long after the first death the others may take to say theirs: the cause may not be the first to end."""


def play(
    spec: Spec,
    *,
    hosts: int = 2,
    out: Path | None = None,
    force: bool = False,
    progress: Watcher | None = None,
    figures: bool = True,
) -> Run:
    """Play a resolved spec over gRPC with agent hosts as processes, and return its run folder.

    Ctrl-C or SIGTERM ends the game after the round it is in, as `slaternet stop` does; a second one kills it.
    """
    if hosts > spec.run.agents:
        raise BadSpec(
            f"--hosts {hosts} is more than the {spec.run.agents} agents of the game; every host needs an agent"
        )
    folder = out or new_folder(spec)
    claim(folder, force=force)
    _run(_Game(spec, hosts, folder, progress))
    return finish(folder, figures=figures)


def _run(game: "_Game") -> None:
    """Play in this thread, or beside it where an event loop runs here already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(game.play())
    else:
        _run_beside(game)


def _run_beside(game: "_Game") -> None:
    with ThreadPoolExecutor(1) as threads:
        played = threads.submit(lambda: asyncio.run(game.play()))
        while not played.done():
            try:
                wait([played])
            except KeyboardInterrupt:  # it comes to this thread alone
                game.interrupts.add()
    played.result()


class _Game:
    """The processes of one run."""

    def __init__(self, spec: Spec, hosts: int, folder: Path, progress: Watcher | None) -> None:
        self._spec = spec
        self._hosts = hosts
        self._folder = folder
        self._progress = progress
        self._children: list[Child] = []
        self._note = ""
        self.interrupts = Interrupts()

    async def play(self) -> None:
        """Start everything, see it through to the end, leave nothing behind."""
        with self.interrupts.heard():
            try:
                address = await self.interrupts.cut(self._start_all())
                async with open_channel(address) as channel:
                    await self._see_through(channel)
                await self.interrupts.cut(self._see_off())
            finally:
                await end_all(self._children)

    async def _start(self, name: str, service: str, *arguments: str, heard: bool = False) -> Child:
        log = self._folder / "state" / name / "log"
        child = await Child.start(name, service, *arguments, log=log, heard=heard)
        self._children.append(child)
        return child

    async def _start_all(self) -> str:
        """Start every process; return where the coordinator listens."""
        spec = self._folder / "state" / "coordinator" / "spec.toml"
        spec.parent.mkdir(parents=True, exist_ok=True)
        spec.write_text(self._spec.to_toml(), encoding="utf-8")
        seats = ("--hosts", str(self._hosts), "--listen", _LOOPBACK)
        coordinator = await self._start("coordinator", "coordinator", str(spec), *seats, heard=True)
        address = await coordinator.announced("listening on ", within=_START_SECONDS)
        common = ("--coordinator", address, "--listen", _LOOPBACK)
        await self._start("adversary", "adversary", *common, "--out", str(self._folder))
        for number in range(1, self._hosts + 1):
            await self._start(f"agent-{number}", "agent", *common, "--name", f"agent-{number}")
        return address

    async def _see_through(self, channel: Channel) -> None:
        """Watch the game until the coordinator, the last to know that it is over, has ended."""
        interrupted = self.interrupts.next()
        stopping = False
        while not self._children[0].ended.done():
            running = {child.ended for child in self._children if not child.ended.done()}
            await asyncio.wait({*running, interrupted}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            await self._check()
            if interrupted.done():
                if stopping:
                    raise KeyboardInterrupt
                stopping = await self._stop(channel)
                interrupted = self.interrupts.next()
            await self._look(channel)
        interrupted.cancel()

    async def _see_off(self) -> None:
        """Wait for the others to end, as all do when the game is over; many processes take their time, but not none."""
        await self._check()
        while staying := {child.ended for child in self._children if not child.ended.done()}:
            ended, _ = await asyncio.wait(staying, timeout=_PARTING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            await self._check()
            if not ended:
                names = ", ".join(child.name for child in self._children if not child.ended.done())
                raise RunFailed(f"the game is over, but {names} did not end; see the logs in {self._folder / 'state'}")

    async def _check(self) -> None:
        """Raise the cause where a process has failed."""
        if any(child.ended.done() and child.code for child in self._children):
            raise await self._cause()

    async def _stop(self, channel: Channel) -> bool:
        self._note = "stopping; Ctrl-C again kills"
        try:
            await ask_stop(channel)
        except (NotSeated, Unreachable):
            raise KeyboardInterrupt from None  # there is no game yet that could end in order
        return True

    async def _look(self, channel: Channel) -> None:
        if self._progress is None or self._children[0].ended.done():
            return
        try:
            status = await ask_status(channel)
        except Unreachable:
            return  # it is leaving, or dead: its end is seen in the next turn
        note = f"waiting for {status.waiting_for}" if status.waiting_for else self._note
        self._progress.update(status.round, status.cumulative_loss, status.cumulative_violation, note)

    async def _cause(self) -> SlaternetError:
        """Return the error behind the first death: a process that says why it ended tells more than others do."""
        await asyncio.wait([child.ended for child in self._children], timeout=_CAUSE_SECONDS)
        dead = [child for child in self._children if child.ended.done() and child.code]
        for kind in (PluginFailed, Diverged):
            for child in dead:
                if child.code == kind.exit_code:
                    return kind(str(child.death()))
        told = [child for child in dead if child.code != RunFailed.exit_code]
        return (told or dead)[0].death()
