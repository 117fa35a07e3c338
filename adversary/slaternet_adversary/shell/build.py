"""From a resolved spec and a plugin's description to the referee."""

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS, Limits
from slaternet.model import Description
from slaternet.spec import Spec
from slaternet_adversary.engine.commitments import Commitments
from slaternet_adversary.engine.referee import Referee


def build_referee(spec: Spec, description: Description, limits: Limits = LIMITS) -> Referee:
    """Return the referee of a game."""
    if spec.feedback is None:
        raise BadSpec("[feedback] is missing; a resolved spec says what is granted (slaternet resolves it)")
    return Referee(
        spec.run.agents,
        spec.feasible_set(),
        points=spec.feedback.points,
        constraints=description.constraints,
        rounds=spec.run.rounds,
        loss_gradient=spec.feedback.loss_gradient,
        constraint_gradient=spec.feedback.constraint_gradient,
        history=description.history,
        score_every=spec.record.score_every,
        commitments=Commitments(description.code, spec.adversary.options, spec.run.seed),
        limits=limits,
    )
