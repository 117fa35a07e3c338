"""The functions of an adversary as the arrays of a trace, round by round.

Built-in forms are arrays already, and are played again to the bit. Of any other adversary whose rounds have the closed
forms `quadratic` and `linear`, each agent's forms are asked for, and compared with its loss and constraints.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet_adversary.api import Adversary
from slaternet_adversary.builtin import trace
from slaternet_adversary.plugin.calls import CheckedRound, adversary_edge

_ROUNDING = 1e-6
"""Relative to a number, or to 1: by how much a closed form and the values of a round may differ."""


def recorded(plugin: Adversary, target: str, rounds: int) -> Iterator[Mapping[str, Array]]:
    """Yield the arrays of every round's functions; BadSpec where a trace cannot hold them."""
    if plugin.history:
        raise _refused(target, "it chooses its functions by the decisions of a game, and here nobody decides")
    if not plugin.constraints:
        raise _refused(target, "it has no constraints, and a trace has one at least")
    shapes = None
    for round in range(1, rounds + 1):
        with adversary_edge(plugin, "play", round):
            functions = plugin.play(round, None)
        arrays = trace.arrays(functions) or _closed_forms(CheckedRound(plugin, round, functions), target)
        before, shapes = shapes, {name: array.shape for name, array in arrays.items()}
        if before not in (None, shapes):
            raise _refused(target, f"its functions have other shapes in round {round} than before")
        yield arrays


def _closed_forms(functions: CheckedRound, target: str) -> Mapping[str, Array]:
    """Return the arrays of a round from its closed forms; BadSpec where it lacks one, or one is not what is played."""
    if missing := [name for name in ("quadratic", "linear") if not functions.has(name)]:
        raise _refused(target, f"{functions.name} has no method {' and no method '.join(missing)}")
    agents, m, p = np.arange(functions.plugin.game.agents), functions.m, functions.p
    forms = [functions.quadratic(agents[i : i + 1]) for i in agents]
    hessian = np.stack([each[0] for each in forms])
    hessian = 0.5 * (hessian + hessian.transpose(0, 2, 1))
    slope, constant = np.stack([each[1] for each in forms]), np.array([each[2] for each in forms])
    matrix, bound = (each.reshape(len(agents), m, -1) for each in functions.linear(agents))
    arrays = {"matrix": matrix, "offset": bound[..., 0], "hessian": hessian, "slope": slope, "constant": constant}
    feasible = functions.plugin.game.set
    corner = feasible.project((feasible.centre + feasible.outer * (-1.0) ** np.arange(p))[None])
    points = np.broadcast_to(np.concatenate((feasible.centre[None], corner)), (len(agents), 2, p))
    said = {
        "quadratic": 0.5 * np.einsum("ksp,kpq,ksq->ks", points, hessian, points)
        + np.einsum("ksp,kp->ks", points, slope)
        + constant[:, None],
        "linear": np.einsum("kmp,ksp->ksm", matrix, points) - bound.transpose(0, 2, 1),
    }
    for (name, values), method in zip(said.items(), ("loss", "constraint"), strict=True):
        played = functions.asked(method, agents, points)
        apart = np.abs(values - played) > _ROUNDING * np.maximum(1.0, np.abs(played))
        if apart.any():
            agent = np.argwhere(apart)[0][0]
            raise _refused(target, f"{name} of agent {agent} in {functions.name} is not the {method} that is revealed")
    return arrays


def _refused(target: str, why: str) -> BadSpec:
    return BadSpec(
        f"adversary.plugin = {target} cannot be recorded, because {why}; name one whose rounds have quadratic and "
        "linear and that does not look back, as linear-regression, moving-target, economic-dispatch and data-center do"
    )
