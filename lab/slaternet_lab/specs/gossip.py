"""What `[gossip]` of a spec leaves open: whether rows are differences, the code's hash, and the consensus step.

    omega    code.contraction()    E|C(v) - v|^2 <= (1 - omega) |v|^2; 1 where the error does not grow with v
    b        mixing_norm           the largest |I - W_t|_2 of some rounds

    step <= min(1, 2 omega / b)

Above that, mixing with public copies diverged on random graphs and rings when it was tried. The theory of CHOCO and its
like allows 1e-4 and less there, with which agents would hardly mix at all.
"""

import math
from dataclasses import dataclass

import numpy as np

from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet.spec import GossipSection, Spec
from slaternet.spec.plugins import plugin_edge
from slaternet_agent.algorithms import Algorithm, AlgorithmGame
from slaternet_agent.code_registry import build_code, completed_gossip
from slaternet_agent.codes.base import Code
from slaternet_coordinator.graphs import Graph, Matrix

_DENSE = 1000
"""Agents up to which the norm is computed; above, where that would take seconds, a bound of it is."""
_WORK = 1 << 30
"""Of all rounds looked at together: agents to the third power."""
_ROUNDS, _FEW = 64, 4
_SLACK = 1e-9
"""Relative. A bound is computed to less than that, and rounded down it must be the same on every machine."""
_REFUSED = {
    "central": "there one learner reads every row as it is",
    "local": "there nothing is sent",
}


@dataclass(frozen=True)
class CodedRows:
    """How the rows of a game travel in a code."""

    named: str
    """The key that says so, with its value."""
    width: int
    """Numbers in a row."""
    omega: float | None
    """None where the code does not promise that."""
    error: float | None
    """How far a coordinate may be off in round 1; None where the code does not promise that."""
    bits: int | None
    """Of a row; None where they depend on the rows that travel together."""
    norm: float
    """b, for the bound on the step."""

    @property
    def bound(self) -> float | None:
        """The largest step that is known to be good; None where the code does not say what it promises."""
        if self.omega is None and self.error is None:
            return None
        bound = 2.0 * (1.0 if self.omega is None else self.omega) / self.norm if self.norm else math.inf
        return rounded_down(min(1.0, bound))


def completed(spec: Spec, algorithm: Algorithm, game: AlgorithmGame, graph: Graph) -> tuple[Spec, CodedRows | None]:
    """Return the spec with [gossip] filled in, and its code; None where rows travel as they are.

    BadSpec where the code does not take its numbers, or does not fit the rest of the game.
    """
    section, width = spec.gossip, algorithm.width
    if not section.plain:
        _check(spec, width)
    code = build_code(section, game, width)
    found = completed_gossip(section).model_copy(update={"row_width": width})
    rows = None if section.plain else _coded(section, code, width, mixing_norm(graph, game.agents, game.rounds))
    if found.step is None:
        found = found.model_copy(update={"step": 1.0 if rows is None or rows.bound is None else rows.bound})
    return spec.replace(gossip=found.model_dump(exclude_none=True)), rows


def _check(spec: Spec, width: int) -> None:
    what, mode, remedy = _named(spec.gossip), spec.algorithm.mode or "gossip", "remove [gossip], or choose another"
    if mode in _REFUSED:
        raise BadSpec(f"{what} does not go with algorithm.mode = {mode}, because {_REFUSED[mode]}; {remedy} mode")
    if width == 0:
        raise BadSpec(f"{what} has nothing to code, because {spec.algorithm.name} gossips nothing; {remedy} algorithm")


def _named(section: GossipSection) -> str:
    return f"gossip.trigger = {section.trigger:g}" if section.code == "exact" else f"gossip.code = {section.code}"


def _coded(section: GossipSection, code: Code, width: int, norm: float) -> CodedRows:
    with plugin_edge("gossip code", section.code, "contraction", of=code):
        omega = code.contraction()
    with plugin_edge("gossip code", section.code, "error", 1, of=code):
        error = code.error(1)
    with plugin_edge("gossip code", section.code, "bits_per_row", of=code):
        bits = code.bits_per_row()
    for name, value, most in (("contraction", omega, 1.0), ("error", error, math.inf)):
        if value is not None and not (isinstance(value, int | float) and 0.0 <= value <= most):
            raise BadSpec(f"gossip.code = {section.code} has a {name} of {value}; return a number from 0 on, or None")
    return CodedRows(_named(section), width, omega or None, error, bits, norm)


def mixing_norm(graph: Graph, agents: int, rounds: int | None = None) -> float:
    """Return b over the first of the game's rounds; of very many agents a bound of it, 2 (1 - min [W_t]_ii)."""
    large = agents > _DENSE
    looked = min(_FEW if large else min(max(_WORK // agents**3, 1), _ROUNDS), rounds or _ROUNDS)
    # the matrices of a fixed graph are one object, which is looked at once
    matrices = {id(matrix): matrix for matrix in map(graph.matrix, range(1, 1 + looked))}
    return max(_most(matrix) if large else _norm(matrix.dense()) for matrix in matrices.values())


def _norm(dense: Array) -> float:
    """Return |I - W|_2."""
    away = np.eye(len(dense)) - dense
    if np.array_equal(dense, dense.T):  # then the norm is the largest eigenvalue, which takes a fraction of the time
        return float(np.abs(np.linalg.eigvalsh(away)).max())
    return float(np.linalg.norm(away, 2))


def _most(matrix: Matrix) -> float:
    """Return Gershgorin's bound of |I - W|_2, for which rows and columns of W must sum to 1."""
    own = matrix.weights[matrix.columns == matrix.rows()]
    return 2.0 * (1.0 - float(own.min()))


def rounded_down(number: float) -> float:
    """Return a positive number to two significant digits, at most itself: the same on every machine."""
    unit = 10 ** (math.floor(math.log10(number)) - 1)
    digits = math.floor(number / unit * (1.0 + _SLACK))
    return float(f"{digits * unit:.6g}")
