"""The processes of a game on this machine: start, watch, restart and end them; none outlives the parent."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from slaternet.errors import BadSpec, Diverged, NotSeated, PluginFailed, Refused, RunFailed, SlaternetError, Unreachable
from slaternet.limits import LIMITS
from slaternet.model import COORDINATOR
from slaternet.network.client import Channel, open_channel
from slaternet.network.file_limit import raise_file_limit
from slaternet.service.main import DEGRADED, TETHER
from slaternet.storage.disk import open_log
from slaternet.storage.fault_file import read_fault
from slaternet.texts import cleaned
from slaternet_coordinator.engine.rules import Policy
from slaternet_lab.games.fork_server import UNBUFFERED, Forked, ForkServer, fork_server
from slaternet_lab.games.manifest import ADVERSARY, Manifest, spec_of, states_of
from slaternet_lab.games.pipes import pipe, reader
from slaternet_lab.games.progress import Watcher
from slaternet_lab.status.operator import ask_status, ask_stop

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LOOPBACK = "127.0.0.1:0"
_START_SECONDS = 60.0
"""How long the coordinator may take to print its address."""
_LOOK_SECONDS = 0.25
PARTING_SECONDS = LIMITS.grace_seconds + 3
"""After the end of the game, or of another process: how long the next process may take to end."""
_CAUSE_SECONDS = 2.0
"""How long to wait for others after one has died: the cause may not be the first to end."""
_RESTARTS = 5
"""How often a process is restarted while the game makes no progress."""
_TAIL_BYTES = 4096
_READ_BYTES = 1 << 16
_FINAL = {0, DEGRADED, *(kind.exit_code for kind in (BadSpec, RunFailed, Refused, Diverged, PluginFailed))}
"""Exit codes with which a process ends by itself: it is done, or would fail again."""
_FAILURES = {kind.exit_code for kind in (BadSpec, RunFailed, Diverged, PluginFailed)}
"""Exit codes of processes that have failed by themselves."""


class Child:
    """One service as a process, which can be restarted; its standard input is the tether.

    It is forked by the server, or where there is none started in an interpreter of its own.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path, server: ForkServer | None = None) -> None:
        self.name = name
        self.command = command
        self.log = log
        self._server = server

    async def start(self, *, piped: bool = False, again: bool = False) -> None:
        """Start the process; `piped`: its output goes to `announced`; `again`: append to its log."""
        if not again:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self.log.unlink(missing_ok=True)
        stdin, tether = pipe()
        with contextlib.ExitStack() as kept, stdin, open_log(self.log) as log:
            kept.enter_context(tether)
            if not piped:
                # A plugin may print as much as it likes: a pipe that nobody reads would block it.
                self._process = await self._launch(stdin.fileno(), log.fileno(), log.fileno())
            else:
                output, stdout = pipe()
                self._output = await reader(output)
                with stdout:
                    self._process = await self._launch(stdin.fileno(), stdout.fileno(), log.fileno())
            self.ended = asyncio.create_task(self._live(kept.pop_all()), name=self.name)

    async def _launch(self, *standard: int) -> "asyncio.subprocess.Process | Forked":
        """Start the process with these descriptors."""
        if self._server is not None and (forked := await self._server.fork(self.command, *standard)):
            return forked
        stdin, stdout, stderr = standard
        return await asyncio.create_subprocess_exec(
            *self.command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, TETHER: "1", UNBUFFERED: "1"},
            # Ctrl-C in the terminal reaches the parent alone, which then ends the game in order.
            start_new_session=True,
        )

    async def _live(self, tether: contextlib.ExitStack) -> int:
        with tether:
            return await self._process.wait()

    async def announced(self, beginning: str, within: float) -> str:
        """Return the rest of the first printed line that begins so; all output goes to the log as well.

        RunFailed where the process ends before, or prints none within that many seconds.
        """
        found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._listen(beginning.encode(), found), name=f"listen to {self.name}")
        await asyncio.wait((found, self.ended), timeout=within, return_when=asyncio.FIRST_COMPLETED)
        if found.done():
            return found.result()
        if self.ended.done():
            raise self.death()
        raise RunFailed(f"{self.name} has not said {beginning!r} within {within:g} s; see its log {self.log}")

    async def _listen(self, beginning: bytes, found: "asyncio.Future[str]") -> None:
        unfinished = b""
        with open_log(self.log) as file:
            while data := await self._output.read(_READ_BYTES):
                with contextlib.suppress(OSError):  # a log that has no room is no reason to stop reading
                    file.write(data)
                *lines, unfinished = (unfinished + data).split(b"\n")
                printed = [line.removeprefix(beginning) for line in lines if line.startswith(beginning)]
                if printed and not found.done():
                    found.set_result(printed[0].decode().strip())

    def death(self) -> RunFailed:
        """Return how the process ended, with the last line of its log."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        last = next((words for line in reversed(lines) if (words := cleaned(line))), "none")
        return RunFailed(f"{self.name} {self.manner}; its last words: {last} (all of its log: {self.log})")

    @property
    def code(self) -> int:
        """The exit code; negative: killed by that signal."""
        return self.ended.result()

    @property
    def died(self) -> bool:
        """Whether it was ended from outside: a restarted process may finish its work."""
        return self.ended.done() and self.code not in _FINAL

    @property
    def failed(self) -> bool:
        """Whether it has ended before its work was done."""
        return self.ended.done() and self.code not in (0, DEGRADED)

    @property
    def manner(self) -> str:
        """How it has ended."""
        if self.code >= 0:
            return f"ended with exit code {self.code}"
        return f"was killed by {signal.Signals(-self.code).name}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if not self.ended.done():
            self._process.send_signal(number)


async def end_all(children: list[Child]) -> None:
    """End every child: by request, then by force."""
    waiting = [child.ended for child in children]
    if not waiting:
        return
    for child in children:
        child.send(signal.SIGTERM)
    await asyncio.wait(waiting, timeout=LIMITS.grace_seconds + 3)
    for child in children:
        child.send(signal.SIGKILL)
    await asyncio.wait(waiting)


@dataclass(kw_only=True)
class Supervisor:
    """Starts the processes of one run, restarts those that die, and ends them all."""

    folder: Path
    manifest: Manifest
    progress: Watcher | None = None
    restart: bool = True
    again: bool = False
    """Whether they ran before."""
    without: Collection[str] = ()
    """Agent hosts that the game has given up."""
    plugin_patience: float = LIMITS.plugin_patience
    """How many seconds the server of a foreign plugin is dialled again where it is gone."""
    server: ForkServer | None = None
    """What forks the processes; absent: one of its own, where there can be one."""

    def __post_init__(self) -> None:
        self._agents = [name for name in self.manifest.agents if name not in self.without]
        self._begun = False
        self._children: dict[str, Child] = {}
        self._given_up: list[Child] = []
        self._restarts: Counter[str] = Counter()  # of each process since the game last made progress
        self._furthest = (0, 0.0, 0.0)  # the last round scored, with its scores
        self._notes: dict[str, str] = {}
        self._interrupts = 0
        self._cut: Callable[[], object] | None = None  # cancels the current step, where an interrupt may
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self) -> None:
        """Run the game to its end: in this thread, or in another where an event loop runs here, as in a notebook."""
        raise_file_limit()  # two for each process
        with self.server or fork_server() as self.server:
            self._run()

    def _run(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._play())
        with ThreadPoolExecutor(1) as threads:
            played = threads.submit(lambda: asyncio.run(self._play()))
            while not played.done():
                try:
                    wait([played])
                except KeyboardInterrupt:  # Python raises it in this thread alone
                    with contextlib.suppress(RuntimeError):  # the loop is closed: the game has ended
                        if self._loop is not None:
                            self._loop.call_soon_threadsafe(self._interrupt)
        return played.result()

    async def _play(self) -> None:
        """Start all processes, watch them to the end, leave none behind; KeyboardInterrupt where the user ended it."""
        task = asyncio.current_task()
        assert task is not None
        with self._catch_signals():
            try:
                self._cut = task.cancel
                address = await self._start_all()
                self._cut = None
                async with open_channel(address) as channel:
                    await self._watch(channel)
                self._cut = task.cancel
                await self._wait_for_all()
            except asyncio.CancelledError:
                raise KeyboardInterrupt from None
            finally:
                self._cut = None
                await end_all(list(self._children.values()))

    @contextlib.contextmanager
    def _catch_signals(self) -> Iterator[None]:
        """Count Ctrl-C and SIGTERM as interrupts; only the main thread receives them."""
        loop = self._loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        with contextlib.suppress(RuntimeError):  # what asyncio raises where signals cannot be caught
            for number in _SIGNALS:
                loop.add_signal_handler(number, self._interrupt)
        try:
            yield
        finally:
            for number, handler in before.items():
                if loop.remove_signal_handler(number):
                    signal.signal(number, handler)

    def _interrupt(self) -> None:
        self._interrupts += 1
        if self._cut:
            self._cut()

    @property
    def _coordinator(self) -> Child:
        return self._children[COORDINATOR]

    async def _start(self, name: str, service: str, *arguments: str, piped: bool = False) -> Child:
        """Start a process whose state and log stand in the run folder."""
        states = states_of(self.folder)
        storage = ("--state", str(states), "--durability", self.manifest.durability)
        command = (sys.executable, "-P", "-m", f"slaternet_{service}", *arguments, *storage)
        child = Child(name, command, states / name / "log", self.server)
        await child.start(piped=piped, again=self.again)
        self._children[name] = child  # not before: an interrupt may come while it starts
        return child

    async def _start_all(self) -> str:
        """Start every process; return where the coordinator listens."""
        spec, manifest = str(spec_of(self.folder)), self.manifest
        seats = ("--hosts", str(manifest.hosts), "--listen", _LOOPBACK)
        patience = ("--policy", manifest.policy, "--lost-after", str(manifest.lost_after))
        coordinator = await self._start(COORDINATOR, "coordinator", spec, *seats, *patience, piped=True)
        address = await coordinator.announced("listening on ", within=_START_SECONDS)
        # a restarted coordinator must listen where the others expect it
        coordinator.command = tuple(address if each == _LOOPBACK else each for each in coordinator.command)
        common = ("--coordinator", address, "--listen", _LOOPBACK)
        keep = () if manifest.journal_keep is None else ("--journal-keep", str(manifest.journal_keep))
        more = ("--plugin-patience", str(self.plugin_patience), *keep)
        await self._start(ADVERSARY, "adversary", *common, "--out", str(self.folder), *more)
        for name in self._agents:
            await self._start(name, "agent", *common, "--name", name)
        return address

    async def _watch(self, channel: Channel) -> None:
        """Watch the game until the coordinator ends: it is the last process to learn that the game is over."""
        stopped = False
        while not self._coordinator.ended.done() or self._coordinator.failed:
            if running := self._running:
                await asyncio.wait(running, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not self._begun:  # it may have begun since the last look, and then a lost host can be spared
                await self._poll(channel)
            await self._restart_dead()
            if self._interrupts > 1:
                raise KeyboardInterrupt
            if self._interrupts and not stopped:
                stopped = await self._stop(channel)
            await self._poll(channel)

    async def _wait_for_all(self) -> None:
        """Wait for the others to end after the game; many may take long together, but each has a limit."""
        await self._restart_dead()
        while running := self._running:
            ended, _ = await asyncio.wait(running, timeout=PARTING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            await self._restart_dead()
            if not ended:
                names = ", ".join(child.name for child in self._children.values() if not child.ended.done())
                raise RunFailed(f"the game is over, but {names} did not end; see the logs in {states_of(self.folder)}")

    @property
    def _running(self) -> set["asyncio.Task[int]"]:
        return {child.ended for child in self._children.values() if not child.ended.done()}

    async def _restart_dead(self) -> None:
        """Restart processes that have died; raise the cause where one has failed, or restarts do not help."""
        for child in [child for child in self._children.values() if child.failed]:
            if self.restart and child.died and self._restarts[child.name] < _RESTARTS:
                self._restarts[child.name] += 1
                self._notes["death"] = f"{child.name} {child.manner}; started again"
                await child.start(again=True)
            elif self._can_spare(child):
                self._given_up.append(self._children.pop(child.name))
                self._notes["death"] = f"{child.name} {child.manner}; the game goes on without it"
            elif self.restart and child.died:
                raise RunFailed(
                    f"{child.name} was started again {_RESTARTS} times, and died each time before the game came any "
                    f"further; at last {child.death()}"
                )
            else:
                raise await self._cause()

    def _can_spare(self, dead: Child) -> bool:
        """Return whether the coordinator may give a process up: an agent host, while there is another.

        Not one that has failed by itself: what fails here, such as an algorithm, would fail at the others, too.
        """
        if self.manifest.policy is Policy.WAIT or not self._begun or dead.name not in self._agents:
            return False
        if dead.code in _FAILURES:
            return False
        return any(name in self._children for name in self._agents if name != dead.name)

    async def _stop(self, channel: Channel) -> bool:
        """Ask for the end of the game; False where that must be asked for again."""
        self._notes["stop"] = "stopping; Ctrl-C again kills"
        try:
            await ask_stop(channel)
        except NotSeated:
            raise KeyboardInterrupt from None  # there is no game yet that could end in order
        except Unreachable:
            if not self._restarts[COORDINATOR]:
                raise KeyboardInterrupt from None
            return False  # it has just been restarted
        return True

    async def _poll(self, channel: Channel) -> None:
        """Ask how the game stands, and show it; where nobody answers, what is known."""
        notes = dict(self._notes)
        if not self._coordinator.ended.done():
            with contextlib.suppress(Unreachable):  # it is ending or dead, which the next turn finds out
                status = (await ask_status(channel)).status
                self._begun = status.phase != "gathering"
                if status.round > self._furthest[0]:
                    self._furthest = (status.round, status.cumulative_loss or 0.0, status.cumulative_violation or 0.0)
                    self._restarts.clear()
                if status.waiting_for:
                    notes["waiting"] = f"waiting for {status.waiting_for}"
        if self.progress is not None:
            # a restarted coordinator does not know yet how far the game is
            self.progress.update(*self._furthest, "; ".join(notes.values()))

    def _fault_of(self, child: Child) -> PluginFailed:
        """Return the failure of a plugin with which a process has ended."""
        told = read_fault(states_of(self.folder) / child.name) or PluginFailed(str(child.death()))
        return told.preceded(f"{child.name} (its log: {child.log}) ended: ") if told.fault else told

    async def _cause(self) -> SlaternetError:
        """Return the error behind the first death; best is one of a process that ended with a reason of its own."""
        children = [*self._children.values(), *self._given_up]
        adversary = self._children.get(ADVERSARY)
        paused = self._begun and adversary is not None and adversary.failed and adversary.code == PluginFailed.exit_code
        if not paused:  # else that is the cause, and all others wait
            await asyncio.wait([child.ended for child in children], timeout=_CAUSE_SECONDS)
        dead = [child for child in children if child.failed]
        for kind in (PluginFailed, Diverged, BadSpec):
            for child in dead:
                if child.code == kind.exit_code:
                    error = self._fault_of(child) if kind is PluginFailed else kind(str(child.death()))
                    remedy = f"then continue with `slaternet resume {self.folder}`"
                    return error.extended(remedy) if paused and isinstance(error, PluginFailed) else error
        informative = [child for child in dead if child.code != RunFailed.exit_code]
        return (informative or dead)[0].death()
