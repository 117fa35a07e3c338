import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from slaternet_lab.cli import app, main
from slaternet_lab.specs import shipped

SMALL = ("run.agents=6", "run.rounds=12", "run.dimension=3", "graph.name=ring", "graph.rho=")
SETTINGS = [argument for setting in SMALL for argument in ("--set", setting)]


@dataclass
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def slaternet(capsys: pytest.CaptureFixture[str]) -> "Command":
    return Command(capsys)


class Command:
    """`slaternet` as a user types it, guard and exit code included."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Outcome:
        with pytest.raises(SystemExit) as left:
            main([str(each) for each in arguments])
        assert isinstance(left.value.code, int)
        return Outcome(left.value.code, *self._capsys.readouterr())


def assert_refused(outcome: Outcome, *words: str) -> None:
    """Require exit code 2 and one sentence on standard error that holds the words."""
    assert outcome.code == 2
    assert outcome.err.startswith("slaternet: ")
    assert outcome.err.count("\n") == 1
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err


def test_the_version_is_that_of_the_project(slaternet: Command) -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]

    assert slaternet("--version").out == f"slaternet {project['version']}\n"


def test_without_a_command_the_help_is_shown() -> None:
    assert "simulate" in CliRunner().invoke(app, []).output


def test_specs_lists_the_shipped_ones_and_prints_one_to_edit(slaternet: Command) -> None:
    listed, printed = slaternet("specs"), slaternet("specs", "paper")

    assert "paper-short" in listed.out
    assert tomllib.loads(printed.out)["run"]["agents"] == 100
    assert [each["name"] for each in json.loads(slaternet("specs", "--json").out)] == shipped.names()


def test_a_printed_spec_checks_out(slaternet: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(slaternet("specs", "paper").out)

    outcome = slaternet("check", tmp_path / "mine.toml")

    assert outcome.code == 0
    assert "Assumption 4 (window)" in outcome.out


def test_check_reports_warnings_without_failing(slaternet: Command) -> None:
    explicit = ["schedule=explicit", "gamma0=", "delta0=", "alpha=[1.0, 0.5]", "gamma=1.0", "xi=0.5", "delta=0.01"]
    settings = [argument for each in explicit for argument in ("--set", f"algorithm.{each}")]

    outcome = slaternet("check", "paper", "--json", *settings)

    assert outcome.code == 0
    assert "warning" in {each["verdict"] for each in json.loads(outcome.out)}


def test_check_shows_its_report_before_it_fails(slaternet: Command) -> None:
    outcome = slaternet("check", "paper", "--set", "algorithm.delta0=6.0")

    assert_refused(outcome, "algorithm.delta0", "above r(X) xi = 5")
    assert "Assumption 1 (set)" in outcome.out


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("run.agnets=3", ["run.agnets is not a key of [run]", "did you mean agents?"]),
        ("run.agents=0", ["run.agents must be at least 1, not 0"]),
        ("algorithm.delta0=6.0", ["algorithm.delta0", "r(X) xi"]),
        ("adversary.plugin=no.py:Mine", ["adversary.plugin", "does not exist", "correct the path"]),
        ("algorithm.name=zang2024", ["algorithm.name", "did you mean zhang2024?"]),
        ("algorithm.schedule=table3", ["algorithm.schedule", "did you mean table2?"]),
        ("graph.name=papre", ["graph.name", "did you mean paper?"]),
        ("set.kind=bax", ["set.kind", "did you mean box?"]),
        ("nonsense", ["--set nonsense", "for example"]),
    ],
)
@pytest.mark.parametrize("command", ["run", "simulate", "check"])
def test_a_wrong_spec_is_one_sentence_and_exit_code_2(
    slaternet: Command, command: str, setting: str, words: list[str]
) -> None:
    assert_refused(slaternet(command, "paper", "--set", setting), *words)


@pytest.mark.parametrize("command", ["run", "simulate", "check"])
def test_a_graph_that_never_connects_is_refused(slaternet: Command, command: str) -> None:
    outcome = slaternet(command, "paper", "--set", "graph.name=erdos-renyi", "--set", "graph.rho=0.0")

    assert_refused(outcome, "graph.")


@pytest.mark.parametrize("command", ["run", "simulate", "check", "graph"])
def test_a_file_that_is_missing_or_no_toml_is_refused(slaternet: Command, tmp_path: Path, command: str) -> None:
    (tmp_path / "no.toml").write_text("this is = = not toml\n")

    assert_refused(slaternet(command, tmp_path / "no.toml"), "is not TOML", "line 1")
    assert_refused(slaternet(command, tmp_path / "missing.toml"), "missing.toml is neither a file nor a shipped spec")


def test_graph_writes_the_weights_it_shows(slaternet: Command, tmp_path: Path) -> None:
    path = tmp_path / "W.npz"

    outcome = slaternet("graph", "paper", "--rounds", "3:6", "--out", path, "--json")

    shown = json.loads(outcome.out)
    with np.load(path) as archive:
        weights, rounds = archive["W"], archive["rounds"]
    assert list(rounds) == [3, 4, 5, 6] == [each["round"] for each in shown["rounds"]]
    assert weights.shape == (4, 100, 100)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=2), 1.0, atol=1e-12)
    edges = [np.count_nonzero(np.triu(each, 1)) for each in weights]
    assert [each["edges"] for each in shown["rounds"]] == edges
    assert [each["smallest_weight"] for each in shown["rounds"]] == [each[each > 0].min() for each in weights]


def test_graph_shows_a_table_and_the_window(slaternet: Command) -> None:
    outcome = slaternet("graph", "paper", "--set", "graph.rho=0.0")

    assert "smallest weight" in outcome.out
    assert "any 4 successive graphs together connect everyone in rounds 1 to 1000" in " ".join(outcome.out.split())


@pytest.mark.parametrize("rounds", ["x", "0:3", "5:2", "1:", ":"])
def test_rounds_that_are_none_are_refused(slaternet: Command, rounds: str) -> None:
    assert_refused(slaternet("graph", "paper", "--rounds", rounds), "--rounds")


def test_weights_too_large_to_write_are_refused(slaternet: Command, tmp_path: Path) -> None:
    outcome = slaternet("graph", "--set", "run.agents=5000", "--rounds", "1:100", "--out", tmp_path / "W.npz")

    assert_refused(outcome, "--out would write more than 2 GiB", "--rounds A:B")


def test_a_simulation_ends_with_its_summary_and_can_be_shown_again(slaternet: Command, tmp_path: Path) -> None:
    out = tmp_path / "a"

    played = slaternet("simulate", "paper", *SETTINGS, "--out", out)
    shown, summary = slaternet("show", out), json.loads(slaternet("show", out, "--json").out)

    assert played.code == 0
    assert {each.name for each in out.iterdir()} >= {"assumptions.txt", "loss.png", "violation.png"}
    assert summary["digest"] in played.out
    assert summary["digest"] in shown.out
    assert "(never moving, x = 0)" in played.out
    assert (summary["agents"], summary["rounds"], summary["algorithm"]) == (6, 12, "zhang2024")


def test_a_summary_says_at_which_point_the_baseline_stays(slaternet: Command, tmp_path: Path) -> None:
    simplex = ("--set", "set.kind=simplex", "--set", "set.size=2.0")

    played = slaternet("simulate", "paper", *SETTINGS, *simplex, "--out", tmp_path / "a")

    (line,) = (each for each in slaternet("show", tmp_path / "a").out.splitlines() if each.startswith("baseline"))
    assert line in played.out
    assert line.rstrip().endswith("(never moving, x = centre of X)")


def test_json_leaves_standard_output_to_the_result(slaternet: Command, tmp_path: Path) -> None:
    outcome = slaternet("simulate", "paper", *SETTINGS, "--out", tmp_path / "a", "--json")

    assert json.loads(outcome.out)["folder"] == str(tmp_path / "a")
    assert outcome.err.startswith("round ")


def test_a_resolved_spec_played_again_gives_the_same_digest(slaternet: Command, tmp_path: Path) -> None:
    slaternet("simulate", "paper", *SETTINGS, "--out", tmp_path / "a")
    slaternet("simulate", tmp_path / "a", "--out", tmp_path / "b")

    outcome = slaternet("diff", tmp_path / "a", tmp_path / "b")

    assert outcome == Outcome(0, "the same to the bit: 12 rounds\n", "")


def test_diff_names_the_round_and_agent_where_runs_part(slaternet: Command, tmp_path: Path) -> None:
    record = ("--set", "record.decisions=true")
    slaternet("simulate", "paper", *SETTINGS, *record, "--out", tmp_path / "a")
    slaternet("simulate", "paper", *SETTINGS, *record, "--set", "run.seed=2", "--out", tmp_path / "b")

    outcome = slaternet("diff", tmp_path / "a", tmp_path / "b")

    # every agent begins at the centre, so that the first decision of any seed is the same
    assert outcome == Outcome(5, "they part in round 2, at agent 0\n", "")
    assert json.loads(slaternet("diff", tmp_path / "a", tmp_path / "b", "--json").out) == {
        "same": False,
        "round": 2,
        "agent": 0,
        "common": 1,
    }


def test_diff_says_where_the_shorter_run_ends(slaternet: Command, tmp_path: Path) -> None:
    slaternet("simulate", "paper", *SETTINGS, "--out", tmp_path / "a")
    slaternet("simulate", "paper", *SETTINGS, "--set", "run.rounds=5", "--out", tmp_path / "b")

    outcome = slaternet("diff", tmp_path / "a", tmp_path / "b")

    assert (outcome.code, outcome.out) == (5, "the same through round 5, where one of the two ends\n")


def test_plot_draws_one_run_beside_it_and_several_where_told(slaternet: Command, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 2)):
        slaternet("simulate", "paper", *SETTINGS, "--set", f"run.seed={seed}", "--out", tmp_path / name)

    one = slaternet("plot", tmp_path / "a")
    two = slaternet("plot", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "both", "--json")

    assert one.out.split() == [str(tmp_path / "a" / name) for name in ("loss.png", "violation.png")]
    assert json.loads(two.out) == [str(tmp_path / "both" / name) for name in ("loss.png", "violation.png")]
    assert_refused(slaternet("plot", tmp_path / "a", tmp_path / "b"), "--out is missing")


def test_an_unfinished_run_is_shown_as_far_as_it_came(slaternet: Command, tmp_path: Path) -> None:
    slaternet("simulate", "paper", *SETTINGS, "--out", tmp_path / "a")
    (tmp_path / "a" / "summary.json").unlink()

    outcome = slaternet("show", tmp_path / "a")

    assert outcome.code == 0
    assert "12 (the game is not over)" in outcome.out
    assert json.loads(slaternet("show", tmp_path / "a", "--json").out)["finished"] is False


@pytest.mark.parametrize("command", ["show", "plot"])
def test_a_folder_that_is_no_run_is_refused(slaternet: Command, tmp_path: Path, command: str) -> None:
    assert_refused(slaternet(command, tmp_path), "is not a run folder")


def test_a_path_that_cannot_be_written_is_named(slaternet: Command, tmp_path: Path) -> None:
    outcome = slaternet("graph", "paper", "--rounds", "1:2", "--out", tmp_path / "no" / "W.npz")

    assert_refused(outcome, "cannot use", "W.npz", "choose another path")


@pytest.mark.parametrize("command", ["status", "stop", "health"])
def test_a_coordinator_that_does_not_answer_is_named(slaternet: Command, command: str) -> None:
    outcome = slaternet(command, "127.0.0.1:9")

    assert outcome.code == 4
    assert outcome.err.startswith("slaternet: ")
    assert "127.0.0.1:9" in outcome.err


def test_every_command_that_takes_a_spec_takes_another_adversary() -> None:
    names = list(vars(get_command(app))["commands"])
    helps = {name: CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).output for name in names}

    takers = {name for name, text in helps.items() if "[SPEC]" in text}

    assert takers == {"run", "simulate", "compare", "verify", "check", "graph", "record", "coordinator"}
    assert takers == {name for name, text in helps.items() if "--adversary " in text}


def test_another_adversary_does_not_get_the_options_of_the_spec_s(slaternet: Command, tmp_path: Path) -> None:
    by_option = slaternet(
        "record", "paper", "--adversary", "moving-target", *SETTINGS, "--out", tmp_path / "a.npz", "--json"
    )
    by_key = slaternet(
        "record", "paper", "--set", "adversary.plugin=moving-target", *SETTINGS, "--out", tmp_path / "b.npz", "--json"
    )

    assert by_option.code == 0
    assert json.loads(by_option.out)["adversary"] == "moving-target"
    assert json.loads(by_option.out)["sha256"] == json.loads(by_key.out)["sha256"]


@pytest.mark.parametrize("command", [("simulate",), ("compare", "--algorithms", "zero", "--seeds", "1")])
def test_without_figures_none_are_drawn(slaternet: Command, tmp_path: Path, command: tuple[str, ...]) -> None:
    outcome = slaternet(*command, "paper", *SETTINGS, "--no-figures", "--out", tmp_path / "a")

    assert outcome.code == 0
    assert list((tmp_path / "a").rglob("*.png")) == []
    assert list((tmp_path / "a").rglob("assumptions.txt")) != []


def test_watching_prints_no_json(slaternet: Command, tmp_path: Path) -> None:
    assert_refused(slaternet("simulate", "paper", "--watch", "--json", "--out", tmp_path / "a"), "--watch", "--json")
