"""Who bought what: one purchase per agent and round, in order, within the window, the set and what the game grants."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slaternet.attendance import FOREVER
from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array, Question, Values
from slaternet.spec import Spec
from slaternet_adversary.journal.entries import Purchase
from slaternet_adversary.journal.query import merge_purchases
from slaternet_lab.audit.report import AuditCheck
from slaternet_lab.audit.seating import SeatingCheck


@dataclass(slots=True)
class Sheet:
    """All that the journal has of one round."""

    decided: NDArray[np.bool_]  # (n,)
    x: Array  # (n, p)
    purchases: list[tuple[int, Purchase]] = field(default_factory=list)
    """Each with the number of its record."""

    @classmethod
    def blank(cls, spec: Spec) -> "Sheet":
        """Return the sheet of a round in which nobody has decided."""
        n, p = spec.run.agents, spec.run.dimension
        return cls(np.zeros(n, dtype=bool), np.full((n, p), np.nan))

    def enter(self, record: int, purchase: Purchase) -> None:
        """Write a purchase down."""
        question = purchase.asked.question
        self.purchases.append((record, purchase))
        self.decided[question.agents] = True
        self.x[question.agents] = question.x

    def of(self, players: Agents) -> "Sheet":
        """Return what those have bought who play the round."""
        sheet = Sheet(np.zeros_like(self.decided), np.full_like(self.x, np.nan))
        for record, purchase in self.purchases:
            if np.isin(purchase.asked.question.agents, players).all():  # a host that is lost leaves with all its agents
                sheet.enter(record, purchase)
        return sheet

    @property
    def decisions(self) -> Array:
        """The decisions of those who have made one, in their order."""
        x: Array = self.x[self.decided]
        return x

    def seen(self) -> Values:
        """Return what all agents together were told, in their order; they asked for things of the same shape."""
        _, answer = merge_purchases([each for _, each in self.purchases])
        return answer.values


class Budgets:
    """What every agent has bought so far, and whether it might."""

    def __init__(self, spec: Spec, seating: SeatingCheck, check: AuditCheck) -> None:
        if spec.feedback is None:
            raise BadSpec("spec.toml lacks [feedback]: it is not the resolved spec of a run; put that back")
        self._spec = spec
        self._granted = spec.feedback
        self._set = spec.feasible_set()
        self._seating = seating
        self._check = check
        self._last = np.zeros(spec.run.agents, dtype=np.int64)
        self._constraints: int | None = None
        self.lacking: int | None = None
        """The first round of which a purchase is missing."""
        self._beyond: list[tuple[int, int, Agents]] = []
        """Purchases after the last round: record, round and agents."""

    def begin_after(self, round: int) -> None:
        """Take it that everyone has bought up to a round."""
        self._last.fill(round)

    def admit(self, record: int, purchase: Purchase) -> bool:
        """Check a purchase; say whether it counts as its agents' purchase of the round."""
        question = purchase.asked.question
        agents, round = question.agents, question.round
        self._check.count += len(agents)
        if what := self._misshapen(purchase):
            self._check.differs(what, record=record, round=round)
            return False
        ends = self._seating.attendance.ends
        if left := agents[ends[agents] <= round].tolist():
            what = f"it buys here, and has left the game in round {ends[left[0]]}"
            self._check.differs(what, record=record, round=round, agent=left[0])
            return False
        last = self._last[agents]
        if twice := agents[last >= round].tolist():
            self._check.differs("it buys a second time in this round", record=record, round=round, agent=twice[0])
            return False
        slowest = int(self._last[self._last < ends - 1].min(initial=FOREVER))
        if gone := agents[last < round - 1].tolist():
            missing = int(last.min()) + 1
            what = f"it buys here, and its purchase of round {missing} is missing" + _others(len(gone) - 1)
            self._check.differs(what, record=record, round=round, agent=gone[0])
            self.lacking = min(missing, self.lacking or missing)
        self._last[agents] = round
        if round > (self._spec.run.rounds or round):
            self._beyond.append((record, round, agents))
        for agent, what in self._breaches(purchase, slowest):
            self._check.differs(what, record=record, round=round, agent=agent)
        return True

    def _misshapen(self, purchase: Purchase) -> str:
        """Return why nothing can be made of a purchase; empty where it can."""
        question, values = purchase.asked.question, purchase.values
        agents = question.agents
        if not len(agents) or agents[0] < 0 or agents[-1] >= len(self._last) or (np.diff(agents) <= 0).any():
            return "it is not for agents of the game in ascending order"
        if question.x.shape[1] != self._spec.run.dimension:
            return f"its points have {question.x.shape[1]} coordinates, those of the game {self._spec.run.dimension}"
        if question.round < 1:
            return "there is no such round"
        if self._constraints is None:
            self._constraints = values.g.shape[2]
        if values.g.shape[2] != self._constraints:
            return f"it bought {values.g.shape[2]} constraints per agent, others {self._constraints}"
        if not all(np.isfinite(array).all() for array in numbers(values)):
            return "it bought a value that is not finite"
        return ""

    def _breaches(self, purchase: Purchase, slowest: int) -> Iterator[tuple[int | None, str]]:
        """Yield which agent has done what it might not; no agent where it is the host that asks for all."""
        question, host = purchase.asked.question, purchase.asked.host
        if strangers := self._seating.strangers(host, question.agents):
            yield strangers[0], f"it is not seated at {host}, which asks for it"
        if question.points.shape[1] > self._granted.points:
            yield None, f"{host} buys {question.points.shape[1]} points per agent, granted are {self._granted.points}"
        for name in ("loss_gradient", "constraint_gradient"):
            if getattr(question, name) > getattr(self._granted, name):
                yield None, f"{host} buys a {name.replace('_', ' ')}, and none is granted"
        if question.round > slowest + 1 + LIMITS.window:
            yield None, f"it runs more than {LIMITS.window} rounds ahead of the slowest, who has bought round {slowest}"
        yield from self._strays(question)

    def finish(self) -> None:
        """Name the purchases after the last round; void are those of agents that have left before."""
        for record, round, agents in self._beyond:
            if self._seating.attendance.of(agents, round).size:
                self._check.differs(f"the game has {self._spec.run.rounds} rounds", record=record, round=round)

    def _strays(self, question: Question) -> Iterator[tuple[int, str]]:
        """Yield the agents that decide or ask outside the feasible set."""
        anchor = question.x if question.anchor is None else question.anchor
        places = np.concatenate((question.x[:, None], question.points, anchor[:, None]), axis=1)
        if self._set.encloses(places):
            return
        for agent in question.agents[~self._set.contains(places, LIMITS.tolerance).all(axis=1)].tolist():
            yield agent, "its decision or a point of its lies outside the feasible set"


def _others(count: int) -> str:
    return f", and those of {count} more agents with it" if count else ""


def numbers(values: Values) -> list[Array]:
    """Return all that was bought: f, g, and of the tangents value and gradient."""
    tangents = [each for each in (values.loss, values.constraint) if each is not None]
    return [values.f, values.g, *(part for each in tangents for part in (each.value, each.gradient))]
