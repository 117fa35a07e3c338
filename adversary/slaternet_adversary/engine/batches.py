"""Questions of one round as one: agents in index order, so that the order of arrival changes no bit."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from slaternet.model import Question, ValueAndGradient, Values
from slaternet_adversary.engine.events import Asked, Batch, Rows


def single(asked: Asked) -> Batch:
    """Return a question as a batch."""
    return Batch((asked,), asked.question, (slice(None),))


def joined(asked: Sequence[Asked]) -> Batch | None:
    """Return questions as one; None where they ask for different things, or a host or an agent occurs twice."""
    if len(asked) == 1:
        return single(asked[0])
    if len({each.host for each in asked}) < len(asked):
        return None
    asked = sorted(asked, key=lambda each: int(each.question.agents[0]))
    questions = [each.question for each in asked]
    first = questions[0]
    if any(_kind(each) != _kind(first) for each in questions[1:]):
        return None
    agents, points = (np.concatenate([getattr(each, name) for each in questions]) for name in ("agents", "points"))
    rest = [] if first.x_is_first_point else [np.concatenate([each.x for each in questions])]
    anchors = [each.anchor for each in questions if each.anchor is not None]
    memos = [each.memo for each in questions if each.memo is not None]
    rest += (np.concatenate(each) for each in (anchors, memos) if each)
    ends = np.cumsum([len(each.agents) for each in questions]).tolist()
    rows: list[Rows] = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
    if not (agents[1:] > agents[:-1]).all():
        order = agents.argsort()
        agents, points, *rest = (each[order] for each in (agents, points, *rest))
        if not (agents[1:] > agents[:-1]).all():
            return None
        rows = [agents.searchsorted(each.agents) for each in questions]
    x = points[:, 0] if first.x_is_first_point else rest.pop(0)
    anchor = None if first.anchor is None else rest.pop(0)
    memo = None if first.memo is None else rest.pop(0)
    question = replace(first, agents=agents, x=x, points=points, anchor=anchor, memo=memo)
    return Batch(tuple(asked), question, tuple(rows))


def answers(batch: Batch, values: Values) -> Iterator[tuple[Asked, Values]]:
    """Return each question of a batch with its part of the values."""
    if len(batch.asked) == 1:
        yield batch.asked[0], values
        return
    for asked, rows in zip(batch.asked, batch.rows, strict=True):
        yield asked, select_values(values, rows)


def _kind(question: Question) -> tuple[object, ...]:
    flags = question.loss_gradient, question.constraint_gradient, question.x_is_first_point
    return question.round, question.points.shape[1:], flags, 0 if question.memo is None else question.memo.shape[1]


def select_agents(question: Question, chosen: Rows) -> Question:
    """Return the part of a question that is about the agents chosen."""
    points = question.points[chosen]
    return replace(
        question,
        agents=question.agents[chosen],
        x=points[:, 0] if question.x_is_first_point else question.x[chosen],
        points=points,
        anchor=None if question.anchor is None else question.anchor[chosen],
        memo=None if question.memo is None else question.memo[chosen],
    )


def select_values(values: Values, chosen: Rows) -> Values:
    """Return the values of the agents chosen."""
    if values.loss is None and values.constraint is None:
        return Values(values.f[chosen], values.g[chosen])
    return Values(
        values.f[chosen], values.g[chosen], _tangent(values.loss, chosen), _tangent(values.constraint, chosen)
    )


def _tangent(tangent: ValueAndGradient | None, chosen: Rows) -> ValueAndGradient | None:
    return None if tangent is None else ValueAndGradient(tangent.value[chosen], tangent.gradient[chosen])
