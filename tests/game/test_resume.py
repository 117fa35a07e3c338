"""A run that was switched off goes on, and a finished one is played on: to the bits of a run that nothing disturbed."""

import csv
import re
import signal
from pathlib import Path

import pytest
from tests.game.processes import PLUGINS, digest, playing, recorded, resuming, simulated, slaternet, write_spec

from slaternet.errors import BadSpec
from slaternet.storage.journal import Durability
from slaternet_lab import Run, load, play, resume
from slaternet_lab.games.resume import prepare

pytestmark = pytest.mark.slow

PASSING = {"frames", "bytes_sent", "bytes_received", "rows_sent", "gossip_bytes", "waited", "skew", "seconds"}


def ends_as_its_simulation(folder: Path, rounds: int) -> None:
    run = Run.open(folder)
    undisturbed = simulated(run.spec, folder.parent / f"simulated-{folder.name}-{rounds}")
    assert digest(run) == digest(undisturbed)
    assert (run.summary["rounds"], recorded(folder), run.spec.run.rounds) == (rounds, rounds, rounds)
    assert lasting(folder) == lasting(undisturbed.folder)
    assert (folder / "commitments.csv").read_bytes() == (undisturbed.folder / "commitments.csv").read_bytes()


def lasting(folder: Path) -> list[list[str]]:
    """Return metrics.csv without the columns that say how a game went on its way."""
    with (folder / "metrics.csv").open(newline="") as file:
        return [[value for name, value in row.items() if name not in PASSING] for row in csv.DictReader(file)]


def test_a_run_that_was_switched_off_goes_on_to_the_bits_of_one_that_was_not(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with playing(write_spec(tmp_path, rounds=300), folder) as game:
        game.under_way(1)
        with pytest.raises(BadSpec, match="is being played, because coordinator is running; wait for its end, or"):
            prepare(folder, patience=0)
        game.switch_off(100)

    resumed = slaternet("resume", folder)

    assert resumed.code == 0, resumed.err
    assert "/300  " in resumed.out
    ends_as_its_simulation(folder, 300)
    assert {"loss.png", "violation.png", "assumptions.txt"} <= {file.name for file in folder.iterdir()}
    assert "coming back" in (folder / "state" / "agent-1" / "log").read_text()


@pytest.mark.parametrize(("algorithm", "durability"), [("zhang2024", Durability.KILL), ("yi2023", Durability.FSYNC)])
def test_a_finished_run_is_played_on_though_its_folder_was_moved(
    algorithm: str, durability: Durability, tmp_path: Path
) -> None:
    spec = load(str(write_spec(tmp_path, rounds=70)), [f"algorithm.name={algorithm}", "record.decisions=true"])
    play(spec, hosts=3, out=tmp_path / "run", figures=False, durability=durability)
    folder = (tmp_path / "run").rename(tmp_path / "elsewhere")

    decisions = resume(folder, rounds=150, figures=False).decisions

    ends_as_its_simulation(folder, 150)
    assert decisions is not None
    assert decisions.shape == (150, 6, 3)


def test_a_game_without_end_that_was_stopped_is_played_on_and_switched_off_meanwhile(tmp_path: Path) -> None:
    """Its adversary looks at earlier decisions, so that functions of the round after the stop are fixed with care."""
    folder = tmp_path / "run"
    chaser = f"{PLUGINS / 'chaser.py'}:Chaser"
    with playing(write_spec(tmp_path, rounds=None, plugin=chaser, more='isolation = "none"\n'), folder) as game:
        game.under_way(20)
        game.process.send_signal(signal.SIGINT)
        stopped = game.outcome()
    assert stopped.code == 0, stopped.err
    last = Run.open(folder).summary["rounds"]

    with resuming(folder, "--rounds", last + 400) as game:
        game.switch_off(last + 50)
    assert not (folder / "summary.json").exists()
    with pytest.raises(BadSpec, match=f"so it cannot end with --rounds {last}; name at least that, or resume it with"):
        resume(folder, rounds=last)
    rounds = recorded(folder) + 150
    resume(folder, rounds=rounds, figures=False)

    ends_as_its_simulation(folder, rounds)


def contents(folder: Path) -> dict[Path, bytes]:
    """Return all that stands in a folder, but for the database, which is tidied up when it is opened."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("register.sqlite"))
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("more", [(), ("--rounds", 400)], ids=["as it is", "played on"])
def test_a_journal_cut_below_the_low_water_mark_is_refused_before_anything_is_written(
    more: tuple[object, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with playing(write_spec(tmp_path, rounds=300), folder) as game:
        game.switch_off(200)
    journal = folder / "journal" / "adversary"
    whole = journal.read_bytes()
    journal.write_bytes(whole[: len(whole) // 2])
    before = contents(folder)

    refused = slaternet("resume", folder, *more)

    assert refused.code == 5
    assert re.fullmatch(
        rf"slaternet: {journal} ends in round \d+, and it was complete up to round \d+, from which hosts go on; put "
        r"back an undamaged copy, or begin the whole game anew\n",
        refused.err,
    )
    assert contents(folder) == before

    journal.write_bytes(whole)
    assert slaternet("resume", folder).code == 0
    ends_as_its_simulation(folder, 300)
