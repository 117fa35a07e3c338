"""incidents.jsonl: what went wrong in a game, one JSON object a line, as the coordinator reports it."""

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from slaternet.errors import Damaged
from slaternet.limits import LIMITS
from slaternet.model import IncidentRecord
from slaternet.storage.disk import DISK, Disk
from slaternet.storage.files import refusing

DISTURBED = "disturbed"
"""The kind of an incident after which the digest need not be that of a simulation."""


class IncidentFile:
    """Appends incidents; the coordinator sends them again on every stream, and each is written once."""

    def __init__(self, path: Path, *, disk: Disk = DISK) -> None:
        self._path = path
        self._disk = disk
        self._lines = 0
        self._newest = 0.0
        self.disturbed = False
        """Whether some decisions of the game do not follow from the rules."""
        if path.name in disk.names(path.parent):
            self._read()

    def _read(self) -> None:
        """Continue the file of a previous process; a line that it has not finished is written again."""
        with closing(self._disk.open(self._path, write=True)) as file:
            whole, end, torn = file.read(0, file.size()).rpartition(b"\n")
            if torn:
                file.truncate(len(whole) + len(end))
        with refusing(f"{self._path} has a line that is no incident; put back the right one, or remove it", Damaged):
            for line in whole.splitlines():
                self._count(IncidentRecord(**json.loads(line)))

    def _count(self, incident: IncidentRecord) -> None:
        self._lines += 1
        self._newest = incident.time
        self.disturbed |= incident.kind == DISTURBED

    def append(self, incident: IncidentRecord) -> None:
        """Write an incident that is newer than the last."""
        if incident.time <= self._newest or self._lines >= LIMITS.incidents:
            return
        with closing(self._disk.open(self._path, write=True) if self._lines else self._disk.create(self._path)) as file:
            file.append(json.dumps(asdict(incident)).encode() + b"\n")
        self._count(incident)
