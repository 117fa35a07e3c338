"""The coordinator's memory on disk: a database that every change reaches before anyone hears of it.

A transaction that has returned survives a loss of power, and one that has not leaves what was there before. SQLite
takes the damaged end of its log for a transaction that was cut short, so every transaction is moved from the log into
the database before anyone relies on it; there a seal over all rows tells whether a bit has changed.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np

from slaternet.errors import BadSpec, RunFailed, SlaternetError
from slaternet.model import Agents, Departure, Description, Role
from slaternet.seats import Wish
from slaternet_coordinator.game import Phase
from slaternet_coordinator.memory import Entry, Memory

REGISTER = "register.sqlite"

_APPLICATION = 0x534C4154  # "SLAT": tells a register from other databases
_VERSION = 2
_SCHEMA = """
CREATE TABLE game (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    run TEXT NOT NULL, secret BLOB NOT NULL, spec TEXT NOT NULL,
    phase TEXT NOT NULL, published INTEGER NOT NULL, low_water INTEGER NOT NULL,
    settled INTEGER, failure TEXT NOT NULL, description TEXT,
    epoch INTEGER NOT NULL, departures TEXT NOT NULL
) STRICT;
CREATE TABLE members (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, address TEXT NOT NULL,
    incarnation INTEGER NOT NULL, durable INTEGER NOT NULL,
    wanted INTEGER NOT NULL, wanted_agents BLOB NOT NULL, seats BLOB NOT NULL,
    mark INTEGER NOT NULL, reached INTEGER NOT NULL, acknowledged INTEGER NOT NULL, lost INTEGER NOT NULL
) STRICT;
CREATE TABLE seal (only INTEGER PRIMARY KEY CHECK (only = 1), sha256 BLOB NOT NULL) STRICT;
"""
_UPDATE = """
UPDATE game SET phase = ?, published = ?, low_water = ?, settled = ?, failure = ?, description = ?,
    epoch = ?, departures = ?
"""
_GO_ON = """
UPDATE game SET spec = ?, settled = NULL, phase = CASE WHEN phase IN ('stopping', 'over') THEN 'playing' ELSE phase END
"""
# a row keeps its place where its name is known: members are read in the order of their first joining
_ENTER = """
INSERT INTO members VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET
    role = excluded.role, address = excluded.address, incarnation = excluded.incarnation, durable = excluded.durable,
    wanted = excluded.wanted, wanted_agents = excluded.wanted_agents, seats = excluded.seats, mark = excluded.mark,
    reached = excluded.reached, acknowledged = excluded.acknowledged, lost = excluded.lost
"""


@dataclass(frozen=True, slots=True)
class Birth:
    """What a game is given once and never loses."""

    run: str
    secret: bytes
    spec: str  # SHA-256


class Archive:
    """The database of one game, open as long as its coordinator lives."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path, born: Birth) -> Self:
        """Open the database of a game, or make one for a game that is born now; BadSpec where it is no such thing."""
        return cls._open(path, born)

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """Open the database of a game that was born before; BadSpec where there is none."""
        if not path.is_file():
            raise BadSpec(f"{path} is missing; put it back, or start with --fresh to forget its game")
        return cls._open(path, None)

    @classmethod
    def _open(cls, path: Path, born: Birth | None) -> Self:
        with _translated(path):
            archive = cls(path, sqlite3.connect(path, isolation_level=None))
            try:
                archive._prepare(born or archive.born)
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
        """Let go of the file."""
        self._connection.close()

    def _prepare(self, born: Birth) -> None:
        tables = self._ask("SELECT count(*) FROM sqlite_master")
        kind = (self._ask("PRAGMA application_id"), self._ask("PRAGMA user_version"))
        if tables and kind != (_APPLICATION, _VERSION):
            raise BadSpec(
                f"{self._path} is not the register of a game of this version; start with --fresh to forget it, or "
                "choose another --state"
            )
        self._ask("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        if not tables:
            self._make(born)
        elif self._ask("PRAGMA quick_check") != "ok" or self._ask("SELECT sha256 FROM seal") != self._seal():
            raise _damaged(self._path)
        elif (spec := self.born.spec) != born.spec and not self._ask("SELECT count(*) FROM members"):
            # nobody has joined it: a wrong start, which is being corrected
            with self._transaction() as run:
                run.execute("UPDATE game SET run = ?, secret = ?, spec = ?", (born.run, born.secret, born.spec))
        elif spec != born.spec:
            raise BadSpec(
                f"{self._path} holds a game of spec {spec[:16]}, not of spec {born.spec[:16]}; start with --fresh, or "
                "with another --state"
            )

    def _ask(self, question: str) -> object:
        return self._connection.execute(question).fetchone()[0]

    def _make(self, born: Birth) -> None:
        with self._transaction() as run:
            for statement in _SCHEMA.split(";")[:-1]:
                run.execute(statement)
            run.execute(f"PRAGMA application_id = {_APPLICATION}")
            run.execute(f"PRAGMA user_version = {_VERSION}")
            values = (born.run, born.secret, born.spec, *_game_row(Memory()))
            run.execute("INSERT INTO game VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    def _seal(self) -> bytes:
        """Return the SHA-256 over all that is written down."""
        rows = [
            self._connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in ("game", "members")
        ]
        return hashlib.sha256(repr(rows).encode()).digest()

    @property
    def born(self) -> Birth:
        """What the game was given when it was born."""
        with _translated(self._path):
            row = self._connection.execute("SELECT run, secret, spec FROM game").fetchone()
            if row is None:
                raise _damaged(self._path)
            return Birth(*row)

    def recall(self) -> tuple[Memory, list[Entry]]:
        """Return how the game stood, and its processes in the order of joining."""
        with _translated(self._path):
            phase, published, low_water, settled, failure, described, epoch, departures = self._connection.execute(
                "SELECT phase, published, low_water, settled, failure, description, epoch, departures FROM game"
            ).fetchone()
            description = Description(**json.loads(described)) if described else None
            leaving = tuple(Departure(round, np.array(agents, np.intp)) for round, agents in json.loads(departures))
            memory = Memory(Phase(phase), published, low_water, settled, failure, description, epoch, leaving)
            rows = self._connection.execute("SELECT * FROM members ORDER BY rowid").fetchall()
            return memory, [_entry(row) for row in rows]

    def keep(self, memory: Memory, entries: Sequence[Entry] = ()) -> None:
        """Write down how the game stands, and these of its processes; when this returns, that outlives all."""
        with _translated(self._path), self._transaction() as run:
            run.execute(_UPDATE, _game_row(memory))
            run.executemany(_ENTER, [_member_row(entry) for entry in entries])

    def play_on(self, spec: str) -> None:
        """Have a game that has ended, or was to end, go on as that of another spec.

        Nobody has been told of its end, and all go on from M: newer checkpoints are of the old spec.
        """
        with _translated(self._path), self._transaction() as run:
            run.execute(_GO_ON, (spec,))
            run.execute("UPDATE members SET acknowledged = 0, mark = (SELECT low_water FROM game)")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("INSERT OR REPLACE INTO seal VALUES (1, ?)", (self._seal(),))
            self._connection.execute("COMMIT")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except BaseException:
            with suppress(sqlite3.Error):  # some errors have ended the transaction already
                self._connection.execute("ROLLBACK")
            raise


def _game_row(memory: Memory) -> tuple[object, ...]:
    described = memory.description and json.dumps(asdict(memory.description))
    departures = json.dumps([(each.round, each.agents.tolist()) for each in memory.departures])
    stands = (memory.phase, memory.published, memory.low_water, memory.settled, memory.failure, described)
    return (*stands, memory.epoch, departures)


def _member_row(entry: Entry) -> tuple[object, ...]:
    return (
        entry.name,
        entry.role,
        entry.address,
        entry.incarnation,
        entry.durable,
        entry.wish.count,
        _write(entry.wish.agents),
        _write(entry.seats),
        entry.mark,
        entry.reached,
        entry.acknowledged,
        entry.lost,
    )


def _entry(row: Sequence[object]) -> Entry:
    name, role, address, incarnation, durable, wanted, agents, seats, mark, reached, acknowledged, lost = row
    return Entry(
        str(name),
        Role(str(role)),
        str(address),
        _int(incarnation),
        bool(durable),
        Wish(_int(wanted), _read(agents)),
        _read(seats),
        _int(mark),
        _int(reached),
        bool(acknowledged),
        bool(lost),
    )


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _write(agents: Agents) -> bytes:
    return agents.astype("<u4").tobytes()


def _read(data: object) -> Agents:
    assert isinstance(data, bytes)
    return np.frombuffer(data, "<u4").astype(np.intp)


def _damaged(path: Path) -> BadSpec:
    return BadSpec(f"{path} is damaged; put a copy back, or start with --fresh to forget its game")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Say in one sentence what is wrong with a database."""
    try:
        yield
    except sqlite3.Error as error:
        raise _refusal(path, error) from None
    except (ValueError, TypeError):  # a row that no coordinator has written
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
