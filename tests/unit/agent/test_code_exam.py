"""The exam of gossip codes: every one that ships passes it, and every kind of breach is found and named."""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slaternet.errors import BadSpec, Malformed
from slaternet.model import Agents, Array, Symbols
from slaternet.spec import GossipSection
from slaternet_agent import AlgorithmGame, Code, Draws, Layout, unzigzag, zigzag
from slaternet_agent.testing.code_exam import CODE_CHECKS, examine_code

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "exact": [{}],
    "float16": [{}],
    "float32": [{}],
    "grid": [{"width": 0.05}, {"width": 5.0, "power": 1.0}],
    "levels": [{"levels": 1}, {"levels": 4}, {"levels": 1 << 20}],
    "random-k": [{"keep": 1}, {"keep": 13}],
    "sign": [{}],
    "top-k": [{"keep": 1}, {"keep": 13}],
}


class Halves(Code):
    """Keeps the contract; the others break it in one place. Whole halves of a coordinate, rounded to the nearest."""

    def __init__(self, game: AlgorithmGame, width: int) -> None:
        super().__init__(game, width)
        self.layout = Layout(numbers=width)
        self.draws = Draws(game, width, lambda uniform: uniform)

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        halves = np.rint(vectors * 2.0)
        if not (np.abs(halves) < 1e9).all():
            raise ValueError("a row is too large")
        return Symbols.of_numbers(zigzag(halves.astype(np.int64)))

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        halves = unzigzag(symbols.numbers)
        if halves.size and np.abs(halves).max() > 1e9:
            raise Malformed("a row is too large")
        vectors: Array = halves * 0.5
        return vectors

    def error(self, t: int) -> float | None:
        return 0.25


class Raises(Halves):
    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        nothing: dict[str, Array] = {}
        return nothing["nothing"]


class GivesUp(Halves):
    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        if np.abs(vectors).max() > 3.0:
            raise ValueError("a row is too large")
        return super().encode(vectors, agents, t)


class Prefers(Halves):
    """Takes the order of the agents for granted."""

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        return super().encode(vectors - vectors.mean(axis=0) * 1e-3 - 0.2, agents, t)

    def error(self, t: int) -> float | None:
        return 1.0


class Remembers(Halves):
    """Codes the difference to what it coded last."""

    last: Any = 0.0

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        last, self.last = self.last, vectors
        return super().encode(vectors - (last if np.shape(last) == vectors.shape else 0.0), agents, t)


class Numbers(Halves):
    """Lets the order of its calls decide."""

    rounds: tuple[int, ...] = ()

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        self.rounds += (t,) * (t not in self.rounds)
        return super().encode(vectors + 0.0 * t + (self.rounds.index(t) == 0) * np.sign(vectors), agents, t)

    def error(self, t: int) -> float | None:
        return 1.25


class Overwrites(Halves):
    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        vectors *= 2.0
        return super().encode(vectors, agents, t)


class Drifts(Halves):
    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        vectors: Array = super().decode(symbols, agents, t) + 0.25
        return vectors

    def error(self, t: int) -> float | None:
        return 0.5


class Flattens(Halves):
    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        return super().decode(symbols, agents, t).ravel()


class Misstates(Halves):
    def __init__(self, game: AlgorithmGame, width: int) -> None:
        super().__init__(game, width)
        self.layout = Layout(scales=1, numbers=width)


class Narrow(Halves):
    def __init__(self, game: AlgorithmGame, width: int) -> None:
        super().__init__(game, width)
        self.layout = Layout(numbers=width, bits=3)


class Signed(Halves):
    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        symbols = super().encode(vectors, agents, t)
        return Symbols(symbols.scales, symbols.numbers.view(np.int64))  # type: ignore[arg-type]


class Tuples(Halves):
    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        return (1, 2)  # type: ignore[return-value]


class Trusts(Halves):
    """Looks a value up at the place that a peer sends."""

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        table = np.zeros(1 << 12)
        table[: 1 << 11] = unzigzag(np.arange(1 << 11, dtype=np.uint64)) * 0.5
        return table[symbols.numbers]  # type: ignore[no-any-return]

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        if np.abs(vectors).max() > 1e3:
            raise ValueError("a row is too large")
        return super().encode(vectors, agents, t)


class Lengths(Code):
    """The length of a row, along (1, ..., 1)."""

    def __init__(self, game: AlgorithmGame, width: int) -> None:
        super().__init__(game, width)
        self.layout = Layout(scales=1)

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        size = np.sqrt(np.sum(vectors * vectors, axis=-1, keepdims=True) / self.width)
        return Symbols.of_scales(size.astype(np.float32))

    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        return np.tile(symbols.scales.astype(np.float64), (1, self.width))

    def contraction(self) -> float | None:
        return 0.5


class Directions(Lengths):
    """Divides by the length, which may be 0."""

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        with np.errstate(all="ignore"):
            share = vectors[:, :1] / np.sqrt(np.sum(vectors * vectors, axis=-1, keepdims=True))
        return Symbols.of_scales(share.astype(np.float32))


class Refuses(Halves):
    def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
        if symbols.numbers.any():
            raise Malformed("numbers must be 0")
        return super().decode(symbols, agents, t)


class Exaggerates(Halves):
    def error(self, t: int) -> float | None:
        return 0.1


class Overpromises(Lengths):
    def contraction(self) -> float | None:
        return 2.0


class Infinite(Halves):
    def error(self, t: int) -> float | None:
        return np.inf


class Random(Halves):
    """Dithers with numbers that nobody else can draw."""

    def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
        return super().encode(vectors + np.random.default_rng().uniform(-0.25, 0.25, vectors.shape), agents, t)

    def error(self, t: int) -> float | None:
        return 0.5


BREACHES = [
    (Raises, "works", "decode of round 300 raised KeyError: 'nothing', at "),
    (
        GivesUp,
        "works",
        "encode of round 300 for rows of one coordinate of 1 numbers raised ValueError: a row is too large, at ",
    ),
    (Prefers, "rowwise", "where 1 of the 33 rows are coded together; let no row enter another"),
    (Remembers, "pure", "it gives other bits when it is called again in round 300 for normal rows of 1 numbers"),
    (Random, "pure", "let it depend on its arguments alone, and draw random numbers by agent and round, as Draws does"),
    (Overwrites, "pure", "encode of round 300 writes into an array it is given or has given away; make a new one"),
    (Numbers, "repeats", "another instance gives other bits in round "),
    (Drifts, "zero", "rows of 1 zeros come back as others in round 300"),
    (Flattens, "layout", "decode of round 300 returns float64 of shape (33,), not float64 of shape (33, 1)"),
    (Misstates, "layout", "returns scales as float32 of shape (33, 0); its layout says float32 of shape (33, 1)"),
    (Narrow, "layout", "encode of round 300 returns a number that does not fit into the 3 bits of its layout"),
    (Signed, "layout", "returns numbers as int64 of shape (33, 1); its layout says uint64 of shape (33, 1)"),
    (Tuples, "layout", "encode of round 300 returns a tuple; return Symbols(scales, numbers)"),
    (Trusts, "withstands", "decode of round 1 raised IndexError: "),
    (Lengths, "promise", "and contraction() is 0.5; |C(v) - v|^2 may be (1 - contraction) |v|^2 on average"),
    (Directions, "finite", "encode of round 300 returns scales that are not finite; raise ValueError for such rows"),
    (Refuses, "travels", "decode of round 300 refuses what encode has made: numbers must be 0"),
    (Exaggerates, "promise", "a coordinate is off by 0.2"),
    (Overpromises, "promise", "contraction() is 2.0 for rows of 1 numbers; it lies above 0, at most 1"),
    (Infinite, "promise", "error(300) is inf; it must be a finite number, at least 0"),
]


def errors(target: Any) -> dict[str, str]:
    return {each.about: each.text for each in examine_code(target) if each.verdict == "error"}


@pytest.mark.parametrize(
    "section", [GossipSection(code=name, **each) for name, options in OPTIONS.items() for each in options], ids=str
)
def test_every_code_that_ships_passes(section: GossipSection) -> None:
    report = examine_code(section)

    assert [each.about for each in report] == list(CODE_CHECKS)
    assert [each for each in report if each.verdict != "ok"] == []


def test_every_code_that_ships_is_examined_here() -> None:
    assert sorted(OPTIONS) == sorted(entry.name for entry in entry_points(group="slaternet.codes"))


def test_a_code_that_keeps_the_contract_passes() -> None:
    assert {each.verdict for each in examine_code(Halves)} == {"ok"}


@pytest.mark.parametrize(("kind", "about", "sentence"), BREACHES, ids=lambda each: getattr(each, "__name__", ""))
def test_each_breach_is_found_and_named(kind: type[Code], about: str, sentence: str) -> None:
    found = errors(kind)

    assert sentence in found[about]
    assert "\n" not in found[about]
    if " raised " in sentence:
        assert f"{Path(__file__).name}:" in found[about]


def test_what_is_raised_is_kept_with_its_line() -> None:
    [fault] = [each.fault for each in examine_code(Raises) if each.verdict == "error"]

    assert fault is not None
    assert fault.place.endswith('`return nothing["nothing"]`')
    assert (fault.method, fault.error) == ("decode", "KeyError")


def test_what_a_breach_leaves_open_is_called_untested() -> None:
    verdicts = {each.about: each.verdict for each in examine_code(Tuples)}

    assert verdicts["layout"] == "error"
    assert verdicts["rowwise"] == "untested"


def test_a_code_that_promises_nothing_is_warned_about() -> None:
    class Silent(Halves):
        def error(self, t: int) -> float | None:
            return None

    [warned] = [each for each in examine_code(Silent) if each.verdict != "ok"]
    assert (warned.verdict, warned.about) == ("warning", "promise")


def test_a_mean_that_keeps_the_promise_is_not_refused_for_its_noise() -> None:
    """A row is sent as it is with probability 1/5: |C(v) - v|^2 is 0 or |v|^2."""

    class Rarely(Lengths):
        def __init__(self, game: AlgorithmGame, width: int) -> None:
            super().__init__(game, width)
            self.layout = Layout(scales=width, numbers=1, bits=1)
            self.draws = Draws(game, 1, lambda uniform: uniform)

        def encode(self, vectors: Array, agents: Agents, t: int) -> Symbols:
            sent = self.draws.at(agents, t) < self.share
            return Symbols((vectors * sent).astype(np.float32), sent.astype(np.uint64))

        def decode(self, symbols: Symbols, agents: Agents, t: int) -> Array:
            return symbols.scales.astype(np.float64)

        def contraction(self) -> float | None:
            return 0.2

        share = 0.2

    class TooRarely(Rarely):
        share = 0.05

    assert errors(Rarely) == {}
    assert "promise" in errors(TooRarely)


def test_a_code_is_examined_at_the_widths_that_it_takes() -> None:
    assert errors(GossipSection(code="top-k", keep=150)) == {}  # 200 alone

    with pytest.raises(BadSpec, match="at most 200"):
        examine_code(GossipSection(code="top-k", keep=201))
    assert {each.verdict for each in examine_code(GossipSection(code="top-k", keep=201), [300])} == {"ok"}
