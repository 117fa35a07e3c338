"""What can be resumed, what cannot, and that a run is reopened whole or not at all."""

import functools
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from slaternet.errors import BadSpec, Diverged
from slaternet.model import Departure, Question, Role, StopAt, Values
from slaternet.spec import Spec
from slaternet.storage.checkpoints import Checkpoints
from slaternet.storage.files import read_spec
from slaternet.storage.journal import Durability
from slaternet.storage.state_dir import StateDir
from slaternet.tickets import spec_tag
from slaternet_adversary.engine.events import Asked
from slaternet_adversary.journal import journal as journals
from slaternet_adversary.journal.entries import Purchase, SeatingEntry
from slaternet_adversary.journal.journal import JOURNAL, AdversaryJournal
from slaternet_coordinator.engine.rules import LOST_AFTER, Policy
from slaternet_coordinator.engine.saved import SavedGame, SavedMember
from slaternet_coordinator.shell.register_db import GameIdentity, RegisterDb
from slaternet_lab.games import resume
from slaternet_lab.games.manifest import Manifest, register_of, spec_of, states_of, write_spec
from slaternet_lab.games.resume import extend, prepare
from slaternet_lab.specs.resolve import load

RUN, SECRET = "run-1", bytes(range(32))
SEATS = {"agent-1": np.array([0, 1]), "agent-2": np.array([2, 3])}
MARK, PUBLISHED, ROUNDS = 64, 100, 100
OVER = SavedGame("over", PUBLISHED, MARK)
CONCLUSIONS = ("summary.json", "loss.png", "violation.png", "regret.csv", "decisions.npz")


@functools.cache
def spec_with(*settings: str) -> Spec:
    return load("paper-short", ["run.agents=4", f"run.rounds={ROUNDS}", *settings])


def tag_of(spec: Spec) -> str:
    return spec_tag(SECRET, spec.digest())


def manifest_of(rounds: int | None) -> Manifest:
    return Manifest(
        hosts=2,
        durability=Durability.KILL,
        rounds=rounds,
        policy=Policy.WAIT,
        lost_after=LOST_AFTER,
        journal_keep=None,
    )


def leave_behind(folder: Path, memory: SavedGame = OVER, spec: Spec | None = None) -> Path:
    """Write what a run with two hosts leaves behind that stood so when all its processes were cut off."""
    spec = spec or spec_with()
    manifest = manifest_of(spec.run.rounds)
    write_spec(folder, spec)
    manifest.write(folder)
    for name, role in manifest.roles.items():
        with StateDir.claim(states_of(folder), name, role=role) as state:
            state.remember(RUN, spec.digest() if name == "coordinator" else tag_of(spec))
            if name == "adversary":
                state.keep(folder)
            if memory.phase == "over":
                state.close(ROUNDS)
            if name in manifest.agents and state.checkpoints is not None:
                for round in (MARK, ROUNDS):
                    Checkpoints(state.checkpoints, name, RUN, tag_of(spec)).write(round, name.encode())
    journal = AdversaryJournal.open(folder, RUN)
    journal.append(SeatingEntry(tuple(SEATS.items())))
    for host, agents in SEATS.items():  # all that is looked at: how far every agent has come
        points = np.zeros((len(agents), 1, 1))
        asked = Asked(host, Question(MARK, agents, points[:, 0], points))
        journal.append(Purchase(asked, Values(points[:, :, 0], points)))
    journal.close()
    with RegisterDb.open(register_of(folder), GameIdentity(RUN, SECRET, spec.digest())) as archive:
        members = {name: Role(role) for name, role in manifest.roles.items() if name != "coordinator"}
        archive.save(replace(memory, members=tuple(_entry(*each) for each in members.items())))
    for name in CONCLUSIONS if memory.phase == "over" else ():
        (folder / name).write_text("of 100 rounds")
    return folder


def _entry(name: str, role: Role) -> SavedMember:
    return SavedMember(name, role, "", 1, True, seats=SEATS.get(name, np.empty(0, np.intp)), mark=99, acknowledged=True)


def lose_second(folder: Path, *departures: Departure) -> None:
    """Have the second host given up, and all that it kept with it: the first has its agents, which may leave."""
    with RegisterDb.open(register_of(folder)) as archive:
        memory = archive.read()
        adversary, first, second = memory.members
        adopter, lost = replace(first, seats=np.arange(4)), replace(second, seats=np.empty(0, np.intp), lost=True)
        archive.save(replace(memory, epoch=2, departures=departures, members=(adversary, adopter, lost)))
    shutil.rmtree(states_of(folder) / "agent-2")


@dataclass
class Standing:
    """Everything that says which game stands in a folder."""

    rounds: int | None
    spec: str
    states: dict[str, tuple[str, bool]]
    memory: SavedGame
    acknowledged: list[bool]
    marks: list[int]
    checkpoints: list[bytes]
    last: StopAt | None
    conclusions: list[str]


def standing(folder: Path) -> Standing:
    manifest = Manifest.read(folder)
    assert manifest is not None
    spec = Spec.parse(spec_of(folder).read_text(), source="here")
    states = {}
    for name in manifest.roles:
        held = json.loads((states_of(folder) / name / "state.json").read_text())
        states[name] = (held["spec"], held["over"])
    with RegisterDb.open(register_of(folder)) as archive:
        memory = archive.read()
        assert archive.identity == GameIdentity(RUN, SECRET, spec.digest())
    kept = [Checkpoints(states_of(folder) / name / "checkpoints", name, RUN, tag_of(spec)) for name in manifest.agents]
    ends = [entry for entry in journals.read(folder) if isinstance(entry, StopAt)]
    return Standing(
        manifest.rounds,
        spec.digest(),
        states,
        replace(memory, members=()),
        [entry.acknowledged for entry in memory.members],
        [entry.mark for entry in memory.members],
        [each.read(MARK) for each in kept],
        ends[-1] if ends else None,
        [name for name in CONCLUSIONS if (folder / name).exists()],
    )


def longer(rounds: int) -> Standing:
    """Return how a run stands that was finished and is to be played on."""
    spec = spec_with().replace(**{"run.rounds": rounds})
    members = dict.fromkeys(("adversary", "agent-1", "agent-2"), (tag_of(spec), False))
    return Standing(
        rounds,
        spec.digest(),
        {"coordinator": (spec.digest(), False), **members},
        replace(OVER, phase="playing"),
        [False] * 3,
        [MARK] * 3,
        [b"agent-1", b"agent-2"],
        StopAt(rounds),
        [],
    )


def test_a_finished_run_is_reopened_with_more_rounds(tmp_path: Path) -> None:
    resumption = prepare(leave_behind(tmp_path), rounds=300)

    assert resumption.manifest == manifest_of(300)
    assert not resumption.over
    assert standing(tmp_path) == longer(300)


@pytest.mark.parametrize("memory", [SavedGame("stopping", 128, MARK, 90), SavedGame("playing", 128, MARK)])
def test_a_run_that_was_cut_short_may_be_given_another_end(memory: SavedGame, tmp_path: Path) -> None:
    prepare(leave_behind(tmp_path, memory), rounds=128)

    assert standing(tmp_path) == replace(longer(128), memory=SavedGame("playing", 128, MARK))


def test_a_run_that_was_cut_short_is_left_as_it_is(tmp_path: Path) -> None:
    leave_behind(tmp_path, SavedGame("playing", PUBLISHED, MARK))
    before = standing(tmp_path)

    assert not prepare(tmp_path).over
    assert standing(tmp_path) == before


def test_a_game_that_nobody_had_joined_begins(tmp_path: Path) -> None:
    write_spec(tmp_path, spec_with())
    manifest_of(ROUNDS).write(tmp_path)

    assert prepare(tmp_path, rounds=50).manifest.rounds == 50
    assert prepare(tmp_path).manifest.rounds == 50
    assert Spec.parse(spec_of(tmp_path).read_text(), source="here").run.rounds == 50


class Cut(Exception):
    """The machine is switched off."""


def cut_before(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Switch the machine off before one of the steps in which a run is reopened."""
    left = iter(range(step))

    def cut(work: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(work)
        def performed(*args: object, **more: object) -> object:
            if next(left, None) is None:
                raise Cut
            return work(*args, **more)

        return performed

    for place, name in (
        (Manifest, "write"),
        (resume, "remove_conclusions"),
        (AdversaryJournal, "append"),
        (Checkpoints, "write"),
        (StateDir, "play_on"),
        (RegisterDb, "play_on"),
        (resume, "write_spec"),
    ):
        monkeypatch.setattr(place, name, cut(getattr(place, name)))


def prepare_until(folder: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Reopen a run with 300 rounds, cut short before a step; False where there was no such step."""
    with monkeypatch.context() as patch:
        cut_before(patch, step)
        with suppress(Cut):
            prepare(folder, rounds=300)
            return False
        return True


@pytest.mark.slow
def test_a_run_is_reopened_whole_or_not_at_all_wherever_that_is_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = leave_behind(tmp_path / "original")
    last = 11
    for step in range(last):
        folder = Path(shutil.copytree(original, tmp_path / str(step)))
        assert prepare_until(folder, step, monkeypatch)
        if step == 0:  # nothing is decided yet
            with pytest.raises(BadSpec, match="is finished"):
                prepare(folder)
            prepare(folder, rounds=300)
        else:
            prepare(folder)
        assert standing(folder) == longer(300), step
    assert not prepare_until(original, last, monkeypatch)


def test_another_end_may_be_decided_when_the_last_one_was_not_yet_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_behind(tmp_path)
    assert prepare_until(tmp_path, 4, monkeypatch)

    prepare(tmp_path, rounds=200)

    assert standing(tmp_path) == longer(200)


def test_figures_that_were_not_drawn_any_more_are_all_that_is_left_to_do(tmp_path: Path) -> None:
    (leave_behind(tmp_path) / "violation.png").unlink()

    assert prepare(tmp_path).over


@pytest.mark.parametrize(
    ("memory", "rounds", "sentence"),
    [
        (OVER, None, r"is finished; `slaternet resume .* --rounds N` plays it on"),
        (OVER, ROUNDS, "has played 100 rounds, so --rounds 100 is no more; name a larger number"),
        (replace(OVER, settled=70), 70, "has played 70 rounds, so --rounds 70 is no more"),
        (
            SavedGame("playing", 128),
            127,
            "may have come to round 128, so it cannot end with --rounds 127; name at least",
        ),
        (
            SavedGame("failed", 50, failure="agent-1: no disk"),
            None,
            "has failed and cannot go on: agent-1: no disk; mend",
        ),
    ],
)
def test_a_run_that_cannot_go_on_so_is_refused_and_stays_as_it_was(
    memory: SavedGame, rounds: int | None, sentence: str, tmp_path: Path
) -> None:
    leave_behind(tmp_path, memory)
    before = standing(tmp_path)

    with pytest.raises(BadSpec, match=sentence):
        prepare(tmp_path, rounds=rounds)

    assert standing(tmp_path) == before


def test_a_schedule_that_depends_on_the_last_round_is_refused_another(tmp_path: Path) -> None:
    spec = spec_with("algorithm.name=yuan2022")
    leave_behind(tmp_path, spec=spec)

    with pytest.raises(BadSpec, match=r"yuan2022 with schedule \S+ depends on it; play `slaternet run .*rounds=300`"):
        prepare(tmp_path, rounds=300)


def test_code_that_has_changed_is_refused_before_anything_is(tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text("from slaternet_agent.algorithms.zhang2024 import Zhang2024\nclass Mine(Zhang2024): pass\n")
    folder = tmp_path / "run"
    leave_behind(folder, spec=spec_with(f"algorithm.name={code}:Mine"))
    code.write_text(code.read_text() + "\n")

    with pytest.raises(BadSpec, match=r"the code that .*spec\.toml names is not the one it was played with; put that"):
        prepare(folder, rounds=300)

    assert standing(folder).rounds == ROUNDS


def test_limits_of_the_plugin_may_change_and_nothing_else(tmp_path: Path) -> None:
    leave_behind(tmp_path, SavedGame("playing", PUBLISHED, MARK))
    before = standing(tmp_path)

    with pytest.raises(BadSpec, match=r"^--set run\.seed cannot change a game .*; resume takes adversary\.seconds and"):
        prepare(tmp_path, settings=["adversary.seconds=5", "run.seed=2"])
    changed = prepare(tmp_path, settings=["adversary.seconds=120", "adversary.memory=8192"])
    kept = read_spec(spec_of(tmp_path)).adversary
    longer = prepare(tmp_path, rounds=300, settings=["adversary.memory="])
    last = read_spec(spec_of(tmp_path))

    assert (
        (kept.seconds, kept.memory) == (120.0, 8192) == (changed.spec.adversary.seconds, changed.spec.adversary.memory)
    )
    assert changed.spec.digest() == before.spec
    assert (last.adversary.seconds, last.adversary.memory, last.run.rounds) == (120.0, None, 300)
    assert longer.spec == last


def test_a_run_that_is_being_played_is_named_with_the_process_that_runs(tmp_path: Path) -> None:
    leave_behind(tmp_path)
    with (
        StateDir.claim(states_of(tmp_path), "agent-2", role="host"),
        pytest.raises(BadSpec, match="is being played, because agent-2 is running; wait for its end, or stop it first"),
    ):
        prepare(tmp_path, patience=0)


def test_a_folder_that_holds_no_such_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="nowhere is not a run folder; name a folder that `slaternet run` has written"):
        prepare(tmp_path / "nowhere")
    with pytest.raises(BadSpec, match="is not a run folder"):
        prepare(tmp_path)
    (tmp_path / "spec.toml").write_text("")
    with pytest.raises(BadSpec, match=r"was simulated, so there is nothing to resume; play it with `slaternet simul"):
        prepare(tmp_path)


@pytest.mark.parametrize(
    ("lost", "sentence"),
    [
        ("", r"cannot be resumed without .*state, where `slaternet run` keeps the states .*; put that back, or start"),
        ("coordinator", r"state/coordinator is not what coordinator kept there; put that back, or play `slaternet run"),
        ("coordinator/register.sqlite", "state/coordinator is not what coordinator kept there"),
        ("agent-2", "state/agent-2 is not what agent-2 kept there"),
        ("adversary/state.json", "state/adversary is not what adversary kept there"),
    ],
)
def test_a_run_that_has_lost_a_state_is_refused(lost: str, sentence: str, tmp_path: Path) -> None:
    leave_behind(tmp_path, SavedGame("playing", PUBLISHED, MARK))
    path = states_of(tmp_path) / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()

    with pytest.raises(BadSpec, match=sentence):
        prepare(tmp_path)


@pytest.mark.parametrize("departures", [(), (Departure(40, SEATS["agent-2"]),)], ids=["replaced", "left"])
def test_a_host_that_was_given_up_is_neither_started_nor_missed(
    departures: tuple[Departure, ...], tmp_path: Path
) -> None:
    leave_behind(tmp_path, SavedGame("playing", PUBLISHED, MARK))
    assert prepare(tmp_path).lost == set()

    lose_second(tmp_path, *departures)

    assert prepare(tmp_path).lost == {"agent-2"}
    resumption = prepare(tmp_path, rounds=300)
    assert resumption.lost == {"agent-2"}
    assert resumption.spec.run.rounds == 300
    kept = Checkpoints(states_of(tmp_path) / "agent-1" / "checkpoints", "agent-1", RUN, tag_of(resumption.spec))
    assert kept.read(MARK) == b"agent-1"
    with RegisterDb.open(register_of(tmp_path)) as archive:
        memory = archive.read()
    assert (memory.phase, memory.epoch, len(memory.departures)) == ("playing", 2, len(departures))
    assert [entry.name for entry in memory.members if entry.lost] == ["agent-2"]


def test_a_host_whose_agents_have_all_left_needs_no_checkpoint(tmp_path: Path) -> None:
    leave_behind(tmp_path)
    with RegisterDb.open(register_of(tmp_path)) as archive:
        archive.save(replace(archive.read(), departures=(Departure(40, SEATS["agent-2"]),)))
    (states_of(tmp_path) / "agent-2" / "checkpoints" / "000064").unlink()

    assert prepare(tmp_path, rounds=300).lost == set()


@pytest.mark.parametrize("text", ["{", "[]", '{"hosts": "2", "durability": "kill", "rounds": 5}', '{"hosts": 2}'])
def test_a_damaged_manifest_is_refused(text: str, tmp_path: Path) -> None:
    leave_behind(tmp_path)
    (states_of(tmp_path) / "run.json").write_text(text)

    with pytest.raises(BadSpec, match=r"run\.json is damaged; put back what `slaternet run` wrote there"):
        prepare(tmp_path)


def test_a_checkpoint_that_is_missing_or_damaged_is_found_before_anything_is_decided(tmp_path: Path) -> None:
    leave_behind(tmp_path)
    checkpoint = states_of(tmp_path) / "agent-2" / "checkpoints" / "000064"
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[:-1] + b"X")
    with pytest.raises(Diverged):
        prepare(tmp_path, rounds=300)
    checkpoint.unlink()
    with pytest.raises(BadSpec, match="000064 is missing"):
        prepare(tmp_path, rounds=300)

    checkpoint.write_bytes(content)
    assert Manifest.read(tmp_path) == manifest_of(ROUNDS)
    assert (tmp_path / "summary.json").exists()
    assert (tmp_path / JOURNAL).exists()


def test_the_adversary_finds_a_run_folder_that_was_moved(tmp_path: Path) -> None:
    leave_behind(tmp_path / "before", SavedGame("playing", PUBLISHED, MARK))
    moved = (tmp_path / "before").rename(tmp_path / "after")

    prepare(moved)

    assert json.loads((states_of(moved) / "adversary" / "state.json").read_text())["results"] == str(moved)


def test_nothing_is_done_twice(tmp_path: Path) -> None:
    leave_behind(tmp_path)
    prepare(tmp_path, rounds=300)
    states = {name: StateDir(name, role, states_of(tmp_path) / name) for name, role in manifest_of(None).roles.items()}
    before = (tmp_path / JOURNAL).read_bytes()
    spec = Spec.parse(spec_of(tmp_path).read_text(), source="here")

    assert extend(tmp_path, manifest_of(300), states, spec) == spec
    assert (tmp_path / JOURNAL).read_bytes() == before
