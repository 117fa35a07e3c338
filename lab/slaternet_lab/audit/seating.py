"""Which agents play, and at which host: the seatings of a journal, each of which holds from its record on.

The first begins the game. Another one follows where a host was lost: its agents move to another host, or leave the game
in a round that no remaining agent has entered. What they have bought in that round or later is void.
"""

from collections.abc import Sequence

import numpy as np

from slaternet.attendance import FOREVER, Attendance
from slaternet.errors import BadSpec
from slaternet.model import Agents, Departure
from slaternet.spec import Spec
from slaternet_adversary.journal.entries import SeatingEntry
from slaternet_lab.audit.report import AuditCheck


class SeatingCheck:
    """The newest seating of a game. The referee believes the coordinator, so the rules of seatings are checked here."""

    def __init__(self, spec: Spec, check: AuditCheck) -> None:
        self._spec = spec
        self._check = check
        self._known: list[str] = []
        """The departures of all seatings so far, in words."""
        self.seats = SeatingEntry((), epoch=0)
        self.hosts: dict[str, Agents] = {}
        self.attendance = Attendance(spec.run.agents)

    def enter(self, record: int, seats: SeatingEntry, played: int) -> None:
        """Check a seating; rounds up to `played` are complete, and the first one of a cut journal may be older."""
        if seats.epoch <= self.seats.epoch:
            what = f"it is seating {seats.epoch}, and seating {self.seats.epoch} came before it"
            self._check.end_replay(what, record=record)
        everyone = sorted(agent for _, agents in seats.hosts for agent in agents.tolist())
        if everyone != list(range(self._spec.run.agents)):
            self._check.end_replay("it does not seat every agent of the game at one host", record=record)
        try:
            self._spec.departing(seats.departures)
        except BadSpec as error:
            self._check.end_replay(f"its {str(error).removeprefix('spec: ')}", record=record)
        before, attendance = self.attendance.ends, Attendance(self._spec.run.agents, seats.departures)
        changed = np.flatnonzero(before != attendance.ends)
        for agent, old, new in zip(changed, before[changed], attendance.ends[changed], strict=True):
            if old < FOREVER:
                what = "it has this agent leave otherwise than an earlier seating did"
                self._check.end_replay(what, record=record, agent=int(agent))
            if self.seats.epoch and new <= played:
                what = f"it has this agent leave in round {new}, and everyone has played round {played}"
                self._check.end_replay(what, record=record, agent=int(agent))
        self.seats, self.hosts, self.attendance = seats, dict(seats.hosts), attendance
        self._known.append(_words(seats.departures))

    def compare(self, *, finished: bool) -> None:
        """Compare the departures with those of spec.toml, which may lag behind while the game goes on."""
        due = _words(self._spec.leaving)
        if self._known and due not in (self._known[-1:] if finished else self._known):
            self._check.differs(f"by spec.toml {due}, and by the journal {self._known[-1]}")


def _words(departures: Sequence[Departure]) -> str:
    words = (f"agents {each.agents.tolist()} leave in round {each.round}" for each in departures)
    return "; ".join(words) or "nobody leaves"
