import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from slaternet.errors import BadSpec, PluginFailed
from slaternet_lab.comparison.figures import _paint, _paint_bytes
from slaternet_lab.comparison.play import Comparison, compare
from slaternet_lab.comparison.standings import Curve, MeanCurves, Spread
from slaternet_lab.games.simulation import simulate
from slaternet_lab.hindsight.comparator import offline
from slaternet_lab.runs.run import Run
from slaternet_lab.specs.resolve import load

SMALL = ("run.agents=6", "run.rounds=12", "run.dimension=3")
MINE = """
from slaternet_agent.algorithms.zhang2024 import Zhang2024


class Mine(Zhang2024):
    def update(self, state, decision, seen, t):
        if t == 7:
            raise ValueError("no more")
        return super().update(state, decision, seen, t)
"""
BOWL = """
from slaternet_adversary import Adversary


class Bowl(Adversary):
    constraints = 0

    def __init__(self, game):
        super().__init__(game)

    def play(self, round, past):
        return self

    def loss(self, agents, points):
        return (points * points).sum(axis=2)

    def constraint(self, agents, points):
        return points[:, :, :0]
"""


def small(out: Path, *algorithms: str, seeds: int = 2, force: bool = False, **settings: object) -> Comparison:
    given = [*SMALL, *(f"{key}={value}" for key, value in settings.items())]
    return compare(algorithms=algorithms, seeds=seeds, settings=given, out=out, force=force)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return small(tmp_path_factory.mktemp("comparison") / "out", "zhang2024", "zero")


def runs(found: Comparison) -> dict[str, str]:
    """Return the ids of the runs by their folders: a run that is played again has another."""
    folders = sorted(path.parent for path in found.folder.rglob("summary.json"))
    return {path.relative_to(found.folder).as_posix(): Run.open(path).summary["run"] for path in folders}


def test_every_run_is_the_one_that_simulate_plays(played: Comparison, tmp_path: Path) -> None:
    single = simulate(load("paper", [*SMALL, "run.seed=2"]), out=tmp_path / "single")
    among = Run.open(played.folder / "zhang2024" / "seed-2")

    assert among.summary["digest"] == single.summary["digest"]
    assert among.spec == single.spec
    assert {path.name for path in among.folder.iterdir()} == {
        "spec.toml",
        "metrics.csv",
        "summary.json",
        "commitments.csv",
        "assumptions.txt",
    }


def test_means_and_deviations_are_those_of_the_runs(played: Comparison) -> None:
    with (played.folder / "comparison.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["label"] == "zhang2024"]
    losses = [Run.open(played.folder / "zhang2024" / f"seed-{row['seed']}").summary["cumulative_loss"] for row in rows]

    assert [row["seed"] for row in rows] == ["1", "2"]
    assert [float(row["cumulative_loss"]) for row in rows] == losses
    first = played.standings[0]
    assert first.loss == Spread(np.mean(losses), np.std(losses, ddof=1))
    assert (first.label, first.seeds, first.points) == ("zhang2024", 2, 2)


def test_regret_is_the_loss_beyond_the_best_fixed_decision(played: Comparison) -> None:
    first = played.outcomes[0]

    assert first.regret == first.cumulative_loss - offline(load("paper", SMALL)).value


def test_the_json_file_tells_all(played: Comparison) -> None:
    told = json.loads((played.folder / "comparison.json").read_text())

    assert [each["label"] for each in told["standings"]] == ["zhang2024", "zero"]
    assert told["runs"] == json.loads(json.dumps(played.tables()["runs"]))
    assert told["notes"] == list(played.notes)
    assert "left out" in told["notes"][0]


def test_figures_are_drawn(played: Comparison) -> None:
    assert {"loss.png", "violation.png"} <= {path.name for path in played.folder.iterdir()}


def test_codes_are_compared_by_the_bytes_of_their_rows_too(tmp_path: Path) -> None:
    grid = ["gossip.code=exact,sign"]
    found = compare(algorithms=["zhang2024", "zero"], seeds=2, settings=SMALL, grid=grid, out=tmp_path / "out")

    exact, sign, zero = found.standings
    assert (exact.plain, sign.plain, zero.plain) == (True, False, True)
    # 6 agents, 12 rounds: 3 float64, or one float32 and 3 bits, of all rows together
    assert exact.gossip_bytes == Spread(12 * 6 * 24.0, 0.0)
    assert sign.gossip_bytes == Spread(12 * (6 * 4 + 3.0), 0.0)
    assert zero.gossip_bytes == Spread(0.0, 0.0)
    assert [each.gossip_bytes for each in found.outcomes] == [1728.0] * 2 + [324.0] * 2 + [0.0] * 2
    assert found.outcomes[0].regret == found.outcomes[0].cumulative_loss - offline(load("paper", SMALL)).value
    drawn = {path.name for path in found.folder.glob("*.png")}
    assert drawn == {"loss.png", "violation.png", "loss-bytes.png", "violation-bytes.png"}


def test_without_a_code_nothing_is_drawn_over_bytes(played: Comparison) -> None:
    assert {path.name for path in played.folder.glob("*.png")} == {"loss.png", "violation.png"}
    assert all(each.plain for each in played.standings)


def test_over_bytes_everyone_who_sends_has_a_curve_up_to_what_it_has_sent() -> None:
    rounds = np.array([2, 4])
    curve = Curve(rounds, np.array([1.0, 2.0]), np.zeros(2))
    scores = {"cumulative_loss": curve, "zero_loss": curve}
    sent = np.array([10.0, 20.0, 30.0, 40.0])

    axes = Figure().add_subplot()
    _paint_bytes(axes, [MeanCurves("a", "", scores, sent), MeanCurves("b", "", scores, 2.0 * sent, False)], "loss")

    assert [line.get_label() for line in axes.lines] == ["a", "b"]
    assert [np.asarray(line.get_xdata()).tolist() for line in axes.lines] == [[20.0, 40.0], [40.0, 80.0]]


def test_what_is_finished_is_kept_what_is_not_is_begun_anew_and_seeds_are_added(
    played: Comparison, tmp_path: Path
) -> None:
    shutil.copytree(played.folder, tmp_path / "out")
    (tmp_path / "out" / "zhang2024" / "seed-1" / "summary.json").unlink()

    found = small(tmp_path / "out", "zhang2024", "zero", seeds=3)

    before, after = runs(played), runs(found)
    assert set(after) == {f"{name}/seed-{seed}" for name in ("zhang2024", "zero") for seed in (1, 2, 3)}
    assert [name for name, run in before.items() if after[name] != run] == ["zhang2024/seed-1"]
    assert [each.seeds for each in found.standings] == [3, 3]


@pytest.mark.slow
def test_a_comparison_goes_on_with_the_seed_that_was_drawn_for_it(tmp_path: Path) -> None:
    sealed = {"adversary.seed": "random"}
    before = runs(small(tmp_path / "out", "zero", **sealed))

    after = runs(small(tmp_path / "out", "zero", "zhang2024", **sealed))

    assert before.items() < after.items()
    specs = [Run.open(tmp_path / "out" / name / "seed-1").spec for name in ("zero", "zhang2024")]
    assert specs[0].function_seed == specs[1].function_seed != 1
    assert not runs(small(tmp_path / "other", "zero", **sealed)).items() & before.items()
    assert Run.open(tmp_path / "other" / "zero" / "seed-1").spec.function_seed != specs[0].function_seed


def test_everything_is_played_anew_when_forced(played: Comparison, tmp_path: Path) -> None:
    shutil.copytree(played.folder, tmp_path / "out")

    after = runs(small(tmp_path / "out", "zhang2024", "zero", force=True))

    assert not runs(played).items() & after.items()


@pytest.mark.parametrize(
    ("algorithms", "settings", "words"),
    [
        (["zero"], {}, "its run zhang2024/seed-1 is not one of this comparison"),
        (["zhang2024", "zero"], {"graph.rho": 0.5}, "its run zhang2024/seed-1 has another spec or other code now"),
    ],
)
def test_a_folder_of_another_comparison_is_refused(
    played: Comparison, algorithms: list[str], settings: dict[str, object], words: str
) -> None:
    before = runs(played)

    with pytest.raises(BadSpec, match=words):
        small(played.folder, *algorithms, **settings)

    assert runs(played) == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("notes.txt", "[]"),
        ("comparison.json", "[]"),
        ("comparison.json", '{"games": [{}]}'),
        ("comparison.json", "[" * 100_000),
    ],
    ids=["notes", "list", "no games", "deep"],
)
def test_a_folder_of_anything_else_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(BadSpec, match="holds other files than a comparison's"):
        small(tmp_path, "zero")

    assert (tmp_path / name).read_text() == text


def test_a_run_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)

    found = small(tmp_path / "out", f"{tmp_path}/mine.py:Mine", "zero", seeds=1)

    assert [each.label for each in found.standings] == ["zero"]
    assert list(found.failures) == ["mine.py:Mine, seed 1"]
    assert isinstance(found.failures["mine.py:Mine, seed 1"], PluginFailed)
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["failures"].keys() == found.failures.keys()


def test_regret_is_left_open_where_rounds_are_not_scored(tmp_path: Path) -> None:
    found = small(tmp_path / "out", "zero", seeds=1, **{"record.score_every": 5})

    assert found.standings[0].regret is None
    assert found.outcomes[0].disagreement == 0.0


def test_regret_is_left_open_where_the_functions_have_no_gradients(tmp_path: Path) -> None:
    (tmp_path / "bowl.py").write_text(BOWL)

    adversary = {"plugin": f"{tmp_path}/bowl.py:Bowl", "isolation": "none", "options": "{}"}

    found = small(tmp_path / "out", "zero", **{f"adversary.{key}": value for key, value in adversary.items()})

    assert found.standings[0].regret is None
    (note,) = [note for note in found.notes if "regret" in note]
    assert note.startswith("the regret is not known: ")


def test_one_run_has_no_deviation() -> None:
    assert Spread.from_values([3.0]) == Spread(3.0, None)
    assert Spread.from_values([1.0, 3.0]) == Spread(2.0, pytest.approx(2.0**0.5))


def test_who_never_moves_is_drawn_as_the_baseline_and_everyone_else_in_a_colour_of_their_own() -> None:
    rounds = np.arange(1, 5)
    flat, steep = (Curve(rounds, slope * rounds, 0.1 * rounds) for slope in (1.0, 2.0))
    rest = {"zero_loss": flat, "zero_violation": flat}
    still, name = "never moving, $x = 0$", "cumulative_violation"
    moving = [MeanCurves(each, still, {"cumulative_loss": steep, name: flat, **rest}) for each in "ab"]
    resting = MeanCurves("zero", still, {"cumulative_loss": flat, name: flat, **rest})

    axes = [Figure().add_subplot() for _ in range(2)]
    _paint(axes[0], [resting, *moving], "violation")
    _paint(axes[1], moving, "violation")

    assert [line.get_label() for line in axes[0].lines] == ["a", "b", f"zero: {still}"]
    assert [line.get_label() for line in axes[1].lines] == ["a", "b", still]
    assert len({line.get_color() for line in axes[0].lines}) == 3
    assert len(axes[0].collections) == 3  # bands
