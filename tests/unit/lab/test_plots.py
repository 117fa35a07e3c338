import struct
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from slaternet.spec import Spec
from slaternet_adversary.shell.run_folder import COLUMNS
from slaternet_lab.runs import plots
from slaternet_lab.runs.run import Run
from slaternet_lab.specs.shipped import shipped

SPEC = Spec.parse(shipped("paper-short").text, source="paper-short")


def write(
    folder: Path, rounds: int, *, name: str = "zhang2024", slope: float = 2.0, every: int = 1, spec: Spec = SPEC
) -> Run:
    folder.mkdir()
    (folder / "spec.toml").write_text(spec.replace(**{"algorithm.name": name}).to_toml())
    lines = [",".join(COLUMNS)]
    for t in range(1, rounds + 1):
        (loss, away), last = (f"{slope},0.5", "0.25") if t % every == 0 else (",", ""), t - t % every
        totals = f"{slope * last},{0.5 * last},{1.0 * last},0.0"
        lines.append(f"{t},{loss},{totals},{away},6,0,0,0,0,0,0.0,0.0,0.0,{t:016x}")
    (folder / "metrics.csv").write_text("\n".join([*lines, ""]))
    return Run.open(folder)


def size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_two_figures_are_written_large_enough_to_print(tmp_path: Path) -> None:
    paths = plots.draw([write(tmp_path / "a", 50)], tmp_path / "figures")

    assert [path.name for path in paths] == ["loss.png", "violation.png"]
    assert all(size(path) == (1160, 800) for path in paths)


def test_a_second_run_changes_the_figures(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", 50), write(tmp_path / "b", 50, slope=3.0)

    one, two = plots.draw([a], tmp_path / "one"), plots.draw([a, b], tmp_path / "two")

    assert one[0].read_bytes() != two[0].read_bytes()


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_game_of_hardly_any_rounds_can_be_drawn(tmp_path: Path, rounds: int) -> None:
    assert len(plots.draw([write(tmp_path / "a", rounds)], tmp_path)) == 2


def test_a_legend_names_the_algorithm_and_the_run_only_where_algorithms_are_shared(tmp_path: Path) -> None:
    a, b, c = (write(tmp_path / name, 3) for name in "abc")
    other = write(tmp_path / "d", 3, name="/somewhere/mine.py:Mine")

    assert plots._legends([a, other]) == ["zhang2024", "mine.py:Mine"]
    assert plots._legends([b, c, other]) == ["zhang2024 (b)", "zhang2024 (c)", "mine.py:Mine"]


def test_runs_on_the_same_functions_share_one_baseline(tmp_path: Path) -> None:
    a, b, longer = write(tmp_path / "a", 5), write(tmp_path / "b", 5), write(tmp_path / "c", 7)

    assert plots._distinct_baselines([a, b, longer], "loss") == [a, longer]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("paper", "never moving, $x = 0$"),
        ("moving-target", "never moving, $x = 0$"),
        ("economic-dispatch", "never moving, $x =$ centre of $X$"),
        ("data-center", "never moving, $x =$ centre of $X$"),
        ("resource-fair", "never moving, $x =$ centre of $X$"),
    ],
)
def test_the_baseline_is_named_after_the_point_at_which_it_stays(name: str, what: str) -> None:
    assert plots.baseline(Spec.parse(shipped(name).text, source=name)) == what


def test_a_figure_names_every_baseline_in_it_once(tmp_path: Path) -> None:
    simplex = SPEC.replace(set={"kind": "simplex", "size": 2.0})
    box, longer = write(tmp_path / "a", 5), write(tmp_path / "b", 7)
    other = write(tmp_path / "c", 9, spec=simplex)
    axes = Figure().add_subplot()

    plots._paint(axes, [box, longer, other], "loss")

    named = axes.get_legend_handles_labels()[1]
    assert named[3:] == ["never moving, $x = 0$", "never moving, $x =$ centre of $X$"]


def test_long_runs_are_thinned_without_losing_their_end(tmp_path: Path) -> None:
    rounds, values = plots.thinned(write(tmp_path / "a", 9001), "cumulative_loss")

    assert len(rounds) <= 4001
    assert (rounds[0], rounds[-1]) == (1, 9001)
    np.testing.assert_array_equal(values, 2.0 * rounds)


def test_thinning_keeps_the_highest_and_the_lowest_of_every_stretch_and_both_ends(tmp_path: Path) -> None:
    run = write(tmp_path / "a", 50_001)
    noise = np.random.default_rng(1).standard_normal(50_001)
    noise[:7] = np.nan
    noise[[31_007, 44_444]] = 100.0, -100.0
    run.metrics["loss"] = noise

    rounds, values = plots.thinned(run, "loss")

    assert len(rounds) <= 4002
    assert (rounds[0], rounds[-1]) == (8, 50_001)
    assert np.all(np.diff(rounds) > 0)
    np.testing.assert_array_equal(values, noise[rounds - 1])
    assert {31_008, 44_445} <= set(rounds.tolist())
    for first in range(8, 50_000, 1000):  # a stretch has 25 rounds: longer ones hold whole stretches
        some = (rounds >= first) & (rounds < first + 1000)
        inner = noise[first + 24 : first + 950]
        assert values[some].max() >= inner.max()
        assert values[some].min() <= inner.min()


def test_unscored_rounds_leave_no_gaps(tmp_path: Path) -> None:
    rounds, values = plots.thinned(write(tmp_path / "a", 10, every=4), "loss")

    np.testing.assert_array_equal(rounds, [4, 8])
    np.testing.assert_array_equal(values, [2.0, 2.0])
