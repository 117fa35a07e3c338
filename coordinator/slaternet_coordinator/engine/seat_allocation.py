"""The seats of a game: which wishes of hosts are granted, and which agents each host then gets.

Wishes are looked at in the order of joining. A host that finds every seat taken is a spare; one whose wish can never be
granted is told why.
"""

import numpy as np

from slaternet.model import Agents
from slaternet.spec.seat_request import SeatRequest


class SeatAllocation:
    """What was asked for and can be had; with a number of `hosts`, only as many get seats."""

    def __init__(self, agents: int, hosts: int | None) -> None:
        self._agents = agents
        self._hosts = hosts
        self._left = agents  # for those who share
        self._granted: dict[str, SeatRequest] = {}
        self._sharing: list[str] = []
        self._owners: dict[int, str] = {}  # of agents that were asked for by their ids

    @property
    def full(self) -> bool:
        """Whether every seat is taken, so that a host that joins now is a spare."""
        return self._left == 0 or len(self._granted) == self._hosts

    @property
    def settled(self) -> bool:
        """Whether nobody who may still come could change who sits where."""
        return self._hosts is not None or self._left == 0

    @property
    def seated(self) -> list[str]:
        """Who will have seats: of those who share, the last to join are spares where too few agents are left."""
        spare = set(self._sharing[self._left :])
        return [name for name in self._granted if name not in spare]

    def offer(self, name: str, wish: SeatRequest) -> None:
        """Grant a wish if it can be granted."""
        if self.full or self.objection(name, wish):
            return
        self._granted[name] = wish
        self._left -= wish.count
        self._owners.update(dict.fromkeys(wish.agents.tolist(), name))
        if not wish.count:
            self._sharing.append(name)

    def objection(self, name: str, wish: SeatRequest) -> str:
        """Say why a wish cannot be granted while there are seats; empty where it can."""
        if wish.agents.size and wish.agents[-1] >= self._agents:
            return (
                f"{name} asks for agent {wish.agents[-1]}, but the agents of this game are 0 to {self._agents - 1}; "
                "correct its --seats"
            )
        for agent in wish.agents.tolist():
            if agent in self._owners:
                return (
                    f"{name} asks for agent {agent}, but {self._owners[agent]} has asked for it already; "
                    "give one of the two other --seats"
                )
        left = self._left - wish.count
        if left < 0:
            taken = self._agents - left
            return (
                f"{name} asks for {wish.count} seats, but with it {taken} of {self._agents} would be taken; "
                f"ask for at most {self._left}"
            )
        return self._imbalance(name, wish, left)

    def _imbalance(self, name: str, wish: SeatRequest, left: int) -> str:
        """Say that the hosts still to come could not share the agents still left."""
        if self._hosts is None:
            return ""
        asking = len(self._granted) - len(self._sharing) + bool(wish.count)
        sharing = self._hosts - asking
        if left < sharing or (left and not sharing):
            return (
                f"with {name} asking for {f'{wish.count} seats' if wish.count else 'an even share'}, {left} of "
                f"{self._agents} agents are left for {sharing} hosts; every agent needs a host and every host an agent"
            )
        return ""

    def missing(self) -> str:
        """Say what must still be asked for before the seats can be shared out; empty where nothing must."""
        if self._hosts is not None:
            lacking = self._hosts - len(self._granted)
            return f"{lacking} of {self._hosts} agent hosts" if lacking else ""
        if self._left == 0 or self._sharing:
            return ""
        return f"agent hosts for {self._left} of {self._agents} seats"

    def shared(self) -> dict[str, Agents]:
        """Return who gets which agents: those asked for; the others in ascending order, as hosts have joined."""
        free = np.setdiff1d(np.arange(self._agents), np.fromiter(self._owners, np.intp, len(self._owners)))
        sharing = self._sharing[: self._left]
        share, extra = divmod(self._left, len(sharing)) if sharing else (0, 0)
        shares = {name: share + (place < extra) for place, name in enumerate(sharing)}
        given: dict[str, Agents] = {}
        for name in self.seated:
            wish = self._granted[name]
            count = wish.count or shares[name]
            if wish.agents.size:
                given[name] = wish.agents
            else:
                given[name], free = free[:count], free[count:]
        return given
