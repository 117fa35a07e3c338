"""The ledger: one purchase per agent and round; the same question again is free.

All questions of a game ask about as many points, for the same gradients, and with as large a memo. Some agents of a
question may have bought the round before, at another host: for them it is a repetition.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from slaternet.attendance import Attendance
from slaternet.errors import AlreadyAsked, Forgotten, RoundNotOpen
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array, Question, ValueAndGradient, Values
from slaternet_adversary.engine.batches import select_agents


class GradientPage:
    """The gradients of a page, at the agent's index: anchors, and the values and gradients there."""

    __slots__ = ("_anchor", "_constraint", "_loss")

    def __init__(self, agents: int, dimension: int, constraints: int, gradients: tuple[bool, bool]) -> None:
        loss, constraint = gradients
        self._anchor: Array = np.empty((agents, dimension))
        self._loss = ValueAndGradient(np.empty(agents), np.empty((agents, dimension))) if loss else None
        rows = (agents, constraints)
        self._constraint = ValueAndGradient(np.empty(rows), np.empty((*rows, dimension))) if constraint else None

    def enter(self, agents: Agents, anchor: Array) -> None:
        """Record where gradients are asked for."""
        self._anchor[agents] = anchor

    def repeats(self, agents: Agents, anchor: Array) -> bool:
        """Whether gradients were asked for before at the same anchor."""
        return self._anchor[agents].tobytes() == anchor.tobytes()

    def fill(self, agents: Agents, values: Values) -> None:
        """Store the values and gradients bought."""
        for kept, bought in ((self._loss, values.loss), (self._constraint, values.constraint)):
            if kept is not None and bought is not None:
                kept.value[agents] = bought.value
                kept.gradient[agents] = bought.gradient

    def of(self, agents: Agents) -> tuple[ValueAndGradient | None, ValueAndGradient | None]:
        """Return value and gradient of loss and constraint for some agents."""
        loss, constraint = (
            None if kept is None else ValueAndGradient(kept.value[agents], kept.gradient[agents])
            for kept in (self._loss, self._constraint)
        )
        return loss, constraint


class Page:
    """One round of the ledger: every agent's decision, points and values, at the agent's index.

    Agents that have left count as if they had asked, with NaN as decision. While every decision is its agent's first
    point, `x` is a view of those points. Once the round is recorded, a large page keeps hashes instead.
    """

    __slots__ = ("_hashes", "answered", "asked", "f", "g", "memo", "points", "slopes", "x")

    def __init__(
        self,
        agents: int,
        dimension: int,
        points: int,
        constraints: int,
        gradients: tuple[bool, bool],
        memo: int,
        *,
        first: bool,
    ) -> None:
        self.asked: NDArray[np.bool_] = np.zeros(agents, dtype=bool)
        self.answered: NDArray[np.bool_] = np.zeros(agents, dtype=bool)
        self.points: Array = np.empty((agents, points, dimension))
        self.x: Array = self.points[:, 0] if first else np.empty((agents, dimension))
        self.memo: Array = np.empty((agents, memo))
        self.f: Array = np.empty((agents, points))
        self.g: Array = np.empty((agents, points, constraints))
        self.slopes = GradientPage(agents, dimension, constraints, gradients) if any(gradients) else None
        self._hashes: list[bytes] | None = None  # by agent, of a page that is settled

    def settle(self) -> None:
        """Keep no more of decisions, points and memos than is needed to know them again."""
        self._hashes = _hashes(self.x, self.points, self.memo)
        self.x, self.points, self.memo = np.empty((0, 0)), np.empty((0, 0, 0)), self.memo[:0].copy()

    @property
    def question_bytes(self) -> int:
        """What the questions of the page take."""
        return self.points.nbytes + self.memo.nbytes

    def repeats(self, question: Question) -> bool:
        """Whether decisions and points were asked about before with the same bits, and the same memo."""
        agents, x, points = question.agents, question.x, question.points
        memo = self.memo[:0] if question.memo is None else question.memo
        if self._hashes is not None:
            return [self._hashes[agent] for agent in agents.tolist()] == _hashes(x, points, memo)
        same = self.x[agents].tobytes() == x.tobytes() and self.points[agents].tobytes() == points.tobytes()
        return same and (not memo.size or self.memo[agents].tobytes() == memo.tobytes())

    def leave(self, agents: Agents) -> None:
        """Discard what some agents may have asked: they do not play this round."""
        self.asked[agents] = True
        if self._hashes is None:
            self.x[agents] = np.nan


class Ledger:
    """Purchases from the low-water mark on, and the last round that each agent bought."""

    def __init__(
        self,
        agents: int,
        dimension: int,
        *,
        points: int,
        constraints: int,
        window: int,
        rounds: int | None,
        loss_gradient: bool = False,
        constraint_gradient: bool = False,
        memo: int = 0,
    ) -> None:
        self._memo = memo
        self._shape = (agents, dimension, points, constraints)
        self._gradients = loss_gradient, constraint_gradient
        self._window = window
        self._pages: dict[int, Page] = {}
        self._last = np.zeros(agents, dtype=np.int64)
        self._answered = self._last.copy()
        self._forgotten = 0
        self._attendance = Attendance(agents)
        self.rounds = rounds

    def restore(self, round: int) -> None:
        """Begin after a round that all agents have bought and none will ask about again."""
        self._last.fill(round)
        self._answered.fill(round)
        self._forgotten = round + 1

    def page(self, round: int) -> Page:
        """Return the page of a round in which something was bought."""
        return self._pages[round]

    def depart(self, attendance: Attendance) -> None:
        """Expect no questions of agents from the round on in which they leave; discard those they have asked."""
        self._attendance = attendance
        for round, page in self._pages.items():
            self._mark_departed(page, round)

    def grant_new(self, question: Question) -> bool:
        """Record a question, unless some of its agents have asked about the round before, or not about earlier ones."""
        if len(self._attendance.of(question.agents, question.round)) < len(question.agents):
            left = self._attendance.ends[question.agents].min()
            raise RoundNotOpen(f"a question speaks for an agent that has left the game in round {left}")
        new = not np.count_nonzero(self._last[question.agents] != question.round - 1)
        if new:
            self._enter(question)
        return new

    def grant(self, question: Question) -> Question | None:
        """Record a question; return its new part, None if all of it was asked before with the same numbers."""
        if self.grant_new(question):
            return question
        last = self._last[question.agents]
        if not np.count_nonzero(last < question.round):
            self._compare(question)
            return None
        if np.count_nonzero(last < question.round - 1):
            raise RoundNotOpen(f"round {last.min() + 1} must be bought before round {question.round}")
        self._compare(select_agents(question, last >= question.round))
        new = select_agents(question, last < question.round)
        self._enter(new)
        return new

    def _enter(self, question: Question) -> None:
        bought, ends = self._last, self._attendance.ends
        slowest = int((bought if self._attendance.full else bought[bought < ends - 1]).min())  # of agents still playing
        last = slowest + 1 + self._window
        if question.round > (last if self.rounds is None else min(last, self.rounds)):
            raise RoundNotOpen("the round lies outside the window of the game")
        page = self._pages.get(question.round)
        if page is None:
            page = self._pages[question.round] = Page(
                *self._shape, self._gradients, self._memo, first=question.x_is_first_point
            )
            self._mark_departed(page, question.round)
        agents = question.agents
        page.asked[agents] = True
        page.points[agents] = question.points
        if not question.x_is_first_point and page.x.base is not None:
            page.x = page.x.copy()
        page.x[agents] = question.x
        if question.memo is not None:
            page.memo[agents] = question.memo
        if page.slopes is not None and question.anchor is not None:
            page.slopes.enter(agents, question.anchor)
        self._last[agents] = question.round

    def _mark_departed(self, page: Page, round: int) -> None:
        if not self._attendance.full:
            page.leave(np.flatnonzero(self._attendance.ends <= round))

    def _compare(self, question: Question) -> None:
        page = self._pages.get(question.round)
        if page is None:
            raise Forgotten("the round lies before the low-water mark")
        agents, anchor = question.agents, question.anchor
        if not page.repeats(question) or (
            page.slopes is not None and anchor is not None and not page.slopes.repeats(agents, anchor)
        ):
            raise AlreadyAsked("this round's question was asked before with other numbers")

    def complete(self, round: int) -> bool:
        """Whether every agent has asked its question of a round."""
        page = self._pages.get(round)
        return page is not None and int(np.count_nonzero(page.asked)) == len(page.asked)

    def values(self, round: int, agents: Agents) -> Values | None:
        """Return the values bought, or None while they are being evaluated."""
        page = self._pages[round]
        if not page.answered[agents].all():
            return None
        tangents = (None, None) if page.slopes is None else page.slopes.of(agents)
        return Values(page.f[agents], page.g[agents], *tangents)

    def fill(self, round: int, agents: Agents, values: Values) -> None:
        """Store the values of a purchase."""
        page = self._pages[round]
        page.f[agents] = values.f
        page.g[agents] = values.g
        if page.slopes is not None:
            page.slopes.fill(agents, values)
        page.answered[agents] = True
        self._answered[agents] = round  # an agent's purchases are answered in order

    def bought(self, agents: Agents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the last round that each of some agents has bought, and the last whose values it has."""
        return self._last[agents], self._answered[agents]

    def settle(self, round: int) -> None:
        """Keep only hashes of large questions about a round that is recorded: a host may still repeat them."""
        if (page := self._pages[round]).question_bytes > LIMITS.chunk_bytes:
            page.settle()

    def forget_before(self, mark: int) -> None:
        """Drop the pages before a round: no host will ask about them again."""
        for old in range(self._forgotten, mark):
            self._pages.pop(old, None)
        self._forgotten = max(self._forgotten, mark)


def _hashes(x: Array, points: Array, memo: Array) -> list[bytes]:
    rows = zip(x, points, memo if memo.size else np.empty((len(x), 0)), strict=True)
    return [
        hashlib.sha256(decision.tobytes() + asked.tobytes() + kept.tobytes()).digest() for decision, asked, kept in rows
    ]
