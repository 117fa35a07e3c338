"""The state of a process across restarts: a folder DIR/NAME that one process at a time holds.

lock         held as long as the process runs
state.json   its game: run, spec, whether it is over, and of an adversary the run folder
checkpoints  of a host: its state after some rounds of that game
fault.json   the failure of a plugin with which the last process has ended, where it has
"""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from slaternet.errors import BadSpec, PluginFailed
from slaternet.limits import LIMITS
from slaternet.storage.disk import DISK, DRAFT, Disk, DiskFile, refuse_link, replace_file
from slaternet.storage.fault_file import FAULT, write_fault
from slaternet.storage.files import read_json

AUTO = "auto"
"""In place of a name: the first of agent-1, agent-2, ... whose folder no process holds."""

_CHECKPOINTS = "checkpoints"
_LOCK = "lock"
_STATE = "state.json"


@dataclass(frozen=True, slots=True)
class SavedState:
    """The content of state.json: the game that a process has begun."""

    name: str
    role: str
    run: str = ""  # empty: no game was begun
    spec: str = ""  # its tag, by which the spec is known again; of a coordinator, its SHA-256
    over: bool = False
    rounds: int = 0
    results: str = ""  # the run folder, where this process writes one


class StateDir:
    """The state of one process; without a folder it ends with the process."""

    def __init__(
        self, name: str, role: str, folder: Path | None = None, lock: DiskFile | None = None, disk: Disk = DISK
    ) -> None:
        self.name = name
        self.folder = folder
        self._role = role
        self._lock = lock
        self._disk = disk
        self._past = SavedState(name, role)

    @classmethod
    def claim(cls, states: Path | None, name: str, *, role: str, fresh: bool = False, disk: Disk = DISK) -> Self:
        """Lock the folder of `name` in `states` until `release`, and read it; `fresh` empties it first.

        BadSpec where another process holds it, or it cannot be read or written. AUTO stands for a free name.
        """
        if states is None:
            if name == AUTO:
                raise BadSpec(f"--name {AUTO} takes a name that is free in --state DIR; say which DIR, or give a name")
            return cls(name, role)
        names = [f"agent-{number + 1}" for number in range(LIMITS.hosts)] if name == AUTO else [name]
        for each in names:
            if (state := cls._claim(states, each, role, disk, fresh=fresh)) is not None:
                return state
        if name == AUTO:
            raise BadSpec(f"all {LIMITS.hosts} names in --state {states} are taken; choose another DIR")
        raise BadSpec(
            f"the state {states / name} is held by another process; end that one, or choose another --name or --state"
        )

    @classmethod
    def claim_idle(cls, states: Path, name: str, *, role: str) -> Self | None:
        """Claim the folder of `name` as `claim` does, but return None where another process holds it."""
        return cls._claim(states, name, role, DISK, fresh=False)

    @classmethod
    def _claim(cls, states: Path, name: str, role: str, disk: Disk, *, fresh: bool) -> Self | None:
        folder = states / name
        disk.make_folder(folder)
        refuse_link(folder / _CHECKPOINTS)
        lock = disk.lock(folder / _LOCK)
        if lock is None:
            return None
        state = cls(name, role, folder, lock, disk)
        try:
            state._remove(folder, FAULT)
            if fresh:
                state._remove(folder / _CHECKPOINTS)
                state._remove(folder, _STATE, _STATE + DRAFT)
            else:
                state._past = state._read(folder)
        except BaseException:
            state.release()
            raise
        return state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PluginFailed) and self.folder is not None:
            write_fault(self.folder, error, disk=self._disk)
        self.release()

    def release(self) -> None:
        """Unlock the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def finished_notice(self) -> str:
        """A sentence for the operator if the saved game is over, else empty."""
        if not self._past.over:
            return ""
        rounds = f" after {self._past.rounds} rounds" if self._past.rounds else ""
        return (
            f"the game that {self.name} remembers in {self.folder} is over{rounds}; start it with --fresh for another"
        )

    @property
    def durable(self) -> bool:
        """Whether it survives the process."""
        return self.folder is not None

    @property
    def checkpoints(self) -> Path | None:
        """The folder of the game's checkpoints; None without a state folder."""
        return self.folder / _CHECKPOINTS if self.folder is not None else None

    @property
    def past_spec(self) -> str:
        """By which the saved game's spec is known again; empty where no game was begun."""
        return self._past.spec

    def remember(self, run: str, spec: str) -> None:
        """Save which game this process has begun; when this returns, that survives a loss of power.

        Checkpoints of another game are removed first, so that after a crash in between no game finds those of another.
        """
        same = self._past.run == run
        if self._past.run and self.folder is not None and not same:
            self._remove(self.folder / _CHECKPOINTS)
        self._write(SavedState(self.name, self._role, run, spec, results=self._past.results if same else ""))

    @property
    def results(self) -> Path | None:
        """The run folder of the saved game; None where there is none."""
        return Path(self._past.results) if self._past.results else None

    @property
    def past_run(self) -> str:
        """The id of the saved game; empty where no game was begun."""
        return self._past.run

    def keep(self, results: Path) -> None:
        """Save the run folder of the game; when this returns, that survives a loss of power."""
        if self._past.run:
            self._write(replace(self._past, results=str(results.absolute())))

    def close(self, rounds: int) -> None:
        """Save that the game is over; when this returns, that survives a loss of power."""
        if self._past.run and not self._past.over:
            self._write(replace(self._past, over=True, rounds=rounds))

    def play_on(self, spec: str) -> None:
        """Save that the game goes on under another spec; when this returns, that survives a loss of power."""
        if self._past.run:
            self._write(replace(self._past, spec=spec, over=False, rounds=0))

    def _read(self, folder: Path) -> SavedState:
        if _STATE not in self._disk.names(folder):
            return self._past
        file = folder / _STATE
        damaged = "is damaged; restore it from a copy, or start with --fresh to forget its game"
        held = read_json(file, _JSON, damaged, disk=self._disk)
        if {key: type(value) for key, value in held.items()} != _TYPES:
            raise BadSpec(f"{file} {damaged}")
        past = SavedState(**held)
        if past.role != self._role:
            raise BadSpec(
                f"{file} is the state of a process in the role {past.role}, not {self._role}; choose another --state"
            )
        return past

    def _remove(self, folder: Path, *names: str) -> None:
        """Remove these files of a folder, or all of them."""
        for name in self._disk.names(folder):
            if not names or name in names:
                self._disk.remove(folder / name)

    def _write(self, past: SavedState) -> None:
        self._past = past
        if self.folder is not None:
            text = json.dumps(asdict(past), indent=2) + "\n"
            replace_file(self.folder / _STATE, text.encode(), disk=self._disk)


_TYPES = {each.name: each.type for each in fields(SavedState)}
_JSON = TypeAdapter(dict[str, Any])
