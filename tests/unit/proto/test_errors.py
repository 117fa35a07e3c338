import ast
import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from slaternet import errors, limits
from slaternet.errors import SlaternetError
from slaternet.limits import LIMITS, Limits

README = Path(__file__).parents[3] / "proto" / "README.md"
CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SlaternetError)]
GROUPS = (errors.SlaternetError, errors.Refused, errors.Unready)  # no error is of these alone
LEAVES = [kind for kind in CLASSES if kind not in GROUPS]
ABSENT = {"BadSpec", "RunFailed"}  # never on the wire


def _table(title: str) -> dict[str, list[str]]:
    """Return the rows of the table under a heading of proto/README.md, by the name in their first column."""
    section = README.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:3] == "| `"]
    return {row[0].strip("`"): row[1:] for row in rows}


def _drawn() -> dict[str, tuple[int, str]]:
    """Return depth and remaining text of every class in the tree of the module's docstring."""
    lines = (errors.__doc__ or "").splitlines()
    found = [re.fullmatch(r"    ([| ]*)\+-- (\w+) +(.*)", line) for line in lines]
    return {match[2]: (len(match[1]) // 4, match[3]) for match in found if match}


def test_the_docstring_draws_every_class_at_its_place() -> None:
    depths = {kind.__name__: len(kind.__mro__) - len(SlaternetError.__mro__) - 1 for kind in CLASSES[1:]}
    assert {name: depth for name, (depth, _) in _drawn().items()} == depths


@pytest.mark.parametrize("kind", LEAVES)
def test_every_leaf_is_drawn_with_its_status(kind: type[SlaternetError]) -> None:
    said = _drawn()[kind.__name__][1]
    assert said.startswith("(never on the wire)" if kind.__name__ in ABSENT else kind.status)


@pytest.mark.parametrize("kind", LEAVES)
def test_every_leaf_is_in_the_wire_contract_with_its_status(kind: type[SlaternetError]) -> None:
    status, meaning, remedy = _table("Errors")[kind.__name__]
    assert status == ("never on the wire" if kind.__name__ in ABSENT else kind.status)
    assert meaning
    assert remedy


def test_the_wire_contract_knows_no_error_that_does_not_exist() -> None:
    assert set(_table("Errors")) == {kind.__name__ for kind in LEAVES}


@pytest.mark.parametrize("kind", CLASSES)
def test_every_status_is_one_of_grpc_and_every_class_says_what_it_is(kind: type[SlaternetError]) -> None:
    assert grpc.StatusCode[kind.status] is not grpc.StatusCode.OK
    assert kind.__doc__
    assert 1 <= kind.exit_code <= 125


def test_the_wire_contract_states_every_limit_as_it_is() -> None:
    fields = list(inspect.get_annotations(Limits))
    assert {name: cells[0] for name, cells in _table("Limits").items()} == {
        name: str(getattr(LIMITS, name)) for name in fields
    }


def test_the_wire_contract_explains_every_limit_as_the_code_does() -> None:
    body = next(node for node in ast.parse(inspect.getsource(limits)).body if isinstance(node, ast.ClassDef)).body
    meanings = {
        field.target.id: ast.literal_eval(text.value).rstrip(".")
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr)
    }
    assert {name: cells[1] for name, cells in _table("Limits").items()} == meanings


SOURCES = [path for path in README.parents[1].glob("*/slaternet*/**/*.py") if "templates" not in path.parts]
TRAVELLING = {kind.__name__ for kind in LEAVES if kind.status != "INTERNAL"}
OUR_OWN = {("checkpoint_writer", "Mismatch"), ("service", "Mismatch")}
"""Modules that say so to their own operator, before they take part in a game."""


def _telling_paths(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the errors of a module whose text travels and names a file or folder."""
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name | ast.Attribute):
            name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
            told = [part for part in ast.walk(call) if isinstance(part, ast.FormattedValue)]
            if name in TRAVELLING and any(re.search(r"path|folder|file", ast.unparse(part.value)) for part in told):
                yield path.stem, name


def test_no_error_that_travels_names_a_file() -> None:
    assert len(SOURCES) > 200
    assert {found for path in SOURCES for found in _telling_paths(path)} == OUR_OWN
