"""Files of comma-separated values that grow by whole rows, across crashes of the process."""

from pathlib import Path

from slaternet.errors import Damaged
from slaternet.storage.disk import DISK, Disk

_ROW_BYTES = 4096  # no row is longer


class ResumableCsv:
    """A table on disk. A row outlives the process as soon as it is appended.

    With `again`, the rows of a previous process are appended once more: each is compared with the old row, except for
    the columns in `passing`, and the old one stays. `truncate_rest` ends that.
    """

    def __init__(
        self, path: Path, columns: tuple[str, ...], *, passing: tuple[str, ...] = (), again: bool, disk: Disk = DISK
    ) -> None:
        self._path = path
        self._lasting = [index for index, name in enumerate(columns) if name not in passing]
        again = again and path.name in disk.names(path.parent)
        self._file = disk.open(path, write=True) if again else disk.create(path)
        self._at = 0  # offset of the next row of a previous process
        self._settled = not again
        self.append(",".join(columns))

    def append(self, *rows: str) -> None:
        """Add rows, each without its end of line."""
        new = rows if self._settled else [row for row in rows if not self._repeats(row)]
        if new:
            self._file.append("".join(f"{row}\n" for row in new).encode())

    def skip_rows(self, rows: int) -> str:
        """Skip this many rows of a previous process, the first after the columns' names; return the last of them."""
        row: str | None = ""
        for _ in range(rows):
            if (row := self._old()) is None:
                raise Damaged(f"{self._path} lacks rows up to round {rows}, cut from the journal; put it back")
        return row or ""

    def _old(self) -> str | None:
        """Skip a row of a previous process and return it; None where there is none, or it is incomplete."""
        ahead = b"" if self._settled else self._file.read(self._at, _ROW_BYTES)
        row, end, _ = ahead.partition(b"\n")
        if not end and len(ahead) < _ROW_BYTES:
            return None
        self._at += len(row) + len(end)
        return row.decode(errors="replace")

    def _repeats(self, row: str) -> bool:
        """Skip the old row if it is the same, else Damaged; after the last one cut off an incomplete row."""
        if (old := self._old()) is None:
            self.truncate_rest()
            return False
        if self._stable_columns(old) != self._stable_columns(row):
            raise Damaged(
                f"{self._path} has another row where the journal gives {row[:60]}...; put back the one that belongs to "
                "the journal, or remove it: then it is written anew"
            )
        return True

    def _stable_columns(self, row: str) -> list[str]:
        fields = row.split(",")
        return [fields[index] for index in self._lasting if index < len(fields)]

    def truncate_rest(self) -> None:
        """Cut off rows that were not appended once more; from here on every row is new."""
        if not self._settled and self._file.size() > self._at:
            self._file.truncate(self._at)
        self._settled = True

    def sync(self) -> None:
        """Return once every row would survive a loss of power."""
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
