"""The seatings of a game: a host that never comes back is given up, another takes its seats, and agents may depart.

Under a policy other than `wait` a host that has been away for too long is lost: its name is never let in again. The
others hold until all have said which round they have entered last. Then there is a new seating, and everyone takes the
game up again after M, the low-water mark:

replace   the adopter plays the agents of the lost host to the end
leave     it plays them through round E - 1 and drops them: nobody has entered E, where the game goes on without them

The last host that could play on is never given up, however long it is away.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from slaternet.attendance import FOREVER, Attendance
from slaternet.errors import BadSpec, Mismatch
from slaternet.model import Agents, Departure, Join, Role, Seating, Standby
from slaternet_coordinator.engine.game_state import GameState
from slaternet_coordinator.engine.roster import Member
from slaternet_coordinator.engine.rules import Policy
from slaternet_coordinator.engine.status import listed


@dataclass(frozen=True, slots=True)
class Adoption:
    """How the agents of lost hosts have found another."""

    lost: tuple[str, ...]
    adopter: str
    departure: int | None
    """E; None: they stay in the game."""

    def __str__(self) -> str:
        verb, their = ("is", "its") if len(self.lost) == 1 else ("are", "their")
        what = f"{listed(self.lost)} {verb} lost: {self.adopter} plays {their} agents"
        if self.departure is None:
            return f"{what} from now on"
        return f"{what} through round {self.departure - 1}, then they depart"


class Reseating:
    """The rules by which seats are given, taken away and given to another host."""

    def __init__(self, state: GameState) -> None:
        self._state = state
        self._register = state.register
        self._policy = state.rules.policy

    def begin(self) -> None:
        """Share out the seats."""
        self._register.begin()
        self._state.epoch = 1

    def check(self, name: str, join: Join) -> None:
        """Refuse a host that keeps nothing, where all must be able to go back to the low-water mark."""
        if self._policy is not Policy.WAIT and join.role is Role.HOST and not join.durable:
            raise Mismatch(
                f"{name} keeps nothing, but under --policy {self._policy} hosts must be able to go back to an earlier "
                "round; start it with --state DIR"
            )

    def check_players(self) -> None:
        """Refuse to go on with hosts that have joined under another policy and keep nothing."""
        if self._policy is Policy.WAIT:
            return
        for host in self._register.players:
            if not host.durable:
                raise BadSpec(
                    f"{host.name} plays without --state, so it could not go back to an earlier round; start the "
                    f"coordinator with --policy {Policy.WAIT}"
                )

    def place(self, member: Member, low_water: int) -> Seating | Standby:
        """Return where a process sits, or that there is no seat for it."""
        if not member.plays:
            return Standby()
        recall = self._policy is not Policy.WAIT
        return self._register.seating(member, self._state.departures, low_water, recall=recall)

    def lose(self, member: Member) -> bool:
        """Give up a host that is away, if that may be and another could play on; tell whether it was given up."""
        if self._policy is Policy.WAIT or member.role is not Role.HOST:
            return False
        if not member.plays or member.lost or member.connected or self.adopter is None:
            return False
        member.lost = True
        return True

    @property
    def adopter(self) -> Member | None:
        """Who takes the seats of those who are lost: a spare if there is one, else who has the fewest to play."""
        spares = () if self._state.rules.together else self._register.spares
        candidates = [each for each in self._register.hosts if each.plays or each.name in spares]
        there = [each for each in candidates if each.connected and not each.lost]
        return min(there, key=lambda each: (len(each.seats), each.name), default=None)

    def seat_anew(self, first: int | None) -> Adoption | None:
        """Give the seats of those who are lost to the adopter; None: there is none.

        `first`: the round before which the game can be left; None: there is no such round any more.
        """
        adopter, lost = self.adopter, self._register.orphaned
        if adopter is None:
            return None
        leaving = np.concatenate([host.seats for host in lost])
        departs = self._policy is Policy.LEAVE and first is not None and self._depart(first, leaving)
        self._register.reseat(adopter)
        self._state.epoch += 1
        return Adoption(tuple(host.name for host in lost), adopter.name, first if departs else None)

    def _depart(self, round: int, agents: Agents) -> bool:
        """Let agents leave the game before a round, if any of them plays it and others do, too."""
        attendance = Attendance(self._state.rules.agents, self._state.departures)
        leaving = attendance.of(agents, round)
        if not leaving.size or leaving.size == attendance.players(round).size:
            return False
        ends = attendance.ends
        ends[leaving] = round
        last = np.unique(ends[ends < FOREVER])
        self._state.departures = tuple(Departure(int(end), np.flatnonzero(ends == end)) for end in last)
        self._state.departed = True
        return True


def furthest(hosts: Iterable[Member], silent: int | None = None) -> int | None:
    """Return the last round that any host has entered, one that has not said counting as `silent`.

    None while that is not known; at least 1, so that there is something to sum up.
    """
    entered = [silent if host.holding is None else host.holding for host in hosts]
    known = [round for round in entered if round is not None]
    return max([1, *known]) if len(known) == len(entered) else None
