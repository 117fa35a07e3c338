"""The seatings of a game: a host that does not return is given up, another takes its seats, and agents may depart.

Under a policy other than `wait`, a host that has been away for too long is lost: its name is never admitted again. The
others hold until all have reported the last round they have entered. Then there is a new seating, and all continue the
game after M, the low-water mark:

replace   the adopter plays the agents of the lost host to the end
leave     it plays them through round E - 1 and drops them: no host has entered E, where the game goes on without them

The last host that could play on is never given up, however long it is away.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from slaternet.attendance import FOREVER, Attendance
from slaternet.errors import BadSpec, Mismatch
from slaternet.model import Agents, Departure, Join, Role
from slaternet_coordinator.engine.game_state import GameState
from slaternet_coordinator.engine.roster import Member
from slaternet_coordinator.engine.rules import Policy
from slaternet_coordinator.engine.status import listed


@dataclass(frozen=True, slots=True)
class Adoption:
    """A host takes over the agents of lost hosts."""

    lost: tuple[str, ...]
    adopter: str
    departure: int | None  # E; None: the agents stay in the game

    def __str__(self) -> str:
        verb, their = ("is", "its") if len(self.lost) == 1 else ("are", "their")
        what = f"{listed(self.lost)} {verb} lost: {self.adopter} plays {their} agents"
        if self.departure is None:
            return f"{what} from now on"
        return f"{what} through round {self.departure - 1}, then they depart"


class Reseating:
    """The rules by which hosts are given up and their seats go to another host."""

    def __init__(self, state: GameState) -> None:
        self._state = state
        self._roster = state.roster
        self._policy = state.rules.policy

    def check_join(self, name: str, join: Join) -> None:
        """Refuse a host that writes no checkpoints where all must be able to go back to the low-water mark."""
        if self._policy is not Policy.WAIT and join.role is Role.HOST and not join.durable:
            raise Mismatch(
                f"{name} keeps nothing, but under --policy {self._policy} hosts must be able to go back to an earlier "
                "round; start it with --state DIR"
            )

    def check_players(self) -> None:
        """Refuse to continue with hosts that have joined under another policy and write no checkpoints."""
        for host in self._roster.players:
            if self._policy is not Policy.WAIT and not host.durable:
                raise BadSpec(
                    f"{host.name} plays without --state, so it could not go back to an earlier round; start the "
                    f"coordinator with --policy {Policy.WAIT}"
                )

    def lose(self, member: Member) -> bool:
        """Give up a host that is away, if the policy allows it and another host could play on; return whether."""
        if self._policy is Policy.WAIT or member.role is not Role.HOST:
            return False
        away = not member.connected or bool(member.shut_out)
        if not member.plays or member.lost or not away or self.adopter is None:
            return False
        member.lost = True
        return True

    @property
    def adopter(self) -> Member | None:
        """The host that takes the seats of lost hosts: a spare if there is one, else the one with the fewest seats."""
        spares = () if self._state.rules.together else self._roster.spares
        candidates = [each for each in self._roster.hosts if each.plays or each.name in spares]
        there = [each for each in candidates if each.connected and not each.lost and not each.shut_out]
        return min(there, key=lambda each: (len(each.seats), each.name), default=None)

    @property
    def hopeless(self) -> bool:
        """Whether no host is left that could play: all are shut out, and no other may take their seats."""
        spares = set() if self._policy is Policy.WAIT or self._state.rules.together else self._roster.spares
        able = (each for each in self._roster.hosts if each.plays or each.name in spares)
        return not any(not each.lost and not each.shut_out for each in able)

    def reseat(self, first: int | None) -> Adoption | None:
        """Give the seats of lost hosts to the adopter; None where there is none.

        `first`: the first round that no host has entered; None where the game has no such round.
        """
        adopter, lost = self.adopter, self._roster.lost_with_seats
        if adopter is None:
            return None
        leaving = np.concatenate([host.seats for host in lost])
        departs = self._policy is Policy.LEAVE and first is not None and self._depart(first, leaving)
        adopter.seats = np.union1d(adopter.seats, leaving)
        for host in lost:
            host.seats = host.seats[:0]
        self._state.epoch += 1
        return Adoption(tuple(host.name for host in lost), adopter.name, first if departs else None)

    def _depart(self, round: int, agents: Agents) -> bool:
        """Let agents depart before a round, if any of them plays it and so do others; return whether."""
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
    """Return the last round that any host has entered; a host that has not reported counts as `silent`.

    None while that is not known; at least 1, so that the game has a round to summarise.
    """
    entered = [silent if host.holding is None else host.holding for host in hosts]
    known = [round for round in entered if round is not None]
    return max([1, *known]) if len(known) == len(entered) else None
