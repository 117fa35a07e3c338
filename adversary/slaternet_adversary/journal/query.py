"""What agents have asked and seen, as the journal has it, for the host that takes them over."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slaternet.errors import Diverged
from slaternet.model import Agents, Answer, Array, Question, ValueAndGradient, Values
from slaternet.storage.disk import DISK, Disk
from slaternet_adversary.engine.ledger import select_agents
from slaternet_adversary.journal.entries import Purchase
from slaternet_adversary.journal.journal import JOURNAL, read


def purchases_of(
    folder: Path, agents: Agents, first: int, last: int, *, disk: Disk = DISK
) -> Iterator[tuple[Question, Answer]]:
    """Return what some agents asked and saw in each of these rounds, in order, from the journal in a run folder.

    They must have played them all; Diverged where the journal ends before. Purchases of a round stand in as many
    entries as there were hosts, and hosts are not far from each other: little is kept while it is read.
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
        raise Diverged(f"{folder / JOURNAL} lacks values of round {first}; put back an undamaged copy")


def _some(purchase: Purchase, own: NDArray[np.bool_]) -> Purchase:
    """Return what some of the agents of a purchase have bought."""
    values = purchase.values
    return Purchase(
        replace(purchase.asked, question=select_agents(purchase.asked.question, own)),
        Values(values.f[own], values.g[own], _rows(values.loss, own), _rows(values.constraint, own)),
    )


def merge_purchases(pieces: list[Purchase]) -> tuple[Question, Answer]:
    """Return the purchases of one round by several agents as one, in index order."""
    questions, values = [each.asked.question for each in pieces], [each.values for each in pieces]
    agents = np.concatenate([each.agents for each in questions])
    order = agents.argsort()

    def rows(parts: Iterable[Array]) -> Array:
        array: Array = np.concatenate(list(parts))[order]
        return array

    def tangent(parts: Iterable[ValueAndGradient | None]) -> ValueAndGradient | None:
        some = [each for each in parts if each is not None]
        return (
            ValueAndGradient(rows(each.value for each in some), rows(each.gradient for each in some)) if some else None
        )

    anchors = [each.anchor for each in questions if each.anchor is not None]
    first, points = all(each.x_is_first_point for each in questions), rows(each.points for each in questions)
    question = replace(
        questions[0],
        agents=agents[order],
        x=points[:, 0] if first else rows(each.x for each in questions),
        points=points,
        anchor=rows(anchors) if anchors else None,
        x_is_first_point=first,
    )
    f, g = rows(each.f for each in values), rows(each.g for each in values)
    loss, constraint = tangent(each.loss for each in values), tangent(each.constraint for each in values)
    return question, Answer(question.round, question.agents, Values(f, g, loss, constraint))


def _rows(tangent: ValueAndGradient | None, own: NDArray[np.bool_]) -> ValueAndGradient | None:
    return None if tangent is None else ValueAndGradient(tangent.value[own], tangent.gradient[own])
