"""A coordinator's engine with its processes, for tests that speak as all of them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slaternet.limits import LIMITS, Limits
from slaternet.model import PROTOCOL, ControlDown, Departure, Description, Join, Opening, Progress, Role, Topology
from slaternet_coordinator.engine.coordinator import Coordinator
from slaternet_coordinator.engine.events import (
    Admit,
    Effect,
    HoldExpired,
    Joined,
    Keep,
    Lost,
    MemberMessage,
    Opened,
    Quiet,
    Said,
    StopAsked,
    StreamClosed,
    Tell,
)
from slaternet_coordinator.engine.roster import Roster
from slaternet_coordinator.engine.rules import Policy, Rules
from slaternet_coordinator.graphs import Graph
from slaternet_coordinator.graphs.erdos_renyi import Paper

N = 8
HOSTS = ("a", "b")
EVE = "adversary"
EVERYONE = (EVE, *HOSTS)
HOST_JOIN = Join(Role.HOST, "localhost:1", 0, PROTOCOL, "")
EVE_JOIN = replace(HOST_JOIN, role=Role.ADVERSARY)
GRAPH = Paper(N, 3, rho=0.2)


def wanting(seats: int) -> Join:
    """Return the wish for so many seats."""
    return replace(HOST_JOIN, seats=seats)


def wanting_agents(*agents: int) -> Join:
    """Return the wish for these very agents."""
    return replace(HOST_JOIN, seats=len(agents), agents=np.array(agents, np.intp))


class Play:
    """A coordinator with its processes, and all that it has told them."""

    def __init__(
        self,
        rounds: int | None = 200,
        limits: Limits = LIMITS,
        graph: Graph = GRAPH,
        agents: int = N,
        hosts: int | None = len(HOSTS),
        policy: Policy = Policy.WAIT,
        departures: tuple[Departure, ...] = (),
        together: bool = False,
        reproducible: bool = True,
        remembers: bool = False,
    ) -> None:
        rules = Rules(
            agents=agents,
            hosts=hosts,
            rounds=rounds,
            policy=policy,
            departures=departures,
            together=together,
            reproducible=reproducible,
            remembers=remembers,
        )
        self.coordinator = Coordinator(graph, rules, bytes(32), limits)
        self.told: dict[str, list[ControlDown]] = {}
        self.kept: list[Keep] = []
        self.tickets: dict[str, Opening] = {}

    @property
    def register(self) -> Roster:
        """The register of the engine, which no shell sees."""
        return self.coordinator._state.roster

    def begin(self, hosts: Sequence[str] = HOSTS, *, history: int = 0) -> "Play":
        """Let everyone come."""
        for name in (EVE, *hosts):
            self.come(name)
        self.say(EVE, Description(2, history=history))
        return self

    def come(self, name: str, join: Join = HOST_JOIN) -> list[ControlDown]:
        """Join and open a stream; return what is told there."""
        self.join(name, join)
        return self.open(name)

    def join(self, name: str, join: Join = HOST_JOIN) -> list[Effect]:
        """Join, as the adversary under its name."""
        if name == EVE:
            join = replace(join, role=Role.ADVERSARY)
        effects = self._note(self.coordinator.handle(Joined(name, join)))
        admit = effects[0]
        assert isinstance(admit, Admit)
        self.tickets[name] = Opening(admit.incarnation, admit.ticket)
        return effects

    def open(self, name: str, have: int = 0, *, stale: bool = False) -> list[ControlDown]:
        """Open a stream; return what is told there."""
        effects = self._note(self.coordinator.handle(Opened(name, replace(self.tickets[name], round=have), stale)))
        return [effect.body for effect in effects if isinstance(effect, Tell) and effect.name == name]

    def say(self, name: str, body: MemberMessage, *, stale: bool = False) -> list[Effect]:
        """Say something on a stream."""
        return self._note(self.coordinator.handle(Said(name, body, stale)))

    def advance(self, round: int, *names: str) -> list[Effect]:
        """Report progress."""
        return [effect for name in names or EVERYONE for effect in self.say(name, Progress(round))]

    def lose(self, *names: str) -> list[Effect]:
        """Let processes be away for too long."""
        effects = []
        for name in names:
            self.close(name)
        for name in names:
            effects += self._note(self.coordinator.handle(Lost(name)))
        return effects

    def stop(self) -> list[Effect]:
        """End the game."""
        return self._note(self.coordinator.handle(StopAsked()))

    def expire(self) -> list[Effect]:
        """Let the time to answer Hold pass."""
        return self._note(self.coordinator.handle(HoldExpired()))

    def calm(self, arrivals: int) -> list[Effect]:
        """Let nobody come after so many."""
        return self._note(self.coordinator.handle(Quiet(arrivals)))

    def close(self, name: str) -> list[Effect]:
        """End a stream."""
        return self._note(self.coordinator.handle(StreamClosed(name)))

    def _note(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Tell):
                self.told.setdefault(effect.name, []).append(effect.body)
            if isinstance(effect, Keep):
                self.kept.append(effect)
        return [effect for effect in effects if not isinstance(effect, Keep)]

    def topologies(self, name: str) -> list[Topology]:
        """Return all topologies that a host was told."""
        return [body for body in self.told[name] if isinstance(body, Topology)]

    @property
    def published(self) -> int:
        """The last round whose topology is published."""
        return self.coordinator.status().published

    @property
    def waiting_for(self) -> str:
        """Whom the game waits for."""
        return self.coordinator.status().waiting_for
