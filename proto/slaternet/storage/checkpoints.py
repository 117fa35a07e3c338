"""Checkpoints: the state of a host after a round, from which it continues after a restart; one file for each round.

A file is a title and one record, in the layout of slaternet.storage.record_file.
"""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from slaternet.errors import Damaged
from slaternet.storage.disk import DISK, DRAFT, Buffer, Disk, draft, publish
from slaternet.storage.failpoints import failpoint
from slaternet.storage.record_file import Reader, Title, head_bytes, seal_of, title_bytes

_KIND = 1


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of one process in one game. It keeps no file open and has no mutable state.

    `write` blocks: a service runs it as `await asyncio.to_thread(checkpoints.write, round, payload)`.
    """

    folder: Path
    name: str
    run: str
    spec: str  # its tag
    disk: Disk = DISK

    def write(self, round: int, payload: Buffer) -> None:
        """Write the state after a round, whole or not at all; when this returns, it survives a loss of power."""
        title = title_bytes(self._title)
        path = self._path(round)
        self.disk.make_folder(self.folder)
        beside = draft(self.disk, path, title, head_bytes(seal_of(title), _KIND, round, payload), payload)
        failpoint("agent_after_checkpoint_write")
        publish(self.disk, beside, path)
        failpoint("agent_after_checkpoint_sync")

    def read(self, round: int) -> bytes:
        """Return the state after a round, bit by bit.

        BadSpec where the checkpoint is missing or belongs to another game, Damaged where it is damaged.
        """
        path = self._path(round)
        with closing(self.disk.open(path)) as file:
            reader = Reader(path, file, largest=file.size())
            reader.expect(self._title)
            records = list(reader)
            if len(records) != 1 or records[0].round != round or reader.remainder:
                raise Damaged(
                    f"{path} is damaged: it must hold one record, of round {round}, and nothing more; restore it "
                    "from a copy, or begin the whole game anew"
                )
        return records[0].payload

    def rounds(self) -> list[int]:
        """Return the rounds that have a checkpoint, in order."""
        return sorted(round for name in self.disk.names(self.folder) if (round := _round_of(name)) is not None)

    def forget_before(self, round: int) -> None:
        """Remove all checkpoints older than the newest one at or before `round`; that one stays."""
        kept = max((each for each in self.rounds() if each <= round), default=0)
        for name in self.disk.names(self.folder):
            old = _round_of(name.removesuffix(DRAFT))
            if old is not None and old < kept:
                self.disk.remove(self.folder / name)

    @property
    def _title(self) -> Title:
        return {"file": "checkpoint", "name": self.name, "run": self.run, "spec": self.spec}

    def _path(self, round: int) -> Path:
        return self.folder / f"{round:06d}"


def _round_of(name: str) -> int | None:
    return int(name) if name.isascii() and name.isdigit() else None
