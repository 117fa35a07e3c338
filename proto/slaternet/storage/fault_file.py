"""fault.json: the failure of a plugin with which a process has ended, for the one that has started it."""

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from slaternet.errors import PluginFailed
from slaternet.plugin_faults import PluginFault
from slaternet.storage.disk import DISK, Disk, replace_file
from slaternet.storage.files import read_json

FAULT = "fault.json"


@dataclass(frozen=True, slots=True)
class _Kept:
    sentence: str
    command: str
    fault: PluginFault | None


_KEPT = TypeAdapter(_Kept)


def write_fault(folder: Path, error: PluginFailed, *, disk: Disk = DISK) -> None:
    """Write a failure to the state of a process; without room for it, the process's log alone has it."""
    with contextlib.suppress(OSError):
        kept = json.dumps(asdict(_Kept(str(error.args[0]), error.command, error.fault)), indent=2) + "\n"
        replace_file(folder / FAULT, kept.encode(), disk=disk)


def read_fault(folder: Path, *, disk: Disk = DISK) -> PluginFailed | None:
    """Return the failure in the state of a process, if there is one."""
    if FAULT not in disk.names(folder):
        return None
    kept = read_json(folder / FAULT, _KEPT, "is damaged; see the log beside it", disk=disk)
    failed = PluginFailed.saying(kept.sentence, kept.fault)
    failed.command = kept.command
    return failed
