"""The way of the decisions through a game, and whether it is that of the reference, before agents have left and after.

A host enters a round under the departures that it knows. Those of the end hold for everyone who is not lost: nobody
else has entered a round before it was known who plays it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tests.simulation.games import Departures, Reference, departed, listed

from slaternet.attendance import Attendance
from slaternet.limits import LIMITS
from slaternet.model import Agents, Array, Departure

if TYPE_CHECKING:
    from tests.simulation.world import World

    from slaternet_agent.engine.host import Host


@dataclass(frozen=True)
class Entered:
    """A round that a host has entered."""

    name: str
    round: int
    departures: Departures
    seats: Agents
    x: Array
    rows: Array


class Trajectory:
    """All the rounds that hosts have entered in a world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._entered: list[Entered] = []

    def enter(self, name: str, host: "Host", round: int, x: Array) -> None:
        """Take down that a host enters a round; where nobody has left yet, judge that at once."""
        seats, plan = host._seats, host._plans[round]
        rows = np.zeros((len(seats), host._agents))
        rows[np.repeat(np.arange(len(seats)), np.diff(plan.starts)), plan.columns] = plan.weights
        ends = host._attendance.ends
        departures = listed(Departure(end, np.flatnonzero(ends == end)) for end in host._attendance._steps)
        entered = Entered(name, round, departures, seats, x, rows)
        self._entered.append(entered)
        if not departures and (wrong := self._compare(entered, self._world.reference)):
            self._world.accuse(wrong)

    @staticmethod
    def _compare(entered: Entered, true: Reference) -> str:
        t, seats = entered.round, entered.seats
        if not entered.departures and not np.array_equal(entered.rows, true.weights[t - 1][seats]):
            return f"rows of W_{t} are not those published"
        if entered.x.tobytes() != true.x[t - 1][seats].tobytes():
            return f"a decision of {entered.name} in round {t} is not the reference's"
        return ""

    def verdict(self, rounds: int) -> str:
        """Return what is wrong with the way of a game that is over; empty where nothing is."""
        register, agents = self._world.witness.register, self._world.game.spec.run.agents
        attendance = register.attendance()
        matrices = np.zeros((rounds, agents, agents))
        for each in self._entered:
            t, theirs = each.round, _attendance(agents, each.departures)
            if wrong := self._compare(each, departed(self._world.game.kind, each.departures)):
                return wrong
            if np.array_equal(theirs.players(t), attendance.players(t)):
                if t <= rounds:
                    matrices[t - 1, each.seats] = each.rows
            elif each.name not in register.lost:
                return f"{each.name} has entered round {t}, before which agents have left"
        return next((wrong for t in range(rounds) if (wrong := _unfair(t + 1, matrices[t], attendance))), "")


def _attendance(agents: int, departures: Departures) -> Attendance:
    return Attendance(agents, [Departure(round, np.array(some)) for round, some in departures])


def _unfair(round: int, matrix: Array, attendance: Attendance) -> str:
    """Say whether W_t is not doubly stochastic over those who play."""
    players = attendance.players(round)
    block = matrix[np.ix_(players, players)]
    sums = np.concatenate([block.sum(axis=0), block.sum(axis=1)])
    if (np.abs(sums - 1.0) > LIMITS.stochastic).any() or np.count_nonzero(matrix) != np.count_nonzero(block):
        return f"W_{round} is not doubly stochastic over those who play"
    return ""
