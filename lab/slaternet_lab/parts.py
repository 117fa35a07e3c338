"""Everything that a spec names, looked up, tried and hashed: what is known of a game before anything is started."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import structlog

from slaternet.errors import BadSpec
from slaternet.model import Description
from slaternet.plugins import absolute, load
from slaternet.sets import FeasibleSet
from slaternet.spec import Spec
from slaternet_adversary.build import load_plugin
from slaternet_agent.algorithms import GROUP, declared
from slaternet_agent.build import build_algorithm
from slaternet_agent.schedules import Schedule, chosen
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.graphs import build as build_graph

CODE = ("algorithm.name", "graph.name", "adversary.plugin")
"""The keys of a spec that name code, perhaps by a path."""

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
    spec = located(spec, base)
    feasible = spec.feasible_set()
    _, adversary = load_plugin(spec)
    algorithm = load(GROUP, spec.algorithm.name, key="algorithm.name")
    spec = _hashed(spec, "algorithm", spec.algorithm.name, algorithm.sha256)
    spec = _hashed(spec, "adversary", spec.adversary.plugin, adversary.code)
    build_algorithm(spec, adversary)
    graph = build_graph(spec.graph, spec.run.agents, spec.run.seed)
    schedule = chosen(spec.algorithm.schedule, spec.algorithm.numbers, feasible, spec.run.rounds)
    return Parts(_granted(spec), feasible, schedule, graph, adversary)


def located(spec: Spec, base: Path, keys: Collection[str] = CODE) -> Spec:
    """Return the spec with the files that these keys name made absolute against `base`."""
    named = dict(zip(CODE, (spec.algorithm.name, spec.graph.name, spec.adversary.plugin), strict=True))
    return spec.replace(**{key: absolute(target, base) for key, target in named.items() if key in keys})


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
