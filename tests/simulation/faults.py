"""What goes wrong in a world: how often is drawn from the seed, so that quiet and hellish worlds both occur."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from slaternet.storage.journal import Durability


@dataclass(frozen=True)
class Faults:
    """How often what goes wrong. Rates are per second of virtual time, chances per message or step."""

    durability: Durability
    seconds: float
    """How long things go wrong; then everything heals."""
    patient: bool
    """Whether nothing goes wrong before the first round is recorded, and deaths are spread over the rounds.

    Else most of it befalls those who gather.
    """
    latency: float
    jitter: float
    death: float
    """That a process dies at one of the points where it touches disk or network."""
    deaths: int
    """At most."""
    power: float
    """That a death is a loss of power, where journals survive that."""
    downtime: float
    """Seconds until a dead process is started again, on average."""
    breakage: float
    silence: float
    loss: float
    doubling: float
    overtaking: float
    clogs: float
    cuts: float
    pauses: float
    kills: float

    @classmethod
    def draw(cls, random: Random, *, quick: bool = True, harsh: bool = False) -> "Faults":
        """Draw how often what goes wrong.

        In a world that is not quick a round takes so long that few are played in a moment. In a harsh one processes
        die and streams break all the time while the game goes on, which nothing else holds up: there a bug shows soon.
        """

        def often(low: float, high: float, absent: float = 0.35) -> float:
            exponent = random.uniform(low + 0.75 * (high - low) if harsh else low, high)
            return 0.0 if random.random() < absent and not harsh else 10.0**exponent

        def held_up(low: float, high: float) -> float:
            chance = often(low, high)
            return 0.0 if harsh else chance

        durability = Durability.FSYNC if harsh else random.choice(list(Durability))
        return cls(
            durability=durability,
            seconds=random.uniform(10.0 if harsh else 1.0, 30.0),
            patient=random.random() < 0.6 or harsh,
            latency=10 ** random.uniform(-3.0 if quick else -2.3, -1.3),
            jitter=often(-3.0, -1.5 if harsh else -0.7),
            death=often(-3.0, -1.2 if harsh else -1.6, absent=0.2),
            deaths=random.randint(24 if harsh else 4, 28 if harsh else 24),
            power=random.random() if durability is Durability.FSYNC else 0.0,
            downtime=10 ** random.uniform(-2.0, -0.5 if harsh else 0.3),
            breakage=often(-3.0, -1.0),
            silence=0.0 if harsh else random.uniform(0.0, 0.5),
            loss=held_up(-2.0, -0.5),
            doubling=often(-2.0, -0.3),
            overtaking=often(-2.0, -0.5),
            clogs=held_up(-1.0, 0.3),
            cuts=held_up(-1.5, 0.0),
            pauses=held_up(-1.0, 0.0),
            kills=held_up(-0.7, 0.7),
        )


class Weather:
    """What befalls messages and processes; implements simulation.network.Weather."""

    def __init__(self, faults: Faults, random: Random, now: Callable[[], float], point: Callable[[str], None]) -> None:
        self.faults = faults
        self.calm = faults.patient
        """Whether nothing goes wrong, yet or any more."""
        self.healed = False
        self.counts: Counter[str] = Counter()
        self.point = point
        self._random = random
        self._now = now
        self._held: dict[tuple[str, str], float] = {}  # until when nothing gets through

    def happens(self, chance: float, what: str) -> bool:
        """Draw whether something goes wrong, and count it."""
        if self.calm or not chance or self._random.random() >= chance:
            return False
        self.counts[what] += 1
        return True

    def delay(self) -> float:
        return self.faults.latency + (0.0 if self.calm else self._random.random() * self.faults.jitter)

    def held(self, sender: str, receiver: str) -> float:
        return self._held.get((sender, receiver), 0.0)

    def lost(self) -> bool:
        return self.happens(self.faults.loss, "calls lost")

    def breaks(self) -> bool:
        return self.happens(self.faults.breakage, "streams broken")

    def silent(self) -> bool:
        return self.happens(self.faults.silence, "ends not told")

    def doubled(self) -> bool:
        return self.happens(self.faults.doubling, "messages doubled")

    def overtaken(self) -> bool:
        return self.happens(self.faults.overtaking, "messages overtaken")

    def hold(self, sender: str, receiver: str, seconds: float) -> None:
        """Let nothing through from one process to another for a while."""
        key = sender, receiver
        self._held[key] = max(self._held.get(key, 0.0), self._now() + seconds)

    def heal(self) -> None:
        """Let everything through, and nothing go wrong any more."""
        self.calm = self.healed = True
        self._held.clear()

    def begin(self) -> None:
        """Let things go wrong from now on, unless everything has healed."""
        self.calm = self.healed
