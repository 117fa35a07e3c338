"""What [gossip] of a spec leaves open is filled in, and what it cannot be is refused in one sentence."""

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest

from slaternet.errors import BadSpec, PluginFailed
from slaternet.spec import Spec
from slaternet_coordinator.graphs import Matrix
from slaternet_coordinator.graphs.fixed import Complete, Ring
from slaternet_coordinator.registry import build
from slaternet_lab.assumptions.report import examine
from slaternet_lab.games.again import Watched
from slaternet_lab.specs.assemble import assemble
from slaternet_lab.specs.gossip import mixing_norm, rounded_down
from slaternet_lab.specs.protocol import Finding
from slaternet_lab.specs.resolve import load, load_for_all, read, resolve
from slaternet_lab.specs.shipped import find

OWN = """
import numpy as np
from slaternet_agent import Code, Layout, Symbols

class Own(Code):
    def __init__(self, game, width, *, omega: float = 0.0):
        super().__init__(game, width)
        self.layout, self.omega = Layout('', scales=width), omega

    def encode(self, vectors, agents, t):
        return Symbols(vectors.astype(np.float32), np.empty((len(vectors), 0), np.uint64))

    def decode(self, symbols, agents, t):
        return symbols.scales.astype(float)
"""
PROMISING = OWN + "\n    def contraction(self):\n        return self.omega\n"


def findings(*settings: str) -> list[Finding]:
    return [each for each in examine(assemble(*read("paper-short", settings))) if each.about.startswith("Gossip")]


def verdicts(found: list[Finding]) -> list[str]:
    return [each.verdict for each in found]


def test_rows_that_travel_as_they_are_are_said_to_be_of_the_algorithms_width() -> None:
    section = load("paper-short").gossip

    assert section.plain
    assert (section.code, section.difference, section.step, section.row_width) == ("exact", False, 1.0, 10)
    assert len(section.sha256) == 64
    assert load("paper-short", ["algorithm.name=yi2023"]).gossip.row_width == 10
    assert load("paper-short", ["algorithm.name=zero"]).gossip.row_width == 0


@pytest.mark.parametrize(
    ("settings", "difference", "remembers"),
    [
        (["gossip.code=sign"], True, True),
        (["gossip.code=top-k", "gossip.keep=3"], True, True),
        (["gossip.code=grid", "gossip.width=0.1"], False, False),
        (["gossip.code=grid", "gossip.width=0.1", "gossip.difference=true"], True, True),
        (["gossip.code=float16"], False, False),
        (["gossip.trigger=20"], False, True),
    ],
)
def test_a_code_says_whether_it_codes_differences(settings: list[str], difference: bool, remembers: bool) -> None:
    section = load("paper-short", settings).gossip

    assert (section.difference, section.remembers, section.plain) == (difference, remembers, False)


def test_the_step_is_the_bound_of_a_contraction_and_one_where_errors_are_absolute() -> None:
    def step(*settings: str) -> float | None:
        return load("paper-short", ["graph.name=ring", *settings]).gossip.step

    # |I - W| of a ring of n = 20 with weights 1/3: (2/3) (1 - cos pi) = 4/3
    assert step("gossip.code=top-k", "gossip.keep=1") == 0.15  # 2 * 0.1 / (4/3)
    assert step("gossip.code=top-k", "gossip.keep=6") == 0.9  # 2 * 0.6 / (4/3)
    assert step("gossip.code=top-k", "gossip.keep=10") == 1.0
    assert step("gossip.code=grid", "gossip.width=0.1") == 1.0
    assert step("gossip.trigger=3") == 1.0
    assert step("gossip.code=top-k", "gossip.keep=1", "gossip.step=0.5") == 0.5


def test_another_code_does_not_get_the_numbers_and_the_step_of_the_old_one(tmp_path: Path) -> None:
    before = load("paper-short", ["gossip.code=top-k", "gossip.keep=3", "gossip.trigger=2", "gossip.trigger_power=0.5"])
    (tmp_path / "spec.toml").write_text(before.to_toml())

    after = load(str(tmp_path / "spec.toml"), ["gossip.code=grid", "gossip.width=0.1"]).gossip

    assert (before.gossip.difference, after.difference) == (True, False)
    assert after.numbers == {"width": 0.1}
    assert (after.trigger, after.trigger_power, after.step) == (2.0, 0.5, 1.0)
    assert after.sha256 != before.gossip.sha256


@pytest.mark.parametrize("code", ["sign", "grid", "exact"])
def test_resolving_a_resolved_spec_changes_nothing_of_its_code(code: str, tmp_path: Path) -> None:
    numbers = ["gossip.width=0.1"] if code == "grid" else []
    once = load("paper-short", [f"gossip.code={code}", *numbers])

    assert resolve(once, tmp_path) == once
    assert Spec.parse(once.to_toml(), source="again") == once


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ["gossip.code=sign", "algorithm.mode=central"],
            r"gossip\.code = sign does not go with algorithm\.mode = central, because there one learner reads every "
            r"row as it is; remove \[gossip\], or choose another mode",
        ),
        (
            ["gossip.trigger=2", "algorithm.mode=local"],
            r"gossip\.trigger = 2 does not go with algorithm\.mode = local, because there nothing is sent; remove",
        ),
        (
            ["gossip.code=sign", "algorithm.name=zero"],
            r"gossip\.code = sign has nothing to code, because zero gossips nothing; remove \[gossip\], or choose",
        ),
        (["gossip.code=float16", "set.upper=1e6"], r"gossip\.code = float16 holds numbers up to 65504"),
        (["gossip.code=sgn"], r"gossip\.code.*sgn.*did you mean sign\?"),
        (["gossip.width=0.1"], r"gossip\.width"),
        (["gossip.code=grid"], r"gossip\.width"),
        (["gossip.code=sign", "gossip.difference=false"], r"gossip\.difference must be true"),
        (["gossip.step=0"], r"gossip\.step"),
        (["gossip.trigger=inf"], r"gossip\.trigger"),
    ],
)
def test_what_does_not_go_with_a_code_is_one_sentence(settings: list[str], words: str) -> None:
    with pytest.raises(BadSpec, match=words) as refused:
        load("paper-short", settings)

    assert "\n" not in str(refused.value)


def test_a_code_of_ones_own_is_found_hashed_and_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    text = find("paper-short").text + '\n[gossip]\ncode = "own.py:Own"\n'
    (tmp_path / "mine.toml").write_text(text)

    section = load("mine.toml").gossip

    assert section.code == f"{tmp_path / 'own.py'}:Own"
    assert section.sha256 == hashlib.sha256(OWN.encode()).hexdigest()
    assert (section.difference, section.step, section.row_width) == (False, 1.0, 10)
    assert load_for_all("mine.toml").gossip.code == "own.py:Own"
    assert (tmp_path / "own.py").resolve() in Watched("mine.toml", []).find()


def test_what_a_code_promises_is_told_with_the_bound_on_the_step(tmp_path: Path) -> None:
    ring = "graph.name=ring"

    found = findings(ring, "gossip.code=top-k", "gossip.keep=1")
    assert verdicts(found) == ["ok", "note", "ok"]
    assert found[0].text == "top-k is a contraction with omega = 0.1"
    assert found[1].text == "36 bits per row, where its 10 numbers take 640: 0.0563 of them"
    assert found[2].text == "0.15 <= 0.15 = min(1, 2 omega / |I - W_t|) with omega = 0.1, |I - W_t| = 1.33333"

    found = findings(ring, "gossip.code=grid", "gossip.width=0.25")
    assert verdicts(found) == ["ok", "note", "ok"]
    assert found[0].text == "grid is off by at most 0.25 in a coordinate in round 1"
    assert found[1].text == "how many bits a row takes depends on the rows of its frame"

    (tmp_path / "own.py").write_text(OWN)
    found = findings(ring, f"gossip.code={tmp_path}/own.py:Own")
    assert verdicts(found) == ["note", "note"]
    assert "does not say what it promises" in found[0].text
    assert findings(ring) == []


def test_a_step_above_its_bound_is_a_warning_that_names_the_bound() -> None:
    *_, found = findings("graph.name=ring", "gossip.code=top-k", "gossip.keep=1", "gossip.step=0.4")

    assert found.verdict == "warning"
    assert found.text.startswith("gossip.step = 0.4 is above 0.15 = min(1, 2 omega / |I - W_t|) with omega = 0.1")
    assert found.text.endswith("set it to 0.15 or leave it out")


def test_the_theorems_speak_of_rows_that_arrive_as_they_are() -> None:
    for setting in ("gossip.code=sign", "gossip.trigger=2"):
        *_, last = examine(assemble(*read("paper-short", [setting])))
        named = setting.replace("=", " = ")
        assert (last.verdict, last.about) == ("note", "Theorems 1 to 4")
        assert last.text == f"speak of rows that arrive as they are, not of {named}"


def test_a_promise_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PROMISING)
    code = f"gossip.code={tmp_path}/own.py:Own"

    assert load("paper-short", ["graph.name=ring", code, "gossip.omega=0.5"]).gossip.step == 0.75
    with pytest.raises(BadSpec, match=r"has a contraction of 1\.5; return a number from 0 on, or None"):
        load("paper-short", [code, "gossip.omega=1.5"])
    (tmp_path / "own.py").write_text(PROMISING.replace("return self.omega", "return str(self.omega)"))
    with pytest.raises(BadSpec, match=r"has a contraction of 0\.5; return a number"):
        load("paper-short", [code, "gossip.omega=0.5"])
    (tmp_path / "own.py").write_text(PROMISING.replace("return self.omega", "return 1 / 0"))
    with pytest.raises(PluginFailed, match="contraction"):
        load("paper-short", [code])


@pytest.mark.parametrize("name", ["ring", "paper", "erdos-renyi", "directed-circulant", "exponential", "none"])
def test_the_norm_is_the_largest_singular_value(name: str) -> None:
    spec = load("paper-short").replace(
        graph={"name": name}
        | ({"degree": 3.0} if name == "erdos-renyi" else {})
        | ({"hops": [1, 3]} if "circulant" in name else {})
    )
    graph = build(spec.graph, 20, 1)

    away = [np.eye(20) - graph.matrix(t).dense() for t in range(1, 65)]

    expected = max(float(np.linalg.svd(each, compute_uv=False)[0]) for each in away)
    assert mixing_norm(graph, 20) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_the_norm_is_taken_of_rounds_of_the_game_alone() -> None:
    class OfThreeRounds(Ring):
        def matrix(self, t: int) -> Matrix:
            if t > 3:
                raise IndexError("there are no data for this round")
            return super().matrix(t)

    assert mixing_norm(OfThreeRounds(20, 1), 20, 3) == mixing_norm(Ring(20, 1), 20)


def test_of_very_many_agents_a_bound_of_the_norm_is_taken() -> None:
    n = 1002

    assert mixing_norm(Ring(n, 1), n) == pytest.approx(4 / 3)
    assert mixing_norm(Complete(200, 1), 200) == pytest.approx(1.0)
    exact = mixing_norm(Ring(100, 1, weights="uniform"), 100)
    assert exact == pytest.approx(0.04)


def test_a_bound_is_rounded_down_alike_whatever_the_last_bits_are() -> None:
    for digits in range(10, 100):
        for power in (-5, -1, 0):
            number = digits * 10.0 ** (power - 1)
            expected = float(f"{digits}e{power - 1}")
            for off in (1.0 - 1e-12, 1.0, 1.0 + 1e-12, 1.0 + 5e-3):
                assert rounded_down(number * off) == expected
    assert rounded_down(2 / 3) == 0.66
    assert rounded_down(math.nextafter(1.0, 0.0)) == 1.0
