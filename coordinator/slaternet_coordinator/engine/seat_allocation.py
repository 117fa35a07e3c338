"""The seats of a game: which requests of hosts are granted, and which agents each host then gets.

Requests are handled in the order of joining. A host that finds every seat taken is a spare; one whose request can never
be granted is refused with the reason.
"""

import numpy as np

from slaternet.model import Agents
from slaternet.spec.seat_request import SeatRequest


class SeatAllocation:
    """The requests that are granted; with a number of `hosts`, only as many get seats."""

    def __init__(self, agents: int, hosts: int | None) -> None:
        self._agents = agents
        self._hosts = hosts
        self._left = agents  # for the hosts that share
        self._granted: dict[str, SeatRequest] = {}
        self._sharing: list[str] = []
        self._owners: dict[int, str] = {}  # of agents that were requested by their ids

    @property
    def full(self) -> bool:
        """Whether every seat is taken, so that a host that joins now is a spare."""
        return self._left == 0 or len(self._granted) == self._hosts

    @property
    def settled(self) -> bool:
        """Whether hosts that join later cannot change the seats."""
        return self._hosts is not None or self._left == 0

    @property
    def seated(self) -> list[str]:
        """The hosts that will have seats: of those that share, the last are spares where too few agents are left."""
        spare = set(self._sharing[self._left :])
        return [name for name in self._granted if name not in spare]

    def offer(self, name: str, request: SeatRequest) -> None:
        """Grant a request if it can be granted."""
        if self.full or self.objection(name, request):
            return
        self._granted[name] = request
        self._left -= request.count
        self._owners.update(dict.fromkeys(request.agents.tolist(), name))
        if not request.count:
            self._sharing.append(name)

    def objection(self, name: str, request: SeatRequest) -> str:
        """Return why a request cannot be granted while there are seats; empty where it can."""
        if request.agents.size and request.agents[-1] >= self._agents:
            return (
                f"{name} asks for agent {request.agents[-1]}, but the agents of this game are 0 to {self._agents - 1}; "
                "correct its --seats"
            )
        for agent in request.agents.tolist():
            if agent in self._owners:
                return (
                    f"{name} asks for agent {agent}, but {self._owners[agent]} has asked for it already; "
                    "give one of the two other --seats"
                )
        left = self._left - request.count
        if left < 0:
            taken = self._agents - left
            return (
                f"{name} asks for {request.count} seats, but with it {taken} of {self._agents} would be taken; "
                f"ask for at most {self._left}"
            )
        return self._imbalance(name, request, left)

    def _imbalance(self, name: str, request: SeatRequest, left: int) -> str:
        """Return why the hosts that are still to join cannot share the agents that are left; empty where they can."""
        if self._hosts is None:
            return ""
        asking = len(self._granted) - len(self._sharing) + bool(request.count)
        sharing = self._hosts - asking
        if left < sharing or (left and not sharing):
            return (
                f"with {name} asking for {f'{request.count} seats' if request.count else 'an even share'}, {left} of "
                f"{self._agents} agents are left for {sharing} hosts; every agent needs a host and every host an agent"
            )
        return ""

    def missing(self) -> str:
        """Return what must still be requested before the seats can be assigned; empty where nothing must."""
        if self._hosts is not None:
            lacking = self._hosts - len(self._granted)
            return f"{lacking} of {self._hosts} agent hosts" if lacking else ""
        if self._left == 0 or self._sharing:
            return ""
        return f"agent hosts for {self._left} of {self._agents} seats"

    def assigned(self) -> dict[str, Agents]:
        """Return each host's agents: those requested; the others in ascending order, as hosts have joined."""
        free = np.setdiff1d(np.arange(self._agents), np.fromiter(self._owners, np.intp, len(self._owners)))
        sharing = self._sharing[: self._left]
        share, extra = divmod(self._left, len(sharing)) if sharing else (0, 0)
        shares = {name: share + (place < extra) for place, name in enumerate(sharing)}
        given: dict[str, Agents] = {}
        for name in self.seated:
            request = self._granted[name]
            count = request.count or shares[name]
            if request.agents.size:
                given[name] = request.agents
            else:
                given[name], free = free[:count], free[count:]
        return given
