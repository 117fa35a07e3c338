"""The status of a game: each process, and which of them the others wait for.

A process that others wait for and that itself waits for none holds the game up.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from slaternet.limits import Limits
from slaternet.model import COORDINATOR, Incident, Refusal, Role, Status
from slaternet_coordinator.engine.game_state import GameState, Phase
from slaternet_coordinator.engine.publication import slowest
from slaternet_coordinator.engine.roster import Roster

_NAMED = 3
"""How many names a sentence lists where there may be thousands."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a shell has observed of a game: it has a clock, and a server of its own."""

    silent: Mapping[str, float] = field(default_factory=dict)  # seconds since the last message of each process
    rounds_per_second: float = 0.0
    troubles: tuple[Incident, ...] = ()
    refused: tuple[Refusal, ...] = ()  # at the coordinator's own server


NOTHING = Observed()


def status(state: GameState, seen: Observed, limits: Limits) -> Status:
    """Return the status of a game, with what the shell has observed."""
    roster, spares = state.roster, state.roster.spares
    members = list(roster)
    most = max(1, limits.hosts // max(1, len(members)))  # names that each waits for, so that a status fits a message
    # the processes that all others depend on come first: not every refusal may fit
    servers = [(COORDINATOR, seen.refused)]
    servers += [(each.name, each.refused) for each in sorted(members, key=lambda each: each.role is Role.HOST)]
    refusals = (replace(each, server=server) for server, refused in servers for each in refused)
    return Status(
        round=state.score.round,
        phase=state.phase,
        agents=state.rules.agents,
        rounds=state.last or 0,
        published=state.publication.last,
        cumulative_loss=state.score.cumulative_loss,
        cumulative_violation=state.score.cumulative_violation,
        hosts=tuple(
            replace(
                member.status(spare=member.name in spares),
                silent=seen.silent.get(member.name, 0.0),
                waits_for=member.waits_for[:most],
            )
            for member in members
        ),
        waiting_for=_waiting_for(state, seen, limits),
        failure=state.failure,
        breaches=tuple(itertools.islice(refusals, limits.breaches)),
        rounds_per_second=seen.rounds_per_second,
        troubles=seen.troubles,
        disturbed=state.disturbed,
        sealed=state.rules.sealed,
    )


def _waiting_for(state: GameState, seen: Observed, limits: Limits) -> str:
    """Return one sentence on what the game waits for; empty where it does not wait."""
    roster = state.roster
    if state.phase is Phase.GATHERING:
        return roster.missing()
    if not state.phase.under_way:
        return ""
    # the processes for which the coordinator itself waits before it publishes more, or ends a Hold
    if (state.phase is Phase.STOPPING and not state.stopped) or roster.lost_with_seats:
        awaited = {host.name for host in roster.survivors if host.holding is None}
    else:
        least = min(slowest(state.publication.awaited(roster.players)), state.score.round)
        awaited = {member.name for member in roster if member.plays and member.round <= least}
    culprits = WaitGraph(roster, awaited, seen.silent, limits).culprits()
    if culprits or not roster.lost_with_seats or not awaited:
        return culprits
    lost = [host.name for host in roster.lost_with_seats]
    return f"{listed(sorted(awaited))} to hold, because of {listed(lost)}, which the game goes on without"


class WaitGraph:
    """Which process waits for which. Reports from processes that are silent now are out of date, and ignored.

    A process that waits for the coordinator waits for those that hold the coordinator up. An adversary that plays
    knowing the past waits for the hosts that are behind others.
    """

    def __init__(
        self, roster: Roster, holding_up: Collection[str], silent: Mapping[str, float], limits: Limits
    ) -> None:
        self._members = {member.name: member for member in roster if member.plays and not member.lost}
        self._silence = {name: silent.get(name, 0.0) for name in self._members}
        longest = 2 * limits.heartbeat_seconds
        self._mute = {
            name for name, each in self._members.items() if not each.connected or self._silence[name] > longest
        }
        barrier = roster.description is not None and roster.description.history > 0
        furthest = max((host.round for host in roster.players), default=0)
        behind = {host.name for host in roster.players if barrier and host.round < furthest}
        self._awaited = dict[str, set[str]]()  # by each process
        for name, member in self._members.items():
            awaited = set(member.waits_for)
            if COORDINATOR in awaited:
                awaited |= set(holding_up)
            if member.role is Role.ADVERSARY:
                awaited |= behind
            self._awaited[name] = set() if name in self._mute else (awaited & self._members.keys()) - {name}

    def culprits(self) -> str:
        """Return one sentence on which processes hold the others up; empty where none does."""
        culprits = self._find()
        if not culprits:
            return ""
        waiting = self._waiting_for(culprits)
        accused = listed(map(self._describe, culprits))
        if not waiting:
            return accused
        verb = "waits" if len(waiting) == 1 else "wait"
        return f"{accused}: {listed(waiting)} {verb} for {'it' if len(culprits) == 1 else 'them'}"

    def _find(self) -> list[str]:
        awaited = set[str]().union(*self._awaited.values())
        culprits = {name for name in self._mute if not self._members[name].finished}
        culprits |= {name for name in awaited if not self._awaited[name]}
        if awaited and not culprits:  # everyone waits: some of it is out of date
            culprits = {max(awaited, key=self._silence.__getitem__)}
        return [name for name in self._members if name in culprits]

    def _waiting_for(self, culprits: Collection[str]) -> list[str]:
        """Return the processes that wait for culprits, directly or not, in the order of joining."""
        found, news = set(culprits), set(culprits)
        while news:
            news = {name for name, awaited in self._awaited.items() if name not in found and awaited & news}
            found |= news
        return [name for name in self._members if name in found and name not in culprits]

    def _describe(self, name: str) -> str:
        member, silence = self._members[name], f"for {self._silence[name]:.0f} s"
        if member.shut_out:
            return f"{name}, shut out {silence}"
        if not member.connected:
            return f"{name}, gone {silence}"
        return f"{name}, silent {silence}" if name in self._mute else f"{name}, in round {member.round + 1}"


def listed(names: Iterable[str]) -> str:
    """Return "a", "a and b", "a, b and c", or "a, b and 4 others"."""
    all_ = list(names)
    if len(all_) > _NAMED:
        all_[_NAMED - 1 :] = [f"{len(all_) - _NAMED + 1} others"]
    *first, last = all_
    return f"{', '.join(first)} and {last}" if first else last
