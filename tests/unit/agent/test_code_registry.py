"""Codes by name, by module and by file; what a spec gets wrong is said with its key."""

import sys
from pathlib import Path

import pytest

from slaternet.errors import BadSpec, PluginFailed
from slaternet.model import Layout
from slaternet.numerics.sets import Box
from slaternet.spec import GossipSection
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.code_registry import build_code, completed_gossip
from slaternet_agent.codes.exact import Exact
from slaternet_agent.codes.sign import Sign

GAME = AlgorithmGame(agents=4, dimension=13, constraints=1, rounds=None, seed=1, set=Box(13, -5, 5))

OWN = """
import numpy as np
from slaternet_agent import Code, Layout, Symbols

class Own(Code):
    difference = None

    def __init__(self, game, width, *, factor: float = 1.0):
        {body}

    def encode(self, vectors, agents, t):
        return Symbols(vectors.astype(np.float32), np.empty((len(vectors), 0), np.uint64))

    def decode(self, symbols, agents, t):
        return symbols.scales.astype(float)
"""
SOUND = "self.layout, self.factor = Layout('', scales=width), factor"


def own(folder: Path, body: str = SOUND) -> str:
    file = folder / "own.py"
    file.write_text(OWN.format(body=body))
    return f"{file}:Own"


def test_a_code_is_found_by_name_by_module_and_by_file(tmp_path: Path) -> None:
    assert isinstance(build_code(GossipSection(), GAME, 13), Exact)
    assert isinstance(build_code(GossipSection(code="slaternet_agent.codes.sign:Sign"), GAME, 13), Sign)

    code = build_code(GossipSection(code=own(tmp_path), factor=2), GAME, 13)
    assert (type(code).__name__, code.factor) == ("Own", 2.0)  # type: ignore[attr-defined]


def test_the_layout_has_the_name_that_the_spec_gives(tmp_path: Path) -> None:
    named = own(tmp_path)

    assert build_code(GossipSection(code=named), GAME, 13).layout == Layout(named, scales=13)
    assert build_code(GossipSection(code="levels", levels=4), GAME, 13).layout == Layout("levels", scales=1, numbers=13)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"code": "sgin"}, 'gossip.code = "sgin" is not known; did you mean sign'),
        ({"code": "sign", "keep": 3}, "gossip.keep is not an option of sign"),
        ({"code": "top-k"}, "gossip.keep is missing; top-k needs it"),
        ({"code": "top-k", "keep": 0}, "gossip.keep must be at least 1, not 0"),
        ({"code": "top-k", "keep": 2.5}, "gossip.keep must be a whole number, not 2.5"),
        ({"code": "grid"}, "gossip.width is missing; grid needs it"),
        ({"code": "grid", "width": 0}, "gossip.width must be above 0, from 1e-100 to 1e100, not 0"),
        ({"code": "grid", "width": 1, "power": -1}, "gossip.power must be from 0 to 10, not -1"),
        ({"code": "levels", "levels": 0}, "gossip.levels must be at least 1, not 0"),
        ({"code": "a" * 2000 + ".py:Code"}, "gossip.code is longer than 1024 bytes"),
    ],
)
def test_what_a_spec_gets_wrong_is_said_with_its_key(section: dict[str, object], said: str) -> None:
    with pytest.raises(BadSpec) as refused:
        build_code(GossipSection.model_validate(section), GAME, 13)

    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("pass", "does not say what a row is made of; set `self.layout"),
        ("self.layout = 3", "does not say what a row is made of; set `self.layout"),
        ("self.layout = Layout('', scales=-1)", "has a layout of (-1, 0, 0) scales, numbers and bits"),
        ("self.layout = Layout('', numbers=width, bits=65)", "has a layout of (0, 13, 65) scales, numbers and bits"),
        ("self.layout = Layout('', numbers=2.5)", "has a layout of (0, 2.5, 0) scales, numbers and bits"),
    ],
)
def test_a_code_without_a_layout_is_refused(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(BadSpec) as refused:
        build_code(GossipSection(code=own(tmp_path, body)), GAME, 13)

    assert said in str(refused.value)


def test_agents_that_send_nothing_need_no_code() -> None:
    with pytest.raises(BadSpec, match=r"gossip\.code = sign codes what agents send, and they send nothing; leave out"):
        build_code(GossipSection(code="sign"), GAME, 0)
    assert build_code(GossipSection(), GAME, 0).layout.numbers == 0


def test_a_class_that_is_no_code_is_refused_with_the_remedy() -> None:
    for use in (completed_gossip, lambda section: build_code(section, GAME, 13)):
        with pytest.raises(BadSpec, match=r"is not a gossip code; make Directions a subclass of slaternet_agent\.Code"):
            use(GossipSection(code="slaternet_agent.algorithms.estimators:Directions"))


def test_a_constructor_that_raises_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(PluginFailed, match=r"its constructor raised ZeroDivisionError: .*, at .*own\.py:9 `1 / 0`"):
        build_code(GossipSection(code=own(tmp_path, "1 / 0")), GAME, 13)


@pytest.mark.parametrize(
    ("code", "given", "filled"),
    [
        ("exact", None, False),
        ("float32", None, False),
        ("grid", True, True),
        ("grid", False, False),
        ("sign", None, True),
        ("top-k", True, True),
        ("exact", False, False),
    ],
)
def test_whether_differences_are_coded_is_filled_in(code: str, given: bool | None, filled: bool) -> None:
    section = GossipSection(code=code, difference=given, trigger=2.0)

    assert completed_gossip(section) == GossipSection(code=code, difference=filled, trigger=2.0)


@pytest.mark.parametrize(
    ("code", "given", "said"),
    [
        ("sign", False, "gossip.difference must be true, because sign is a code of differences; leave it out"),
        ("exact", True, "gossip.difference must be false, because exact is a code of rows as they are; leave it out"),
    ],
)
def test_a_difference_that_the_code_does_not_have_is_refused(code: str, given: bool, said: str) -> None:
    with pytest.raises(BadSpec) as refused:
        completed_gossip(GossipSection(code=code, difference=given))

    assert str(refused.value).startswith(said)


def test_an_unknown_code_is_refused_before_anything_is_filled_in() -> None:
    with pytest.raises(BadSpec, match=r"gossip\.code"):
        completed_gossip(GossipSection(code="nothing"))
    assert "nothing" not in sys.modules
