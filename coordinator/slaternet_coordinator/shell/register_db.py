"""The coordinator's register on disk: one document in a database, stored before any process learns of a change.

A transaction that has returned survives a loss of power, and one that has not leaves the document as it was. SQLite
takes the damaged end of its log for a transaction that was cut short, so every transaction is moved from the log into
the database before anything relies on it; there a hash over the document shows whether a bit has changed.
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
from slaternet.storage.disk import refuse_link
from slaternet.storage.failpoints import failpoint
from slaternet.storage.files import DAMAGE
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.engine.saved import SavedGame, SavedMember

log = structlog.get_logger()

REGISTER = "register.sqlite"

_APPLICATION = 0x534C4154  # "SLAT": distinguishes a register from other databases
_VERSION = 4
_MAKE = (
    "CREATE TABLE register (only INTEGER PRIMARY KEY CHECK (only = 1), json BLOB NOT NULL, seal BLOB NOT NULL) STRICT",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)


@dataclass(frozen=True, slots=True)
class GameIdentity:
    """What a game gets once and keeps."""

    run: str
    secret: bytes
    spec: str  # SHA-256 of the spec that the coordinator was started with


class RegisterDb:
    """The database of one game, open as long as its coordinator runs."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self.identity = GameIdentity("", b"", "")

    @classmethod
    def open(cls, path: Path, new: GameIdentity | None = None) -> Self:
        """Open the database of a game, or create one for a `new` game; BadSpec where it cannot be used."""
        if new is None and not path.is_file():
            raise BadSpec(f"{path} is missing; put it back, or start with --fresh to forget its game")
        for suffix in ("", "-wal", "-shm", "-journal"):  # sqlite follows links
            refuse_link(path.with_name(path.name + suffix))
        with _translated(path):
            register = cls(path, sqlite3.connect(path, isolation_level=None))
            try:
                register._prepare(new)
            except BaseException:
                register.close()
                raise
        return register

    @staticmethod
    def remove(path: Path) -> None:
        """Remove a database with its log files."""
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
        """Close the database."""
        self._connection.close()

    def _prepare(self, new: GameIdentity | None) -> None:
        made = bool(self._ask("SELECT count(*) FROM sqlite_master"))
        if made and self._ask("PRAGMA application_id") != _APPLICATION:
            raise BadSpec(
                f"{self._path} is not the register of a game; start with --fresh to forget it, or choose another "
                "--state"
            )
        if made and self._ask("PRAGMA user_version") != _VERSION:
            raise BadSpec(
                f"{self._path} was written by another version of slaternet; finish its game with that version, or "
                "start with --fresh to forget it"
            )
        self._ask("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        if not made and new is not None:
            self._write(new, SavedGame(), _MAKE)
            return
        if self._ask("PRAGMA quick_check") != "ok":
            raise _damaged(self._path)
        self.identity, saved = self._read()
        if new is None or new.spec == self.identity.spec:
            return
        if saved.members:
            raise BadSpec(
                f"{self._path} holds a game of spec {self.identity.spec[:16]}, not of spec {new.spec[:16]}; start with "
                "--fresh, or with another --state"
            )
        self._write(new, saved)  # no process has joined it: the user corrects a wrong start

    def _ask(self, question: str) -> object:
        return self._connection.execute(question).fetchone()[0]

    def read(self) -> SavedGame:
        """Return the game that was stored last."""
        with _translated(self._path):
            return self._read()[1]

    def save(self, saved: SavedGame) -> None:
        """Store the game; when this returns, it survives a loss of power."""
        with _translated(self._path):
            self._write(self.identity, saved)

    def play_on(self, spec: str) -> None:
        """Let a game that has ended, or was to end, continue as the game of another spec.

        All processes continue from M, as if they had not received the end: newer checkpoints belong to the old spec.
        """
        saved = self.read()
        phase = Phase.PLAYING if saved.phase in (Phase.STOPPING, Phase.OVER) else saved.phase
        members = tuple(replace(each, acknowledged=False, mark=saved.low_water) for each in saved.members)
        with _translated(self._path):
            self._write(replace(self.identity, spec=spec), replace(saved, phase=phase, settled=None, members=members))

    def _read(self) -> tuple[GameIdentity, SavedGame]:
        data, seal = self._connection.execute("SELECT json, seal FROM register").fetchone() or (b"", b"")
        if hashlib.sha256(data).digest() != seal:
            raise _damaged(self._path)
        document = json.loads(data)
        identity = GameIdentity(document["run"], bytes.fromhex(document["secret"]), document["spec"])
        return identity, _game(document["game"])

    def _write(self, identity: GameIdentity, saved: SavedGame, before: Sequence[str] = ()) -> None:
        """Replace the document, in one transaction with the statements `before`."""
        document = {"run": identity.run, "secret": identity.secret.hex(), "spec": identity.spec, "game": saved}
        data = json.dumps(document, default=_plain).encode()
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        try:
            for statement in before:
                run(statement)
            run("INSERT OR REPLACE INTO register VALUES (1, ?, ?)", (data, hashlib.sha256(data).digest()))
            run("COMMIT")
            run("PRAGMA wal_checkpoint(RESTART)")  # not TRUNCATE: to free the log and grow it anew costs more than all
        except BaseException:
            with suppress(sqlite3.Error):  # some errors have ended the transaction already
                run("ROLLBACK")
            raise
        self.identity = identity


def _plain(value: Any) -> object:  # noqa: ANN401 - a record or an array, which json does not know
    """Return a record or an array as json can write it."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return {name: getattr(value, name) for name in value.__slots__}


def _game(game: dict[str, Any]) -> SavedGame:
    described = game["description"]
    read = {
        "phase": Phase(game["phase"]),
        "description": None if described is None else Description(**described),
        "departures": tuple(Departure(each["round"], np.array(each["agents"], np.intp)) for each in game["departures"]),
        "members": tuple(map(_member, game["members"])),
    }
    return SavedGame(**{**game, **read})


def _member(member: dict[str, Any]) -> SavedMember:
    wish = SeatRequest(member["wish"]["count"], np.array(member["wish"]["agents"], np.intp))
    read = {"role": Role(member["role"]), "wish": wish, "seats": np.array(member["seats"], np.intp)}
    return SavedMember(**{**member, **read})


def _damaged(path: Path) -> BadSpec:
    return BadSpec(f"{path} is damaged; put a copy back, or start with --fresh to forget its game")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Raise errors of a database as one sentence with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest is detail
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            raise _damaged(path) from None
        if code == sqlite3.SQLITE_FULL:
            sentence = f"there is no room for {path}; nothing that was announced is lost: free space and start again"
            raise RunFailed(sentence) from None
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            raise BadSpec(f"{path} cannot be used: {error}; make it writable, or choose another --state") from None
        raise RunFailed(f"{path} cannot be used: {error}; see to its disk and start again") from None
    except DAMAGE:  # a document that no coordinator has written
        raise _damaged(path) from None


class RegisterWriter:
    """Stores a game in a database; without one nothing is stored, and nothing can fail."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._register: RegisterDb | None = None
        self._published = 0
        self.broken: SlaternetError | None = None
        """Why the game can no longer be stored."""

    def open(self, path: Path, new: GameIdentity, *, fresh: bool) -> tuple[GameIdentity, SavedGame]:
        """Return the game that an older incarnation has stored; the `new` one where there is none, or if `fresh`."""
        if fresh:
            RegisterDb.remove(path)
        self._register = RegisterDb.open(path, new)
        saved = self._register.read()
        self._published = saved.published
        if saved.members:
            failpoint("coordinator_during_recovery")
        return self._register.identity, saved

    def close(self) -> None:
        """Close the database."""
        if self._register is not None:
            self._register.close()

    def save(self, saved: SavedGame) -> None:
        """Store the game before the effects that follow; a coordinator that cannot gives up, and may be restarted."""
        if self._register is None:
            return
        opening = saved.published > self._published
        if opening:
            failpoint("coordinator_before_round")
        try:
            self._register.save(saved)
        except SlaternetError as error:
            log.error("cannot go on", reason=str(error))
            self.broken = error
            self._give_up()
        self._published = saved.published
        if opening:
            failpoint("coordinator_after_round")

    def check(self) -> None:
        """Refuse to answer where the answer could not be stored."""
        if self.broken is not None:
            raise Unreachable("the coordinator cannot keep what it must remember, and leaves")
