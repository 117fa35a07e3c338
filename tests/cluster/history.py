"""What a game has told the world so far: a round that was once recorded may neither vanish nor change."""

import time

from tests.cluster.machines import DEADLINE, eventually
from tests.cluster.services import Services

from slaternet.limits import LIMITS


class History:
    """The lines of metrics.csv, as they were seen while the game went on."""

    def __init__(self, game: Services) -> None:
        self._game = game
        self._table = game.run / "metrics.csv"
        self._seen = b""  # the whole lines, the first of which names the columns

    @property
    def rounds(self) -> int:
        """How many rounds were seen."""
        return max(self._seen.count(b"\n") - 1, 0)

    def look(self) -> int:
        """See what has been added; return how many rounds were seen."""
        if not self._table.exists():  # nothing is scored yet
            return 0
        with self._table.open("rb") as file:
            end = file.seek(0, 2)
            assert end >= len(self._seen), f"{len(self._seen) - end} bytes of recorded rounds were lost"
            file.seek(len(self._seen))
            added = file.read()
        self._seen += added[: added.rfind(b"\n") + 1]
        return self.rounds

    def check(self) -> None:
        """Refuse that anything which was seen is gone, or other than it was."""
        self.look()
        with self._table.open("rb") as file:
            now = file.read(len(self._seen)).splitlines()
        before = self._seen.splitlines()
        changed = [line.decode() for line, other in zip(before, now, strict=True) if line != other]
        assert not changed, f"{len(changed)} recorded rounds have changed, the first of which was {changed[0]}"

    def until(self, rounds: int, seconds: float = DEADLINE) -> None:
        """Wait until so many rounds were seen; whoever has fallen meanwhile ends the wait."""

        def reached() -> bool:
            fallen = self._game.fallen()
            assert not fallen, f"nobody waits for rounds that cannot come: {fallen} have ended"
            return self.look() >= rounds

        eventually(reached, lambda: f"{self.rounds} rounds are recorded of {rounds}", seconds)

    def heal(self) -> float:
        """Wait until everyone must have come further than anyone can be by now; return how many seconds that took.

        Nobody plays more than a window of rounds beyond the last that is scored, and scored is what all have played.
        """
        began = time.monotonic()
        self.until(self.look() + LIMITS.window + 1)
        return time.monotonic() - began
