"""Everything that a spec names, looked up, tried and hashed: what is known of a game before anything is started."""

from dataclasses import dataclass
from pathlib import Path

import structlog

from slaternet.errors import BadSpec
from slaternet.model import Description
from slaternet.plugins import absolute, load
from slaternet.sets import FeasibleSet
from slaternet.spec import Spec
from slaternet_adversary.build import load_plugin
from slaternet_agent.algorithms import declared
from slaternet_agent.build import build_algorithm
from slaternet_agent.schedules import Schedule, make_schedule, numbers_of
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.graphs import build as build_graph

_FEEDBACK = ("points", "loss_gradient", "constraint_gradient")

log = structlog.get_logger()


@dataclass(frozen=True)
class Parts:
    """The parts of a game; `spec` is the resolved one."""

    spec: Spec
    set: FeasibleSet
    schedule: Schedule
    graph: Graph
    adversary: Description


def assemble(spec: Spec, base: Path) -> Parts:
    """Build everything that the spec names, its relative paths starting from `base`.

    BadSpec, one sentence, where something does not exist or does not take the numbers it is given. A file that is not
    the one whose hash the spec holds is a warning.
    """
    spec = spec.replace(
        **{
            "algorithm.name": absolute(spec.algorithm.name, base),
            "graph.name": absolute(spec.graph.name, base),
            "adversary.plugin": absolute(spec.adversary.plugin, base),
        }
    )
    feasible = spec.feasible_set()
    _, adversary = load_plugin(spec)
    build_algorithm(spec, adversary)
    graph = build_graph(spec.graph, spec.run.agents, spec.run.seed)
    algorithm = load("slaternet.algorithms", spec.algorithm.name, key="algorithm.name")
    spec = _hashed(spec, "algorithm", spec.algorithm.name, algorithm.sha256)
    spec = _hashed(spec, "adversary", spec.adversary.plugin, adversary.code)
    return Parts(_granted(spec), feasible, _schedule(spec, feasible), graph, adversary)


def _schedule(spec: Spec, feasible: FeasibleSet) -> Schedule:
    of_schedule = numbers_of(spec.algorithm.schedule)
    numbers = {name: value for name, value in spec.algorithm.numbers.items() if name in of_schedule}
    return make_schedule(spec.algorithm.schedule, numbers, feasible, spec.run.rounds)


def _hashed(spec: Spec, section: str, target: str, sha256: str) -> Spec:
    before = getattr(spec, section).sha256
    if before and before != sha256:
        log.warning(f"[{section}] {target} is not the code the spec was resolved with; expect another digest")
    return spec.replace(**{f"{section}.sha256": sha256})


def _granted(spec: Spec) -> Spec:
    """Fill [feedback] with what the algorithm declares; what a user grants must at least cover that."""
    needed, algorithm = declared(spec.algorithm), spec.algorithm.name
    if spec.feedback is None:
        return spec.replace(**{f"feedback.{name}": getattr(needed, name) for name in _FEEDBACK})
    for name in _FEEDBACK:
        need = getattr(needed, name)
        if getattr(spec.feedback, name) < need:
            least = "true" if need is True else f"at least {need}"
            raise BadSpec(f"feedback.{name} must be {least}, because {algorithm} needs it; correct or remove it")
    return spec
