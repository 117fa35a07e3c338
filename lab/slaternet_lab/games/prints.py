"""What an adversary's plugin prints in a run: it stands in the log of the adversary, and is shown from there."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from slaternet.prints import label_of
from slaternet.texts import printable
from slaternet_lab.games.manifest import ADVERSARY, states_of
from slaternet_lab.games.progress import Watcher

_SHOWN_BYTES = 1 << 14
"""At most so much is shown at a time; a log may grow faster than anybody reads."""


@contextlib.contextmanager
def prints_shown(folder: Path, target: str, progress: Watcher | None) -> Iterator[Watcher | None]:
    """Give a watcher of a run that also shows what its adversary `target` prints; None where nobody watches."""
    if progress is None:
        yield None
        return
    prints = _Prints(folder, target, progress)
    try:
        yield prints
    finally:
        prints.show()


class _Prints:
    def __init__(self, folder: Path, target: str, progress: Watcher) -> None:
        self._log = states_of(folder) / ADVERSARY / "log"
        self._label = f"{label_of(target)}| ".encode()
        self._progress = progress
        self._read = self._size()

    def update(self, round: int, loss: float, violation: float, note: str = "") -> None:
        """Show what was printed since, and the progress."""
        self.show()
        self._progress.update(round, loss, violation, note)

    def show(self) -> None:
        """Show what was printed since the last call."""
        size = self._size()
        start = self._read if self._read <= size else 0  # the log was begun anew
        seen = max(start, size - _SHOWN_BYTES)
        with contextlib.suppress(OSError), self._log.open("rb") as log:
            log.seek(seen)
            data, ended, _ = log.read(size - seen).rpartition(b"\n")
            self._read = seen + len(data) + len(ended)
            lines = [line.decode(errors="replace") for line in data.split(b"\n") if line.startswith(self._label)]
            if lines and seen > start:
                lines.insert(0, f"{self._label.decode()}... all of it is in {self._log}")
            sys.stderr.write("".join(f"{printable(line)}\n" for line in lines))
            sys.stderr.flush()

    def _size(self) -> int:
        with contextlib.suppress(OSError):
            return self._log.stat().st_size
        return 0
