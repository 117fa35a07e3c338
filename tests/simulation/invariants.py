"""Who watches a world: after every step, what must never be seen; at the end, whether it was the game it should be.

    rounds       of a host only grow within a life, and it decides in each what the reference decides there
    decisions    and the points asked about lie in the set; duals are not negative; rows are mixed as published
    purchases    one for each agent and round, after the commitment of the round, journalled before anyone hears of it
    journals     hold, whenever they are replayed, everything that was ever answered
    checkpoints  are safe before anyone hears of them, and everybody has one of M
    M, what is published, the last round, incarnations: kept before they are told, and never taken back
    queues       hold no more than the window and the checkpoints allow
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
from simulation.games import lasting
from simulation.loop import current

from slaternet.journal import read
from slaternet.limits import LIMITS
from slaternet.link import Link
from slaternet.membership import Membership
from slaternet.model import Array, LowWater, Over, Seating, StopAt, Topology
from slaternet_adversary.chronicle import JOURNAL, Chronicle, Entry, Purchase, decode
from slaternet_adversary.referee import Commit, Record, Referee, Reply, Scored, Summarise
from slaternet_adversary.results import Results
from slaternet_adversary.revealer import Revealer
from slaternet_agent.engine import Ask, Host
from slaternet_coordinator.archive import Archive
from slaternet_coordinator.memory import Entry as Place
from slaternet_coordinator.memory import Memory
from slaternet_coordinator.service import CoordinatorService

if TYPE_CHECKING:
    from simulation.world import World

ADVERSARY = "adversary"
_DUALS = ("q", "lam")
"""What algorithms call their duals."""
_ORDER = ("gathering", "playing", "stopping", "over", "failed")


class Witness:
    """Watches one world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._set = world.game.spec.feasible_set()
        self.recorded = 0
        """The last round that was ever recorded."""
        self.digest = ""
        self.rounds = 0
        self._kept = Memory()
        self._incarnations: dict[str, int] = {}
        self._joined: dict[str, int] = {}  # by name, the incarnation that was welcomed last
        self._bought: dict[tuple[int, int], bytes] = {}  # by agent and round, in the journal as it stands
        self._committed: set[int] = set()
        self._answered: dict[tuple[int, int], bytes] = {}  # and told, ever

    @property
    def stopping(self) -> bool:
        """Whether an operator was heard who ends the game."""
        return _ORDER.index(self._kept.phase) > _ORDER.index("playing")

    def is_further(self, recorded: int) -> bool:
        """Whether the game has come further than that round, or is over."""
        return self.recorded > recorded or bool(self.rounds)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """See what the processes do."""
        with ExitStack() as stack:
            for kind, name, before, after in (
                (Host, "handle", self._before_host, self._after_host),
                (Chronicle, "append", self._before_entry, self._after_entry),
                (Revealer, "_say", self._before_saying, None),
                (Referee, "handle", None, self._after_referee),
                (Results, "record", None, self._after_row),
                (Results, "finish", None, self._after_summary),
                (Membership, "__init__", None, self._after_joining),
                (Membership, "keep", self._before_checkpointed, None),
                (Archive, "keep", self._before_keeping, self._after_keeping),
                (CoordinatorService, "_tell", self._before_telling, None),
                (Link, "send", None, self._after_sending),
            ):
                stack.enter_context(mock.patch.object(kind, name, _seen(getattr(kind, name), before, after)))
            replay = Chronicle.replay
            stack.enter_context(mock.patch.object(Chronicle, "replay", lambda journal: self._replayed(replay(journal))))
            yield

    def _require(self, truth: object, what: str) -> None:
        if not truth:
            self._world.accuse(what)

    # hosts

    def _before_host(self, host: Host, event: object) -> None:
        host_round = getattr(host, "_seen_round", 0)
        self._require(host.round >= host_round, f"a host has gone back from round {host_round} to {host.round}")

    def _after_host(self, effects: list[object], host: Host, event: object) -> None:
        host._seen_round = host.round  # type: ignore[attr-defined]
        most = LIMITS.window + 3 * LIMITS.checkpoint_every + 2
        for name in ("_plans", "_boards", "_sent"):
            self._require(len(getattr(host, name)) <= most, f"a host keeps {len(getattr(host, name))} {name}")
        for name in _DUALS:
            duals = getattr(host._state, name, None)
            self._require(duals is None or (duals >= 0.0).all(), f"a dual is negative before round {host.round}")
        for effect in effects:
            if isinstance(effect, Ask):
                self._asks(host, effect)

    def _asks(self, host: Host, ask: Ask) -> None:
        question, t, seats = ask.question, ask.question.round, host._seats
        inside = self._set.encloses(question.x) and self._set.encloses(question.points)
        self._require(inside, f"a decision of round {t} or a point lies outside the set")
        plan, rows = host._plans[t], np.zeros((len(seats), host._agents))
        rows[np.repeat(np.arange(len(seats)), np.diff(plan.starts)), plan.columns] = plan.weights
        true = self._world.reference
        self._require(np.array_equal(rows, true.weights[t - 1][seats]), f"rows of W_{t} are not those published")
        self._require(_same(question.x, true.x[t - 1][seats]), f"a decision of round {t} is not the reference's")

    def _after_joining(self, _: None, membership: Membership, *rest: object) -> None:
        name, known = membership.name, self._joined.get(membership.name, 0)
        self._require(membership.incarnation > known, f"{name} joins as incarnation {membership.incarnation} again")
        self._joined[name] = membership.incarnation

    def _before_checkpointed(self, membership: Membership, round: int) -> None:
        name = membership.name
        self._require(self._is_safe(name, round), f"{name} speaks of a checkpoint of round {round} that is not safe")

    def _is_safe(self, host: str, round: int) -> bool:
        machine = self._world.machines[host]
        return machine.disk.is_safe(machine.folder / "state" / host / "checkpoints" / f"{round:06d}")

    # the adversary

    def _before_entry(self, journal: Chronicle, entry: Entry) -> None:
        match entry:
            case Purchase(asked):
                t, agents = asked.question.round, asked.question.agents.tolist()
                self._require(t in self._committed, f"values of round {t} are bought before it is committed to")
                twice = [agent for agent in agents if (agent, t) in self._bought]
                self._require(not twice, f"agents {twice} buy twice in round {t}")

    def _after_entry(self, _: None, journal: Chronicle, entry: Entry) -> None:
        self._enter(entry)

    def _enter(self, entry: Entry) -> None:
        match entry:
            case Commit(first, commitments):
                self._committed.update(range(first, first + len(commitments)))
            case Purchase(asked, values):
                for row, agent in enumerate(asked.question.agents.tolist()):
                    self._bought[agent, asked.question.round] = _values(values.f, values.g, row)

    def _replayed(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        self._bought.clear()
        self._committed.clear()
        for entry in entries:
            self._enter(entry)
            yield entry
        for key, values in self._answered.items():
            self._require(self._bought.get(key) == values, f"agent and round {key} was answered, and is forgotten")

    def _before_saying(self, revealer: Revealer, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Reply(_, answer):
                    self._replies(answer)
                case Record(round):
                    self._require(round <= self.recorded, f"round {round} is told before its row is written")
                case Summarise(rounds):
                    self._require(self.rounds == rounds, "the end is told before the summary is written")

    def _replies(self, answer: Any) -> None:
        for row, agent in enumerate(answer.agents.tolist()):
            key, values = (agent, answer.round), _values(answer.f, answer.g, row)
            self._require(self._bought.get(key) == values, f"agent and round {key} is answered before it is journalled")
            self._answered[key] = values

    def _after_referee(self, effects: object, referee: Referee, event: object) -> None:
        pages, most = len(referee._ledger._pages), LIMITS.window + 3 * LIMITS.checkpoint_every + 2
        self._require(pages <= most or not isinstance(event, Scored), f"the ledger keeps {pages} pages")

    def _after_row(self, _: None, results: Results, row: Record, seconds: float) -> None:
        self.recorded = max(self.recorded, row.round)

    def _after_summary(self, _: None, results: Results, end: Summarise, *rest: object) -> None:
        self.digest, self.rounds = end.digest, end.rounds

    # the coordinator

    def _before_keeping(self, archive: Archive, memory: Memory, places: tuple[Place, ...] = ()) -> None:
        kept = self._kept
        self._require(memory.low_water >= kept.low_water, f"M falls from {kept.low_water} to {memory.low_water}")
        self._require(memory.published >= kept.published, f"{memory.published} is published after {kept.published}")
        self._require(kept.settled in (None, memory.settled), f"S was {kept.settled}, and is {memory.settled}")
        self._require(
            _ORDER.index(memory.phase) >= _ORDER.index(kept.phase), f"{memory.phase} comes after {kept.phase}"
        )
        bound = memory.low_water + 2 * LIMITS.checkpoint_every + LIMITS.window
        self._require(memory.published <= bound, f"{memory.published} is published with M = {memory.low_water}")
        for name in self._world.hosts if memory.low_water else ():
            safe = self._is_safe(name, memory.low_water)
            self._require(safe, f"{name} has no checkpoint of M = {memory.low_water}")
        for place in places:
            known = self._incarnations.get(place.name, 0)
            self._require(place.incarnation >= known, f"{place.name} was incarnation {known}, is {place.incarnation}")

    def _after_keeping(self, _: None, archive: Archive, memory: Memory, places: tuple[Place, ...] = ()) -> None:
        self._kept = memory
        self._incarnations.update((place.name, place.incarnation) for place in places)

    def _before_telling(self, service: CoordinatorService, name: str, body: object) -> None:
        kept = self._kept
        match body:
            case Topology(round, rounds, low_water=mark):
                self._require(round + rounds - 1 <= kept.published, f"{round + rounds - 1} is told before it is kept")
                self._require(mark <= kept.low_water, f"M = {mark} is told before it is kept")
            case LowWater(mark):
                self._require(mark <= kept.low_water, f"M = {mark} is told before it is kept")
            case StopAt(last):
                self._require(last == kept.settled, f"S = {last} is told before it is kept")
            case Over():
                self._require(kept.phase in ("over", "failed"), "the end is told before it is kept")
            case Seating(peers=peers):
                for peer in peers:
                    known = self._incarnations.get(peer.name, 0)
                    self._require(peer.incarnation <= known, f"{peer.name} is told before it is kept")

    def _after_sending(self, _: None, link: Link, data: bytes) -> None:
        self._require(len(link._outbox) <= link._most, "a link holds more than it may")

    # the end

    def verdict(self) -> str:
        """Return what is wrong with a game that is over; empty where nothing is."""
        world, true = self._world, self._world.reference
        last = self._kept.settled or world.game.spec.run.rounds
        if self.rounds != last:
            return f"the game ends with round {self.rounds}, not {last}"
        if self.digest != true.digest(self.rounds):
            return f"the digest is {self.digest[:16]}, not {true.digest(self.rounds)[:16]}"
        folder = world.machines[ADVERSARY].folder / "run"
        if tuple(lasting(folder / "metrics.csv")) != true.rows[: self.rounds]:
            return "metrics.csv has not the rows of the reference"
        return self._verdict_on_journal([decode(record) for record in read(folder / JOURNAL, disk=self._disk)])

    @property
    def _disk(self) -> Any:
        return self._world.machines[ADVERSARY].disk

    def _verdict_on_journal(self, entries: list[Entry]) -> str:
        bought = [
            (agent, entry.asked.question.round)
            for entry in entries
            if isinstance(entry, Purchase)
            for agent in entry.asked.question.agents.tolist()
        ]
        agents = self._world.game.spec.run.agents
        whole = {(agent, t) for agent in range(agents) for t in range(1, self.rounds + 1)}
        if len(bought) != len(set(bought)) or set(bought) != whole:
            return "the journal does not hold every purchase once"
        scores = [entry.round for entry in entries if isinstance(entry, Scored)]
        return "" if scores == list(range(1, self.rounds + 1)) else "the journal does not hold every score once"


def _seen(method: Callable[..., Any], before: Callable[..., None] | None, after: Callable[..., None] | None) -> Any:
    """Return a method that is watched, unless it is called by the dead."""

    @functools.wraps(method)
    def watched(*args: Any, **options: Any) -> Any:
        life = current()
        if life is None or not life.alive:
            return method(*args, **options)
        if before is not None:
            before(*args, **options)
        result = method(*args, **options)
        if after is not None:
            after(result, *args, **options)
        return result

    return watched


def _same(one: Array, other: Array) -> bool:
    return one.tobytes() == other.tobytes()


def _values(f: Array, g: Array, row: int) -> bytes:
    return f[row].tobytes() + g[row].tobytes()
