"""The exam of an algorithm: whether it keeps the contract of `slaternet_agent.algorithms.base`.

    for each in examine(AlgorithmSection(name="mine.py:Mine")):
        print(each.verdict, each.about, each.text)

The algorithm plays a small game several times in different ways, and all must agree to the bit; where it does not read
`received`, also on a graph on which an agent hears only some of the others:

    plays      nothing raises                         rowwise    agents alone, in pairs and out of order
    state      is a dataclass of float64 arrays       restores   a new instance every few rounds, from the packed state
    shapes     rows and decisions have their shapes   rebuilds   a new instance, by `update` alone
    finite     and are finite
    inside     decisions, points and anchors lie in X
    pure       called twice, on arrays that cannot be written
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from slaternet.errors import BadSpec, PluginFailed
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet.plugin_faults import PluginFault
from slaternet.spec import AlgorithmSection
from slaternet.spec.plugins import plugin_edge
from slaternet_agent.algorithms import Algorithm, AlgorithmGame, Decision, Feedback, Values
from slaternet_agent.algorithms.state_vector import is_per_agent, pack, unpack
from slaternet_agent.engine.questions import memo_width
from slaternet_agent.registry import build, completed
from slaternet_agent.testing.arena import AGENTS, DIMENSION, ROUNDS, Arena, ExamGossip, arenas, select_agents

Factory = Callable[[AlgorithmGame], Algorithm]

CHECKS = {
    "plays": "it starts, decides and learns without raising",
    "state": "its state is a dataclass of float64 arrays",
    "shapes": "rows, decisions, points, anchors and memos have the shapes it declares",
    "finite": "rows, decisions, points, anchors and memos are finite",
    "inside": "decisions, points and anchors lie in the set",
    "pure": "calling it twice gives the same bits and changes nothing it is given",
    "rowwise": "an agent's bits do not depend on the agents computed beside it",
    "restores": "a new instance goes on from a packed state with the same bits",
    "rebuilds": "update alone leads to the same state from journalled decisions",
}
"""The checks, and the finding of each for an algorithm that passes."""
_PLAYED = ("plays", "state", "shapes", "finite", "inside", "pure")  # a fault in one ends the game on that set

_AGAIN = {
    "rowwise": "for some of the agents",
    "restores": "from a packed state",
    "rebuilds": "without decide before it",
}

_EVERYONE = np.arange(AGENTS)
_TAKEN_OVER = 7  # rounds between new instances where a state is restored
_BATCHES = (*([each] for each in range(AGENTS)), [0, 1], [2, 3], [4, 1], [4, 2, 0])


@dataclass(frozen=True, slots=True)
class AlgorithmFinding:
    """One line of the report."""

    verdict: Literal["ok", "error", "untested"]
    about: str
    text: str
    fault: PluginFault | None = None
    """What the algorithm raised."""


@dataclass(frozen=True, slots=True)
class _Round:
    """One round of the reference game, which all others must repeat."""

    outgoing: Array
    heard: ExamGossip
    decision: Decision
    seen: Values
    after: Array  # the packed state


class _Fault(Exception):
    """A breach of the contract; stays in this module."""

    def __init__(self, about: str, text: str, fault: PluginFault | None = None) -> None:
        super().__init__(text)
        self.about = about
        self.fault = fault

    def on_a_sparse_graph(self) -> "_Fault":
        return _Fault(self.about, f"{self} (where an agent hears only some of the others)", self.fault)


def examine(target: AlgorithmSection | Factory) -> list[AlgorithmFinding]:
    """Return one finding for each of CHECKS; BadSpec where a section cannot be built at all."""
    section = target if isinstance(target, AlgorithmSection) else None
    silent = section is not None and completed(section).mode == "local"
    faults: dict[str, _Fault] = {}
    read: set[str] = set()
    for arena in arenas(silent=silent):
        if not arena.complete and "received" in read:
            continue
        for fault in _faults(_maker(target, arena.game), arena, read):
            if fault.about not in faults:
                faults[fault.about] = fault if arena.complete else fault.on_a_sparse_graph()
    broken = any(each in faults for each in _PLAYED)
    return [_finding(about, faults, broken) for about in CHECKS]


def _finding(about: str, faults: dict[str, _Fault], broken: bool) -> AlgorithmFinding:
    if about in faults:
        return AlgorithmFinding("error", about, str(faults[about]), faults[about].fault)
    if broken:
        return AlgorithmFinding("untested", about, "correct the error first")
    return AlgorithmFinding("ok", about, CHECKS[about])


def _maker(target: AlgorithmSection | Factory, game: AlgorithmGame) -> Callable[[], "_Host"]:
    """Return a function that makes new instances."""
    if callable(target):
        return lambda: _Host(_guarded("the constructor", target, game))
    return lambda: _Host(build(target, game))


def _faults(host: Callable[[], "_Host"], arena: Arena, read: set[str]) -> list[_Fault]:
    """Return the faults in one arena; add to `read` what the algorithm has read of its gossip."""
    try:
        played = _play(host(), arena)
    except _Fault as fault:
        return [fault]
    read.update(*(each.heard.read for each in played))
    found = []
    for about, check in (("rowwise", _rowwise), ("restores", _restores), ("rebuilds", _rebuilds)):
        try:
            check(host, played)
        except _Fault as fault:
            found.append(fault if fault.about == about else _Fault(about, f"{fault} ({_AGAIN[about]})", fault.fault))
    return found


class _Host:
    """An instance whose code is not trusted: any exception is a fault."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.feedback = getattr(algorithm, "feedback", None) or Feedback()
        self.memo_width = memo_width(algorithm)

    def start(self, agents: Agents) -> Any:  # noqa: ANN401  the state is the algorithm's own type
        return _frozen(_guarded("start", self.algorithm.start, agents.copy()))

    def outgoing(self, state: Any, t: int) -> Array:  # noqa: ANN401
        rows: Array = _frozen(_guarded(f"outgoing of round {t}", self.algorithm.outgoing, state, t))
        return rows

    def decide(self, state: Any, heard: ExamGossip, t: int) -> Decision:  # noqa: ANN401
        decision = _guarded(f"decide of round {t}", self.algorithm.decide, state, heard, t)
        if not isinstance(decision, Decision):
            raise _Fault("shapes", f"decide returns a {type(decision).__name__}; return a Decision(x, points)")
        _frozen(decision)
        return decision

    def update(self, state: Any, decision: Decision, seen: Values, t: int) -> Any:  # noqa: ANN401
        return _frozen(_guarded(f"update of round {t}", self.algorithm.update, state, decision, seen, t))


def _guarded(where: str, method: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
    try:
        with plugin_edge("algorithm", "of the exam", where.partition(" ")[0]):
            return method(*arguments)
    except PluginFailed as failure:
        if isinstance(failure.__cause__, dataclasses.FrozenInstanceError):
            text = f"{where} writes into what it is given; make new arrays and a new state"
            raise _Fault("pure", text) from failure
        raised = failure.fault.raised if failure.fault is not None else str(failure)
        if "read-only" in raised:
            text = f"{where} writes into an array it is given or has given away; make a new one"
            raise _Fault("pure", text) from failure
        raise _Fault("plays", f"{where} raised {raised}", failure.fault) from failure


def _play(host: _Host, arena: Arena) -> list[_Round]:
    """Play the reference game, all agents on one host, and check every result."""
    state = host.start(_EVERYONE)
    played = []
    for t in range(1, ROUNDS + 1):
        before = _packed(state)
        outgoing = _checked_rows(host, state, arena, t)
        heard = _frozen(arena.gossip(outgoing, t))
        decision, again = host.decide(state, heard, t), host.decide(state, heard, t)
        _check_decision(host, decision, arena, t)
        _check_pure(f"decide of round {t}", _same(decision, again), _packed(state), before)
        seen = _frozen(arena.values(decision, host.feedback, t))
        after, other = host.update(state, decision, seen, t), host.update(state, decision, seen, t)
        same = _packed(after).tobytes() == _packed(other).tobytes()
        _check_pure(f"update of round {t}", same, _packed(state), before)
        played.append(_Round(outgoing, heard, decision, seen, _packed(after)))
        state = after
    return played


def _checked_rows(host: _Host, state: Any, arena: Arena, t: int) -> Array:  # noqa: ANN401
    rows = host.outgoing(state, t)
    _check_shape(f"outgoing returns rows in round {t}", rows, (AGENTS, host.algorithm.width), "(k, width)")
    if not np.isfinite(rows).all():
        raise _Fault("finite", f"outgoing returns rows in round {t} that are not finite; keep its steps bounded")
    scale, feasible = getattr(host.algorithm, "row_scale", lambda t: None)(t), arena.game.set
    missed = 0.0 if scale is None else float(np.abs(feasible.project(rows, scale=scale) - rows).max())
    if missed > LIMITS.tolerance * feasible.outer:
        raise _Fault("inside", f"outgoing returns rows in round {t} outside of row_scale({t}) X; project onto it")
    return rows


def _check_decision(host: _Host, decision: Decision, arena: Arena, t: int) -> None:
    """Check the shapes of a decision, and that it is finite and lies in the set."""
    points = (AGENTS, host.feedback.points, DIMENSION)
    _check_shape(f"decide returns x in round {t}", decision.x, (AGENTS, DIMENSION), "(k, p)")
    _check_shape(f"decide returns points in round {t}", decision.points, points, "(k, s, p), s as in its feedback")
    arrays = {"x": decision.x, "points": decision.points}
    if decision.anchor is not None:
        _check_shape(f"decide returns an anchor in round {t}", decision.anchor, (AGENTS, DIMENSION), "(k, p)")
        arrays["an anchor"] = decision.anchor
    memo = {}
    if host.memo_width:
        shape = AGENTS, host.memo_width
        _check_shape(f"decide returns a memo in round {t}", decision.memo, shape, "(k, w), w as in its memo_width")
        memo["a memo"] = decision.memo
    for name, array in (arrays | memo).items():
        if not np.isfinite(array).all():
            raise _Fault("finite", f"decide returns {name} in round {t} that is not finite; keep its steps bounded")
        if name in arrays and not arena.game.set.encloses(array):
            remedy = "project onto (1 - xi) X and explore no farther than r(X) xi"
            raise _Fault("inside", f"decide returns {name} in round {t} outside the {arena.name}; {remedy}")


def _rowwise(host: Callable[[], _Host], played: list[_Round]) -> None:
    player = host()
    for batch in _BATCHES:
        where = _difference(host, player, played, np.array(batch), anew=False)
        if where:
            beside = f"differs where {len(batch)} of the {AGENTS} agents are computed together"
            remedy = "let no row enter another, and sum along the last axis of C-contiguous arrays"
            raise _Fault("rowwise", f"{where} {beside}; {remedy}")


def _restores(host: Callable[[], _Host], played: list[_Round]) -> None:
    where = _difference(host, host(), played, _EVERYONE, anew=True)
    if where:
        remedy = "keep all memory in the state, nothing on self"
        raise _Fault("restores", f"{where} is another after a new instance took the state over; {remedy}")


def _difference(host: Callable[[], _Host], player: _Host, played: list[_Round], batch: Agents, *, anew: bool) -> str:
    """Return the first difference where some agents play again; `anew`: with a new instance every few rounds."""
    state = player.start(batch)
    for t, was in enumerate(played, 1):
        if anew and t % _TAKEN_OVER == 0:
            player = host()
            try:
                state = _frozen(unpack(player.start(batch), _packed(state)))
            except ValueError as error:
                raise _Fault("restores", "its state changes shape; keep the shapes that start returns") from error
        if player.outgoing(state, t).tobytes() != was.outgoing[batch].tobytes():
            return f"outgoing of round {t}"
        decision = player.decide(state, _frozen(was.heard.part(batch)), t)
        anchor = None if was.decision.anchor is None else was.decision.anchor[batch]
        memo = was.decision.memo[batch] if player.memo_width else was.decision.memo
        if not _same(decision, Decision(was.decision.x[batch], was.decision.points[batch], anchor, memo)):
            return f"decide of round {t}"
        state = player.update(state, decision, _frozen(select_agents(batch, was.seen)), t)
    return ""


def _rebuilds(host: Callable[[], _Host], played: list[_Round]) -> None:
    """Rebuild states as an adopting host does, from x, points, anchor and memo of each decision alone."""
    player = host()
    state = player.start(_EVERYONE)
    # a memo that is not declared is in no journal; one learner for all has its own from its checkpoint
    kept = player.memo_width or not _guarded("start", is_per_agent, player.algorithm)
    for t, was in enumerate(played, 1):
        memo = was.decision.memo if kept else np.empty(0)
        asked = player.feedback.loss_gradient or player.feedback.constraint_gradient
        anchor = was.decision.x if was.decision.anchor is None else was.decision.anchor
        journalled = Decision(was.decision.x, was.decision.points, anchor if asked else None, memo)
        state = player.update(state, journalled, was.seen, t)
        if _packed(state).tobytes() != was.after.tobytes():
            remedy = (
                "let update use only the state, the values, and of a decision x, points, anchor and a declared memo"
            )
            raise _Fault("rebuilds", f"update of round {t} leads elsewhere without decide before it; {remedy}")


def _check_pure(where: str, same: bool, state: Array, before: Array) -> None:
    if state.tobytes() != before.tobytes():
        raise _Fault("pure", f"{where} changes the state it is given; return a new one")
    if not same:
        raise _Fault("pure", f"{where} gives other bits when it is called again; let it depend on its arguments alone")


def _check_shape(what: str, value: object, shape: tuple[int, ...], symbols: str) -> None:
    if not isinstance(value, np.ndarray) or value.dtype != np.float64:
        kind = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise _Fault("shapes", f"{what} as {kind}; return a float64 array {symbols}")
    if value.shape != shape:
        raise _Fault("shapes", f"{what} of shape {value.shape}, not {shape}; return {symbols}")


def _packed(state: Any) -> Array:  # noqa: ANN401
    try:
        return pack(state)
    except BadSpec as error:
        raise _Fault("state", str(error).replace("algorithm.name", "the algorithm")) from error


def _same(one: Decision, other: Decision) -> bool:
    pairs = ((getattr(one, name), getattr(other, name)) for name in ("x", "points", "anchor", "memo"))
    return all(a is b is None or (a is not None and b is not None and a.tobytes() == b.tobytes()) for a, b in pairs)


def _frozen(value: Any) -> Any:  # noqa: ANN401  what it is given
    """Return the array, or the dataclass of arrays, made read-only."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            _frozen(getattr(value, each.name))
    return value
