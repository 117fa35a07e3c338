"""The coordinator's register on disk: one document in a database, stored before any process is told of a change.

A transaction that has returned survives a loss of power, and one that has not leaves what was there before. SQLite
takes the damaged end of its log for a transaction that was cut short, so every transaction is moved from the log into
the database before anyone relies on it; there a seal over the document tells whether a bit has changed.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import structlog

from slaternet.errors import BadSpec, RunFailed, SlaternetError, Unreachable
from slaternet.model import Departure, Description, Role
from slaternet.spec.seat_request import SeatRequest
from slaternet.storage.failpoints import failpoint
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.engine.saved import SavedGame, SavedMember

log = structlog.get_logger()

REGISTER = "register.sqlite"

_APPLICATION = 0x534C4154  # "SLAT": tells a register from other databases
_VERSION = 3
_MAKE = (
    "CREATE TABLE register (only INTEGER PRIMARY KEY CHECK (only = 1), json BLOB NOT NULL, seal BLOB NOT NULL) STRICT",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)


@dataclass(frozen=True, slots=True)
class GameIdentity:
    """What a game is given once and never loses."""

    run: str
    secret: bytes
    spec: str  # SHA-256


class RegisterDb:
    """The database of one game, open as long as its coordinator lives."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self.born = GameIdentity("", b"", "")

    @classmethod
    def open(cls, path: Path, born: GameIdentity) -> Self:
        """Open the database of a game, or make one for a game that is born now; BadSpec where it is no such thing."""
        return cls._open(path, born)

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """Open the database of a game that was born before; BadSpec where there is none."""
        if not path.is_file():
            raise BadSpec(f"{path} is missing; put it back, or start with --fresh to forget its game")
        return cls._open(path, None)

    @classmethod
    def _open(cls, path: Path, born: GameIdentity | None) -> Self:
        with _translated(path):
            archive = cls(path, sqlite3.connect(path, isolation_level=None))
            try:
                archive._prepare(born)
            except BaseException:
                archive.close()
                raise
        return archive

    @staticmethod
    def forget(path: Path) -> None:
        """Remove a database, whatever it holds."""
        try:
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        except OSError as error:
            raise BadSpec(f"cannot remove {path}: {error.strerror}; choose another --state") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _prepare(self, born: GameIdentity | None) -> None:
        made = bool(self._ask("SELECT count(*) FROM sqlite_master"))
        if made:
            self._check_kind()
        self._ask("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        if not made and born is not None:
            self._write(born, SavedGame(), _MAKE)
            return
        if self._ask("PRAGMA quick_check") != "ok":
            raise _damaged(self._path)
        self.born, memory = self._read()
        if born is None or born.spec == self.born.spec:
            return
        if memory.members:
            raise BadSpec(
                f"{self._path} holds a game of spec {self.born.spec[:16]}, not of spec {born.spec[:16]}; start with "
                "--fresh, or with another --state"
            )
        self._write(born, memory)  # no process has joined it: a wrong start, which is being corrected

    def _check_kind(self) -> None:
        if self._ask("PRAGMA application_id") != _APPLICATION:
            raise BadSpec(
                f"{self._path} is not the register of a game; start with --fresh to forget it, or choose another "
                "--state"
            )
        if self._ask("PRAGMA user_version") != _VERSION:
            raise BadSpec(
                f"{self._path} was written by another version of slaternet; finish its game with that version, or "
                "start with --fresh to forget it"
            )

    def _ask(self, question: str) -> object:
        return self._connection.execute(question).fetchone()[0]

    def recall(self) -> SavedGame:
        """Return how the game stood."""
        with _translated(self._path):
            return self._read()[1]

    def keep(self, memory: SavedGame) -> None:
        """Store how the game stands; when this returns, that survives a loss of power."""
        with _translated(self._path):
            self._write(self.born, memory)

    def play_on(self, spec: str) -> None:
        """Have a game that has ended, or was to end, go on as that of another spec.

        Nobody has been told of its end, and all go on from M: newer checkpoints are of the old spec.
        """
        memory = self.recall()
        phase = Phase.PLAYING if memory.phase in (Phase.STOPPING, Phase.OVER) else memory.phase
        members = tuple(replace(each, acknowledged=False, mark=memory.low_water) for each in memory.members)
        with _translated(self._path):
            self._write(replace(self.born, spec=spec), replace(memory, phase=phase, settled=None, members=members))

    def _read(self) -> tuple[GameIdentity, SavedGame]:
        data, seal = self._connection.execute("SELECT json, seal FROM register").fetchone() or (b"", b"")
        if hashlib.sha256(data).digest() != seal:
            raise _damaged(self._path)
        document = json.loads(data)
        return GameIdentity(document["run"], bytes.fromhex(document["secret"]), document["spec"]), _memory(
            document["game"]
        )

    def _write(self, born: GameIdentity, memory: SavedGame, before: Sequence[str] = ()) -> None:
        """Replace the document, in one transaction with the statements `before`."""
        document = {"run": born.run, "secret": born.secret.hex(), "spec": born.spec, "game": memory}
        data = json.dumps(document, default=_plain).encode()
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        try:
            for statement in before:
                run(statement)
            run("INSERT OR REPLACE INTO register VALUES (1, ?, ?)", (data, hashlib.sha256(data).digest()))
            run("COMMIT")
            run("PRAGMA wal_checkpoint(TRUNCATE)")
        except BaseException:
            with suppress(sqlite3.Error):  # some errors have ended the transaction already
                run("ROLLBACK")
            raise
        self.born = born


def _plain(value: Any) -> object:  # noqa: ANN401 - a record or an array, which json does not know
    """Return what a document holds of a record or of an array."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return {name: getattr(value, name) for name in value.__slots__}


def _memory(game: dict[str, Any]) -> SavedGame:
    described = game["description"]
    read = {
        "phase": Phase(game["phase"]),
        "description": None if described is None else Description(**described),
        "departures": tuple(Departure(each["round"], np.array(each["agents"], np.intp)) for each in game["departures"]),
        "members": tuple(_entry(each) for each in game["members"]),
    }
    return SavedGame(**{**game, **read})


def _entry(member: dict[str, Any]) -> SavedMember:
    wish = SeatRequest(member["wish"]["count"], np.array(member["wish"]["agents"], np.intp))
    read = {"role": Role(member["role"]), "wish": wish, "seats": np.array(member["seats"], np.intp)}
    return SavedMember(**{**member, **read})


def _damaged(path: Path) -> BadSpec:
    return BadSpec(f"{path} is damaged; put a copy back, or start with --fresh to forget its game")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Say in one sentence what is wrong with a database."""
    try:
        yield
    except sqlite3.Error as error:
        raise _refusal(path, error) from None
    except (ValueError, TypeError, KeyError):  # a document that no coordinator has written
        raise _damaged(path) from None


def _refusal(path: Path, error: sqlite3.Error) -> SlaternetError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest is detail
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
        return _damaged(path)
    if code == sqlite3.SQLITE_FULL:
        return RunFailed(f"there is no room for {path}; nothing that was announced is lost: free space and start again")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return BadSpec(f"{path} cannot be used: {error}; make it writable, or choose another --state")
    return RunFailed(f"{path} cannot be used: {error}; see to its disk and start again")


class RegisterWriter:
    """Keeps a game in an archive; without one nothing survives, and nothing can go wrong."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._archive: RegisterDb | None = None
        self._published = 0
        self.broken: SlaternetError | None = None
        """Why nothing can be kept any more."""

    def open(self, path: Path, born: GameIdentity, *, fresh: bool) -> tuple[GameIdentity, SavedGame]:
        """Return the game that an older life has kept; where there is none, or it shall be forgotten, the one born."""
        if fresh:
            RegisterDb.forget(path)
        self._archive = RegisterDb.open(path, born)
        memory = self._archive.recall()
        self._published = memory.published
        if memory.members:
            failpoint("coordinator_during_recovery")
        return self._archive.born, memory

    def close(self) -> None:
        """Close the archive."""
        if self._archive is not None:
            self._archive.close()

    def keep(self, memory: SavedGame) -> None:
        """Keep what the effects that follow rely on; a coordinator that cannot gives up, and may come back."""
        if self._archive is None:
            return
        opening = memory.published > self._published
        if opening:
            failpoint("coordinator_before_round")
        try:
            self._archive.keep(memory)
        except SlaternetError as error:
            log.error("cannot go on", reason=str(error))
            self.broken = error
            self._give_up()
        self._published = memory.published
        if opening:
            failpoint("coordinator_after_round")

    def check(self) -> None:
        """Refuse to answer where the answer could not be kept."""
        if self.broken is not None:
            raise Unreachable("the coordinator cannot keep what it must remember, and leaves")
