"""`slaternet run`: the services of a game as child processes on this machine, over gRPC on loopback."""

import asyncio
import signal
from pathlib import Path

from slaternet.errors import BadSpec, Diverged, NotSeated, PluginFailed, RunFailed, SlaternetError, Unreachable
from slaternet.spec import Spec
from slaternet.transport import Channel, open_channel
from slaternet_adversary.results import claim
from slaternet_lab.children import Child, end_all
from slaternet_lab.finish import finish
from slaternet_lab.folder import Run, new_folder
from slaternet_lab.progress import Progress
from slaternet_lab.remote import ask_status, ask_stop

_LOOPBACK = "127.0.0.1:0"
_LOOK_SECONDS = 0.25
_CAUSE_SECONDS = 2.0
"""How long after the first death the others may take to say theirs: the cause may not be the first to end."""


def play(
    spec: Spec, *, hosts: int = 2, out: Path | None = None, force: bool = False, progress: Progress | None = None
) -> Run:
    """Play a resolved spec over gRPC with agent hosts as processes, and return its run folder.

    Ctrl-C ends the game after the round it is in, as `slaternet stop` does; a second one kills it.
    """
    if hosts > spec.run.agents:
        raise BadSpec(
            f"--hosts {hosts} is more than the {spec.run.agents} agents of the game; every host needs an agent"
        )
    folder = out or new_folder(spec)
    claim(folder, force=force)
    asyncio.run(_Game(spec, hosts, folder, progress).play())
    return finish(folder)


class _Game:
    """The processes of one run."""

    def __init__(self, spec: Spec, hosts: int, folder: Path, progress: Progress | None) -> None:
        self._spec = spec
        self._hosts = hosts
        self._folder = folder
        self._progress = progress
        self._children: list[Child] = []
        self._interrupts: asyncio.Queue[None] = asyncio.Queue()
        self._note = ""

    async def play(self) -> None:
        """Start everything, see it through to the end, leave nothing behind."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupts.put_nowait, None)
        try:
            address = await self._start_coordinator()
            await self._start_others(address)
            async with open_channel(address) as channel:
                await self._see_through(channel)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            await end_all(self._children)

    async def _start(self, name: str, service: str, *arguments: str) -> Child:
        child = await Child.start(name, service, *arguments, log=self._folder / "state" / name / "log")
        self._children.append(child)
        return child

    async def _start_coordinator(self) -> str:
        spec = self._folder / "state" / "coordinator" / "spec.toml"
        spec.parent.mkdir(parents=True, exist_ok=True)
        spec.write_text(self._spec.to_toml(), encoding="utf-8")
        child = await self._start(
            "coordinator", "coordinator", str(spec), "--hosts", str(self._hosts), "--listen", _LOOPBACK
        )
        return (await child.first_line()).removeprefix("listening on ")

    async def _start_others(self, address: str) -> None:
        common = ("--coordinator", address, "--listen", _LOOPBACK)
        await self._start("adversary", "adversary", *common, "--out", str(self._folder))
        for number in range(1, self._hosts + 1):
            await self._start(f"agent-{number}", "agent", *common, "--name", f"agent-{number}")

    async def _see_through(self, channel: Channel) -> None:
        interrupted = asyncio.create_task(self._interrupts.get())
        stopping = False
        while running := {child.ended for child in self._children if not child.ended.done()}:
            await asyncio.wait({*running, interrupted}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if any(child.ended.done() and child.code for child in self._children):
                raise await self._cause()
            if interrupted.done():
                if stopping:
                    raise KeyboardInterrupt
                stopping = await self._stop(channel)
                interrupted = asyncio.create_task(self._interrupts.get())
            await self._look(channel)
        interrupted.cancel()

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
        if self._progress is not None:
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
