"""How far ahead the graph is published: far enough that no host waits, never beyond what every host can recover.

C   Limits.checkpoint_every
L   Limits.window
M   the low-water mark: no host asks again for what came before it

M         <= last scored round: what a host claims to have finished, others could not rebuild before it is bought
published <= min(slowest finished round, last scored round, M + 2C) + L
"""

from collections.abc import Iterator, Sequence

from slaternet.attendance import Attendance
from slaternet.limits import Limits
from slaternet.model import Agents, Departure, Topology
from slaternet_coordinator.engine.roster import Member, Roster
from slaternet_coordinator.engine.topology import Cutter
from slaternet_coordinator.graphs import Graph


def slowest(players: Sequence[Member]) -> int:
    """Return the last round that every host has finished."""
    return min((host.round for host in players), default=0)


def low_water(players: Sequence[Member], scored: int, limits: Limits) -> int:
    """Return the newest M that is allowed: the last round, if it is scored, from which each host can continue.

    A host that writes checkpoints continues from one of them, any other from the last round it has finished. Where some
    write checkpoints, M is a round of which all of those have one.
    """
    mark = min(scored, min((host.mark if host.durable else host.round for host in players), default=0))
    return mark - mark % limits.checkpoint_every if any(host.durable for host in players) else mark


class Publication:
    """The rounds whose topology is published, and the M that was announced with it."""

    def __init__(self, graph: Graph, agents: int, limits: Limits, *, remembers: bool = False) -> None:
        self._graph = graph
        self._remembers = remembers
        self._agents = agents
        self._limits = limits
        self.depart(())
        self.last = 0
        """The last round that is published."""
        self.low_water = 0
        """M, which only grows."""

    def depart(self, departures: Sequence[Departure]) -> None:
        """Replace all departures that are known."""
        self._attendance = Attendance(self._agents, departures)
        self._cutter = Cutter(self._graph, self._limits, self._attendance, remembers=self._remembers)

    def awaited(self, players: Sequence[Member]) -> Sequence[Member]:
        """Return the hosts that still have a round to play or a checkpoint to write.

        A host whose agents have all departed is awaited until its last checkpoint: it could not restart from a later
        mark.
        """
        if self._attendance.full:
            return players
        every, awaited = self._limits.checkpoint_every, []
        for host in players:
            last = self._attendance.last(host.seats)
            if host.round < last or (host.durable and host.mark < last - last % every):
                awaited.append(host)
        return awaited

    def _enough(self, frontier: int, end: int | None) -> bool:
        """Return whether a quarter of the window, or the last round, is left: few messages, and no host waits."""
        most = frontier if end is None else min(frontier, end)
        return most > self.last and (most - self.last >= self._limits.window // 4 or most == end)

    def extend(self, roster: Roster, scored: int, end: int | None) -> list[tuple[str, Topology]]:
        """Publish further rounds of a game that ends with `end`; return each host's name with its topology.

        Nothing is published where too few rounds would be. BadSpec or PluginFailed where the graph is not valid.
        """
        limits = self._limits
        if not self._enough(scored + limits.window, end):  # as at most reports: how far the hosts are does not matter
            return []
        players = roster.players
        awaited = self.awaited(players)
        mark = max(self.low_water, low_water(awaited, scored, limits))
        frontier = min(slowest(awaited), scored, mark + 2 * limits.checkpoint_every) + limits.window
        if not self._enough(frontier, end):
            return []
        frontier = frontier if end is None else min(frontier, end)
        self.low_water = mark
        published = list(self._cut(self.last + 1, frontier, players))
        self.last = frontier
        return published

    def owed_to(self, seats: Agents, round: int) -> Agents:
        """Return the agents whose rows are sent to some agents, or are theirs, in a round that is published."""
        return self._cutter.owed_to(seats, round)

    def since(self, have: int, players: Sequence[Member]) -> Iterator[tuple[str, Topology]]:
        """Yield what is published after the round `have`: each host's name with its topology, batch by batch."""
        return self._cut(have + 1, self.last, players)

    def _cut(self, first: int, last: int, players: Sequence[Member]) -> Iterator[tuple[str, Topology]]:
        names, seats = [host.name for host in players], [host.seats for host in players]
        for batch in self._cutter.cut(first, last, seats, self.low_water):
            yield from zip(names, batch, strict=True)
