"""The faults that a nemesis injects into a game between machines: each begins, lasts a while and ends."""

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.cluster.machines import CUT, eventually
from tests.cluster.relay import Faults
from tests.cluster.services import ADVERSARY, Services

from slaternet.errors import Diverged, RunFailed
from slaternet.limits import LIMITS
from slaternet_adversary.journal.journal import JOURNAL

CALM = Faults(delay=0.002, jitter=0.001)
"""How wires are where nothing is wrong with them."""
CLOGGED = Faults(delay=1.0, jitter=0.5)
LOSSY = Faults(delay=0.010, jitter=0.008, loss=0.05, duplication=0.05)

_FILLER = "filler"


def disk(game: Services, name: str) -> Path:
    """Return the folder, on a disk of its own, in which a service writes what must survive it."""
    return game.run if name == ADVERSARY else game.network[name].folder / "state"


class Fault(ABC):
    """One fault; its fields say whom it strikes."""

    kind: ClassVar[str]
    since: ClassVar[int] = 0
    """How many rounds must be recorded before it can strike."""

    @abstractmethod
    def begin(self, game: Services) -> None:
        """Strike."""

    @abstractmethod
    def end(self, game: Services) -> None:
        """Let the game be as it was before."""


@dataclass(frozen=True)
class Kill(Fault):
    """Kill -9 of some services in one instant; each is started again by the same command."""

    kind = "kill"
    names: tuple[str, ...]

    def begin(self, game: Services) -> None:
        game.kill(*self.names)

    def end(self, game: Services) -> None:
        game.start(*self.names)


@dataclass(frozen=True)
class Pause(Fault):
    """A process that stands still, and does not know it."""

    kind = "pause"
    name: str

    def begin(self, game: Services) -> None:
        game[self.name].signal(signal.SIGSTOP)

    def end(self, game: Services) -> None:
        game[self.name].signal(signal.SIGCONT)


@dataclass(frozen=True)
class Cut(Fault):
    """A link that delivers nothing in one direction."""

    kind = "one-way cut"
    source: str
    destination: str

    def begin(self, game: Services) -> None:
        game.network.wires.set(CUT, game.network[self.source], game.network[self.destination])

    def end(self, game: Services) -> None:
        game.network.wires.set(CALM, game.network[self.source], game.network[self.destination])


@dataclass(frozen=True)
class Partition(Fault):
    """Some machines that the others do not reach, nor they them."""

    kind = "partition"
    inside: tuple[str, ...]

    def begin(self, game: Services) -> None:
        self._set(game, CUT)

    def end(self, game: Services) -> None:
        self._set(game, CALM)

    def _set(self, game: Services, faults: Faults) -> None:
        network = game.network
        for name in self.inside:
            for other in (each for each in game.names if each not in self.inside):
                network.wires.set(faults, network[name], network[other])
                network.wires.set(faults, network[other], network[name])


@dataclass(frozen=True)
class Clog(Fault):
    """All that some machines send comes late and out of order; they recover one after the other, in another order."""

    kind = "clog"
    names: tuple[str, ...]
    recovering: tuple[str, ...]

    def begin(self, game: Services) -> None:
        for name in self.names:
            game.network.wires.set(CLOGGED, game.network[name])

    def end(self, game: Services) -> None:
        for name in self.recovering:
            game.network.wires.set(CALM, game.network[name])


@dataclass(frozen=True)
class Unplug(Fault):
    """A machine whose link is down: it knows at once, and nobody else does."""

    kind = "link down"
    name: str

    def begin(self, game: Services) -> None:
        game.network[self.name].plug(up=False)

    def end(self, game: Services) -> None:
        game.network[self.name].plug(up=True)


@dataclass(frozen=True)
class Storm(Fault):
    """Wires that lose, double and reorder, all of them."""

    kind = "lossy wires"

    def begin(self, game: Services) -> None:
        game.network.wires.set(LOSSY)

    def end(self, game: Services) -> None:
        game.network.wires.set(CALM)


@dataclass(frozen=True)
class FullDisk(Fault):
    """A disk without room: its process leaves with a sentence, and goes on when there is room again."""

    kind = "disk full"
    name: str

    def begin(self, game: Services) -> None:
        folder, process = disk(game, self.name), game[self.name]

        def ended() -> bool:
            _fill(folder / _FILLER)  # again and again: a process that removes what is old makes room for itself
            return not process.alive

        eventually(ended, lambda: f"{self.name} does without room; its log:\n{process.tail()}")
        refuses(game, self.name, RunFailed.exit_code, [folder])

    def end(self, game: Services) -> None:
        (disk(game, self.name) / _FILLER).unlink()
        game.start(self.name)


@dataclass(frozen=True)
class Flip(Fault):
    """A bit that turns over in what a dead process has left: its next life refuses, until the bit is put back."""

    kind = "flipped bit"
    # no round is published so far beyond the low-water mark: from then on, who comes back needs a checkpoint
    since = 4 * LIMITS.checkpoint_every
    name: str
    where: float
    """The part of each file that stands before the bit."""
    _whole: dict[Path, bytes] = field(default_factory=dict, compare=False, repr=False)

    def begin(self, game: Services) -> None:
        game.kill(self.name)
        for path in self._files(game):
            whole = self._whole[path] = path.read_bytes()
            damaged = bytearray(whole)
            damaged[int(self.where * len(whole))] ^= 1
            path.write_bytes(damaged)
        game.start(self.name)
        refuses(game, self.name, Diverged.exit_code, self._files(game))

    def end(self, game: Services) -> None:
        for path, whole in self._whole.items():
            path.write_bytes(whole)
        game.start(self.name)

    def _files(self, game: Services) -> Sequence[Path]:
        """Return what the next life relies on: the journal, or whichever checkpoint it is told to go on from."""
        if self.name == ADVERSARY:
            return [game.run / JOURNAL]
        return sorted(path for path in (disk(game, self.name) / self.name / "checkpoints").iterdir() if not path.suffix)


def refuses(game: Services, name: str, code: int, culprits: Sequence[Path]) -> None:
    """See that a process ends by itself, with this exit code and a last sentence that names a culprit."""
    assert game[name].ends() == code
    last = game[name].words().splitlines()[-1]
    assert last.startswith("slaternet: "), last
    assert any(str(path.relative_to(game.network[name].folder)) in last for path in culprits), last


def _fill(path: Path) -> None:
    """Take all the room that there is."""
    with path.open("ab", buffering=0) as file, suppress(OSError):
        space = os.statvfs(path.parent)
        while file.write(bytes(max(space.f_bavail * space.f_frsize, space.f_frsize))):  # a part, and at last nothing
            pass
