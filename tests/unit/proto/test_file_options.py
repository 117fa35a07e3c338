"""Options with the hint Path are found without executing a plugin, and are those that its hints say."""

from pathlib import Path
from typing import get_args

import pytest

from slaternet.fields import options_of
from slaternet.spec.plugins import ADVERSARIES, files_of, load

HELPER = """
import pathlib as p

class Base:
    def __init__(self, game, *, base: p.Path, plain: int = 0):
        self.files = base

class Other(Base):
    pass
"""
MINE = """
import pathlib
from pathlib import Path, Path as P
from typing import Annotated, Optional, Union

import helper
from helper import Base, Other as Another

Data = Annotated[Path, "a table"]

class Plain:
    def __init__(self, game, data: Path, *, a: pathlib.Path, b: Path | None = None, c: "P | None" = None,
                 d: Optional[P] = None, e: Union[None, Path] = None, f: Annotated[Path, "text"], g: Data,
                 text: str, many: list[Path], no=Path, named: Annotated[str, Path] = ""): ...

class Inherits(Base): ...
class Twice(Another): ...
class Dotted(helper.Base): ...
class Passes(Base):
    def __init__(self, game, *, mine: Path, **others): super().__init__(game, **others)
class Hides(Base):
    def __init__(self, game, *, mine: Path): ...
"""


def declared(target: str) -> list[str]:
    """Return the options whose hint, evaluated, is Path, alone or in a union: what the code itself says."""
    found = []
    for option in options_of(load(ADVERSARIES, target, key="").factory, given=1).parameters.values():
        kind = option.annotation
        parts = get_args(kind) if not isinstance(kind, type) else ()
        if kind is Path or (Path in parts and not str(kind).startswith(("list", "typing.Annotated[str"))):
            found.append(option.name)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Plain", ["data", "a", "b", "c", "d", "e", "f", "g"]),
        ("Inherits", ["base"]),
        ("Twice", ["base"]),
        ("Dotted", ["base"]),
        ("Passes", ["mine", "base"]),
        ("Hides", ["mine"]),
        ("Nobody", []),
    ],
)
def test_files_are_declared_by_hints(folder: Path, name: str, options: list[str]) -> None:
    assert list(files_of(ADVERSARIES, f"{folder / 'mine.py'}:{name}", key="")) == options


@pytest.mark.parametrize("name", ["Plain", "Inherits", "Twice", "Dotted", "Hides"])
def test_what_is_found_is_what_the_evaluated_hints_say(folder: Path, name: str) -> None:
    target = f"{folder / 'mine.py'}:{name}"

    found = files_of(ADVERSARIES, target, key="")

    evaluated = declared(target) + (["f", "g"] if name == "Plain" else [])  # get_args hides what Annotated wraps
    assert sorted(set(found)) == sorted(set(evaluated))


@pytest.mark.parametrize(("target", "options"), [("replay", ("path",)), ("logistic", ("data",)), ("moving-target", ())])
def test_built_in_adversaries_declare_theirs_in_the_same_way(target: str, options: tuple[str, ...]) -> None:
    assert files_of(ADVERSARIES, target, key="") == options


@pytest.mark.parametrize("target", ["grpc://localhost:1", "absent.py:Mine", "nowhere.at_all:Mine", "no-such-name"])
def test_what_is_not_there_declares_nothing(target: str) -> None:
    assert files_of(ADVERSARIES, target, key="adversary.plugin") == ()


def test_a_module_that_cannot_be_compiled_or_stands_for_itself_declares_nothing(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("A = A\nclass Odd:\n    def __init__(self, game, *, a: A): ...\n")
    (tmp_path / "bad.py").write_text("class Bad(:\n")

    assert files_of(ADVERSARIES, f"{tmp_path / 'odd.py'}:Odd", key="") == ()
    assert files_of(ADVERSARIES, f"{tmp_path / 'bad.py'}:Bad", key="") == ()
