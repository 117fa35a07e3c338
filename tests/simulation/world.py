"""A world: one game, its processes on machines of their own, what goes wrong with them, and who watches.

The services are the product's, down to gRPC's Python interface; clock, network, disk and death are virtual. One
random.Random(seed) drives everything. First things go wrong (safety: nothing wrong may ever be seen), then everything
heals (liveness: the game must end, in the bits of its reference).

    outcome = run(seed)
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from tests.simulation.faults import Faults, Weather
from tests.simulation.games import Game
from tests.simulation.invariants import Witness
from tests.simulation.loop import Died, Life, Loop, current
from tests.simulation.losses import Losses, Reaper, is_good, is_pardoned
from tests.simulation.machines import Machine
from tests.simulation.nemesis import Nemesis
from tests.simulation.network import Network
from tests.simulation.operations import Operator
from tests.simulation.outcome import Outcome
from tests.simulation.stage import environment, staged

from slaternet.errors import SlaternetError
from slaternet.model import COORDINATOR
from slaternet.service.config import ProcessConfig
from slaternet_adversary.shell.service import AdversaryService
from slaternet_agent.shell.service import HostService
from slaternet_coordinator.engine.rules import Policy
from slaternet_coordinator.shell.service import CoordinatorService

ADDRESS = "127.0.0.1:7000"
ADVERSARY = "adversary"
BOUND = 180.0
"""Seconds within which a game ends once everything has healed; a minute of them is a coordinator's patience."""
_HEAL = 0.01
"""Seconds after which what is dead when everything heals is started again."""


class Wrong(AssertionError):
    """A world in which something was seen that must not be."""


def run(
    seed: int,
    trace: Callable[[str], None] | None = None,
    *,
    harsh: bool = False,
    policy: Policy | None = None,
    coded: bool | None = None,
) -> Outcome:
    """Play out the world of a seed; Wrong, with the line that plays it again, where a promise is broken.

    `policy`: what becomes of hosts that are away for too long; `coded`: whether rows travel in a code; whatever the
    seed says.
    """
    world = World(seed, trace, harsh=harsh, policy=policy, coded=coded)
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

    def __init__(
        self,
        seed: int,
        trace: Callable[[str], None] | None = None,
        *,
        harsh: bool = False,
        policy: Policy | None = None,
        coded: bool | None = None,
    ) -> None:
        self.seed = seed
        self._again = f"{seed}{' --harsh' if harsh else ''}{f' --policy {policy}' if policy else ''}"
        self._again += {None: "", True: " --coded", False: " --no-coded"}[coded]
        self.random = Random(seed)
        self.game = Game.draw(self.random, seed, harsh=harsh, coded=coded)
        self.faults = Faults.draw(self.random, quick=not self.game.stop, harsh=harsh)
        self.losses = Losses.draw(self.random, seed, self.game, policy, harsh=harsh)
        self.reference = self.game.reference  # before anything else is put in the place of the real world
        self.loop = Loop()  # type: ignore[abstract]  # what nobody here calls it does not have
        self.weather = Weather(self.faults, self.random, self.loop.time, self.point)
        self.network = Network(self.loop, self.weather)
        self._trace = trace
        self._root = Path(tempfile.mkdtemp(prefix="slaternet-world-", dir=_memory()))
        self.hosts = [f"agent-{number}" for number in range(1, self.game.hosts + self.losses.spares + 1)]
        self.names = [COORDINATOR, ADVERSARY, *self.hosts]
        self.machines = {name: Machine(name, self._root / name) for name in self.names}
        self.lives: dict[str, Life] = {}
        self.left: set[str] = set()
        self.gone: set[str] = set()
        """Those who never come back."""
        self.crashes = 0
        self.wrong = ""
        self.operator = Operator(self, ADDRESS)
        self.reaper = Reaper(self)
        self._stage = ExitStack()
        self.witness = Witness(self)
        # the witness stands closer to the product than death does: it sees what was done just before
        self._stage.enter_context(self.witness.watching())
        self._stage.enter_context(staged(self))
        self.environment = environment(self)

    # the story

    def play(self) -> Outcome:
        """Play out the world."""
        for name in self.names:
            self.loop.outside(self.random.random() * 0.1, self._start, name)
        if self.game.stop:
            self.loop.outside(0.0, self.operator.stop)
        Nemesis(self).begin()
        self.loop.run_until(self._done, self.faults.seconds + self.losses.seconds)
        healed, recorded = self._heal(), self.witness.recorded
        self.loop.run_until(lambda: self._done() or self.witness.is_further(recorded), healed + BOUND)
        heal = self.loop.time() - healed
        self.loop.run_until(self._done, healed + BOUND)
        self._end()  # what the game should have been is found out by the product alone
        self._judge()
        return Outcome(
            self.seed,
            self.game.kind,
            self.game.hosts,
            self.losses,
            self.weather.counts,
            self.crashes,
            self.witness.recorded,
            self.loop.time(),
            heal,
            self.witness.digest,
            self.loop.steps,
        )

    def _end(self) -> None:
        with self.loop.running():
            for life in (*self.lives.values(), self.operator.life):
                life.alive = False
                self.loop.bury(life)
        for machine in self.machines.values():
            machine.kill()
        self.loop.close()
        self._stage.close()

    def close(self) -> None:
        """Let go of everything."""
        self._end()
        shutil.rmtree(self._root, ignore_errors=True)

    def _done(self) -> bool:
        return bool(self.wrong or self.loop.errors) or all(map(self._is_over_for, self.names))

    def _is_over_for(self, name: str) -> bool:
        return name in self.left or name in self.gone or not self.witness.register.needs(name)

    def _heal(self) -> float:
        self.say("everything heals")
        self.weather.heal()
        for life in self.lives.values():
            life.paused_until = 0.0
            self.loop.go_on(life)
        for name in self.names:
            self.loop.outside(_HEAL, self._start, name)
        if self.gone:
            self.loop.outside(_HEAL, self.operator.help)
        return self.loop.time()

    def _judge(self) -> None:
        missing = ", ".join(name for name in self.names if not self._is_over_for(name))
        if not self.wrong and self.loop.errors:
            self.wrong = f"a callback has failed: {self.loop.errors[0]!r}"
        elif not self.wrong and missing:
            self.wrong = f"the game does not end: {missing} still there, {self.witness.recorded} rounds recorded"
        if wrong := self.wrong or self.witness.verdict():
            raise Wrong(self.plea(wrong))

    def plea(self, what: str) -> str:
        """Return what went wrong, and how to see it again."""
        again = f"python -m tests.simulation {self._again} --trace"
        kind = f"{self.game.kind} with {self.game.hosts} hosts, {self.losses.policy}"
        return f"seed {self._again}, {kind}: {what}\n  again: {again}"

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
        if name in self.left or name in self.gone or (before is not None and before.alive):
            return
        number = before.number + 1 if before is not None else 1
        life = self.lives[name] = Life(name, number, self.loop.time())
        self.say(f"start {name}#{number}")
        service = life.context.run(self._service, name)
        task = self.loop.spawn(life, service.run(life.context.run(asyncio.Event)))
        task.add_done_callback(lambda done: self._leave(life, done))

    def _service(self, name: str) -> Any:
        folder, durability = self.machines[name].folder, self.faults.durability
        if name == COORDINATOR:
            config = ProcessConfig(
                name, listen=ADDRESS, state=folder / "state", durability=durability, environment=self.environment
            )
            losses = self.losses
            return CoordinatorService(
                self.game.spec, config, hosts=self.game.hosts, policy=losses.policy, lost_after=losses.lost_after
            )
        config = ProcessConfig(
            name,
            ADDRESS,
            "127.0.0.1:0",
            state=folder / "state",
            durability=durability,
            environment=self.environment,
        )
        return AdversaryService(config, folder / "run") if name == ADVERSARY else HostService(config)

    def _leave(self, life: Life, done: "asyncio.Task[int]") -> None:
        if not life.alive:
            return
        life.alive = False
        error = done.exception() if not done.cancelled() else asyncio.CancelledError()
        self.say(f"exits: {error!r}" if error is not None else "exits")
        self.loop.outside(0.0, self.loop.bury, life)
        if error is None and is_good(self, life.name, done.result()):
            self.left.add(life.name)
        elif error is not None and is_pardoned(self, life.name, error):
            self.gone.add(life.name)
        elif isinstance(error, SlaternetError):
            self.accuse(f"{life.name} ends with {type(error).__name__}: {error}")
        else:
            self.accuse(f"{life.name} crashes: {error!r}")

    def add_host(self, name: str) -> None:
        """Start a host that was not there before."""
        self.hosts.append(name)
        self.names.append(name)
        self.machines[name] = Machine(name, self._root / name)
        self._start(name)

    def machine_of(self, life: Life) -> Machine:
        return self.machines[life.name]

    def point(self, where: str) -> None:
        """Let the process that runs die here, if that is its fate; one that is dead already does no more."""
        if self.doomed(where):
            self.die(where)

    def doomed(self, where: str) -> bool:
        """Whether the process that runs shall die here."""
        life = current()
        if life is None or life is self.operator.life:
            return False
        if not life.alive:
            raise Died
        return self.may_kill() and self.weather.happens(self.faults.death, "deaths at a step")

    def may_kill(self) -> bool:
        """Whether another process may die: in a patient world, some in every round."""
        faults = self.faults
        due = 2 + 2 * self.witness.recorded if faults.patient else faults.deaths
        return self.crashes < min(due, faults.deaths)

    def die(self, where: str) -> NoReturn:
        """Let the process that runs die."""
        life = current()
        assert life is not None
        self.say(f"dies {where}")
        self.kill(life)
        raise Died

    def kill(self, life: Life, downtime: float | None = None) -> None:
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
        delay = self.random.expovariate(1.0 / self.faults.downtime) if downtime is None else downtime
        self.loop.outside(_HEAL if self.weather.calm and downtime is None else delay, self._start, life.name)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
