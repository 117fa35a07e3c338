"""incidents.jsonl: what went wrong in a game, one JSON object a line, as the coordinator reports it."""

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from slaternet.errors import Damaged
from slaternet.limits import LIMITS
from slaternet.model import DISTURBED, IncidentRecord
from slaternet.storage.disk import DISK, Disk, read_file
from slaternet.storage.files import FILE_LIMITS, refusing

INCIDENTS = "incidents.jsonl"

_INCIDENT = TypeAdapter(IncidentRecord)


def read_incidents(folder: Path, *, disk: Disk = DISK) -> list[IncidentRecord]:
    """Return the incidents in a run folder; a last line without an end is none. Damaged where another line is none."""
    path = folder / INCIDENTS
    if INCIDENTS not in disk.names(folder):
        return []
    lines = read_file(path, most=FILE_LIMITS.incident_bytes, disk=disk).split(b"\n")[:-1]
    with refusing(f"{path} has a line that is no incident; put back the right one, or remove it", Damaged):
        return [_INCIDENT.validate_json(line, strict=True) for line in lines]


class IncidentFile:
    """Appends incidents; the coordinator sends them again on every stream, and each is written once."""

    def __init__(self, folder: Path, *, disk: Disk = DISK) -> None:
        """Continue the file of a previous process, if there is one; a line that it has not finished is cut off."""
        self._path = folder / INCIDENTS
        self._disk = disk
        self._written = set(read_incidents(folder, disk=disk))
        self.disturbed = any(each.kind == DISTURBED for each in self._written)
        """Whether some decisions of the game do not follow from the rules."""
        if INCIDENTS in disk.names(folder):
            with closing(disk.open(self._path, write=True)) as file:
                file.truncate(file.read(0, file.size()).rfind(b"\n") + 1)

    def append(self, incident: IncidentRecord) -> None:
        """Write an incident that is not written yet."""
        self.disturbed |= incident.kind == DISTURBED  # also where there is no room for a line
        if incident in self._written or len(self._written) >= LIMITS.incidents:
            return
        exists = INCIDENTS in self._disk.names(self._path.parent)
        with closing(self._disk.open(self._path, write=True) if exists else self._disk.create(self._path)) as file:
            file.append(json.dumps(asdict(incident)).encode() + b"\n")
        self._written.add(incident)
