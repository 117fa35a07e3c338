"""A world: one game, its processes on machines of their own, what goes wrong with them, and who watches.

The services are the product's, down to gRPC's Python interface; clock, network, disk and death are virtual. One
random.Random(seed) drives everything. First things go wrong (safety: nothing wrong may ever be seen), then everything
heals (liveness: the game must end, in the bits of its reference).

    outcome = run(seed)
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from simulation.faults import Faults, Weather
from simulation.games import Game
from simulation.invariants import Witness
from simulation.loop import Died, Life, Loop, current
from simulation.machines import Disks, Machine
from simulation.network import Network
from simulation.stage import staged

from slaternet import codec
from slaternet.errors import SlaternetError
from slaternet.model import COORDINATOR, Head
from slaternet.station import Station
from slaternet.transport import call, open_channel
from slaternet_adversary.service import AdversaryService
from slaternet_agent.service import HostService
from slaternet_coordinator.service import CoordinatorService

ADDRESS = "127.0.0.1:7000"
ADVERSARY, OPERATOR = "adversary", "operator"
BOUND = 180.0
"""Seconds within which a game ends once everything has healed; a minute of them is a coordinator's patience."""
_GAP = 0.05
"""Seconds between two looks of whoever lets things go wrong by the clock."""
_STOP = "/slaternet.v1.Coordinator/Stop"
_HEAL = 0.01
"""Seconds after which what is dead when everything heals is started again."""


class Wrong(AssertionError):
    """A world in which something was seen that must not be."""


@dataclass(frozen=True)
class Outcome:
    """How a world went."""

    seed: int
    kind: str
    hosts: int
    faults: Counter[str]
    crashes: int
    rounds: int
    virtual_seconds: float
    heal_seconds: float
    """From when everything had healed until the game came a round further; none where it was over."""
    digest: str
    events: int


def run(seed: int, trace: Callable[[str], None] | None = None, *, harsh: bool = False) -> Outcome:
    """Play out the world of a seed; Wrong, with the line that plays it again, where a promise is broken."""
    world = World(seed, trace, harsh=harsh)
    try:
        return world.play()
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(world.plea(f"{type(error).__name__}: {error}")) from error
    finally:
        world.close()


class World:
    """Everything there is, for one seed."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None, *, harsh: bool = False) -> None:
        self.seed = seed
        self.harsh = harsh
        self.random = Random(seed)
        self.game = Game.draw(self.random, harsh=harsh)
        self.faults = Faults.draw(self.random, quick=not self.game.stop, harsh=harsh)
        self.reference = self.game.reference  # before anything else is put in the place of the real world
        self.loop = Loop()
        self.weather = Weather(self.faults, self.random, self.loop.time, self.point)
        self.network = Network(self.loop, self.weather)
        self._trace = trace
        self._root = Path(tempfile.mkdtemp(prefix="slaternet-world-", dir=_memory()))
        self.hosts = [f"agent-{number}" for number in range(1, self.game.hosts + 1)]
        self.names = [COORDINATOR, ADVERSARY, *self.hosts]
        self.machines = {name: Machine(name, self._root / name) for name in self.names}
        self.lives: dict[str, Life] = {}
        self.left: set[str] = set()
        self.crashes = 0
        self.wrong: str = ""
        self._operator = Life(OPERATOR, 1)
        self._stage = ExitStack()
        self._stage.enter_context(staged(self, Disks(self)))
        self.witness = Witness(self)
        self._stage.enter_context(self.witness.watching())

    # the story

    def play(self) -> Outcome:
        """Play out the world."""
        for name in self.names:
            self.loop.outside(self.random.random() * 0.1, self._start, name)
        if self.game.stop:
            self.loop.outside(0.0, self._stop)
        self.loop.outside(_GAP, self._trouble)
        self.loop.run_until(self._done, self.faults.seconds)
        healed, recorded = self._heal(), self.witness.recorded
        self.loop.run_until(lambda: self._done() or self.witness.is_further(recorded), healed + BOUND)
        heal = self.loop.time() - healed
        self.loop.run_until(self._done, healed + BOUND)
        self._judge()
        self.say(f"over after {self.witness.recorded} rounds")
        return Outcome(
            self.seed,
            self.game.kind,
            self.game.hosts,
            self.weather.counts,
            self.crashes,
            self.witness.recorded,
            self.loop.time(),
            heal,
            self.witness.digest,
            self.loop.steps,
        )

    def close(self) -> None:
        """Let go of everything."""
        with self.loop.running():
            for life in (*self.lives.values(), self._operator):
                life.alive = False
                self.loop.bury(life)
        for machine in self.machines.values():
            machine.kill()
        self.loop.close()
        self._stage.close()
        shutil.rmtree(self._root, ignore_errors=True)

    def _done(self) -> bool:
        return bool(self.wrong or self.loop.errors) or len(self.left) == len(self.names)

    def _heal(self) -> float:
        self.say("everything heals")
        self.weather.heal()
        for life in self.lives.values():
            life.paused_until = 0.0
            self.loop.go_on(life)
        for name in self.names:
            self.loop.outside(_HEAL, self._start, name)
        return self.loop.time()

    def _judge(self) -> None:
        if not self.wrong and self.loop.errors:
            self.wrong = f"a callback has failed: {self.loop.errors[0]!r}"
        if not self.wrong and len(self.left) < len(self.names):
            missing = ", ".join(name for name in self.names if name not in self.left)
            self.wrong = f"the game does not end: {missing} still there, {self.witness.recorded} rounds recorded"
        if not self.wrong:
            self.wrong = self.witness.verdict()
        if self.wrong:
            raise Wrong(self.plea(self.wrong))

    def plea(self, what: str) -> str:
        """Return what went wrong, and how to see it again."""
        seed = f"{self.seed} --harsh" if self.harsh else str(self.seed)
        again = f"cd tests && python -m simulation {seed} --trace"
        return f"seed {seed}, {self.game.kind} with {self.game.hosts} hosts: {what}\n  again: {again}"

    def say(self, what: str) -> None:
        """Tell the story."""
        if self._trace is not None:
            life = current()
            who = f"{life.name}#{life.number}" if life is not None else "world"
            self._trace(f"{self.loop.time():10.4f}  {who:15} {what}")

    @property
    def telling(self) -> bool:
        """Whether anyone listens to the story."""
        return self._trace is not None

    def accuse(self, what: str) -> None:
        """Say that something was seen which must not be."""
        self.say(f"WRONG: {what}")
        self.wrong = self.wrong or what

    # processes

    def _start(self, name: str) -> None:
        before = self.lives.get(name)
        if name in self.left or (before is not None and before.alive):
            return
        number = before.number + 1 if before is not None else 1
        life = self.lives[name] = Life(name, number)
        self.say(f"start {name}#{number}")
        service = life.context.run(self._service, name)
        task = self.loop.spawn(life, service.run(life.context.run(asyncio.Event)))
        task.add_done_callback(lambda done: self._leave(life, done))

    def _service(self, name: str) -> Any:
        folder, durability = self.machines[name].folder, self.faults.durability
        where = {"state": folder / "state", "durability": durability}
        if name == COORDINATOR:
            station = Station(name, listen=ADDRESS, **where)
            return CoordinatorService(self.game.spec, station, hosts=self.game.hosts)
        station = Station(name, ADDRESS, "127.0.0.1:0", **where)
        return AdversaryService(station, folder / "run") if name == ADVERSARY else HostService(station)

    def _leave(self, life: Life, done: "asyncio.Task[int]") -> None:
        if not life.alive:
            return
        life.alive = False
        error = done.exception() if not done.cancelled() else asyncio.CancelledError()
        self.say(f"exits: {error!r}" if error is not None else "exits")
        self.loop.outside(0.0, self.loop.bury, life)
        if error is None and done.result() == 0:
            self.left.add(life.name)
        elif isinstance(error, SlaternetError):
            self.accuse(f"{life.name} ends with {type(error).__name__}: {error}")
        else:
            self.accuse(f"{life.name} crashes: {error!r}")

    def machine_of(self, life: Life) -> Machine:
        """Return the machine of a process."""
        return self.machines[life.name]

    def point(self, where: str) -> None:
        """Let the process that runs die here, if that is its fate; one that is dead already does no more."""
        if self.doomed(where):
            self.die(where)

    def doomed(self, where: str) -> bool:
        """Whether the process that runs shall die here."""
        life = current()
        if life is None or life is self._operator:
            return False
        if not life.alive:
            raise Died
        return self.crashes < self.faults.deaths and self.weather.happens(self.faults.death, "deaths at a step")

    def die(self, where: str) -> NoReturn:
        """Let the process that runs die."""
        life = current()
        assert life is not None
        self.say(f"dies {where}")
        self.kill(life)
        raise Died

    def kill(self, life: Life) -> None:
        """Kill a process, or cut its machine's power; it is started again after a while."""
        life.alive = False
        self.crashes += 1
        machine = self.machines[life.name]
        if self.weather.happens(self.faults.power, "losses of power"):
            self.say(f"{life.name} has lost power")
            machine.crash(self.random)
        else:
            machine.kill()
        self.network.bereave(life)
        self.loop.outside(0.0, self.loop.bury, life)
        self._start_again(life.name)

    def _start_again(self, name: str) -> None:
        delay = self.random.expovariate(1.0 / self.faults.downtime)
        self.loop.outside(_HEAL if self.weather.calm else delay, self._start, name)

    # what goes wrong by the clock

    def _trouble(self) -> None:
        if self.weather.calm:
            return
        faults, random, weather = self.faults, self.random, self.weather
        if weather.happens(faults.clogs * _GAP, "clogs"):
            self._hold(random.uniform(0.0, 5.0), "clogged")
        if weather.happens(faults.cuts * _GAP, "one-way cuts"):
            self._hold(random.uniform(1.0, 30.0), "cut")
        alive = [life for life in self.lives.values() if life.alive]
        if alive and weather.happens(faults.pauses * _GAP, "pauses"):
            self._pause(random.choice(alive))
        if alive and self.crashes < faults.deaths and weather.happens(faults.kills * _GAP, "kills"):
            self._kill(alive)
        self.loop.outside(_GAP, self._trouble)

    def _hold(self, seconds: float, how: str) -> None:
        sender, receiver = self.random.sample(self.names, 2)
        self.say(f"{sender} to {receiver} is {how} for {seconds:.2f} s")
        self.weather.hold(sender, receiver, seconds)

    def _pause(self, life: Life) -> None:
        seconds = 10 ** self.random.uniform(-2.0, 1.4)
        self.say(f"{life.name} pauses for {seconds:.2f} s")
        life.paused_until = max(life.paused_until, self.loop.time() + seconds)

    def _kill(self, alive: list[Life]) -> None:
        together = self.random.random() < 0.1  # now and then all of them at once
        for life in alive if together else [self.random.choice(alive)]:
            self.say(f"{life.name} is killed")
            self.kill(life)

    # the operator

    def _stop(self) -> None:
        """Ask for the end from some round on, again and again until it is heard."""
        if self.witness.stopping:
            return
        if self.witness.recorded >= self.game.stop:
            self.loop.spawn(self._operator, self._ask_to_stop())
        self.loop.outside(0.05, self._stop)

    async def _ask_to_stop(self) -> None:
        try:
            async with open_channel(ADDRESS, COORDINATOR) as channel:
                await call(channel, _STOP, codec.encode_stop_request(Head("", 0, 0, OPERATOR)))
        except SlaternetError as error:  # while the coordinator is away
            self.say(f"cannot stop the game: {error}")


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
