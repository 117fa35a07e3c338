"""`slaternet run`: the services of a game as child processes on this machine, over gRPC on loopback."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from slaternet.errors import BadSpec, Diverged, NotSeated, PluginFailed, RunFailed, SlaternetError, Unreachable
from slaternet.journal import Durability
from slaternet.limits import LIMITS
from slaternet.model import COORDINATOR
from slaternet.spec import Spec
from slaternet.transport import Channel, open_channel
from slaternet_adversary.compaction import check_keep
from slaternet_adversary.results import claim, new_folder
from slaternet_coordinator.graphs import check_departures
from slaternet_coordinator.registry import build as build_graph
from slaternet_coordinator.rules import LOST_AFTER, Policy
from slaternet_lab.children import Child, Part, end_all
from slaternet_lab.finish import finish
from slaternet_lab.folder import Run
from slaternet_lab.interrupts import Interrupts
from slaternet_lab.launch import ADVERSARY, Launch, spec_of, states_of, write_spec
from slaternet_lab.progress import Watcher
from slaternet_lab.remote import ask_status, ask_stop

_LOOPBACK = "127.0.0.1:0"
_START_SECONDS = 60.0
"""How long the coordinator may take to say where it listens."""
_LOOK_SECONDS = 0.25
PARTING_SECONDS = LIMITS.grace_seconds + 3
"""How long after the game is over, or after another has ended, the next process may take to end."""
_CAUSE_SECONDS = 2.0
"""How long after the first death the others may take to say theirs: the cause may not be the first to end."""
_RESTARTS = 5
"""How often a process that dies is started again while the game comes no further."""


def play(
    spec: Spec,
    *,
    hosts: int = 2,
    out: Path | None = None,
    force: bool = False,
    progress: Watcher | None = None,
    figures: bool = True,
    restart: bool = True,
    durability: Durability = Durability.KILL,
    policy: Policy = Policy.WAIT,
    lost_after: float = LOST_AFTER,
    journal_keep: int | None = None,
) -> Run:
    """Play a resolved spec over gRPC with agent hosts as processes, and return its run folder.

    Ctrl-C or SIGTERM ends the game after the round it is in, as `slaternet stop` does; a second one kills it. A process
    that dies is started again and goes on, unless `restart` is False: then its death ends the game. With another policy
    than to wait, an agent host that is away for `lost_after` seconds is given up, and the game goes on without it. What
    was played survives the death of all of them, or with `durability` FSYNC a loss of power, for `resume` to go on.
    For a game without end, the journal may be cut to so many of its newest rounds.
    """
    if hosts > spec.run.agents:
        raise BadSpec(
            f"--hosts {hosts} is more than the {spec.run.agents} agents of the game; every host needs an agent"
        )
    check_keep(journal_keep)
    if journal_keep is not None and policy is not Policy.WAIT:
        raise BadSpec(
            f"--journal-keep does not go with --policy {policy}: where a host is given up, others rebuild what it knew "
            "from the whole journal; leave one of them out"
        )
    if policy is Policy.LEAVE:
        check_departures(spec, build_graph(spec.graph, spec.run.agents, spec.run.seed))
    folder = out or new_folder(spec)
    claim(folder, force=force)
    launch = Launch(hosts, durability, spec.run.rounds, policy, lost_after, journal_keep)
    write_spec(folder, spec)
    launch.write(folder)
    run_processes(folder, launch, progress, restart=restart)
    return finish(folder, figures=figures)


def run_processes(
    folder: Path,
    launch: Launch,
    progress: Watcher | None,
    *,
    restart: bool = True,
    again: bool = False,
    without: Collection[str] = (),
) -> None:
    """Run the processes of a game, `again` where they ran before, until it is over; `without` hosts it has given up.

    They run in this thread, or beside it where an event loop runs here already, as in a notebook.
    """
    agents = [name for name in launch.agents if name not in without]
    game = _Game(folder, launch, agents, progress, restart=restart, again=again)
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

    def __init__(
        self,
        folder: Path,
        launch: Launch,
        agents: Sequence[str],
        progress: Watcher | None,
        *,
        restart: bool,
        again: bool,
    ) -> None:
        self._folder = folder
        self._launch = launch
        self._agents = agents
        self._progress = progress
        self._restart = restart
        self._begun = False
        self._given_up: dict[str, Child] = {}
        self._again = again
        self._parts: dict[str, Part] = {}
        self._children: dict[str, Child] = {}
        self._restarts: Counter[str] = Counter()  # of each process since the game last came further
        self._furthest = (0, 0.0, 0.0)  # the last round scored, with its scores
        self._notes: dict[str, str] = {}
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
                await end_all(list(self._children.values()))

    @property
    def _coordinator(self) -> Child:
        return self._children[COORDINATOR]

    async def _start(self, name: str, service: str, *arguments: str, heard: bool = False) -> Child:
        """Start a process whose state, and whose log, stand in the run folder."""
        states = states_of(self._folder)
        kept = ("--state", str(states), "--durability", self._launch.durability)
        part = self._parts[name] = Part(name, service, (*arguments, *kept))
        child = await Child.start(part, states / name / "log", heard=heard, again=self._again)
        self._children[name] = child
        return child

    async def _start_all(self) -> str:
        """Start every process; return where the coordinator listens."""
        spec, launch = str(spec_of(self._folder)), self._launch
        seats = ("--hosts", str(launch.hosts), "--listen", _LOOPBACK)
        patience = ("--policy", launch.policy, "--lost-after", str(launch.lost_after))
        coordinator = await self._start(COORDINATOR, "coordinator", spec, *seats, *patience, heard=True)
        address = await coordinator.announced("listening on ", within=_START_SECONDS)
        part = self._parts[COORDINATOR]  # where it will be looked for, should it die
        there = tuple(address if each == _LOOPBACK else each for each in part.arguments)
        self._parts[COORDINATOR] = replace(part, arguments=there)
        common = ("--coordinator", address, "--listen", _LOOPBACK)
        keep = () if launch.journal_keep is None else ("--journal-keep", str(launch.journal_keep))
        await self._start(ADVERSARY, "adversary", *common, "--out", str(self._folder), *keep)
        for name in self._agents:
            await self._start(name, "agent", *common, "--name", name)
        return address

    async def _see_through(self, channel: Channel) -> None:
        """Watch the game until the coordinator, the last to know that it is over, has ended."""
        interrupted = self.interrupts.next()
        stopping = told = False
        while not self._coordinator.ended.done() or self._coordinator.failed:
            news = {*self._running, interrupted}
            await asyncio.wait(news, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            await self._mend()
            if interrupted.done():
                if stopping:
                    raise KeyboardInterrupt
                stopping, interrupted = True, self.interrupts.next()
            if stopping and not told:
                told = await self._stop(channel)
            await self._look(channel)
        interrupted.cancel()

    async def _see_off(self) -> None:
        """Wait for the others to end, as all do when the game is over; many processes take their time, but not none."""
        await self._mend()
        while staying := self._running:
            ended, _ = await asyncio.wait(staying, timeout=PARTING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            await self._mend()
            if not ended:
                names = ", ".join(child.name for child in self._children.values() if not child.ended.done())
                raise RunFailed(f"the game is over, but {names} did not end; see the logs in {states_of(self._folder)}")

    @property
    def _running(self) -> set["asyncio.Task[int]"]:
        return {child.ended for child in self._children.values() if not child.ended.done()}

    async def _mend(self) -> None:
        """Start again those who have died; raise the cause where a process has failed, or that does not help."""
        for child in [child for child in self._children.values() if child.failed]:
            if self._restart and child.died and self._restarts[child.name] < _RESTARTS:
                await self._start_again(child)
            elif self._can_spare(child):
                self._given_up[child.name] = self._children.pop(child.name)
                self._notes["death"] = f"{child.name} {child.manner}; the game goes on without it"
            elif self._restart and child.died:
                raise RunFailed(
                    f"{child.name} was started again {_RESTARTS} times, and died each time before the game came any "
                    f"further; at last {child.death()}"
                )
            else:
                raise await self._cause()

    def _can_spare(self, dead: Child) -> bool:
        """Tell whether the coordinator may give a process up: an agent host, while there is another."""
        if self._launch.policy is Policy.WAIT or not self._begun or dead.name not in self._agents:
            return False
        return any(name in self._children for name in self._agents if name != dead.name)

    async def _start_again(self, dead: Child) -> None:
        self._restarts[dead.name] += 1
        self._notes["death"] = f"{dead.name} {dead.manner}; started again"
        self._children[dead.name] = await Child.start(self._parts[dead.name], dead.log, again=True)

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
            return False  # it has just been started again
        return True

    async def _look(self, channel: Channel) -> None:
        if self._coordinator.ended.done():
            return
        try:
            status = await ask_status(channel)
        except Unreachable:
            return  # it is leaving, or dead: its end is seen in the next turn
        self._begun = status.phase != "gathering"
        if status.round > self._furthest[0]:
            self._furthest = (status.round, status.cumulative_loss, status.cumulative_violation)
            self._restarts.clear()
        if self._progress is None:
            return
        waiting = {"waiting": f"waiting for {status.waiting_for}"} if status.waiting_for else {}
        note = "; ".join({**self._notes, **waiting}.values())
        # a coordinator that was started again has yet to hear how far the game has come
        self._progress.update(*self._furthest, note)

    async def _cause(self) -> SlaternetError:
        """Return the error behind the first death: a process that says why it ended tells more than others do."""
        children = [*self._children.values(), *self._given_up.values()]
        await asyncio.wait([child.ended for child in children], timeout=_CAUSE_SECONDS)
        dead = [child for child in children if child.failed]
        for kind in (PluginFailed, Diverged):
            for child in dead:
                if child.code == kind.exit_code:
                    return kind(str(child.death()))
        told = [child for child in dead if child.code != RunFailed.exit_code]
        return (told or dead)[0].death()
