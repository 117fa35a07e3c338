import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slaternet.errors import BadSpec
from slaternet.storage.state_dir import AUTO, StateDir

SPEC = "5" * 64


def claim(folder: Path | None, name: str = "agent-1", *, role: str = "host", fresh: bool = False) -> StateDir:
    return StateDir.claim(folder, name, role=role, fresh=fresh)


def test_a_game_is_remembered_until_it_is_forgotten(tmp_path: Path) -> None:
    with claim(tmp_path / "new" / "folder") as state:
        assert (state.past_spec, state.finished_notice) == ("", "")
        state.remember("run-1", SPEC)

    with claim(tmp_path / "new" / "folder") as state:
        assert (state.past_spec, state.finished_notice) == (SPEC, "")
    with claim(tmp_path / "new" / "folder", fresh=True) as state:
        assert state.past_spec == ""
    with claim(tmp_path / "new" / "folder") as state:
        assert state.past_spec == ""


def test_the_file_says_all_that_is_remembered(tmp_path: Path) -> None:
    with claim(tmp_path) as state:
        state.remember("run-1", SPEC)
        state.close(200)

    assert json.loads((tmp_path / "agent-1" / "state.json").read_text()) == {
        "name": "agent-1",
        "role": "host",
        "run": "run-1",
        "spec": SPEC,
        "over": True,
        "rounds": 200,
        "results": "",
    }


def test_a_game_that_is_over_says_so_and_names_the_remedy(tmp_path: Path) -> None:
    with claim(tmp_path) as state:
        state.remember("run-1", SPEC)
        state.close(200)
        state.close(7)  # said again on another stream

    with claim(tmp_path) as state:
        assert state.finished_notice == (
            f"the game that agent-1 remembers in {tmp_path / 'agent-1'} is over after 200 rounds; "
            "start it with --fresh for another"
        )
    with claim(tmp_path, fresh=True) as state:
        assert (state.finished_notice, state.past_spec) == ("", "")


def test_fresh_deletes_what_was_written_here_and_nothing_else(tmp_path: Path) -> None:
    with claim(tmp_path) as state:
        state.remember("run-1", SPEC)
    (tmp_path / "agent-1" / "log").write_text("mine")
    (tmp_path / "agent-1" / "state.json.draft").write_text("half a st")

    claim(tmp_path, fresh=True).release()

    assert sorted(path.name for path in (tmp_path / "agent-1").iterdir()) == ["lock", "log"]


def test_checkpoints_are_forgotten_with_their_game_and_not_before(tmp_path: Path) -> None:
    with claim(tmp_path) as state:
        state.remember("run-1", SPEC)
        assert state.durable
        assert state.checkpoints is not None
        state.checkpoints.mkdir()
        kept = state.checkpoints / "000064"
        kept.write_text("all I know")

    with claim(tmp_path) as state:
        state.remember("run-1", SPEC)  # the process has come back
        assert kept.exists()
    with claim(tmp_path) as state:
        state.remember("run-2", SPEC)
        assert not kept.exists()


def test_fresh_forgets_checkpoints_too(tmp_path: Path) -> None:
    with claim(tmp_path) as state:
        assert state.checkpoints is not None
        state.checkpoints.mkdir()
        (state.checkpoints / "000064").write_text("all I know")

    claim(tmp_path, fresh=True).release()

    assert not (tmp_path / "agent-1" / "checkpoints" / "000064").exists()


def test_without_a_folder_nothing_outlives_the_process() -> None:
    state = claim(None)
    assert (state.durable, state.checkpoints) == (False, None)
    state.remember("run-1", SPEC)
    state.close(3)

    assert (state.past_spec, state.folder) == (SPEC, None)
    assert claim(None).past_spec == ""


def test_a_state_that_another_holds_is_refused(tmp_path: Path) -> None:
    with claim(tmp_path):
        with pytest.raises(BadSpec, match="agent-1 is held by another process; end that one, or choose another"):
            claim(tmp_path)
        with pytest.raises(BadSpec, match="held"):
            claim(tmp_path, fresh=True)
        claim(tmp_path, "agent-2").release()
    claim(tmp_path).release()


def test_a_lock_falls_with_the_process_that_was_killed(tmp_path: Path) -> None:
    holder = start(tmp_path, "agent-1")
    with pytest.raises(BadSpec, match="held by another process"):
        claim(tmp_path)

    holder.kill()
    holder.communicate()

    claim(tmp_path).release()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 3}', '{"over": true}', "\xff"])
def test_a_damaged_state_is_refused_and_the_lock_let_go(tmp_path: Path, text: str) -> None:
    with claim(tmp_path) as state:
        state.remember("run-1", SPEC)
    (tmp_path / "agent-1" / "state.json").write_bytes(text.encode("latin-1"))

    with pytest.raises(BadSpec, match=r"state\.json is damaged; restore it from a copy, or start with --fresh"):
        claim(tmp_path)
    assert claim(tmp_path, fresh=True).past_spec == ""


def test_a_state_belongs_to_one_role(tmp_path: Path) -> None:
    with claim(tmp_path) as state:
        state.remember("run-1", SPEC)

    with pytest.raises(BadSpec, match="is the state of a process in the role host, not adversary; choose another"):
        claim(tmp_path, role="adversary")


def test_a_folder_that_cannot_be_made_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadSpec, match="file/agent-1 cannot be used: Not a directory; make it accessible, or choose"):
        claim(tmp_path / "file")


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    with claim(tmp_path) as state:
        state.remember("run-1", SPEC)
        (tmp_path / "agent-1" / "state.json.draft").mkdir()
        with pytest.raises(BadSpec, match=r"state\.json\.draft cannot be used: Is a directory"):
            state.close(200)

    with claim(tmp_path) as state:
        assert (state.past_spec, state.finished_notice) == (SPEC, "")


# Slots


def test_auto_needs_a_folder() -> None:
    with pytest.raises(BadSpec, match="--name auto takes a name that is free in --state DIR; say which DIR"):
        claim(None, AUTO)


def test_auto_takes_the_lowest_slot_that_nobody_holds(tmp_path: Path) -> None:
    with claim(tmp_path, AUTO) as first, claim(tmp_path, AUTO) as second:
        assert (first.name, second.name) == ("agent-1", "agent-2")
        first.remember("run-1", SPEC)

    with claim(tmp_path, AUTO) as again:
        assert (again.name, again.past_spec) == ("agent-1", SPEC)  # a replaced container continues its slot


def test_a_slot_whose_game_is_over_says_so_like_any_state(tmp_path: Path) -> None:
    with claim(tmp_path, AUTO) as state:
        state.remember("run-1", SPEC)
        state.close(9)

    with claim(tmp_path, AUTO) as state:
        assert state.name == "agent-1"
        assert "is over after 9 rounds" in state.finished_notice
    with claim(tmp_path, AUTO, fresh=True) as state:
        assert (state.name, state.finished_notice) == ("agent-1", "")


_HOLDER = """
import sys
from pathlib import Path
from slaternet.storage.state_dir import StateDir

state = StateDir.claim(Path(sys.argv[1]), sys.argv[2], role="host")
print(state.name, flush=True)
sys.stdin.read()
"""


def start(folder: Path, name: str) -> "subprocess.Popen[str]":
    """Start a process that holds a state until its input ends, or it is killed."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(folder), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert holder.stdout is not None
    if name != AUTO:
        assert holder.stdout.readline() == f"{name}\n"
    return holder


def test_processes_that_race_for_slots_get_different_ones(tmp_path: Path) -> None:
    holders = [start(tmp_path, AUTO) for _ in range(4)]

    names = [holder.stdout.readline().strip() for holder in holders if holder.stdout is not None]

    assert sorted(names) == [f"agent-{number}" for number in range(1, 5)]
    for holder in holders:
        assert holder.communicate("")[0] == ""
        assert holder.returncode == 0


def test_the_run_folder_is_remembered_as_long_as_the_game_is_the_same(tmp_path: Path) -> None:
    with claim(tmp_path) as state:
        state.remember("run-1", SPEC)
        assert state.results is None
        state.keep(Path("runs/mine"))
    with claim(tmp_path) as state:
        state.remember("run-1", SPEC)
        assert state.results == Path.cwd() / "runs" / "mine"
    with claim(tmp_path) as state:
        assert state.results == Path.cwd() / "runs" / "mine"
        state.remember("run-2", SPEC)
        assert state.results is None
