"""The status of a game: each process, and which of them the others wait for.

Of those whom others wait for, the ones that wait for nobody themselves hold the game up.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from slaternet.limits import Limits
from slaternet.model import COORDINATOR, HostStatus, Incident, Refusal, Role, Status
from slaternet_coordinator.engine.game_state import GameState, Phase
from slaternet_coordinator.engine.publication import slowest
from slaternet_coordinator.engine.roster import Member, Roster

_NAMED = 3
"""How many are called by name where there may be thousands."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a shell has seen of a game: it has a clock, and a server of its own."""

    silent: Mapping[str, float] = field(default_factory=dict)
    """Seconds since each process was last heard."""
    rounds_per_second: float = 0.0
    troubles: tuple[Incident, ...] = ()
    refused: tuple[Refusal, ...] = ()
    """At the coordinator's own server."""


NOTHING = Observed()


def status(state: GameState, seen: Observed, limits: Limits) -> Status:
    """Return how the game stands, and what the shell has seen besides."""
    return Status(
        round=state.score.round,
        phase=state.phase,
        agents=state.rules.agents,
        rounds=state.last or 0,
        published=state.publication.last,
        cumulative_loss=state.score.cumulative_loss,
        cumulative_violation=state.score.cumulative_violation,
        hosts=_processes(state.register, seen, limits),
        waiting_for=_waiting_for(state, seen, limits),
        failure=state.failure,
        breaches=_breaches(state.register, seen, limits),
        rounds_per_second=seen.rounds_per_second,
        troubles=seen.troubles,
    )


def _processes(register: Roster, seen: Observed, limits: Limits) -> tuple[HostStatus, ...]:
    """Return every process of the game, in the order of joining."""
    members, spares = list(register), register.spares
    most = max(1, limits.hosts // max(1, len(members)))  # names of others each, so that a status fits a message
    return tuple(
        HostStatus(
            member.name,
            member.address,
            len(member.seats),
            member.round,
            member.connected,
            role=member.role,
            silent=seen.silent.get(member.name, 0.0),
            waits_for=member.waits_for[:most],
            spare=member.name in spares,
            lost=member.lost,
        )
        for member in members
    )


def _breaches(register: Roster, seen: Observed, limits: Limits) -> tuple[Refusal, ...]:
    """Return what every process has refused, as far as it fits; those whom all must trust come first."""
    members = sorted(register, key=lambda member: member.role is Role.HOST)
    servers = [(COORDINATOR, seen.refused), *((member.name, member.refused) for member in members)]
    named = (replace(each, server=server) for server, theirs in servers for each in theirs)
    return tuple(itertools.islice(named, limits.breaches))


def _waiting_for(state: GameState, seen: Observed, limits: Limits) -> str:
    """Say in one sentence whom the game waits for; empty where it waits for nobody."""
    register = state.register
    if state.phase is Phase.GATHERING:
        return register.missing()
    if not state.phase.under_way:
        return ""
    awaited = _awaited(state)
    culprits = WaitGraph(register, awaited, seen.silent, limits).culprits()
    if culprits or not register.orphaned or not awaited:
        return culprits
    lost = [host.name for host in register.orphaned]
    return f"{listed(sorted(awaited))} to hold, because of {listed(lost)}, which the game goes on without"


def _awaited(state: GameState) -> set[str]:
    """Return those for whom the coordinator itself waits, before it publishes or tells more."""
    register = state.register
    if (state.phase is Phase.STOPPING and not state.stopped) or register.orphaned:
        return {host.name for host in register.survivors if host.holding is None}
    least = min(slowest(state.publication.awaited(register.players)), state.score.round)
    return {member.name for member in register if member.plays and member.round <= least}


class WaitGraph:
    """Who waits for whom, as far as it can be believed: what somebody said who is not heard any more is out of date.

    Who waits for the coordinator waits for those who hold it up, and an adversary that plays knowing the past waits
    for the hosts that are behind others.
    """

    def __init__(
        self, register: Roster, holding_up: Collection[str], silent: Mapping[str, float], limits: Limits
    ) -> None:
        self._members = {member.name: member for member in register if member.plays and not member.lost}
        self._silent = silent
        self._longest = 2 * limits.heartbeat_seconds
        barrier = register.description is not None and register.description.history > 0
        furthest = max((host.round for host in register.players), default=0)
        self._behind = {host.name for host in register.players if barrier and host.round < furthest}
        self._awaited = {name: self._awaited_by(each, holding_up) for name, each in self._members.items()}

    def _awaited_by(self, member: Member, holding_up: Collection[str]) -> set[str]:
        if self._is_mute(member):
            return set()
        awaited = set(member.waits_for)
        if COORDINATOR in awaited:
            awaited |= set(holding_up)
        if member.role is Role.ADVERSARY:
            awaited |= self._behind
        return (awaited & self._members.keys()) - {member.name}

    def _is_mute(self, member: Member) -> bool:
        return not member.connected or self._silence(member.name) > self._longest

    def _silence(self, name: str) -> float:
        return self._silent.get(name, 0.0)

    def culprits(self) -> str:
        """Say in one sentence who holds the others up, and whom; empty where nobody does."""
        culprits = self._find()
        if not culprits:
            return ""
        waiting = self._waiting_for(culprits)
        accused = listed([self._describe(self._members[name]) for name in culprits])
        if not waiting:
            return accused
        verb = "waits" if len(waiting) == 1 else "wait"
        return f"{accused}: {listed(waiting)} {verb} for {'it' if len(culprits) == 1 else 'them'}"

    def _find(self) -> list[str]:
        awaited = set[str]().union(*self._awaited.values())
        mute = {name for name, each in self._members.items() if self._is_mute(each) and not each.finished}
        culprits = mute | {name for name in awaited if not self._awaited[name]}
        if awaited and not culprits:  # everyone waits: some of it is out of date
            culprits = {max(awaited, key=self._silence)}
        return [name for name in self._members if name in culprits]

    def _waiting_for(self, culprits: Collection[str]) -> list[str]:
        """Return those who wait for culprits, or for others who do, in the order of joining."""
        found, news = set(culprits), set(culprits)
        while news:
            news = {name for name, awaited in self._awaited.items() if name not in found and awaited & news}
            found |= news
        return [name for name in self._members if name in found and name not in culprits]

    def _describe(self, member: Member) -> str:
        silence = f" for {self._silence(member.name):.0f} s"
        if not member.connected:
            return f"{member.name}, gone{silence}"
        if self._is_mute(member):
            return f"{member.name}, silent{silence}"
        return f"{member.name}, in round {member.round + 1}"


def listed(names: Iterable[str]) -> str:
    """Return "a", "a and b", "a, b and c", or "a, b and 4 others"."""
    all_ = list(names)
    if len(all_) > _NAMED:
        all_[_NAMED - 1 :] = [f"{len(all_) - _NAMED + 1} others"]
    *first, last = all_
    return f"{', '.join(first)} and {last}" if first else last
