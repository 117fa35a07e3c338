"""The comparator of static regret: the best fixed decision in hindsight, for any prefix of a game.

    Net-Reg(T) = sum_t (1/n) sum_i f_t(x_{i,t}) - min { sum_t f_t(x) : x in X_T }
    X_T = { x in X : g_{i,t}(x) <= 0 for all agents i and rounds t <= T }

X_T shrinks with T, so every prefix has a comparator of its own. Quadratic losses under linear constraints are solved
exactly (`programme`), other convex functions with gradients by sequential quadratic programming (`convex`).
"""

from collections.abc import Callable, Iterable, Iterator

from slaternet.errors import BadSpec
from slaternet.model import Array
from slaternet.numerics.sets import FeasibleSet
from slaternet.spec import Spec
from slaternet_lab.functions.replay import RoundFunctions, replay
from slaternet_lab.hindsight.convex import ConvexProgramme
from slaternet_lab.hindsight.programme import Optimum, QuadraticProgramme

Programme = QuadraticProgramme | ConvexProgramme


def offline(spec: Spec, rounds: int | None = None, decisions: Array | None = None) -> Optimum:
    """Return the optimum of a resolved spec's first `rounds` rounds, all of them if absent.

    It is the same for every algorithm of a seed, unless the adversary depends on decisions (T, n, p). BadSpec where no
    point is feasible in all rounds, and where the plugin has no gradients.
    """
    rounds = rounds or spec.run.rounds
    if rounds is None:
        raise BadSpec("run.rounds is missing; a comparator is that of a number of rounds, say --set run.rounds=1000")
    (found,) = optima(spec, [rounds], decisions)
    return found


def optima(spec: Spec, prefixes: Iterable[int], decisions: Array | None = None) -> Iterator[Optimum]:
    """Yield the optimum of each prefix, ascending."""
    return (built.optimum() for built in programmes(spec, prefixes, decisions))


def programmes(
    spec: Spec, prefixes: Iterable[int], decisions: Array | None, watch: Callable[[int], None] = lambda t: None
) -> Iterator[Programme]:
    """Yield the programme of each prefix, ascending; one object that grows. `watch` is called with every round."""
    wanted = sorted(set(prefixes))
    built: Programme | None = None
    for functions in replay(spec, wanted[-1], decisions):
        built = built or programme(spec.feasible_set(), functions)
        built.add(functions)
        watch(functions.round)
        if functions.round in wanted:
            yield built


def programme(feasible: FeasibleSet, functions: RoundFunctions) -> Programme:
    """Return an empty programme for functions of this kind."""
    return QuadraticProgramme(feasible) if functions.exact else ConvexProgramme(feasible)
