import json
import re
import runpy
import tomllib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from slaternet.errors import BadSpec
from slaternet.numerics.sets import Ball, FeasibleSet, Simplex
from slaternet.spec import Spec
from slaternet.spec.paths import located
from slaternet_adversary import Adversary, CannotPlay, Game
from slaternet_lab.cli import app
from slaternet_lab.specs.resolve import load
from slaternet_lab.tools.scaffold import create, package_files

SMALL = ("run.agents=4", "run.rounds=12", "run.dimension=3", "graph.name=ring", "adversary.isolation=none")
SETTINGS = [argument for setting in SMALL for argument in ("--set", setting)]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return create("power-market", tmp_path)


def adversary(package: Path, game: Game, **options: float) -> Adversary:
    made = runpy.run_path(str(package / "power_market" / "adversary.py"))["PowerMarket"](game, **options)
    assert isinstance(made, Adversary)
    return made


def slaternet(*arguments: object) -> str:
    outcome = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_a_package_has_what_an_author_needs(package: Path) -> None:
    assert {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()} == {
        "README.md",
        "power_market/__init__.py",
        "power_market/adversary.py",
        "pyproject.toml",
        "spec.toml",
        "tests/test_adversary.py",
    }


@pytest.mark.parametrize("language", ["python", "cpp"])
def test_every_file_speaks_of_the_new_name_alone(language: str) -> None:
    for path, text in package_files("power-market", language).items():
        assert not re.search("example.?adversary", path + text, re.IGNORECASE)
        if path.endswith(".py"):
            compile(text, path, "exec")


def test_the_entry_point_names_the_class_that_the_package_offers(package: Path) -> None:
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]

    assert project["name"] == "power-market"
    assert project["entry-points"] == {"slaternet.adversaries": {"power-market": "power_market:PowerMarket"}}
    assert "from .adversary import PowerMarket" in (package / "power_market" / "__init__.py").read_text()


def test_the_spec_names_the_adversary_and_options_that_it_takes(package: Path) -> None:
    spec = Spec.parse((package / "spec.toml").read_text(), source="spec.toml")

    assert (spec.run.name, spec.adversary.plugin) == ("power-market", "power-market")
    assert adversary(package, Game(3, 4, 1, Ball(4, 1.0)), **spec.adversary.options).constraints == 1


def test_a_program_in_cpp_has_the_service_that_it_serves_and_a_spec_that_starts_it(tmp_path: Path) -> None:
    said = slaternet("adversary-new", "power-market", "--lang", "cpp", "--dir", tmp_path)

    folder = tmp_path / "power-market"
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*")} == {
        "Makefile",
        "README.md",
        "plugin.proto",
        "power-market.cpp",
        "spec.toml",
    }
    spec = Spec.parse((folder / "spec.toml").read_text(), source="spec.toml")
    assert located(spec, folder).adversary.plugin == f"exec:{folder}/build/power-market --port '{{port}}'"
    proto = Path(str(files("slaternet.v1") / "plugin.proto"))
    assert (folder / "plugin.proto").read_bytes() == proto.read_bytes()
    assert [line.strip() for line in said.splitlines()[1:]] == [
        f"make -C {folder}",
        f"slaternet adversary-check 'exec:{folder}/build/power-market --port {{port}}'",
        f"slaternet run {folder}/spec.toml",
    ]


def test_the_command_says_what_comes_next(tmp_path: Path) -> None:
    lines = [line.strip() for line in slaternet("adversary-new", "power-market", "--dir", tmp_path).splitlines()]

    folder = tmp_path / "power-market"
    assert lines[1:] == [
        f"pip install -e {folder}",
        "slaternet adversary-check power-market",
        f"slaternet run {folder}/spec.toml",
    ]


def test_underscores_of_a_name_become_dashes(tmp_path: Path) -> None:
    assert create("power_market_2", tmp_path).name == "power-market-2"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Power", "small letters"),
        ("power--market", "joined by dashes"),
        ("2-markets", "small letters"),
        ("../market", "small letters"),
        ("x" * 65, "at most 64"),
        ("moving-target", "the name of an installed adversary"),
        ("json", "add a word"),
        ("class", "add a word"),
        ("numpy", "add a word"),
        ("slaternet", "add a word"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_before_anything_is_written(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(BadSpec, match=words):
        create(name, tmp_path)

    assert not list(tmp_path.iterdir())


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "power-market").mkdir()

    with pytest.raises(BadSpec, match="exists already; choose another NAME, or another place with --dir"):
        create("power-market", tmp_path)

    assert not list((tmp_path / "power-market").iterdir())


@pytest.mark.parametrize("feasible", [Ball(3, 2.0), Simplex(3, 4.0)])
def test_the_centre_of_any_set_is_a_slater_point_of_the_example(package: Path, feasible: FeasibleSet) -> None:
    played = adversary(package, Game(5, 3, 7, feasible), budget=0.25)

    agents = np.arange(5)
    centre = np.tile(feasible.centre, (5, 1, 1))
    for t in range(1, 20):
        np.testing.assert_allclose(played.play(t, None).constraint(agents, centre), -0.25, atol=1e-12)


@pytest.mark.parametrize("options", [{"budget": 0.0}, {"budget": float("nan")}, {"spread": 1.0}, {"spread": -0.1}])
def test_the_example_refuses_options_that_make_no_sense(package: Path, options: dict[str, float]) -> None:
    (name,) = options

    with pytest.raises(CannotPlay, match=f"adversary.options.{name} must be"):
        adversary(package, Game(2, 3, 1, Ball(3, 1.0)), **options)


def test_the_package_s_test_is_the_exam_and_passes(package: Path) -> None:
    written = runpy.run_path(str(package / "tests" / "test_adversary.py"))["TestPowerMarket"]
    assert written.target == "power-market"

    exam = type("Exam", (written,), {"target": f"{package}/power_market/adversary.py:PowerMarket"})()

    tests = [getattr(exam, name) for name in dir(exam) if name.startswith("test_")]
    assert len(tests) > 5
    for each in tests:
        each()


def test_a_file_is_played_in_one_word_and_without_the_options_of_the_spec_s_adversary(
    package: Path, tmp_path: Path
) -> None:
    target = f"{package}/power_market/adversary.py:PowerMarket"

    short = slaternet("simulate", "paper-short", "--adversary", target, *SETTINGS, "--out", tmp_path / "a", "--json")
    long = load("paper-short", [f"adversary.plugin={target}", *SMALL])

    played = Spec.parse((tmp_path / "a" / "spec.toml").read_text(), source="spec.toml")
    assert json.loads(short[short.index("{") :])["rounds"] == 12
    assert played.adversary.options == {}
    assert played == long


def test_settings_reach_the_adversary_that_was_named(package: Path, tmp_path: Path) -> None:
    target = f"{package}/power_market/adversary.py:PowerMarket"
    option = ("--set", "adversary.options.budget=2.0")

    slaternet("simulate", "paper-short", *option, "--adversary", target, *SETTINGS, "--out", tmp_path / "a")

    played = Spec.parse((tmp_path / "a" / "spec.toml").read_text(), source="spec.toml")
    assert played.adversary.options == {"budget": 2.0}
