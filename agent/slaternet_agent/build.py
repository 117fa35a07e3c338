"""From a resolved spec to a host's parts."""

from slaternet.model import Description
from slaternet.spec import Spec
from slaternet_agent.algorithms import Algorithm, Game, build


def build_algorithm(spec: Spec, description: Description) -> Algorithm:
    """Return the algorithm of a game whose plugin is described."""
    run = spec.run
    game = Game(run.agents, run.dimension, description.constraints, run.rounds, run.seed, spec.feasible_set())
    return build(spec.algorithm, game)
