"""The purchases of some agents, read from the journal for the host that adopts them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import Damaged
from slaternet.model import Agents, Answer, Array, Question, ValueAndGradient, Values
from slaternet.storage.disk import DISK, Disk
from slaternet_adversary.engine.batches import select_agents, select_values
from slaternet_adversary.journal.entries import Purchase
from slaternet_adversary.journal.journal import JOURNAL, read


def purchases_of(
    folder: Path, agents: Agents, first: int, last: int, *, disk: Disk = DISK
) -> Iterator[tuple[Question, Answer]]:
    """Yield what some agents asked and were answered in each of these rounds, in order, from a run folder's journal.

    Damaged where the journal ends before. A round's purchases are spread over one entry per host, and hosts are close
    to each other, so little is held in memory.
    """
    found: dict[int, list[Purchase]] = {}
    for entry in read(folder, disk=disk):
        if first > last:
            return
        if not isinstance(entry, Purchase) or not first <= entry.asked.question.round <= last:
            continue
        if (own := np.isin(entry.asked.question.agents, agents)).any():
            found.setdefault(entry.asked.question.round, []).append(_some(entry, own))
        while sum(len(each.asked.question.agents) for each in found.get(first, ())) == len(agents):
            yield merge_purchases(found.pop(first))
            first += 1
    if first <= last:
        raise Damaged(f"{folder / JOURNAL} lacks values of round {first}; put back an undamaged copy")


def _some(purchase: Purchase, own: NDArray[np.bool_]) -> Purchase:
    """Return the part of a purchase that is about some of its agents."""
    question = select_agents(purchase.asked.question, own)
    return Purchase(replace(purchase.asked, question=question), select_values(purchase.values, own))


def merge_purchases(pieces: list[Purchase]) -> tuple[Question, Answer]:
    """Return the purchases of one round as one, in the order of agents."""
    questions, values = [each.asked.question for each in pieces], [each.values for each in pieces]
    agents = np.concatenate([each.agents for each in questions])
    order = agents.argsort()

    def rows(parts: Iterable[Array]) -> Array:
        array: Array = np.concatenate(list(parts))[order]
        return array

    def tangent(parts: Iterable[ValueAndGradient | None]) -> ValueAndGradient | None:
        some = [(each.value, each.gradient) for each in parts if each is not None]
        return ValueAndGradient(*map(rows, zip(*some, strict=True))) if some else None

    anchors = [each.anchor for each in questions if each.anchor is not None]
    memos = [each.memo for each in questions if each.memo is not None]
    first, points = all(each.x_is_first_point for each in questions), rows(each.points for each in questions)
    question = replace(
        questions[0],
        agents=agents[order],
        x=points[:, 0] if first else rows(each.x for each in questions),
        points=points,
        anchor=rows(anchors) if anchors else None,
        x_is_first_point=first,
        memo=rows(memos) if memos else None,
    )
    f, g = rows(each.f for each in values), rows(each.g for each in values)
    loss, constraint = tangent(each.loss for each in values), tangent(each.constraint for each in values)
    return question, Answer(question.round, question.agents, Values(f, g, loss, constraint))
