"""What survives a process: a folder DIR/NAME that one process at a time holds, and the game it has begun.

lock         held as long as the process lives
state.json   which game that is, of which spec, whether it is over, and of an adversary where its run folder is
checkpoints  of a host: what it knew after some rounds of that game
"""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Self

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.storage.disk import DISK, DRAFT, Disk, DiskFile, read_file, replace_file

AUTO = "auto"
"""In place of a name: the first of agent-1, agent-2, ... whose folder no process holds."""

_CHECKPOINTS = "checkpoints"
_LOCK = "lock"
_STATE = "state.json"


@dataclass(frozen=True, slots=True)
class SavedState:
    """A game, as the process remembers it that has begun it."""

    name: str
    role: str
    run: str = ""  # empty: none was begun
    spec: str = ""  # SHA-256
    over: bool = False
    rounds: int = 0
    results: str = ""  # the run folder, where this process writes one


class StateDir:
    """The memory of one process; without a folder it lasts no longer than the process itself."""

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
        """Hold the folder of `name` in `states` until `release`, and read what it holds; `fresh` forgets that first.

        BadSpec where another process holds it, or it cannot be read or written. A name that is AUTO is replaced by a
        free one.
        """
        if states is None:
            if name == AUTO:
                raise BadSpec(f"--name {AUTO} takes a name that is free in --state DIR; say which DIR, or give a name")
            return cls(name, role)
        state = cls._claim_free(states, role, disk) if name == AUTO else cls._claim(states, name, role, disk)
        if state is None:
            raise BadSpec(
                f"the state {states / name} is held by another process; end that one, or choose another --name or "
                "--state"
            )
        return state._recalled(fresh=fresh)

    @classmethod
    def claim_idle(cls, states: Path, name: str, *, role: str) -> Self | None:
        """Hold the folder of `name` as `claim` does, for a process that is not there; None where it is."""
        state = cls._claim(states, name, role, DISK)
        return None if state is None else state._recalled(fresh=False)

    @classmethod
    def _claim_free(cls, states: Path, role: str, disk: Disk) -> Self:
        for number in range(1, LIMITS.hosts + 1):
            if (state := cls._claim(states, f"agent-{number}", role, disk)) is not None:
                return state
        raise BadSpec(f"all {LIMITS.hosts} names in --state {states} are taken; choose another DIR")

    @classmethod
    def _claim(cls, states: Path, name: str, role: str, disk: Disk) -> Self | None:
        """Return the state of a name, or None where another process holds it."""
        folder = states / name
        disk.make_folder(folder)
        lock = disk.lock(folder / _LOCK)
        return cls(name, role, folder, lock, disk) if lock is not None else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let another process hold the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def epitaph(self) -> str:
        """A sentence where the game that is remembered is over; empty where it is not, or none is."""
        if not self._past.over:
            return ""
        rounds = f" after {self._past.rounds} rounds" if self._past.rounds else ""
        return (
            f"the game that {self.name} remembers in {self.folder} is over{rounds}; start it with --fresh for another"
        )

    @property
    def durable(self) -> bool:
        """Whether it outlives the process."""
        return self.folder is not None

    @property
    def checkpoints(self) -> Path | None:
        """Where checkpoints of the game are kept; None where nothing outlives the process."""
        return self.folder / _CHECKPOINTS if self.folder is not None else None

    @property
    def past_spec(self) -> str:
        """SHA-256 of the spec whose game was begun; empty where none was."""
        return self._past.spec

    def remember(self, run: str, spec: str) -> None:
        """Write down which game this process has begun; when this returns, it outlives a loss of power.

        What was kept of another game goes first: a crash in between leaves that game without it, and no game with what
        belongs to another.
        """
        same = self._past.run == run
        if self._past.run and self.folder is not None and not same:
            self._forget(self.folder / _CHECKPOINTS)
        self._write(SavedState(self.name, self._role, run, spec, results=self._past.results if same else ""))

    @property
    def results(self) -> Path | None:
        """The run folder of the game that is remembered; None where none was chosen."""
        return Path(self._past.results) if self._past.results else None

    @property
    def past_run(self) -> str:
        """The id of the game that was begun; empty where none was."""
        return self._past.run

    def keep(self, results: Path) -> None:
        """Write down the run folder of the game; when this returns, it outlives a loss of power."""
        if self._past.run:
            self._write(replace(self._past, results=str(results.absolute())))

    def close(self, rounds: int) -> None:
        """Write down that the game is over; when this returns, it outlives a loss of power."""
        if self._past.run and not self._past.over:
            self._write(replace(self._past, over=True, rounds=rounds))

    def play_on(self, spec: str) -> None:
        """Write down that the game goes on as that of another spec; when this returns, it outlives a loss of power."""
        if self._past.run:
            self._write(replace(self._past, spec=spec, over=False, rounds=0))

    def _recalled(self, *, fresh: bool) -> Self:
        try:
            if self.folder is not None and fresh:
                self._forget(self.folder / _CHECKPOINTS)
                self._forget(self.folder, _STATE, _STATE + DRAFT)
            elif self.folder is not None:
                self._past = self._read(self.folder)
        except BaseException:
            self.release()
            raise
        return self

    def _read(self, folder: Path) -> SavedState:
        if _STATE not in self._disk.names(folder):
            return self._past
        file = folder / _STATE
        try:
            held = json.loads(read_file(file, disk=self._disk))
        except ValueError:
            held = None
        if not isinstance(held, dict) or {key: type(value) for key, value in held.items()} != _TYPES:
            raise BadSpec(f"{file} is damaged; restore it from a copy, or start with --fresh to forget its game")
        past = SavedState(**held)
        if past.role != self._role:
            raise BadSpec(
                f"{file} is the state of a process in the role {past.role}, not {self._role}; choose another --state"
            )
        return past

    def _forget(self, folder: Path, *names: str) -> None:
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
