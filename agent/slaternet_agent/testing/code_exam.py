"""The exam of a gossip code: whether it keeps the contract of `slaternet_agent.codes.base`.

    for each in examine_code(GossipSection(code="mine.py:Mine")):
        print(each.verdict, each.about, each.text)

The code is given rows of several widths and kinds, and in several rounds: normal ones, sparse ones, with a single
coordinate, very small and very large ones, points of a box and their differences. All it does must agree to the bit,
and what it promises is compared with the mean over many draws, from which it may miss by five standard errors.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slaternet import codec
from slaternet.errors import BadSpec, Malformed
from slaternet.model import Agents, Array, CodedFrame, Head, Symbols
from slaternet.numerics.sets import Box
from slaternet.plugin_faults import PluginFault
from slaternet.spec import GossipSection
from slaternet_agent.algorithms.game import AlgorithmGame
from slaternet_agent.code_registry import build_code
from slaternet_agent.codes.base import Code
from slaternet_agent.testing.code_subject import HUGE, CodeFault, CodeSubject, TooLarge, guarded

CodeFactory = Callable[[AlgorithmGame, int], Code]

CODE_CHECKS = {
    "works": "it encodes and decodes rows of every kind without raising",
    "layout": "symbols are of the layout, and rows come back in their shape",
    "finite": "what comes back is finite",
    "pure": "calling it twice gives the same bits and changes nothing it is given",
    "travels": "what comes out of a frame's bytes is decoded to the same bits",
    "zero": "rows of zeros come back as zeros",
    "rowwise": "a row's bits do not depend on the rows coded beside it",
    "repeats": "another instance gives the same bits, in any order of rounds",
    "withstands": "symbols that no encoder makes are refused, or decoded to finite rows",
    "promise": "it keeps the contraction or the error that it declares",
}
"""The checks, and the finding of each for a code that passes."""
_CODED = ("works", "layout", "finite", "pure")  # a fault in one ends the exam at that width

WIDTHS = (1, 2, 13, 200)
_AGENTS = np.arange(33)
_ROUNDS = (300, 1, 2)
_BATCHES = (*([each] for each in range(0, 33, 8)), [0, 1], [30, 7], [32, 0, 5, 4])
_RADIUS = 5.0
_DRAWS = 64  # rounds over which a mean is taken, each with eight agents for a row
_SENT_AGAIN = 8  # rows whose mean is taken
_SURELY = 5.0  # standard errors


@dataclass(frozen=True, slots=True)
class CodeFinding:
    """One line of the report."""

    verdict: Literal["ok", "error", "untested", "warning"]
    about: str
    text: str
    fault: PluginFault | None = None
    """What the code raised."""


def examine_code(target: GossipSection | CodeFactory, widths: Sequence[int] = WIDTHS) -> list[CodeFinding]:
    """Return one finding for each of CODE_CHECKS; BadSpec where the code cannot be built for any of the widths."""
    faults: dict[str, CodeFault] = {}
    promised, refused = False, []
    for width in widths:
        try:
            make = _maker(target, width)
            code = make()
        except BadSpec as error:
            refused.append(error)  # such as more coordinates to keep than there are
            continue
        except CodeFault as fault:
            found = [fault]
        else:
            promised |= code.promises
            found = _faults(make, width)
        for each in found:
            faults.setdefault(each.about, each)
    if len(refused) == len(widths):
        raise refused[-1]
    broken = any(each in faults for each in _CODED)
    return [_finding(about, faults, broken=broken, promised=promised) for about in CODE_CHECKS]


def _finding(about: str, faults: dict[str, CodeFault], *, broken: bool, promised: bool) -> CodeFinding:
    if about in faults:
        return CodeFinding("error", about, str(faults[about]), faults[about].fault)
    if broken:
        return CodeFinding("untested", about, "correct the error first")
    if about == "promise" and not promised:
        return CodeFinding("warning", about, "it promises nothing; declare contraction() or error(t) to have it tested")
    return CodeFinding("ok", about, CODE_CHECKS[about])


def _maker(target: GossipSection | CodeFactory, width: int) -> Callable[[], "CodeSubject"]:
    """Return a function that makes new instances for rows of a width."""
    game = AlgorithmGame(len(_AGENTS), width, 1, None, 1, Box(width, -_RADIUS, _RADIUS))
    if isinstance(target, GossipSection):
        return lambda: CodeSubject(build_code(target, game, width), width)
    return lambda: CodeSubject(guarded("the constructor", target, game, width, passing=(BadSpec,)), width)


def _faults(make: Callable[[], "CodeSubject"], width: int) -> list[CodeFault]:
    """Return the faults at one width."""
    found = []
    try:
        coded = list(_encode_all(make(), width))
    except CodeFault as fault:
        return [fault]
    for check in (_check_zero, _check_batches, _check_order, _check_refusals, _check_promise):
        try:
            check(make, coded, width)
        except CodeFault as fault:
            found.append(fault)
    return found


@dataclass(frozen=True, slots=True)
class _Coded:
    """Rows, and what the first instance has made of them."""

    kind: str
    round: int
    rows: Array
    symbols: Symbols
    back: Array

    @property
    def where(self) -> str:
        return f"in round {self.round} for {self.kind} of {self.rows.shape[1]} numbers"


def _rows(width: int) -> dict[str, Array]:
    """Return the kinds of rows; of the first eight the means are compared with what is promised."""
    random = np.random.default_rng([5, width])
    shape = (len(_AGENTS), width)
    normal = np.clip(random.standard_normal(shape), -_RADIUS, _RADIUS)
    points = random.uniform(-_RADIUS, _RADIUS, shape)
    single = np.zeros(shape)
    single[_AGENTS, random.integers(0, width, len(_AGENTS))] = random.uniform(-_RADIUS, _RADIUS, len(_AGENTS))
    return {
        "normal rows": normal,
        "sparse rows": normal * (random.random(shape) < 0.2),
        "rows of one coordinate": single,
        "points of X": points,
        "differences of points": points - points[::-1],
        "very small rows": normal * 1e-300,
        HUGE: normal * 1e30,
    }


def _encode_all(subject: CodeSubject, width: int) -> Iterator[_Coded]:
    """Yield what the code makes of every kind of rows in every round, each called twice."""
    for kind, rows in _rows(width).items():
        for t in _ROUNDS:
            given, agents = rows.copy(), _AGENTS.copy()
            for each in (given, agents):
                each.setflags(write=False)
            try:
                symbols = subject.encode(kind, given, agents, t)
                again = subject.encode(kind, given, agents, t)
            except TooLarge:
                continue
            back, once_more = (subject.decode(each, agents, t) for each in (symbols, again))
            coded = _Coded(kind, t, rows, symbols, back)
            if not np.isfinite(back).all():
                raise CodeFault("finite", f"decode gives numbers that are not finite {coded.where}")
            if not _same(symbols, again) or back.tobytes() != once_more.tobytes():
                remedy = (
                    "let it depend on its arguments alone, and draw random numbers by agent and round, as Draws does"
                )
                raise CodeFault("pure", f"it gives other bits when it is called again {coded.where}; {remedy}")
            _check_travels(subject, coded)
            yield coded


def _check_travels(subject: CodeSubject, coded: _Coded) -> None:
    """Compare what is decoded with what comes out of the bytes of a frame."""
    t, layout = coded.round, subject.layout
    messages = codec.encode_gossip(Head("exam", 1, t, "host-1"), CodedFrame(t, _AGENTS, coded.symbols), layout=layout)
    decoder = codec.GossipDecoder(coded.rows.shape[1], layout=layout)
    *_, arrived = (decoder.decode(each) for each in messages)
    assert arrived is not None
    frame = arrived[1]
    assert isinstance(frame, CodedFrame)
    back = subject.decode(frame.symbols, _AGENTS.copy(), t)
    if back.tobytes() != coded.back.tobytes():
        raise CodeFault("travels", f"decode gives other bits {coded.where} after they have travelled")


def _check_zero(make: Callable[[], CodeSubject], coded: list[_Coded], width: int) -> None:
    del coded
    subject, zeros = make(), np.zeros((len(_AGENTS), width))
    for t in _ROUNDS:
        if subject.decode(subject.encode("rows of zeros", zeros, _AGENTS, t), _AGENTS, t).any():
            remedy = "a row that does not change must not move its public copy"
            raise CodeFault("zero", f"rows of {width} zeros come back as others in round {t}; {remedy}")


def _check_batches(make: Callable[[], CodeSubject], coded: list[_Coded], width: int) -> None:
    del width
    subject = make()
    for was in coded:
        for batch in map(np.array, _BATCHES):
            symbols = subject.encode(was.kind, was.rows[batch], _AGENTS[batch], was.round)
            expected = Symbols(was.symbols.scales[batch], was.symbols.numbers[batch])
            back = subject.decode(expected, _AGENTS[batch], was.round)
            if not _same(symbols, expected) or back.tobytes() != was.back[batch].tobytes():
                remedy = "let no row enter another, and sum along the last axis of C-contiguous arrays"
                beside = f"where {len(batch)} of the {len(_AGENTS)} rows are coded together"
                raise CodeFault("rowwise", f"it gives other bits {was.where} {beside}; {remedy}")


def _check_order(make: Callable[[], CodeSubject], coded: list[_Coded], width: int) -> None:
    """Send and receive with instances of their own, which hear of rounds and agents in another order."""
    del width
    sender, receiver = make(), make()
    for was in reversed(coded):
        symbols = sender.encode(was.kind, was.rows, _AGENTS, was.round)
        halves = [receiver.decode(_part(symbols, half), half, was.round) for half in (_AGENTS[20:], _AGENTS[:20])]
        if not _same(symbols, was.symbols) or np.concatenate(halves[::-1]).tobytes() != was.back.tobytes():
            remedy = "keep nothing on self that decides a bit; other hosts decode with instances of their own"
            raise CodeFault("repeats", f"another instance gives other bits {was.where}; {remedy}")


def _part(symbols: Symbols, agents: Agents) -> Symbols:
    return Symbols(symbols.scales[agents], symbols.numbers[agents])


def _check_refusals(make: Callable[[], CodeSubject], coded: list[_Coded], width: int) -> None:
    """Decode symbols of random bits, as a peer could send them."""
    del coded
    subject = make()
    layout, random, remedy = subject.layout, np.random.default_rng([6, width]), "raise slaternet.errors.Malformed there"
    for bits in {layout.bits} if layout.bits else {1, 8, 64}:
        for count in [1] * 50 + [33]:
            scales = random.integers(0, 1 << 32, (count, layout.scales), np.uint32).view(np.float32)
            scales[~np.isfinite(scales)] = np.finfo(np.float32).max
            numbers = random.integers(0, (1 << bits) - 1, (count, layout.numbers), np.uint64, endpoint=True)
            try:
                back = subject.receive(Symbols(scales, numbers), _AGENTS[:count], 1)
            except Malformed:
                continue
            except CodeFault as fault:
                text = f"{fault} for symbols that no encoder makes; {remedy}"
                raise CodeFault("withstands", text, fault.fault) from fault
            if not np.isfinite(back).all():
                text = f"decode gives numbers that are not finite for symbols that no encoder makes; {remedy}"
                raise CodeFault("withstands", text)


def _check_promise(make: Callable[[], CodeSubject], coded: list[_Coded], width: int) -> None:
    subject = make()
    omega = subject.contraction()
    if omega is not None and not 0.0 < omega <= 1.0:
        raise CodeFault("promise", f"contraction() is {omega} for rows of {width} numbers; it lies above 0, at most 1")
    for was in coded:
        bound = subject.error(was.round)
        if bound is not None and not 0.0 <= bound < np.inf:
            raise CodeFault("promise", f"error({was.round}) is {bound}; it must be a finite number, at least 0")
        if bound is not None and was.kind in ("points of X", "differences of points", "very small rows"):
            missed = float(np.abs(was.back - was.rows).max())
            if missed > bound * (1 + 1e-9) + 1e-15 * _RADIUS:
                raise CodeFault(
                    "promise", f"a coordinate is off by {missed:.3g} {was.where}, and error() is {bound:.3g}"
                )
        if omega is not None and was.round == _ROUNDS[0]:
            _check_contraction(subject, was, omega)


def _check_contraction(subject: CodeSubject, was: _Coded, omega: float) -> None:
    """Compare the mean of |C(v) - v|^2 over many rounds and agents with (1 - omega) |v|^2, for some rows."""
    kept, again = _SENT_AGAIN, len(_AGENTS) // _SENT_AGAIN
    agents, rows = _AGENTS[: kept * again], np.tile(was.rows[:kept], (again, 1))
    missed = np.empty((_DRAWS, kept * again))
    for t in range(1, _DRAWS + 1):
        away = subject.decode(subject.encode(was.kind, rows, agents, t), agents, t) - rows
        missed[t - 1] = np.sum(away * away, axis=-1)
    missed = missed.reshape(_DRAWS * again, kept)
    mean, noise = missed.mean(axis=0), missed.std(axis=0) / np.sqrt(len(missed))
    squares = np.sum(was.rows[:kept] * was.rows[:kept], axis=-1)
    if noise.any():
        # a row that is rarely sent may never have been: then the sample shows no noise, but its mean has some
        noise = np.maximum(noise, squares * np.sqrt(omega * (1.0 - omega) / len(missed)))
    # 1e-6: what float32 loses of a scale
    over = mean - _SURELY * noise - (1.0 - omega + 1e-6) * squares
    if (over > 0.0).any():
        row = int(np.argmax(over / np.maximum(squares, np.finfo(float).tiny)))
        got = 1.0 - mean[row] / squares[row] if squares[row] else -np.inf
        text = f"it contracts {was.kind} of {was.rows.shape[1]} numbers by {got:.3g}, and contraction() is {omega:.3g}"
        raise CodeFault("promise", f"{text}; |C(v) - v|^2 may be (1 - contraction) |v|^2 on average")


def _same(one: Symbols, other: Symbols) -> bool:
    return one.scales.tobytes() == other.scales.tobytes() and one.numbers.tobytes() == other.numbers.tobytes()
