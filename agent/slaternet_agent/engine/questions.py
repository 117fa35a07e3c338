"""From a decision to the question of its round, and whether an answer fits it."""

from dataclasses import replace

import numpy as np

from slaternet.errors import Malformed
from slaternet.model import Agents, Answer, Array, Question, ValueAndGradient
from slaternet_agent.algorithms.base import Algorithm, Decision


def memo_width(algorithm: Algorithm) -> int:
    """Return how many numbers an agent keeps with its question; a class of a user's own may not say."""
    return getattr(algorithm, "memo_width", 0)


def question_of(decision: Decision, algorithm: Algorithm, round: int, seats: Agents) -> Question:
    """Return the question of a decision; gradients, where the algorithm needs them, are taken at the anchor."""
    feedback = algorithm.feedback
    k, p = len(seats), decision.x.shape[-1]
    if decision.x.shape != (k, p) or decision.points.shape != (k, decision.points.shape[1], p):
        raise ValueError("a decision needs x (k, p) and points (k, s, p) for the k agents of the host")
    if decision.points.shape[1] != feedback.points:
        raise ValueError(
            f"a decision asks about {decision.points.shape[1]} points, and its feedback declares {feedback.points} in "
            "every round"
        )
    if decision.anchor is not None and decision.anchor.shape != (k, p):
        raise ValueError("a decision needs an anchor (k, p) for the k agents of the host, or none")
    x, points = decision.x, decision.points
    first = points.shape[1] > 0 and x.tobytes() == points[:, 0].tobytes()
    question = Question(round, seats, points[:, 0] if first else x, points, x_is_first_point=first)
    if width := memo_width(algorithm):
        question = replace(question, memo=_checked_memo(decision.memo, (k, width)))
    if not feedback.loss_gradient and not feedback.constraint_gradient:
        return question
    return replace(
        question,
        anchor=x if decision.anchor is None else decision.anchor,
        loss_gradient=feedback.loss_gradient,
        constraint_gradient=feedback.constraint_gradient,
    )


def _checked_memo(memo: Array, shape: tuple[int, int]) -> Array:
    """Return a memo that can be asked with; one that no algorithm declares stays here, and may be anything."""
    if memo.shape != shape or memo.dtype != np.float64:
        raise ValueError(
            f"a decision needs a memo (k, w) of float64 for the k agents of the host, w = {shape[1]} as its algorithm "
            "declares in memo_width"
        )
    if not np.isfinite(memo).all():
        raise ValueError("a decision needs a memo of finite numbers")
    return memo


def same_size(one: Question, other: Question) -> bool:
    """Return whether two questions hold as many points and as large a memo of each agent."""
    memos = [0 if each.memo is None else each.memo.shape[1] for each in (one, other)]
    return one.points.shape[1] == other.points.shape[1] and memos[0] == memos[1]


def decided_before(decision: Decision, asked: Question, places: Agents) -> Decision:
    """Return a decision in which what some agents have asked before stands at their places."""
    x, points, anchor, memo = decision.x.copy(), decision.points.copy(), decision.anchor, decision.memo
    x[places], points[places] = asked.x, asked.points
    if asked.anchor is not None:
        anchor = (decision.x if anchor is None else anchor).copy()
        anchor[places] = asked.anchor
    if asked.memo is not None:
        memo = memo.copy()
        memo[places] = asked.memo
    return Decision(x, points, anchor, memo)


def check_answer(answer: Answer, question: Question) -> None:
    """Refuse an answer that holds less or more than was asked for."""
    values = answer.values
    same = answer.agents is question.agents or answer.agents.tobytes() == question.agents.tobytes()
    if values.f.shape != question.points.shape[:2] or not same:
        raise Malformed("an answer must cover the agents and points of its question")
    if not (values.loss or values.constraint or question.loss_gradient or question.constraint_gradient):
        return
    (k, p), m = question.x.shape, values.g.shape[-1]
    if _shapes(values.loss) != (((k,), (k, p)) if question.loss_gradient else None) or (
        _shapes(values.constraint) != (((k, m), (k, m, p)) if question.constraint_gradient else None)
    ):
        raise Malformed("an answer must hold the gradients that were asked for, and no others")


def _shapes(tangent: ValueAndGradient | None) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    return None if tangent is None else (tangent.value.shape, tangent.gradient.shape)
