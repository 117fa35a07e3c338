"""Hosts that are away for too long, some of them for ever: how often is drawn last, and only where hosts are given up.

A quarter of all worlds is of that kind; in the others a game waits for everyone, and everyone comes back.
"""

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from slaternet.errors import Mismatch, Unreachable
from slaternet.model import COORDINATOR
from slaternet.service.main import DEGRADED
from slaternet_coordinator.engine.rules import LOST_AFTER, Policy

if TYPE_CHECKING:
    from tests.simulation.games import Game
    from tests.simulation.world import World

_SILENCE = 15.0
"""Seconds after which a stream ends on which nothing is heard."""
_POLICIES = {3: Policy.LEAVE, 6: Policy.REPLACE}
"""By the remainder of a seed modulo 8."""
_MOMENTS = ("round", "round", "round", "hold", "adoption", "over")
_FATES = ("dies for ever", "dies for ever", "is late", "pauses", "is cut off")
"""Who is cut off can still ask the adversary: it buys what nobody else has come to."""
_COMPANY = ((), (), (COORDINATOR,), ("adversary",), (COORDINATOR, "adversary"))


@dataclass(frozen=True)
class Absence:
    """A host that is away for too long."""

    moment: str
    """When: after a `round`, while others `hold`, after an `adoption`, then it is the adopter, or when all is over."""
    round: int
    delay: float
    """Seconds after that moment."""
    fate: str
    company: tuple[str, ...]
    """Who dies in the same moment, and is started again as ever."""


@dataclass(frozen=True)
class Losses:
    """What becomes of those who are away, and who that is."""

    policy: Policy = Policy.WAIT
    lost_after: float = LOST_AFTER
    spares: int = 0
    absences: tuple[Absence, ...] = ()

    @property
    def seconds(self) -> float:
        """How much longer things go wrong, so that hosts are lost meanwhile."""
        return 0.0 if self.policy is Policy.WAIT else self.lost_after + _SILENCE

    @classmethod
    def draw(cls, random: Random, seed: int, game: "Game", policy: Policy | None = None, *, harsh: bool) -> "Losses":
        """Draw who is away for too long, in the world of a seed; `policy`: whatever the seed says."""
        policy = policy or _POLICIES.get(seed % 8, Policy.WAIT)
        if policy is Policy.WAIT:
            return cls()
        moments = ["round", *(random.choice(_MOMENTS) for _ in range(random.randint(0, game.hosts)))]
        last = game.stop or game.spec.run.rounds or 0
        absences = [
            Absence(
                moment,
                random.randint(0, last),
                random.choice((0.0, random.uniform(0.0, 0.1), random.uniform(0.0, 1.0))),
                random.choice(_FATES),
                random.choice(_COMPANY),
            )
            for moment in moments
        ]
        if harsh:  # a coordinator that restarts while hosts hold must tell them to hold again; no host is away then
            absences.append(Absence("hold", 0, 0.0, "stays", (COORDINATOR,)))
        lost_after = random.uniform(1.0, 5.0) if harsh else random.uniform(5.0, 25.0)
        spares = random.choice((1, 2) if game.hosts == 1 else (0, 0, 1, 2))
        return cls(policy, lost_after, spares, tuple(absences))


class Reaper:
    """Takes hosts away in one world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._due = list(world.losses.absences)

    def look(self) -> None:
        """See whether a moment has come."""
        for absence in [each for each in self._due if self._has_come(each)]:
            self._due.remove(absence)
            self._world.loop.outside(absence.delay, self._take, absence)

    def _has_come(self, absence: Absence) -> bool:
        witness, register = self._world.witness, self._world.witness.register
        match absence.moment:
            case "round":
                return register.begun and witness.recorded >= absence.round
            case "hold":
                return bool(register.orphaned)
            case "adoption":
                return bool(register.adopter)
            case _:
                return bool(witness.rounds)

    def _take(self, absence: Absence) -> None:
        world = self._world
        if world.weather.healed:
            return
        there = [name for name in world.hosts if name not in world.witness.register.lost | world.gone]
        if len(there) < 2:
            return
        seated = [name for name in there if name in world.witness.register.seated] or there
        adopter = world.witness.register.adopter
        name = adopter if absence.moment == "adoption" and adopter in there else world.random.choice(seated)
        world.say(f"{name} {absence.fate}, with {absence.company or 'nobody'}")
        world.weather.counts[f"hosts: {absence.fate}"] += 1
        self._strike(name, absence.fate)
        for other in absence.company:
            if (life := world.lives[other]).alive:
                world.kill(life)

    def _strike(self, name: str, fate: str) -> None:
        world, life = self._world, self._world.lives[name]
        long = max(_SILENCE, world.losses.lost_after) + world.random.uniform(0.0, 10.0)
        if fate == "is cut off":
            for other in {COORDINATOR, *world.hosts} - {name}:
                world.weather.hold(name, other, long)
        elif fate == "pauses" and life.alive:
            life.paused_until = world.loop.time() + long
        elif fate != "stays" and life.alive:
            world.kill(life, downtime=world.losses.lost_after + world.random.uniform(0.0, 10.0))
        if fate == "dies for ever":
            world.gone.add(name)


def is_pardoned(world: "World", name: str, error: BaseException) -> bool:
    """Whether a process rightly does not get into the game: it was given up, or nobody needs it any more."""
    if isinstance(error, Mismatch) and "is given up" in str(error):
        return name in world.witness.register.lost
    late = isinstance(error, Unreachable) or (isinstance(error, Mismatch) and "comes too late" in str(error))
    return late and not world.witness.register.needs(name) and bool(world.witness.rounds)


def is_good(world: "World", name: str, code: int) -> bool:
    """Whether a process may end with an exit code: the coordinator says that agents have left."""
    return code == 0 or (code == DEGRADED and name == COORDINATOR and bool(world.witness.register.kept.departures))
