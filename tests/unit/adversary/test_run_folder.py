import csv
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from slaternet.errors import BadSpec, NotYours, OverBudget
from slaternet.model import Usage
from slaternet.refusals import RefusalCounter
from slaternet.spec import Spec
from slaternet.storage import disk
from slaternet_adversary.engine.events import Commit, RecordRound, Summarise
from slaternet_adversary.journal.journal import AdversaryJournal
from slaternet_adversary.scoring import Scored
from slaternet_adversary.shell.run_folder import COLUMNS, RunFolder, claim, new_folder, remove_conclusions

TEXT = """
[run]
name = "little"
agents = 3
dimension = 2
seed = 9
[set]
kind = "box"
lower = -1.0
upper = 1.0
[algorithm]
name = "zhang2024"
schedule = "table2"
[feedback]
points = 2
[question]
points = 2
[graph]
name = "ring"
[adversary]
plugin = "linear-regression"
[record]
decisions = true
score_every = 2
"""
SPEC = Spec.parse(TEXT, source="test")


def decisions(t: int) -> np.ndarray:
    return np.arange(6.0).reshape(3, 2) + t / 7


def row(t: int) -> RecordRound:
    score = Scored(t, 0.1 * t, 0.2, 0.3, 0.0, 1 / 3) if t % 2 == 0 else None
    totals = (0.1 * t, 0.2 * t, 0.3 * t, 0.0)
    return RecordRound(t, score, totals, 3, {"a": 0.0, "b": 0.125 * t}, f"{t:016x}", decisions(t))


def record(results: RunFolder, t: int) -> None:
    """Record a round after which both hosts have told what they have spent so far."""
    results.network.add_usage("a", 1, Usage(t, 3 * t, 200 * t * (t + 1), 15 * t * (t + 1), 0.25 * t, 12 * t, 100 * t))
    results.network.add_usage("b", 1, Usage(t, t, 50 * t * (t + 1), 20 * t * (t + 1), 0.0, 4 * t, 28 * t))
    results.record(row(t), 0.5 * t)


def begin(folder: Path, spec: Spec = SPEC) -> RunFolder:
    claim(folder)
    return RunFolder(folder, spec, run="run-id")


def read(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_run_folder_begins_with_the_spec_and_the_columns(tmp_path: Path) -> None:
    results = begin(tmp_path / "new" / "run")

    assert Spec.parse((results.folder / "spec.toml").read_text(), source="again") == SPEC
    header = (results.folder / "metrics.csv").read_text()
    assert header == ",".join(COLUMNS) + "\n"
    contract = "round loss violation cumulative_loss cumulative_violation disagreement agents frames bytes_sent waited"
    assert {*contract.split(), "seconds", "digest"} <= set(COLUMNS)
    results.close()


def test_every_row_is_on_disk_as_soon_as_it_is_recorded(tmp_path: Path) -> None:
    results = begin(tmp_path / "run")

    for t in range(1, 5):
        record(results, t)
        rows = read(results.folder)  # nothing is closed
        assert [int(each["round"]) for each in rows] == list(range(1, t + 1))
        assert (results.folder / "decisions.f64").stat().st_size == t * 6 * 8
    results.close()

    unscored, scored = rows[0], rows[1]
    assert (unscored["loss"], unscored["violation"], unscored["disagreement"]) == ("", "", "")
    assert float(unscored["cumulative_loss"]) == 0.1
    assert float(scored["loss"]) == 0.2  # to the bit
    assert float(scored["disagreement"]) == 1 / 3
    assert (scored["agents"], scored["frames"]) == ("3", "4")
    assert (scored["bytes_sent"], scored["bytes_received"]) == ("1000", "140")
    assert (scored["rows_sent"], scored["gossip_bytes"]) == ("16", "128")
    assert (float(scored["waited"]), float(scored["skew"]), float(scored["seconds"])) == (0.25, 0.25, 1.0)
    assert scored["digest"] == f"{2:016x}"
    assert not (results.folder / "summary.json").exists()


def test_the_summary_comes_last_and_completes_the_run(tmp_path: Path) -> None:
    results = begin(tmp_path / "run")
    for t in range(1, 6):
        results.record(row(t), 0.5 * t)

    results.finish(Summarise(5, "ab" * 32), seconds=2.5, seats={"a": 2, "b": 1})

    summary = json.loads((results.folder / "summary.json").read_text())
    assert summary == summary | {
        "name": "little",
        "run": "run-id",
        "algorithm": "zhang2024",
        "agents": 3,
        "rounds": 5,
        "scored_rounds": 2,
        "seed": 9,
        "sealed": False,
        "hosts": 2,
        "cumulative_loss": 0.5,
        "cumulative_violation": 1.0,
        "zero_loss": 1.5,
        "zero_violation": 0.0,
        "digest": "ab" * 32,
        "seconds": 2.5,
        "breaches": {},
        "rounds_per_second": 2.0,
    }
    with np.load(results.folder / "decisions.npz") as archive:
        assert archive["x"].tobytes() == b"".join(decisions(t).tobytes() for t in range(1, 6))
        assert archive["x"].shape == (5, 3, 2)
    files = {path.name for path in results.folder.iterdir()}
    assert files == {"spec.toml", "metrics.csv", "commitments.csv", "summary.json", "decisions.npz"}


def test_all_else_survives_a_loss_of_power_before_the_summary_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def note(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    results = begin(tmp_path / "run")
    results.commit(Commit(1, ("ab",)))
    results.record(row(1), seconds=0.5)
    for module, name in ((os, "fsync"), (disk, "_sync")):
        monkeypatch.setattr(module, name, note)
    results.finish(Summarise(1, "dd"), seconds=0.75, seats={})

    last = synced.index("summary.json.draft")
    assert {"metrics.csv", "commitments.csv", "decisions.npz.draft"} <= set(synced[:last])
    assert synced[last + 1 :] == ["run"]


def test_the_summary_says_what_the_network_carried_in_all_and_by_host(tmp_path: Path) -> None:
    results = begin(tmp_path / "run")
    for t in range(1, 6):
        record(results, t)

    results.finish(Summarise(5, "ab" * 32), seconds=2.5, seats={"a": 2, "b": 1})

    network = json.loads((results.folder / "summary.json").read_text())["network"]
    assert network == {
        "frames": 20,
        "bytes_sent": 7500,
        "bytes_received": 1050,
        "rows_sent": 80,
        "gossip_bytes": 640,
        "bytes_per_row": 8.0,
        "waited": 1.25,
        "skew": 0.375,  # the mean of 0.125 t
        "hosts": {
            "a": {
                "seats": 2,
                "frames": 15,
                "bytes_sent": 6000,
                "bytes_received": 450,
                "rows_sent": 60,
                "gossip_bytes": 500,
                "waited": 1.25,
                "lag": 0.0,
            },
            "b": {
                "seats": 1,
                "frames": 5,
                "bytes_sent": 1500,
                "bytes_received": 600,
                "rows_sent": 20,
                "gossip_bytes": 140,
                "waited": 0.0,
                "lag": 0.375,
            },
        },
    }


def test_the_summary_says_what_a_code_has_saved_against_the_same_rows_as_float64(tmp_path: Path) -> None:
    spec = SPEC.replace(gossip={"code": "grid", "difference": True, "trigger": 0.5, "row_width": 2})
    results = begin(tmp_path / "run", spec)
    for t in range(1, 6):
        record(results, t)

    results.finish(Summarise(5, "ab" * 32), seconds=2.5, seats={"a": 2, "b": 1})

    summary = json.loads((results.folder / "summary.json").read_text())
    assert summary["gossip"] == {"code": "grid", "difference": True, "trigger": 0.5}
    assert summary["network"]["bytes_per_row"] == 640 / 80
    assert summary["network"]["saving"] == 1 - 640 / (80 * 8 * 2)


def test_where_no_rows_were_sent_the_summary_does_not_say_what_one_costs(tmp_path: Path) -> None:
    results = begin(tmp_path / "run", SPEC.replace(gossip={"row_width": 2}))
    results.record(row(1), 0.5)

    results.finish(Summarise(1, "ab" * 32), seconds=2.5, seats={})

    summary = json.loads((results.folder / "summary.json").read_text())
    assert summary["gossip"] == {"code": "exact", "difference": False, "trigger": 0.0}
    assert summary["network"]["rows_sent"] == summary["network"]["gossip_bytes"] == 0
    assert not {"bytes_per_row", "saving"} & set(summary["network"])


def test_a_game_without_end_is_written_down_with_the_end_it_found(tmp_path: Path) -> None:
    results = begin(tmp_path / "run")
    results.record(row(1), 1.0)

    results.finish(Summarise(1, "00" * 32), seconds=0.0, seats={"a": 3})

    written = Spec.parse((results.folder / "spec.toml").read_text(), source="again")
    assert written == SPEC.replace(**{"run.rounds": 1})
    assert json.loads((results.folder / "summary.json").read_text())["rounds_per_second"] == 0.0


def test_a_summary_that_cannot_be_written_whole_is_not_there_at_all(tmp_path: Path) -> None:
    results = begin(tmp_path / "run", SPEC.replace(**{"run.rounds": 1}))
    results.record(row(1), 1.0)
    (results.folder / "summary.json.draft").mkdir()  # stands in the way

    with pytest.raises(BadSpec, match=r"summary.json.draft cannot be used: Is a directory; make it accessible"):
        results.finish(Summarise(1, "00" * 32), seconds=1.0, seats={"a": 3})

    assert not (results.folder / "summary.json").exists()
    assert len(read(results.folder)) == 1


def test_decisions_are_kept_only_where_the_spec_says_so(tmp_path: Path) -> None:
    results = begin(tmp_path / "run", SPEC.replace(**{"record.decisions": False, "run.rounds": 1}))
    results.record(row(1), 1.0)
    results.finish(Summarise(1, "00" * 32), seconds=1.0, seats={"a": 3})

    names = {path.name for path in results.folder.iterdir()}
    assert names == {"spec.toml", "metrics.csv", "commitments.csv", "summary.json"}


def test_commitments_are_on_disk_as_soon_as_they_are_made(tmp_path: Path) -> None:
    results = begin(tmp_path / "run")

    results.commit(Commit(1, ("aa", "bb")))
    results.commit(Commit(3, ("cc",)))

    assert (results.folder / "commitments.csv").read_text() == "round,commitment\n1,aa\n2,bb\n3,cc\n"
    results.close()


def test_the_summary_says_how_often_the_rules_were_broken(tmp_path: Path) -> None:
    claim(tmp_path)
    breaches = RefusalCounter()
    results = RunFolder(tmp_path, SPEC.replace(**{"record.decisions": False}), run="run-id", breaches=breaches)
    for error in (OverBudget("more"), NotYours("others'"), OverBudget("more")):
        breaches.count(error, "agent-1")

    results.finish(Summarise(1, "00" * 32), seconds=1.0, seats={"a": 3})

    assert json.loads((tmp_path / "summary.json").read_text())["breaches"] == {"NotYours": 1, "OverBudget": 2}


def test_a_folder_that_holds_a_run_is_overwritten_only_by_force(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    results = begin(folder)
    results.record(row(1), 1.0)
    results.finish(Summarise(1, "00" * 32), seconds=1.0, seats={"a": 3})
    for name in ("loss.png", "assumptions.txt", "notes.txt"):
        (folder / name).write_text("here before")
    (folder / "state" / "coordinator").mkdir(parents=True)
    (folder / "state" / "coordinator" / "log").write_text("here before")
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}

    sentence = r"holds a run \(spec.toml\); choose another --out, or overwrite it with --force"
    with pytest.raises(BadSpec, match=sentence):
        claim(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before

    claim(folder, force=True)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    RunFolder(folder, SPEC, run="another").close()
    assert read(folder) == []


def test_a_folder_with_the_journal_of_a_game_is_overwritten_only_by_force(tmp_path: Path) -> None:
    AdversaryJournal.open(tmp_path, "another").close()

    with pytest.raises(BadSpec, match=r"holds a run \(journal/adversary\); choose another --out"):
        claim(tmp_path)
    claim(tmp_path, force=True)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["metrics.csv", "commitments.csv", "summary.json", "loss.png", "violation.png", "assumptions.txt"]
)
def test_nothing_is_deleted_unasked_from_a_folder_that_holds_no_run(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")

    with pytest.raises(BadSpec, match=rf"holds a run \({name}\); choose another --out"):
        claim(tmp_path)

    assert (tmp_path / name).read_text() == "mine"


def test_the_state_of_processes_alone_does_not_make_a_run_and_stays(tmp_path: Path) -> None:
    log = tmp_path / "state" / "coordinator" / "log"
    log.parent.mkdir(parents=True)
    log.write_text("listening")

    claim(tmp_path)

    assert log.read_text() == "listening"


def test_new_folders_bear_the_name_and_never_collide(tmp_path: Path) -> None:
    first = new_folder(SPEC, tmp_path)
    first.mkdir()

    second = new_folder(SPEC, tmp_path)

    assert re.fullmatch(r"little-\d{8}-\d{6}", first.name)
    assert not second.exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(BadSpec, match=r"cannot write the run folder .*file/run: .*; choose another --out"):
        claim(tmp_path / "file" / "run")
    with pytest.raises(BadSpec, match="cannot write the run folder"):
        claim(tmp_path / "file")


def test_what_hosts_have_spent_counts_in_the_row_that_is_open_and_once_whatever_is_told_again(tmp_path: Path) -> None:
    results = begin(tmp_path / "run")

    results.record(row(1), 0.5)
    results.network.add_usage("a", 1, Usage(1, 1, 100, 10, 0.5, 5, 80))
    results.network.add_usage("a", 1, Usage(1, 1, 100, 10, 0.5, 5, 80))  # again on a new stream
    results.network.add_usage("b", 1, Usage(2, 2, 20, 2, 0.25, 6, 16))
    results.record(row(2), 1.0)
    results.network.add_usage("a", 2, Usage(1, 1, 7, 3, 0.125, 2, 6))  # started again: it counts from nothing
    results.network.add_usage("a", 1, Usage(9, 99, 999, 99, 9.0, 999, 9))  # of an older life, overtaken
    results.network.add_usage("a", 2, Usage(3, 4, 9, 5, 0.25, 9, 8))
    results.network.add_usage("a", 2, Usage(2, 3, 8, 4, 0.125, 3, 7))  # less than was told
    results.record(row(3), 1.5)
    results.record(row(4), 2.0)
    results.close()

    rows = [[float(each[name]) for name in COLUMNS[9:15]] for each in read(results.folder)]
    assert rows == [[0] * 6, [3, 120, 12, 11, 96, 0.75], [4, 9, 5, 9, 8, 0.25], [0] * 6]
    assert results.network.spent == (7, 129, 17, 20, 104, 1.0)


def test_decisions_that_a_run_has_not_written_so_are_not_unpacked_to_be_played_on(tmp_path: Path) -> None:
    for number, (shape, save) in enumerate((((4, 3, 2), np.savez_compressed), ((9, 3, 2), np.savez))):
        folder = tmp_path / str(number)
        begin(folder, SPEC.replace(**{"run.rounds": 4})).close()
        (folder / "decisions.f64").unlink()
        save(folder / "decisions.npz", x=np.zeros(shape))

        remove_conclusions(folder)

        assert not (folder / "decisions.f64").exists()


def test_decisions_are_unpacked_to_be_played_on(tmp_path: Path) -> None:
    begin(tmp_path / "run", SPEC.replace(**{"run.rounds": 4})).close()
    (tmp_path / "run" / "decisions.f64").unlink()
    x = np.arange(24.0).reshape(4, 3, 2)
    np.savez(tmp_path / "run" / "decisions.npz", x=x)

    remove_conclusions(tmp_path / "run")

    assert (tmp_path / "run" / "decisions.f64").read_bytes() == x.tobytes()
    assert not (tmp_path / "run" / "decisions.npz").exists()


def test_what_is_no_ordinary_file_in_the_place_of_decisions_is_refused(tmp_path: Path) -> None:
    begin(tmp_path / "run").close()
    (tmp_path / "run" / "decisions.f64").unlink()
    os.mkfifo(tmp_path / "run" / "decisions.f64")

    with pytest.raises(BadSpec, match=r"decisions\.f64"):
        RunFolder(tmp_path / "run", SPEC, run="run-id", again=True)
