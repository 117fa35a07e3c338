import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slaternet_lab.cli import main
from slaternet_lab.runs.run import Run

SMALL = ("run.agents=6", "run.rounds=12", "run.dimension=3")
SETTINGS = [argument for setting in SMALL for argument in ("--set", setting)]
ENDLESS = """
import signal
from slaternet_agent.algorithms.zhang2024 import Zhang2024


class Endless(Zhang2024):
    def update(self, state, decision, seen, t):
        if t == 5:
            open(__file__.replace("endless.py", "reached"), "w").close()
            signal.pause()
        return super().update(state, decision, seen, t)
"""
FAILING = ENDLESS.replace("signal.pause()", "raise ValueError('no more')")


def slaternet(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main([str(each) for each in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code, *capsys.readouterr()


def test_a_table_is_printed_or_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    algorithms = ("--algorithms", "zhang2024,yi2023+dual_linearised=false")
    command = ("compare", *algorithms, *SETTINGS, "--set", "run.rounds=40", "--seeds", 2, "--out", tmp_path / "a")

    code, table, _ = slaternet(capsys, *command)
    again, printed, progress = slaternet(capsys, *command, "--json")

    assert code == again == 0
    assert "left out for those who do not take it: gamma0 (yi2023+dual_linearised=false)" in table
    heading = next(line for line in table.splitlines() if line.startswith("algorithm"))
    assert heading.split() == ["algorithm", "loss", "violation", "regret", "disagreement", "asks", "rounds/s"]
    assert "4 finished runs are kept" in progress
    told = json.loads(printed)
    assert [each["label"] for each in told["standings"]] == ["zhang2024", "yi2023+dual_linearised=false"]
    assert [each["seed"] for each in told["runs"]] == [1, 2, 1, 2]
    for each in told["standings"]:
        loss = f"{each['loss']['mean']:.0f} ± {each['loss']['std']:.0f}"
        assert any(line.startswith(each["label"]) and loss in line for line in table.splitlines())


def test_the_bytes_of_rows_are_a_column_where_there_is_a_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    grid = ("--grid", "gossip.code=exact,grid+width=0.1")
    common = ("compare", "--algorithms", "zhang2024", "--seeds", 1, *SETTINGS, "--no-figures", "--out")

    code, table, _ = slaternet(capsys, *common, tmp_path / "a", *grid)
    _, plain, _ = slaternet(capsys, *common, tmp_path / "b")

    assert code == 0
    lines = table.splitlines()
    assert "bytes of rows" in next(line for line in lines if line.startswith("algorithm"))
    assert any(line.startswith("zhang2024+gossip.code=exact ") and "1.7 kB" in line for line in lines)
    assert any(line.startswith("zhang2024+gossip.code=grid+width=0.1 ") and " bytes " in line for line in lines)
    assert "bytes of rows" not in plain


@pytest.mark.slow
def test_over_the_network_the_digests_are_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    common = ("compare", "--algorithms", "zhang2024", "--seeds", 1, *SETTINGS, "--json", "--out")

    _, here, _ = slaternet(capsys, *common, tmp_path / "here")
    code, there, _ = slaternet(capsys, *common, tmp_path / "there", "--network", "--hosts", 3)

    assert code == 0
    assert [each["digest"] for each in json.loads(there)["runs"]] == [
        each["digest"] for each in json.loads(here)["runs"]
    ]
    assert Run.open(tmp_path / "there" / "zhang2024" / "seed-1").summary["hosts"] == 3
    code, _, error = slaternet(capsys, *common, tmp_path / "there")
    assert code == 2
    assert "played over the network" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--algorithms", "zhang2024,yi203"], ["yi203", "did you mean yi2023?"]),
        (["--algorithms", "zhang2024", "--grid", "gamma0=1,2"], ["--grid gamma0=1,2", "for example"]),
        (["--algorithms", "zhang2024", "--hosts", "3"], ["--hosts", "--network"]),
        (["--algorithms", "zhang2024", "--network", "--jobs", "3"], ["--jobs", "one after another"]),
        (["--algorithms", "zhang2024", "--network", "--hosts", "7"], ["--hosts 7", "6 agents"]),
        (["--algorithms", "zhang2024", "--set", "algorithm.delta0=6.0"], ["algorithm.delta0", "above r(X) xi"]),
    ],
)
def test_what_is_wrong_is_one_sentence_before_anything_is_played(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    code, _, error = slaternet(capsys, "compare", *SETTINGS, *arguments, "--out", tmp_path / "out")

    assert code == 2
    assert error.startswith("slaternet: ")
    assert error.count("\n") == 1
    for word in words:
        assert word in error
    assert not (tmp_path / "out").exists()


def test_failed_runs_are_told_after_the_table_of_the_others(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(FAILING)
    algorithms = f"zero,{tmp_path}/endless.py:Endless"

    code, table, error = slaternet(
        capsys, "compare", "--algorithms", algorithms, "--seeds", 1, *SETTINGS, "--out", tmp_path / "out"
    )

    assert code == 6
    assert any(line.startswith("zero ") for line in table.splitlines())
    assert "1 of 2 runs failed, first endless.py:Endless, seed 1: the algorithm" in error
    assert "failed: update of round 5 for agent" in error


def test_an_interrupt_ends_it_with_a_sentence_that_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    os.mkfifo(tmp_path / "reached")
    out = tmp_path / "out"
    command = ("compare", "--algorithms", f"zero,{tmp_path}/endless.py:Endless", "--seeds", "1", "--jobs", "1")
    process = subprocess.Popen(
        [sys.executable, "-m", "slaternet_lab", *command, *SETTINGS, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    (tmp_path / "reached").open().close()  # waits for the game's fifth round

    process.send_signal(signal.SIGINT)
    _, error = process.communicate()

    assert process.returncode == 130
    assert error == f"slaternet: interrupted after 1 of 2 runs; the same command with --out {out} goes on there\n"
    assert Run.open(out / "zero" / "seed-1").summary["rounds"] == 12
