"""Find, build and hash everything that a spec names, before anything is started."""

import secrets
from dataclasses import dataclass
from pathlib import Path

import structlog

from slaternet.errors import BadSpec
from slaternet.model import Description
from slaternet.numerics.sets import FeasibleSet
from slaternet.spec import Spec
from slaternet.spec.paths import located
from slaternet.spec.plugins import load
from slaternet_adversary.plugin.data import folders, with_data
from slaternet_adversary.plugin.makers import Maker, describe, isolation_of, plugin_maker, with_gradients
from slaternet_agent.algorithms import Feedback, Schedule
from slaternet_agent.code_registry import CODES
from slaternet_agent.engine.questions import memo_width
from slaternet_agent.registry import GROUP, completed, needs_horizon, schedule
from slaternet_agent.shell.build import build_algorithm, game_of
from slaternet_coordinator.graphs import Graph, check_departures
from slaternet_coordinator.registry import build as build_graph
from slaternet_coordinator.registry import digest
from slaternet_lab.specs import gossip
from slaternet_lab.specs.gossip import CodedRows

_GRAPHS = {"local": "none", "central": "complete"}
"""The graph that a mode implies: separate agents exchange nothing, one learner for all receives everything."""
_FEEDBACK = ("points", "loss_gradient", "constraint_gradient")

log = structlog.get_logger()


@dataclass(frozen=True)
class Parts:
    """The parts of a game; `spec` is the resolved one."""

    spec: Spec
    set: FeasibleSet
    schedule: Schedule
    graph: Graph
    rows: CodedRows | None
    """How rows travel; None: as they are."""
    adversary: Description


def assemble(spec: Spec, base: Path) -> Parts:
    """Build everything that the spec names; its relative paths start from `base`.

    BadSpec, one sentence, where something does not exist or does not take the numbers it is given. A file that is not
    the one whose hash the spec holds is a warning.
    """
    spec = _with_mode(located(spec, base)).with_drawn(secrets.randbits(63))
    feasible = spec.feasible_set()
    spec = spec.replace(**{"adversary.isolation": isolation_of(spec)})
    with plugin_maker(spec) as maker:
        return _assembled(spec, feasible, maker)


def _assembled(spec: Spec, feasible: FeasibleSet, maker: Maker) -> Parts:
    plugin = maker.new()
    adversary = describe(plugin, maker)
    most: int | None = getattr(plugin, "rounds", None)  # that it has data for; None: without end
    if most is not None and (spec.run.rounds or most + 1) > most:
        raise BadSpec(
            f"run.rounds must be at most {most}, the rounds that {spec.adversary.plugin} has data for; lower it, or "
            "set adversary.options.repeat = true"
        )
    code = load(GROUP, spec.algorithm.name, key="algorithm.name").sha256
    spec = _hashed(spec, "algorithm", spec.algorithm.name, code)
    spec = _hashed(spec, "graph", spec.graph.name, digest(spec.graph))
    spec = _hashed(spec, "gossip", spec.gossip.code, load(CODES, spec.gossip.code, key="gossip.code").sha256)
    spec = _hashed(spec, "adversary", with_data(spec), adversary.code)
    for folder in folders(spec):
        log.warning(f"{folder} is a folder, and its content is not hashed; a change of it will not be noticed")
    if spec.adversary.segments:
        rounds = ", ".join(str(each.round) for each in spec.adversary.segments[1:])
        log.warning(
            f"[adversary] {spec.adversary.plugin} was changed within the game of this spec, from round {rounds} on; it "
            "is played with the code that is there"
        )
        spec = spec.replace(**{"adversary.segments": None})
    algorithm = build_algorithm(spec, adversary)
    spec = _granted(spec, algorithm.feedback, memo_width(algorithm))
    adversary = with_gradients(spec, maker, adversary)
    graph = build_graph(spec.graph, spec.run.agents, spec.run.seed)
    if spec.departures:
        check_departures(spec, graph)
    game = game_of(spec, adversary)
    if needs_horizon(spec.algorithm, game):
        spec = spec.replace(**{"algorithm.horizon": game.rounds})
    spec, rows = gossip.completed(spec, algorithm, game, graph)
    return Parts(spec, feasible, schedule(spec.algorithm, game), graph, rows, adversary)


def _with_mode(spec: Spec) -> Spec:
    """Fill in the algorithm's schedule, and its mode with the graph that this implies."""
    section = completed(spec.algorithm)
    spec = spec.replace(**{"algorithm.schedule": section.schedule})
    if section.mode in _GRAPHS:
        spec = spec.replace(**{"algorithm.mode": section.mode, "graph": {"name": _GRAPHS[section.mode]}})
    return spec


def _hashed(spec: Spec, section: str, target: str, sha256: str) -> Spec:
    before = getattr(spec, section).sha256
    if before and before != sha256:
        log.warning(f"[{section}] {target} is not the code the spec was resolved with; expect another digest")
    return spec.replace(**{f"{section}.sha256": sha256})


def _granted(spec: Spec, needed: Feedback, memo: int) -> Spec:
    """Fill [question] with what the algorithm declares, and [feedback] too; what a user grants must cover that."""
    declared = {name: getattr(needed, name) for name in _FEEDBACK}
    spec = spec.replace(question={**declared, "memo": memo})
    if spec.feedback is None:
        return spec.replace(feedback=declared)
    for name, need in declared.items():
        if getattr(spec.feedback, name) < need:
            least = "true" if need is True else f"at least {need}"
            raise BadSpec(
                f"feedback.{name} must be {least}, because {spec.algorithm.name} needs it; correct or remove it"
            )
    return spec
