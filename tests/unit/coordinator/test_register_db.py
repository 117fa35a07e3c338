"""What the coordinator keeps is all it needs: wherever it dies, its next life tells everyone the same."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.coordinator_games import EVE, EVERYONE, GRAPH, HOST_JOIN, HOSTS, N, Play, wanting_agents

from slaternet.errors import BadSpec, RunFailed
from slaternet.limits import LIMITS
from slaternet.model import (
    Acknowledged,
    Checkpointed,
    ControlDown,
    Description,
    Failed,
    Finished,
    GameOver,
    Holding,
    Opening,
    Progress,
    Role,
    Seating,
    StopAt,
    Topology,
)
from slaternet.spec.seat_request import SeatRequest
from slaternet_coordinator.engine.coordinator import Coordinator
from slaternet_coordinator.engine.events import Effect, HoldExpired, Keep, Leave, MemberMessage, Quiet, SetTimer
from slaternet_coordinator.engine.game_state import Phase
from slaternet_coordinator.engine.rules import Rules
from slaternet_coordinator.engine.saved import SavedGame, SavedMember
from slaternet_coordinator.shell.register_db import GameIdentity, RegisterDb

BORN = GameIdentity("run-1", bytes(range(32)), "5bec" * 16)
C = LIMITS.checkpoint_every
LASTING = replace(HOST_JOIN, durable=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "register.sqlite"


# The database


def test_what_was_kept_is_recalled_by_the_next_life(path: Path) -> None:
    a = SavedMember("a", Role.HOST, "here:1", 1, wish=SeatRequest(2, np.array([3, 7])))
    b = SavedMember(
        "b", Role.HOST, "there:2", 3, True, seats=np.array([0, 65535]), mark=64, reached=80, acknowledged=True
    )
    memory = SavedGame("stopping", 192, 64, 190, "", Description(2, history=1, code="c0de" * 16))
    with RegisterDb.open(path, BORN) as archive:
        assert archive.read() == SavedGame()
        archive.save(SavedGame(members=(a, b)))
        archive.save(replace(memory, members=(replace(a, incarnation=2), b)))

    with RegisterDb.open(path, replace(BORN, run="another", secret=bytes(32))) as archive:
        assert archive.identity == BORN
        recalled = archive.read()

    entries = recalled.members
    assert replace(recalled, members=()) == memory
    assert [(each.name, each.incarnation) for each in entries] == [("a", 2), ("b", 3)]
    assert (entries[0].wish.count, entries[0].wish.agents.tolist()) == (2, [3, 7])
    assert entries[1].seats.tolist() == [0, 65535]
    assert (entries[1].role, entries[1].durable, entries[1].mark, entries[1].reached) == (Role.HOST, True, 64, 80)
    assert (entries[0].acknowledged, entries[1].acknowledged) == (False, True)


def test_forgetting_leaves_nothing(path: Path) -> None:
    with RegisterDb.open(path, BORN) as archive:
        archive.save(SavedGame("playing", 64))
        RegisterDb.remove(path)
    assert not list(path.parent.iterdir())

    with RegisterDb.open(path, replace(BORN, run="another")) as archive:
        assert archive.identity.run == "another"
        assert archive.read() == SavedGame()


class Failing:
    """A connection whose disk fails when a transaction shall be committed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        if statement == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement, *values)


def test_nothing_of_a_change_that_was_cut_short_remains(path: Path) -> None:
    with RegisterDb.open(path, BORN) as archive:
        archive.save(SavedGame("playing", 64))
        connection = archive._connection
        archive._connection = Failing(connection)  # type: ignore[assignment]
        with pytest.raises(RunFailed, match=f"{path} cannot be used: disk I/O error; see to its disk"):
            archive.save(SavedGame("playing", 80))

        archive._connection = connection
        assert archive.read() == SavedGame("playing", 64)
        archive.save(SavedGame("playing", 96))
        assert archive.read().published == 96


def scribble(path: Path) -> None:
    path.write_bytes(b"no database at all, but long enough to be one" * 100)


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")


def older(path: Path) -> None:
    """Write what version 2 wrote: a table for the game, one for its processes, and one for the seal."""
    with closing(sqlite3.connect(path)) as connection:
        for table in ("game", "members", "seal"):
            connection.execute(f"CREATE TABLE {table} (only INTEGER PRIMARY KEY)")
        connection.execute(f"PRAGMA application_id = {0x534C4154}")
        connection.execute("PRAGMA user_version = 2")


def torn(path: Path) -> None:
    RegisterDb.open(path, BORN).close()
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)


def emptied(path: Path) -> None:
    RegisterDb.open(path, BORN).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM register")
        connection.commit()


def test_a_bit_that_has_changed_is_noticed_wherever_it_stands(path: Path, tmp_path: Path) -> None:
    memory, hosts = SavedGame("playing", 192, 64), tuple(SavedMember(name, Role.HOST, f"{name}:1", 1) for name in "abc")
    with RegisterDb.open(path, BORN) as archive:  # and killed: nothing is tidied up
        archive.save(SavedGame("playing", 176, 64))
        archive.save(replace(memory, members=hosts))
        kept, log = path.read_bytes(), path.with_name(f"{path.name}-wal").read_bytes()
    (there := tmp_path / "there").mkdir()
    noticed = 0
    # in the database, whose log is lost or not, and in the log
    for place, first, rest in [
        *((place, kept, rest) for rest in (b"", log) for place in range(0, 8 * len(kept), 1031)),
        *((place, log, kept) for place in range(0, 8 * len(log), 1031)),
    ]:
        flipped = bytearray(first)
        flipped[place // 8] ^= 1 << place % 8
        data, written = (flipped, rest) if first is kept else (rest, flipped)
        (there / path.name).write_bytes(data)
        (there / f"{path.name}-wal").write_bytes(written)
        try:
            with RegisterDb.open(there / path.name, BORN) as archive:
                assert archive.identity == BORN
                recalled = archive.read()
                assert replace(recalled, members=()) == memory
                assert [each.address for each in recalled.members] == ["a:1", "b:1", "c:1"]
        except (BadSpec, RunFailed):
            noticed += 1
        RegisterDb.remove(there / path.name)
    assert noticed


def test_a_phase_that_is_none_is_damage(path: Path) -> None:
    with RegisterDb.open(path, BORN) as archive:
        archive.save(SavedGame("plaxing"))

        with pytest.raises(BadSpec, match=f"^{path} is damaged"):
            archive.read()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (scribble, "is damaged; put a copy back, or start with --fresh"),
        (foreign, "is not the register of a game; start with --fresh"),
        (
            older,
            "was written by another version of slaternet; finish its game with that version, or start with --fresh",
        ),
        (torn, "is damaged"),
        (emptied, "is damaged"),
        (Path.mkdir, "cannot be used: .*; make it writable, or choose another --state"),
    ],
)
def test_what_is_no_register_of_this_game_is_named_in_one_sentence(
    spoil: Callable[[Path], None], said: str, path: Path
) -> None:
    spoil(path)

    with pytest.raises(BadSpec, match=f"^{path} {said}"):
        RegisterDb.open(path, BORN)


def test_a_game_that_nobody_has_joined_may_become_that_of_another_spec(path: Path) -> None:
    RegisterDb.open(path, BORN).close()

    another = GameIdentity("run-2", bytes(32), "feed" * 16)
    with RegisterDb.open(path, another) as archive:
        assert archive.identity == another


def test_the_register_of_another_spec_is_refused(path: Path) -> None:
    with RegisterDb.open(path, BORN) as archive:
        archive.save(SavedGame(members=(SavedMember("a", Role.HOST, "here:1", 1),)))

    with pytest.raises(BadSpec, match=f"holds a game of spec {BORN.spec[:16]}, not of spec feed.*--fresh"):
        RegisterDb.open(path, replace(BORN, spec="feed" * 16))


def test_a_full_disk_is_named_and_what_was_kept_stays(path: Path) -> None:
    with RegisterDb.open(path, BORN) as archive:
        archive.save(SavedGame("playing", 64))
        archive._connection.execute("PRAGMA max_page_count = 1")  # the database may not grow
        crowd = tuple(SavedMember(f"agent-{k}", Role.HOST, "here:1", 1, seats=np.arange(1000)) for k in range(100))
        with pytest.raises(RunFailed, match=f"there is no room for {path}; .*free space and start again"):
            archive.save(SavedGame("playing", 80, members=crowd))

        assert archive.read() == SavedGame("playing", 64)


# The coordinator's next life


class Lives(Play):
    """A coordinator that keeps what it must, and can be followed by another at any time."""

    def __init__(self, path: Path, rounds: int | None) -> None:
        super().__init__(rounds)
        self._path = path
        self._rounds = rounds
        self.said: dict[str, list[MemberMessage]] = {}
        self.archive = RegisterDb.open(path, replace(BORN, secret=bytes(32)))
        self.leaves = False

    def _note(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Keep):
                self.archive.save(effect.saved)
            self.leaves |= isinstance(effect, Leave)
        return super()._note(effects)

    def say(self, name: str, body: MemberMessage) -> list[Effect]:
        kept = [each for each in self.said.setdefault(name, []) if type(each) is not type(body)]
        self.said[name] = [*kept, body]
        return super().say(name, body)

    def die(self) -> list[Effect]:
        """Let the coordinator die and another take up its game; everyone comes back, and says again what it has to."""
        self.archive.close()
        self.archive = RegisterDb.open(self._path, BORN)
        self.coordinator = Coordinator(GRAPH, Rules(agents=N, hosts=len(HOSTS), rounds=self._rounds), b"")
        self.coordinator.restore(self.archive.read(), self.archive.identity.secret)
        effects = self._note(self.coordinator.resume())
        for name in list(self.tickets):
            if Acknowledged() in self.said.get(name, []):
                continue
            self.open(name, have=max((each.round + each.rounds - 1 for each in self._held(name)), default=0))
            for body in self.said.get(name, []):
                self.say(name, body)
        return effects

    def _held(self, name: str) -> list[Topology]:
        return [body for body in self.told.get(name, []) if isinstance(body, Topology)]


def story(play: Lives) -> Iterator[None]:
    """Play a game that is stopped, step by step."""
    for name in EVERYONE:
        play.come(name, LASTING)
        yield
    play.say(EVE, Description(2))
    yield
    for round in range(32, 3 * C + 1, 32):
        for name in EVERYONE:
            play.say(name, Progress(round, 0.5 * round, 0.25 * round))
            if name != EVE and round % C == 0:
                play.say(name, Checkpointed(round))
            yield
    play.join("b", LASTING)  # it was dead in between, and goes on from the mark
    play.said["b"] = []
    yield
    play.open("b", have=play.coordinator.view.low_water)
    yield
    play.stop()
    yield
    for name in HOSTS:
        play.say(name, Holding(3 * C + 1))
        yield
    for name in EVERYONE:
        play.say(name, Progress(play.coordinator.view.last or 0, 1.0, 1.0))
        play.say(name, Finished())
        yield
    for name in EVERYONE:
        play.say(name, Acknowledged())
        yield


def rows(play: Lives, name: str) -> dict[int, bytes]:
    """Return what a host was told of each round; what it was told twice must agree."""
    found: dict[int, bytes] = {}
    for body in play.told[name]:
        if isinstance(body, Topology):
            k = (len(body.starts) - 1) // body.rounds
            for offset in range(body.rounds):
                first, last = body.starts[offset * k], body.starts[(offset + 1) * k]
                owed = body.debts[body.debts[:, 0] == offset][:, 1:]
                row = body.columns[first:last].tobytes() + body.weights[first:last].tobytes() + owed.tobytes()
                assert found.setdefault(body.round + offset, row) == row
    return found


def places(bodies: list[ControlDown]) -> list[str]:
    """Return the different seatings that somebody was told, in order; the mark is that of when it was told."""
    told = [repr(replace(body, low_water=0)) for body in bodies if isinstance(body, Seating)]
    return list(dict.fromkeys(told))


def outcome(play: Lives) -> dict[str, object]:
    """Return all that everyone must have been told, however often the coordinator died."""
    return {
        name: (
            places(play.told[name]),
            rows(play, name),
            {body.round for body in play.told[name] if isinstance(body, StopAt)},
            GameOver() in play.told[name],
        )
        for name in EVERYONE
    }


@pytest.mark.slow
@pytest.mark.slow
def test_wherever_the_coordinator_dies_its_next_life_tells_the_same(tmp_path: Path) -> None:
    reference = Lives(tmp_path / "reference", None)
    steps = sum(1 for _ in story(reference))
    assert reference.leaves

    for death in range(steps):
        play = Lives(tmp_path / f"death-{death}", None)
        for step, _ in enumerate(story(play)):
            if step == death:
                play.die()
        assert outcome(play) == outcome(reference), death
        assert (play.coordinator.view.last, play.coordinator.view.low_water) == (
            reference.coordinator.view.last,
            reference.coordinator.view.low_water,
        )
        assert play.leaves
        play.archive.close()
    reference.archive.close()


def test_a_coordinator_may_die_at_every_step(tmp_path: Path) -> None:
    reference, play = Lives(tmp_path / "reference", None), Lives(tmp_path / "mortal", None)
    for _ in story(reference):
        pass
    for _ in story(play):
        play.die()

    assert outcome(play) == outcome(reference)
    assert play.coordinator.view.phase is Phase.OVER
    play.archive.close()
    reference.archive.close()


def test_tickets_and_incarnations_outlive_the_coordinator(path: Path) -> None:
    play = Lives(path, 5)
    play.come("a", LASTING)
    play.join("a", LASTING)
    older = play.tickets["a"]

    play.die()

    assert play.register.identify("a", Opening(2, older.ticket)) is play.register["a"]
    play.join("a", LASTING)
    assert play.tickets["a"].incarnation == 3
    play.archive.close()


def test_who_had_joined_before_holds_a_seat_again_once_it_is_back(path: Path) -> None:
    play = Lives(path, 5)
    play.come("a", wanting_agents(*range(6)))
    play.join("b")
    del play.tickets["b"]  # it is gone for good

    play.die()

    assert play.waiting_for == "the adversary"
    play.come("c")
    play.come(EVE)
    play.say(EVE, Description(2))
    assert {host.name: host.seats.tolist() for host in play.register.players} == {"a": [*range(6)], "c": [6, 7]}
    play.archive.close()


def test_a_game_that_was_begun_and_not_yet_published_is_published_by_the_next_life(path: Path) -> None:
    play = Lives(path, None)
    for name in EVERYONE:
        play.come(name)
    play.say(EVE, Description(2))
    begun = next(keep for keep in play.kept if keep.saved.phase == "playing")
    assert begun.saved.published == 0
    play.archive.save(begun.saved)
    play.told.clear()

    play.die()

    assert play.published == LIMITS.window
    assert len(rows(play, "a")) == LIMITS.window
    play.archive.close()


def test_the_next_life_waits_for_answers_that_the_last_one_has_waited_for(path: Path) -> None:
    play = Lives(path, None)
    play.begin()
    play.stop()
    assert play.die() == [SetTimer(LIMITS.hold_seconds, HoldExpired())]
    assert play.expire()
    assert play.coordinator.view.last == play.published
    play.archive.close()


def test_hosts_that_may_still_come_are_waited_for_anew() -> None:
    coordinator = Coordinator(GRAPH, Rules(agents=N, hosts=None, rounds=None), b"")
    coordinator.restore(SavedGame(members=(SavedMember("a", Role.HOST, "here:1", 1),)), b"")

    assert coordinator.resume() == [SetTimer(LIMITS.gathering_seconds, Quiet(1))]


def test_a_failure_is_told_by_the_next_life(path: Path) -> None:
    play = Lives(path, None)
    play.begin()
    play.say(EVE, Failed("the plugin raised"))
    play.said[EVE] = []
    play.told.clear()

    play.die()

    assert play.told["a"][-1] == GameOver("adversary: the plugin raised")
    assert play.coordinator.status().failure == "adversary: the plugin raised"
    play.archive.close()


def test_a_last_round_that_is_settled_is_told_by_the_next_life_whoever_answers(path: Path) -> None:
    play = Lives(path, None)
    play.begin()
    play.stop()
    for name in HOSTS:
        play.say(name, Holding(12))
    for name in EVERYONE:
        play.said[name] = []
    play.told.clear()

    assert play.die() == []

    for name in EVERYONE:
        assert play.told[name][-1] == StopAt(12)
    assert (play.coordinator.view.last, play.coordinator.view.settled) == (12, 12)
    play.archive.close()
