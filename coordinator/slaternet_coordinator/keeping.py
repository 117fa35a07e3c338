"""The coordinator's hand that writes: what the engine says must be kept is on disk before anything follows from it."""

from collections.abc import Callable
from pathlib import Path

import structlog

from slaternet.errors import SlaternetError, Unreachable
from slaternet.failpoints import reach
from slaternet_coordinator.archive import Archive, Birth
from slaternet_coordinator.events import Keep
from slaternet_coordinator.memory import Entry, Memory

log = structlog.get_logger()


class Keeper:
    """Keeps a game in an archive; without one nothing survives, and nothing can go wrong."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._archive: Archive | None = None
        self._published = 0
        self.broken: SlaternetError | None = None
        """Why nothing can be kept any more."""

    def open(self, path: Path, born: Birth, *, fresh: bool) -> tuple[Birth, Memory, list[Entry]]:
        """Return the game that an older life has kept; where there is none, or it shall be forgotten, the one born."""
        if fresh:
            Archive.forget(path)
        self._archive = Archive.open(path, born)
        memory, entries = self._archive.recall()
        self._published = memory.published
        if entries:
            reach("coordinator_during_recovery")
        return self._archive.born, memory, entries

    def close(self) -> None:
        """Let go of the archive."""
        if self._archive is not None:
            self._archive.close()

    def keep(self, keep: Keep) -> None:
        """Keep what the effects that follow rely on; a coordinator that cannot gives up, and may come back."""
        if self._archive is None:
            return
        opening = keep.memory.published > self._published
        if opening:
            reach("coordinator_before_round")
        try:
            self._archive.keep(keep.memory, keep.entries)
        except SlaternetError as error:
            log.error("cannot go on", reason=str(error))
            self.broken = error
            self._give_up()
        self._published = keep.memory.published
        if opening:
            reach("coordinator_after_round")

    def check(self) -> None:
        """Refuse to answer where the answer could not be kept."""
        if self.broken is not None:
            raise Unreachable("the coordinator cannot keep what it must remember, and leaves")
