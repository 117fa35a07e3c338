"""Who plays, and who speaks for whom: the seatings of a journal, each of which holds from its record on.

The first begins the game. Another comes where a host was lost: its agents have another host from there on, or leave
the game in a round that nobody who stays has come to. What they have bought in that round or later is void.
"""

import numpy as np
from numpy.typing import NDArray

from slaternet.attendance import FOREVER, Attendance
from slaternet.model import Agents, Departure
from slaternet.spec import Spec
from slaternet_adversary.journal.entries import SeatingEntry
from slaternet_lab.audit.report import AuditCheck

Plain = list[dict[str, object]]


class SeatingCheck:
    """The newest seating of a game."""

    def __init__(self, spec: Spec, check: AuditCheck) -> None:
        self._spec = spec
        self._check = check
        self._epoch = 0
        self._hosts: dict[str, set[int]] = {}
        self._told: list[Plain] = []
        self.attendance = Attendance(spec.run.agents)
        """Who plays when, as far as the journal has said it yet."""

    @property
    def departures(self) -> Plain:
        """Who leaves when, as summary.json says it."""
        return self._told[-1] if self._told else []

    def players(self, round: int) -> Agents:
        """Return the agents that play in a round, ascending."""
        return self.attendance.players(round)

    def strangers(self, host: str, agents: Agents) -> list[int]:
        """Return those of some agents that a host does not speak for."""
        return [agent for agent in agents.tolist() if agent not in self._hosts.get(host, ())]

    def enter(self, record: int, seats: SeatingEntry, played: int) -> None:
        """Take in a seating; rounds up to `played` are complete, which the first one in a journal may be older than."""
        if seats.epoch <= self._epoch:
            what = f"it is seating {seats.epoch}, and seating {self._epoch} came before it"
            self._check.differs(what, record=record)
            return
        played = played if self._epoch else 0
        self._epoch = seats.epoch
        everyone = np.sort(np.concatenate([agents for _, agents in seats.hosts] or [np.empty(0, np.intp)]))
        if not np.array_equal(everyone, np.arange(self._spec.run.agents)):
            self._check.differs("it does not seat every agent of the game at one host", record=record)
        self._hosts = {name: set(agents.tolist()) for name, agents in seats.hosts}
        self._told.append(_plain(seats.departures))
        self._depart(record, seats, played)

    def _depart(self, record: int, seats: SeatingEntry, played: int) -> None:
        leaving = np.concatenate([each.agents for each in seats.departures] or [np.empty(0, np.intp)])
        if not np.isin(leaving, np.arange(self._spec.run.agents)).all() or len(np.unique(leaving)) < len(leaving):
            self._check.differs("it has agents leave that there are not, or one of them twice", record=record)
            return
        before, after = self.attendance.ends, Attendance(self._spec.run.agents, seats.departures)
        if what := _contradiction(before, after.ends, played):
            changed = np.flatnonzero(before != after.ends)
            self._check.differs(what, record=record, agent=int(changed[0]))
        else:
            self.attendance = after

    def compare(self, *, finished: bool) -> None:
        """Compare the departures with those of spec.toml, which may lag behind while the game goes on."""
        due = _plain(self._spec.leaving)
        known = self._told[-1:] if finished else self._told
        if self._told and due not in known:
            what = f"by spec.toml {_words(due)}, and by the journal {_words(self.departures)}"
            self._check.differs(what)


def _contradiction(before: NDArray[np.int64], after: NDArray[np.int64], played: int) -> str:
    """Say why agents that were to leave in some rounds cannot leave in others instead; empty where they can."""
    changed = before != after
    if (before[changed] < FOREVER).any():
        return "it has this agent leave otherwise than an earlier seating did"
    if (after[changed] <= played).any():
        return f"it has this agent leave in round {after[changed].min()}, and everyone has played round {played}"
    if (after < FOREVER).all():
        return "it has everyone leave the game"
    return ""


def _plain(departures: tuple[Departure, ...]) -> Plain:
    return [{"round": each.round, "agents": each.agents.tolist()} for each in departures]


def _words(departures: Plain) -> str:
    return (
        "; ".join(f"agents {each['agents']} leave in round {each['round']}" for each in departures) or "nobody leaves"
    )
