"""Files of comma-separated values that grow by whole rows, also where a crash has come between."""

import os
from pathlib import Path

from slaternet.errors import Diverged


class Table:
    """A table on disk. A row outlives the process as soon as it is appended.

    With `again`, the rows that an earlier life has written are appended once more: such a row is compared with the one
    that stands there, but for the columns that are `passing`, and the old one stays. `settle` ends that.
    """

    def __init__(self, path: Path, columns: tuple[str, ...], *, passing: tuple[str, ...] = (), again: bool) -> None:
        self._path = path
        self._lasting = [index for index, name in enumerate(columns) if name not in passing]
        self._file = path.open("r+b" if again and path.exists() else "w+b")
        self._settled = False
        self.append(",".join(columns))

    def append(self, *rows: str) -> None:
        """Add rows, each without its end of line."""
        for row in rows:
            if self._settled or not self._repeats(row):
                self._file.write(row.encode() + b"\n")
        self._file.flush()

    def pass_over(self, rows: int) -> str:
        """Let the first rows stand as an earlier life has written them; return the last of them, and count from 1."""
        row = b"\n"
        for _ in range(rows):
            if not row.endswith(b"\n"):
                break
            row = self._file.readline()
        if not row.endswith(b"\n"):
            raise Diverged(f"{self._path} lacks rows up to round {rows}, which the journal has no more; put it back")
        return row.decode(errors="replace").rstrip("\n")

    def _repeats(self, row: str) -> bool:
        """Pass over the row of an earlier life that says the same; what a crash has torn goes."""
        at = self._file.tell()
        old = self._file.readline()
        if not old.endswith(b"\n"):
            self._file.seek(at)
            self.settle()
            return False
        if self._essence(old.decode(errors="replace").rstrip("\n")) != self._essence(row):
            raise Diverged(
                f"{self._path} has another row where the journal gives {row[:60]}...; put back the one that belongs to "
                "the journal, or remove it: then it is written anew"
            )
        return True

    def _essence(self, row: str) -> list[str]:
        fields = row.split(",")
        return [fields[index] for index in self._lasting if index < len(fields)]

    def settle(self) -> None:
        """Cut off what was not appended once more; from here on every row is new."""
        if self._settled:
            return
        self._settled = True
        at = self._file.tell()
        if self._file.seek(0, os.SEEK_END) > at:
            self._file.seek(at)
            self._file.truncate()

    def sync(self) -> None:
        """Return once every row would survive a loss of power."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()
