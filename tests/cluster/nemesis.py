"""The nemesis: a game between machines, and faults that are drawn from a seed and strike as its rounds go on."""

import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tests.cluster.history import History
from tests.cluster.injections import CALM, Clog, Cut, Fault, Flip, FullDisk, Kill, Partition, Pause, Storm, Unplug, disk
from tests.cluster.machines import eventually
from tests.cluster.services import ADVERSARY, COORDINATOR, Services, run, services, simulated

HOSTS = 6
SPEC = ("paper", "--set", "run.agents=24")
LONGEST = 5.0
"""Seconds that a fault lasts at most."""

_DISK = "size=64m"
_PAUSE = 30  # rounds between two faults, at most

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Step:
    """Some faults at once, after so many more rounds, for so many seconds."""

    rounds: int
    seconds: float
    faults: tuple[Fault, ...]
    heals: bool
    """Whether the game shall have gone on before the next faults strike."""


@dataclass(slots=True)
class Outcome:
    """What the faults have done to a game, and it to them."""

    seed: int
    rounds: int = 0
    digest: str = ""
    kills: Counter[str] = field(default_factory=Counter)
    """Processes that were killed, by role."""
    faults: Counter[str] = field(default_factory=Counter)
    """All other faults, by kind."""
    heals: list[float] = field(default_factory=list)
    """Seconds after which the game had gone on; the last, after the last fault."""
    packets: dict[str, int] = field(default_factory=dict)
    """What the wires did to packets."""


def draw(seed: int, names: Sequence[str], kills: int, others: int) -> list[Step]:
    """Draw at least so many kills of processes, and so many other faults, of every kind and for every role."""
    chance = random.Random(f"nemesis {seed}")
    killing = list(_kills(chance, names, kills))
    chance.shuffle(killing)
    steps = []
    for fault in _others(chance, names, others):
        rounds, seconds = chance.randrange(_PAUSE), chance.uniform(0.1, LONGEST)
        # now and then someone dies while a fault lasts; not with a damaged disk: that is why its process shall leave
        alone = isinstance(fault, FullDisk | Flip) or chance.random() < 0.7
        dying = [killing.pop()] if killing and not alone else []
        steps.append(Step(rounds, seconds, (fault, *dying), True))
    steps += [
        Step(chance.randrange(_PAUSE), chance.uniform(0.0, 1.0), (kill,), chance.random() < 0.7) for kill in killing
    ]
    chance.shuffle(steps)
    # a bit that turns over needs a file to do so in
    steps.sort(key=lambda step: any(fault.since for fault in step.faults))
    return [*steps[:-1], replace(steps[-1], heals=True)]


def _kills(chance: random.Random, names: Sequence[str], number: int) -> Iterator[Kill]:
    """Draw all at once, all hosts at once, each role by itself, and more of them, until there are enough."""
    players = [name for name in names if name not in (COORDINATOR, ADVERSARY)]
    groups = [list(names), players, [COORDINATOR], [ADVERSARY], [chance.choice(players)]]
    while number > 0:
        group = groups.pop(0) if groups else [chance.choice([COORDINATOR, ADVERSARY, *chance.sample(players, 2)])]
        number -= len(group)
        yield Kill(tuple(chance.sample(group, len(group))))


def _others(chance: random.Random, names: Sequence[str], number: int) -> Iterator[Fault]:
    """Draw every kind in turn until there are enough."""
    players = [name for name in names if name not in (COORDINATOR, ADVERSARY)]
    drawn = 0
    while drawn < number:
        one, two, three = chance.sample(list(names), 3)
        kinds = [
            Pause(one),
            Cut(two, three),
            Partition((one,)),
            Clog((one, two, three), (three, one, two)),
            Unplug(two),
            Storm(),
            Pause(chance.choice([COORDINATOR, ADVERSARY])),
            FullDisk(three),
            Flip(ADVERSARY, chance.uniform(0.0, 0.9)),
            Flip(chance.choice(players), chance.random()),
        ]
        drawn += len(kinds)
        yield from kinds


class Nemesis:
    """Strikes a game, step by step, and takes note of everything."""

    def __init__(self, game: Services, outcome: Outcome, say: Say) -> None:
        self._game = game
        self._history = History(game)
        self._outcome = outcome
        self._say = say

    def strike(self, step: Step) -> None:
        """Wait for the moment, have the faults begin and end, and see the game go on."""
        self._history.until(max(self._history.look() + step.rounds, *(fault.since for fault in step.faults), 1))
        self._say(f"round {self._history.rounds}: {', '.join(map(str, step.faults))}, {step.seconds:.1f} s")
        for fault in step.faults:
            fault.begin(self._game)
            self._note(fault)
        over = time.monotonic() + step.seconds
        eventually(lambda: self._history.look() >= 0 and time.monotonic() >= over, lambda: "time stands still")
        for fault in reversed(step.faults):
            fault.end(self._game)
        if step.heals:
            self._heal()

    def conclude(self) -> None:
        """Stop the game, and hold all that was seen against its end."""
        game, outcome = self._game, self._outcome
        game.stop()
        outcome.digest = game.end_well()
        self._history.check()
        outcome.rounds = int(json.loads((game.run / "summary.json").read_text())["rounds"])
        outcome.packets = asdict(game.network.wires.total())
        assert self._history.rounds == outcome.rounds
        assert outcome.digest == simulated(outcome.rounds, SPEC)
        run("audit", game.run)

    def _heal(self) -> None:
        self._history.check()
        seconds = self._history.heal()
        self._outcome.heals.append(seconds)
        self._say(f"round {self._history.rounds}: going on after {seconds:.1f} s")

    def _note(self, fault: Fault) -> None:
        if isinstance(fault, Kill):
            self._outcome.kills.update(name.partition("-")[0] for name in fault.names)
        else:
            self._outcome.faults[fault.kind] += 1


def play(seed: int, folder: Path, *, kills: int, others: int, say: Say = print) -> Outcome:
    """Play one game under at least so many kills and other faults; whatever it ends in but its simulation is an error.

    What is said names the seed, by which everything but the clock can be had again.
    """
    outcome = Outcome(seed)
    with services(folder, HOSTS, None, faults=CALM, seed=seed, spec=SPEC, options=("--state", "state")) as game:
        say(f"nemesis of seed {seed}")
        with ExitStack() as disks:
            for name in game.names:
                _mount(disk(game, name), disks)
            game.start(*game.names)
            nemesis = Nemesis(game, outcome, say)
            for step in draw(seed, game.names, kills, others):
                nemesis.strike(step)
            nemesis.conclude()
    return outcome


def _mount(folder: Path, disks: ExitStack) -> None:
    """Give a folder a small disk of its own, as long as the block lasts."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", _DISK, "tmpfs", str(folder)], check=True)
    # lazily: where the block fails, processes live that use it
    disks.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=True)
