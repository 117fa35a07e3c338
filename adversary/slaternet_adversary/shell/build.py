"""From a resolved spec and a plugin's description to the referee."""

from collections.abc import Sequence

from slaternet.errors import BadSpec
from slaternet.limits import LIMITS, Limits
from slaternet.model import Description
from slaternet.spec import Spec
from slaternet_adversary.engine.amendments import Segment
from slaternet_adversary.engine.commitments import Commitments
from slaternet_adversary.engine.referee import Referee


def build_referee(
    spec: Spec, description: Description, limits: Limits = LIMITS, segments: Sequence[Segment] = ()
) -> Referee:
    """Return the referee of a game, which answers the declared question, and nothing beyond the grant.

    `segments` are those of a game whose plugin was amended.
    """
    if (grant := spec.feedback) is None:
        raise BadSpec("[feedback] is missing; a resolved spec says what is granted (slaternet resolves it)")
    if (question := spec.question) is None:
        raise BadSpec("[question] is missing; a resolved spec says what is asked for (slaternet resolves it)")
    first, *later = segments or (Segment(1, description.code),)
    return Referee(
        spec.run.agents,
        spec.feasible_set(),
        points=min(question.points, grant.points),
        constraints=description.constraints,
        rounds=spec.run.rounds,
        loss_gradient=question.loss_gradient and grant.loss_gradient,
        constraint_gradient=question.constraint_gradient and grant.constraint_gradient,
        memo=question.memo,
        history=description.history,
        score_every=spec.record.score_every,
        commitments=Commitments(first.code, spec.adversary.options, spec.function_seed, later),
        limits=limits,
    )
