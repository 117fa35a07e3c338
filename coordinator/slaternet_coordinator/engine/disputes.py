"""Disputes: a host has received two different rows of one agent and round, or one that lies outside of its set.

Rows follow from the adversary's journal. So a host that is not involved, the judge, rebuilds them, and the coordinator
rules for what the judge has found. The host that sent the rows is asked to state them; if it states others than the
judge, it is shut out. That a host was accused has no consequence but the judgement. Where nobody can judge, the rows
that came first are used, and the game is disturbed: they may be the false ones.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from slaternet import model, tickets
from slaternet.errors import NotYours
from slaternet.limits import Limits
from slaternet.model import Array
from slaternet_coordinator.engine import events
from slaternet_coordinator.engine.game_state import GameState
from slaternet_coordinator.engine.roster import Member
from slaternet_coordinator.engine.status import listed

ShutOut = Callable[[Member, str, str, str], list[events.Effect]]
"""Ends the part of a member; takes the kind of the incident, its sentence and its evidence."""


@dataclass(slots=True, eq=False)
class Case:
    """A dispute that is not closed."""

    number: int
    round: int
    agents: model.Agents
    host: str  # that sent the rows
    received: str  # a hash of the rows as the first accuser has them
    accusers: list[str]
    judges: list[str] = field(default_factory=list)  # all that were asked, the newest last
    rebuilt: Array | None = None  # by the judge; width 0: no host can
    stated: Array | None = None  # by the host that sent them

    def is_about(self, round: int, agents: model.Agents) -> bool:
        """Return whether the case is about these rows."""
        return self.round == round and np.array_equal(self.agents, agents)

    @property
    def ruling(self) -> model.DisputedRows | None:
        """The rows to use; None before the judge has answered."""
        return None if self.rebuilt is None else model.DisputedRows(self.round, self.agents, self.rebuilt)

    @property
    def evidence(self) -> str:
        """Hashes of the rows as each of those involved has them."""
        rows = {"rebuilt": self.rebuilt, "stated": self.stated}
        others = (f"{name} {_hash(each)}" for name, each in rows.items() if each is not None)
        return ", ".join((f"received {self.received}", *others))


class Disputes:
    """The disputes of one seating."""

    def __init__(self, state: GameState, limits: Limits, shut_out: ShutOut) -> None:
        self._state = state
        self._roster = state.roster
        self._limits = limits
        self._shut_out = shut_out
        self._cases: list[Case] = []
        self._number = 0

    def clear(self) -> None:
        """Drop all cases: in a new seating all rows are sent again."""
        self._cases.clear()

    def open(self, accuser: Member, dispute: model.Dispute) -> list[events.Effect]:
        """Begin a case, or add a host to one; a host that complains too often is told to keep what came first."""
        accused = self._roster.get(dispute.host)
        if accused is None or accused is accuser or not np.isin(dispute.agents, accused.seats).all():
            raise NotYours("a host disputes rows of agents that are seated at the host that sent them")
        if not np.isin(dispute.agents, self._state.publication.owed_to(accuser.seats, dispute.round)).all():
            raise NotYours("a host disputes rows that it is owed: the ruling would tell it others'")
        about = (case for case in self._cases if case.is_about(dispute.round, dispute.agents))
        if (case := next(about, None)) is not None:
            if accuser.name not in case.accusers:
                case.accusers.append(accuser.name)
            return [] if case.ruling is None else [events.Tell(accuser.name, case.ruling)]
        accuser.complaints += 1
        if accuser.complaints > self._limits.complaints:
            what = f"{accuser.name} disputes too many rows: those that came first are used"
            marked = [] if self._state.disturbed else self._disturb(accuser.name, what)
            return [*marked, events.Tell(accuser.name, _undecided(dispute.round, dispute.agents))]
        self._number += 1
        received = _hash(dispute.rows)
        case = Case(self._number, dispute.round, dispute.agents, accused.name, received, [accuser.name])
        self._cases.append(case)
        what = f"{accuser.name} disputes rows of {_agents(case)} in round {case.round}"
        announce = events.Announce(accused.name, "dispute", f"{what} that {accused.name} has sent", case.evidence)
        asked = events.Tell(accused.name, model.RowRequest(case.round, case.agents))
        return [announce, asked, *self._ask_judge(case)]

    def record(self, accuser: Member, accusation: model.Accusation) -> list[events.Effect]:
        """Record what one host says of another, which has no other consequence."""
        accuser.complaints += 1
        if accusation.host not in self._roster or accuser.complaints > self._limits.complaints:
            return []
        return [events.Announce(accusation.host, "accused", f"{accuser.name} says: {accusation.what}")]

    def disturb(self, member: Member, disturbed: model.Disturbed) -> list[events.Effect]:
        """Record that decisions of a host do not follow from the rules, and stay; of each host once."""
        if member.disturbed:
            return []
        member.disturbed = True
        agents = listed(map(str, disturbed.agents))
        what = f"{member.name} cannot play round {disturbed.round} as the rules say, for {agents}"
        return self._disturb(member.name, f"{what}: its decisions stay as they were asked")

    def _disturb(self, process: str, what: str) -> list[events.Effect]:
        """Mark the game: its digest need not be that of a simulation."""
        announce = events.Announce(process, model.DISTURBED, f"{what}, and the game is disturbed")
        if self._state.disturbed:
            return [announce]
        self._state.disturbed = True
        return [events.Keep(self._state.saved()), announce]

    def ask_judges(self) -> list[events.Effect]:
        """Ask for judgements that had to wait until the journal holds all that the rows follow from."""
        return [effect for case in tuple(self._cases) if not case.judges for effect in self._ask_judge(case)]

    def asked(self, name: str) -> Iterator[events.Effect]:
        """Return what a host that has reconnected must be asked again."""
        for case in self._cases:
            if case.host == name and case.stated is None:
                yield events.Tell(name, model.RowRequest(case.round, case.agents))

    def answer(self, member: Member, rows: model.DisputedRows) -> list[events.Effect]:
        """Take the rows that a host states or has rebuilt."""
        about = (case for case in self._cases if case.is_about(rows.round, rows.agents))
        if (case := next(about, None)) is None:
            return []  # it is closed
        if member.name == case.host:
            case.stated = rows.rows
            return self._close_if_settled(case)
        if case.rebuilt is not None or [member.name] != case.judges[-1:]:
            return []
        if not rows.rows.shape[1]:
            return self._ask_judge(case)
        return self._rule(case, rows.rows)

    def replace_judge(self, name: str, number: int | None = None) -> list[events.Effect]:
        """Ask another host in the place of a judge that has gone; with a number, in that case alone."""
        effects: list[events.Effect] = []
        for case in tuple(self._cases):
            waits = case.rebuilt is None and case.judges[-1:] == [name]
            if waits and number in (None, case.number):
                effects += self._ask_judge(case)
        return effects

    def _ask_judge(self, case: Case) -> list[events.Effect]:
        """Ask the next host that is not involved to rebuild the rows; where nobody can, what came first is kept.

        Hosts whose arithmetic differs cannot judge each other.
        """
        if case.rebuilt is not None:
            return []
        able = {host.name for host in self._roster.survivors if host.connected and not host.shut_out}
        able -= {case.host, *case.judges}
        # two hosts that dispute the same rows are right, unless both are hostile: then each may judge
        accusers = set(case.accusers) & able if len(case.accusers) > 1 else set()
        judges = sorted(able.difference(case.accusers)) or sorted(accusers)
        adversary = self._roster.adversary
        rules = self._state.rules
        if not judges or adversary is None or rules.together or not rules.reproducible:
            what = f"no host can tell which rows of {_agents(case)} in round {case.round} are right"
            first = _undecided(case.round, case.agents).rows
            return [*self._disturb(case.host, f"{what}: those that came first are used"), *self._rule(case, first)]
        if self._state.score.round < case.round - 1:
            return []  # the journal does not hold yet what the rows follow from
        judge = judges[0]
        case.judges.append(judge)
        ticket = tickets.recall_ticket(self._roster.ticket(adversary), judge, case.round, case.agents)
        return [
            events.Tell(judge, model.RowRequest(case.round, case.agents, ticket)),
            events.SetTimer(self._limits.farewell_seconds, events.JudgeExpired(case.number, judge)),
        ]

    def _rule(self, case: Case, rows: Array) -> list[events.Effect]:
        case.rebuilt = rows
        ruling = model.DisputedRows(case.round, case.agents, rows)
        told: list[events.Effect] = [events.Tell(name, ruling) for name in case.accusers]
        return told + self._close_if_settled(case)

    def _close_if_settled(self, case: Case) -> list[events.Effect]:
        """Compare what was stated with what was rebuilt, once both are known; a width of 0 says nothing."""
        if case.stated is None or case.rebuilt is None:
            return []
        self._cases.remove(case)
        if not case.stated.shape[1] or not case.rebuilt.shape[1] or case.stated.tobytes() == case.rebuilt.tobytes():
            return []
        what = f"{case.host} states other rows of {_agents(case)} in round {case.round} than follow from the journal"
        return self._shut_out(self._roster[case.host], "false-rows", what, case.evidence)


def _undecided(round: int, agents: model.Agents) -> model.DisputedRows:
    """Return the ruling to keep what came first."""
    return model.DisputedRows(round, agents, np.empty((len(agents), 0)))


def _agents(case: Case) -> str:
    return f"agent{'s' if len(case.agents) > 1 else ''} {listed(map(str, case.agents))}"


def _hash(rows: Array) -> str:
    return hashlib.sha256(rows.tobytes()).hexdigest()[:16] if rows.shape[1] else "unknown"
