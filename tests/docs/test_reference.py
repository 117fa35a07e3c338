"""The reference pages say what is true: keys, tables, columns, options and exit codes are those of the code."""

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel
from tests.docs.pages import PAGES, blocks, first_cells, read, section
from typer.testing import CliRunner

from slaternet import errors
from slaternet.fields import options_of
from slaternet.numerics.sets import Box, make_set
from slaternet.spec import AlgorithmSection, DepartureSection, FeedbackSection, GossipSection, QuestionSection, Spec
from slaternet_adversary.shell.run_folder import COLUMNS
from slaternet_agent.algorithms import Algorithm, AlgorithmGame, Feedback
from slaternet_agent.code_registry import build_code
from slaternet_agent.codes.base import Code
from slaternet_agent.registry import build, completed, numbers_of_schedule, schedules_named
from slaternet_lab.cli import app
from slaternet_lab.hindsight.regret import COLUMNS as REGRET_COLUMNS
from slaternet_lab.specs import shipped
from slaternet_lab.specs.resolve import load, resolve
from slaternet_lab.tools import catalogue

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


def table(page: str, head: str) -> str:
    """Return the table whose first row begins like this."""
    found = re.search(rf"^\| {re.escape(head)}.*\n(?:\|.*\n)+", read(page), re.MULTILINE)
    assert found is not None, f"{page} has no table {head}"
    return found[0]


def error_classes(root: type[errors.SlaternetError] = errors.SlaternetError) -> list[type[errors.SlaternetError]]:
    return [root, *(each for child in root.__subclasses__() for each in error_classes(child))]


def test_every_command_of_the_pages_exists_and_every_command_is_in_the_pages() -> None:
    shown = {
        name
        for page in PAGES
        for block in blocks(page)
        if block.language in ("sh", "console")
        for name in re.findall(r"^(?:\$ )?slaternet ([a-z-]+)", block.text, re.MULTILINE)
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
    text = section("docs/operate.md", "Options of the services")
    rows = re.findall(r"^\| `(--[a-z-]+).*?` \| `(SLATERNET_\w+)` \| (.*?) \|", text, re.MULTILINE)
    everyone = ("coordinator", "adversary", "agent")
    told = {service: {o: v for o, v, of in rows if of == "all" or service in of.split(", ")} for service in everyone}

    assert told == {service: options(service) for service in everyone}


def test_the_table_of_keys_is_that_of_the_spec() -> None:
    keys = []
    for name, field in Spec.model_fields.items():
        optional = {"feedback": FeedbackSection, "question": QuestionSection, "departures": DepartureSection}
        model = optional.get(name, field.annotation)
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        keys += [f"{name}.{key}" for key in model.model_fields]

    assert first_cells(table("docs/spec.md", "key")) == keys


@pytest.mark.parametrize("what", ["algorithms", "graphs"])
def test_the_tables_of_algorithms_and_graphs_name_all_of_them(what: str) -> None:
    names = first_cells(table(f"docs/{what}.md", "name"))

    assert sorted(names) == sorted(entry.name for entry in entry_points(group=f"slaternet.{what}"))


def test_the_table_of_algorithms_says_what_each_is() -> None:
    text = table("docs/algorithms.md", "name | what it is")
    rows = re.findall(r"^\| `(.*?)` \| (.*?) \| (.*?) \| (.*?) ?\|$", text, re.MULTILINE)

    assert len(rows) == len(entry_points(group="slaternet.algorithms"))
    for name, what, asks, schedules in rows:
        chosen = AlgorithmSection(name=name)
        algorithm = build(chosen, AlgorithmGame(1, 6, 1, 100, 1, Box(6, -1, 1)))
        assert re.findall("`(.*?)`", schedules) == list(schedules_named(chosen))[:-1]  # and explicit
        assert what.startswith("*centralised*") == (completed(chosen).mode == "local")
        assert asks == ASKS[algorithm.feedback]


def test_the_table_of_codes_says_what_each_is() -> None:
    rows = re.findall(r"^\| `(.*?)` \| (.*?) ?\| .* \| (.*?) \|$", table("docs/codes.md", "name"), re.MULTILINE)
    classes = {entry.name: entry.load() for entry in entry_points(group="slaternet.codes")}

    assert {name: tuple(re.findall("`(.*?)`", numbers)) for name, numbers, _ in rows} == {
        name: tuple(options_of(factory, given=2).parameters) for name, factory in classes.items()
    }
    of = {True: "differences", False: "rows", None: "either"}
    assert {name: kind for name, _, kind in rows} == {name: of[each.difference] for name, each in classes.items()}


def test_the_bits_of_a_row_are_those_of_the_table_of_codes() -> None:
    rows = re.findall(r"^\| `(.*?)` .* \| (.*?) \| \w+ \|$", table("docs/codes.md", "name"), re.MULTILINE)
    game = AlgorithmGame(1, 200, 1, None, 1, Box(200, -1, 1))
    numbers = {"grid": {"width": 0.1}, "levels": {"levels": 4}, "top-k": {"keep": 7}, "random-k": {"keep": 7}}
    for name, formula in rows:
        code = build_code(GossipSection(code=name, **numbers.get(name, {})), game, 200)
        product = re.sub(r"([\dk]) (\w|\()", r"\1 * \2", formula.replace("ceil(log2 w)", "8"))
        told = None if "b" in formula else eval(product, {"w": 200, "k": 7})
        assert code.bits_per_row() == told, name


def test_the_guide_to_codes_has_every_member_of_one() -> None:
    rows = re.findall(r"^\| `(\w+)", section("docs/writing-codes.md", "What a class must have"), re.MULTILINE)

    assert {*rows} == {
        "__init__",
        *(name for name in (*Code.__annotations__, *vars(Code)) if not name.startswith("_")),
    }


def test_the_guide_to_algorithms_has_every_member_of_one() -> None:
    text = read("docs/writing-algorithms.md")
    rows = re.findall(r"^\| `(\w+)", section("docs/writing-algorithms.md", "What a class must have"), re.MULTILINE)

    optional = {name for name in vars(Algorithm) if not name.startswith("_") and not callable(getattr(Algorithm, name))}
    required = [name for name in (*Algorithm.__annotations__, *vars(Algorithm)) if not name.startswith("_")]
    assert {*rows} - {"__init__"} == {*required} - optional
    assert all(f"`{name}`" in text for name in optional)


def test_the_table_of_schedules_has_all_their_numbers_and_defaults() -> None:
    rows = re.findall(
        r"^\| (`.*?) \| `(.*?)` \| (.*?) ?\|$", table("docs/algorithms.md", "algorithm | schedule"), re.MULTILINE
    )
    told = {(name, schedule): numbers for names, schedule, numbers in rows for name in re.findall("`(.*?)`", names)}

    known = {}
    for entry in entry_points(group="slaternet.algorithms"):
        for schedule in schedules_named(AlgorithmSection(name=entry.name))[:-1]:
            numbers = numbers_of_schedule(AlgorithmSection(name=entry.name, schedule=schedule))
            cells = (f"`{name}`" if value is None else f"`{name}` = {value:g}" for name, value in numbers.items())
            known[entry.name, schedule] = ", ".join(cells)
    assert told == known


def test_the_table_of_adversaries_has_all_of_them_and_their_options() -> None:
    text = section("docs/built-in-adversaries.md", "Adversaries")
    rows = re.findall(r"^\| `(.*?)` \| .*? \| (.*?) \|$", text, re.MULTILINE)

    known = {each.target: [option.name for option in each.options] for each in catalogue.registered()}
    assert {name: re.findall("`(.*?)`", options) for name, options in rows} == known


def test_the_table_of_sets_names_all_of_them() -> None:
    with pytest.raises(errors.BadSpec) as refused:
        make_set("nothing like it", 1, {})

    assert sorted(first_cells(table("docs/sets.md", "kind"))) == str(refused.value).partition("choose from ")[2].split(
        ", "
    )


def test_the_table_of_columns_is_that_of_the_metrics() -> None:
    assert first_cells(section("docs/run-folder.md", "metrics.csv")) == list(COLUMNS)


def test_the_table_of_columns_of_the_regret_is_that_of_the_file() -> None:
    assert first_cells(section("docs/run-folder.md", "regret.csv")) == list(REGRET_COLUMNS)


def test_the_table_of_exit_codes_is_that_of_the_errors() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\| (.*?) ?\|$", read("docs/exit-codes.md"), re.MULTILINE)

    catalogue = {name: int(code) for code, names in rows for name in re.findall(r"`(\w+)`", names)}

    ours = [each for each in error_classes() if each.__module__ == "slaternet.errors"]
    assert catalogue == {each.__name__: each.exit_code for each in ours}


def test_the_glossary_is_in_order_and_has_the_words_of_the_design() -> None:
    terms = re.findall(r"^\| \*\*(.*?)\*\* \| .*\. \|$", read("docs/glossary.md"), re.MULTILINE)

    assert terms == sorted(set(terms), key=str.lower)
    assert len(terms) == read("docs/glossary.md").count("\n| **")
    assert {"Hold", "seating", "epoch", "low-water mark", "incarnation", "topology window"} <= set(terms)


@pytest.mark.parametrize("name", shipped.names())
def test_every_shipped_spec_can_be_played(name: str, tmp_path: Path) -> None:
    spec = load(name)

    assert spec.run.name == name
    assert resolve(spec, tmp_path) == spec
