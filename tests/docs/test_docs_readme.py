"""The README says what is true: its commands, keys, columns, exit codes and examples are those of the code."""

import inspect
import re
import runpy
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel
from typer.testing import CliRunner

from slaternet import errors, plugins
from slaternet.sets import Box, make_set
from slaternet.spec import AlgorithmSection, DepartureSection, FeedbackSection, Spec
from slaternet_adversary.results import COLUMNS
from slaternet_agent.algorithms import Feedback, Game
from slaternet_agent.registry import build, completed, numbers_of_schedule, schedules_named
from slaternet_lab import library
from slaternet_lab.cli import app
from slaternet_lab.hindsight.regret import COLUMNS as REGRET_COLUMNS
from slaternet_lab.resolve import load, resolve

README = (Path(__file__).parents[2] / "README.md").read_text()
ASKS = {
    Feedback(): "nothing",
    Feedback(points=1): "1 point",
    Feedback(points=2): "2 points",
    Feedback(points=7): "p + 1 points",
    Feedback(loss_gradient=True): "gradient of f",
    Feedback(loss_gradient=True, constraint_gradient=True): "both gradients",
    Feedback(points=1, constraint_gradient=True): "1 point, gradient of g",
    Feedback(points=2, constraint_gradient=True): "2 points, gradient of g",
    Feedback(points=2, loss_gradient=True): "2 points, gradient of f",
}
COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def section(title: str) -> str:
    return README.partition(f"## {title}\n")[2].partition("\n## ")[0]


def subsection(title: str) -> str:
    return README.partition(f"### {title}\n")[2].partition("\n##")[0]


def first_cells(text: str) -> list[str]:
    """Return the names in backquotes in the first cells of a section's tables."""
    return [name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(.*?)`", row)]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def error_classes(root: type[errors.SlaternetError] = errors.SlaternetError) -> list[type[errors.SlaternetError]]:
    return [root, *(each for child in root.__subclasses__() for each in error_classes(child))]


def test_the_first_two_commands_are_the_two_a_stranger_needs() -> None:
    lines = [line.split("#")[0].strip() for block in blocks(README, "sh") for line in block.splitlines()]

    assert lines[:2] == ["make run", "make test"]


def test_every_command_of_the_readme_exists_and_every_command_is_in_the_readme() -> None:
    shown = {
        name for block in blocks(README, "sh") for name in re.findall(r"^slaternet ([a-z-]+)", block, re.MULTILINE)
    }

    assert shown == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    outcome = CliRunner().invoke(app, [command, "--help"])

    assert outcome.exit_code == 0
    assert f"Example: slaternet {command}" in outcome.output


def options(command: str) -> dict[str, str]:
    """Return a command's options that may come from the environment, and their variables."""
    parameters = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    return {each.opts[0]: each.envvar for each in parameters if each.envvar}


def test_the_table_of_options_is_that_of_the_services() -> None:
    rows = re.findall(r"^\| `(--[a-z-]+).*?` \| `(SLATERNET_\w+)` \| (.*?) \|", subsection("On several machines"), re.M)
    everyone = ("coordinator", "adversary", "agent")
    table = {service: {o: v for o, v, of in rows if of == "all" or service in of.split(", ")} for service in everyone}

    assert table == {service: options(service) for service in everyone}


def test_the_table_of_keys_is_that_of_the_spec() -> None:
    keys = []
    for name, field in Spec.model_fields.items():
        model = {"feedback": FeedbackSection, "departures": DepartureSection}.get(name, field.annotation)
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        keys += [f"{name}.{key}" for key in model.model_fields]

    assert first_cells(section("The spec").partition("\n### ")[0]) == keys


@pytest.mark.parametrize(("title", "group"), [("Algorithms", "slaternet.algorithms"), ("Graphs", "slaternet.graphs")])
def test_the_tables_of_algorithms_and_graphs_name_all_of_them(title: str, group: str) -> None:
    names = first_cells(subsection(title).partition("Their numbers,")[0])

    assert sorted(names) == sorted(entry.name for entry in entry_points(group=group))


def test_the_table_of_algorithms_says_what_each_is() -> None:
    rows = re.findall(r"^\| `(.*?)` \| (.*?) \| (.*?) \| (.*?) ?\|$", subsection("Algorithms"), re.MULTILINE)

    assert len(rows) == len(entry_points(group="slaternet.algorithms"))
    for name, what, asks, schedules in rows:
        section = AlgorithmSection(name=name)
        algorithm = build(section, Game(1, 6, 1, 100, 1, Box(6, -1, 1)))
        assert re.findall("`(.*?)`", schedules) == list(schedules_named(section))[:-1]  # and explicit
        assert what.startswith("*centralised*") == (completed(section).mode == "local")
        assert asks == ASKS[algorithm.feedback]


def test_the_table_of_schedules_has_all_their_numbers_and_defaults() -> None:
    table = subsection("Algorithms").partition("Their numbers,")[2]
    told = {
        (name, schedule): numbers
        for names, schedule, numbers in re.findall(r"^\| (`.*?) \| `(.*?)` \| (.*?) ?\|$", table, re.MULTILINE)
        for name in re.findall("`(.*?)`", names)
    }

    known = {}
    for entry in entry_points(group="slaternet.algorithms"):
        for schedule in schedules_named(AlgorithmSection(name=entry.name))[:-1]:
            numbers = numbers_of_schedule(AlgorithmSection(name=entry.name, schedule=schedule))
            cells = (f"`{name}`" if value is None else f"`{name}` = {value:g}" for name, value in numbers.items())
            known[entry.name, schedule] = ", ".join(cells)
    assert told == known


def test_the_table_of_adversaries_has_all_of_them_and_their_options() -> None:
    rows = re.findall(r"^\| `(.*?)` \| .*? \| (.*?) \|$", subsection("Adversaries"), re.MULTILINE)
    group = "slaternet.adversaries"

    known = {
        entry.name: list(inspect.signature(plugins.load(group, entry.name, key="").factory).parameters)[1:]
        for entry in entry_points(group=group)
    }
    assert {name: re.findall("`(.*?)`", options) for name, options in rows} == known


def test_the_table_of_sets_names_all_of_them() -> None:
    with pytest.raises(errors.BadSpec) as refused:
        make_set("nothing like it", 1, {})

    assert sorted(first_cells(subsection("Sets"))) == str(refused.value).partition("choose from ")[2].split(", ")


def test_the_table_of_columns_is_that_of_the_metrics() -> None:
    assert first_cells(section("The run folder").split("Columns of")[1]) == list(COLUMNS)


def test_the_table_of_columns_of_the_regret_is_that_of_the_file() -> None:
    assert first_cells(section("The run folder").split("Columns of")[2]) == list(REGRET_COLUMNS)


def test_the_table_of_exit_codes_is_that_of_the_errors() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\| (.*?) ?\|$", section("Exit codes"), re.MULTILINE)

    catalogue = {name: int(code) for code, names in rows for name in re.findall(r"`(\w+)`", names)}

    ours = [each for each in error_classes() if each.__module__ == "slaternet.errors"]
    assert catalogue == {each.__name__: each.exit_code for each in ours}


@pytest.mark.parametrize("name", library.names())
def test_every_shipped_spec_can_be_played(name: str, tmp_path: Path) -> None:
    spec = load(name)

    assert spec.run.name == name
    assert resolve(spec, tmp_path) == spec


def test_the_five_lines_of_python_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = blocks(section("From Python"), "python")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "five.py").write_text(code)

    runpy.run_path("five.py")

    assert len(code.splitlines()) == 5
    assert "(100, 20, 10)" in capsys.readouterr().out


def test_the_adversary_of_the_readme_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks(section("Your own adversary"), "python")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bowl.py").write_text(code)
    named = ["adversary.plugin=bowl.py:Bowl", "adversary.options={budget = 2.0}"]
    settings = [argument for each in [*named, "run.rounds=20"] for argument in ("--set", each)]

    outcome = CliRunner().invoke(app, ["simulate", "paper-short", *settings, "--out", "bowl"])

    assert outcome.exit_code == 0
    assert (tmp_path / "bowl" / "summary.json").exists()
