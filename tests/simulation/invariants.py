"""Who watches a world: after every step, what must never be seen; at the end, whether it was the game it should be.

rounds       of a host only grow within a life, and it decides in each what the reference decides there
decisions    and the points asked about lie in the set; duals are not negative; rows are mixed as published
purchases    one for each agent and round, after the commitment of the round, journalled before anyone hears of it
journals     hold, whenever they are replayed, everything that was ever answered
checkpoints  are safe before anyone hears of them, and everybody has one of M
queues       hold no more than the window and the checkpoints allow
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.simulation.coordination import Coordination
from tests.simulation.games import LIMITS, departed, lasting, listed
from tests.simulation.loop import current
from tests.simulation.trajectory import Trajectory

from slaternet.model import Answer, Array, Progress
from slaternet.network.stream import Stream
from slaternet.service.membership import Membership
from slaternet.spec import Spec
from slaternet.storage.disk import read_file
from slaternet.storage.journal import read
from slaternet_adversary.engine.events import Commit, RecordRound, Summarise
from slaternet_adversary.engine.referee import Referee
from slaternet_adversary.journal.entries import Entry, decode, purchases
from slaternet_adversary.journal.journal import JOURNAL, AdversaryJournal
from slaternet_adversary.scoring import Scored
from slaternet_adversary.shell.run_folder import RunFolder
from slaternet_adversary.shell.streams import RevealServer
from slaternet_agent.engine.events import Ask
from slaternet_agent.engine.host import Host

if TYPE_CHECKING:
    from tests.simulation.world import World

ADVERSARY = "adversary"
_DUALS = ("q", "lam")
"""What algorithms call their duals."""


class Witness:
    """Watches one world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._set = world.game.spec.feasible_set()
        self.recorded = 0
        """The last round that was ever recorded."""
        self.digest = ""
        self.rounds = 0
        self.register = Coordination(world)
        self._trajectory = Trajectory(world)
        self._joined: dict[str, int] = {}  # by name, the incarnation that was welcomed last
        self._bought: dict[tuple[int, int], bytes] = {}  # by agent and round, in the journal as it stands
        self._committed: set[int] = set()
        self._answered: dict[tuple[int, int], bytes] = {}  # and told, ever

    @property
    def stopping(self) -> bool:
        """Whether an operator was heard who ends the game."""
        return self.register.stopping

    def is_further(self, recorded: int) -> bool:
        """Whether the game has come further than that round, or is over."""
        return self.recorded > recorded or bool(self.rounds)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """See what the processes do."""
        with ExitStack() as stack:
            for kind, name, before, after in (
                (Host, "handle", self._before_host, self._after_host),
                (AdversaryJournal, "append", self._before_entry, self._after_entry),
                (RevealServer, "reply", self._before_reply, None),
                (RevealServer, "report", self._before_report, None),
                (RevealServer, "finish", self._before_finish, None),
                (Referee, "handle", None, self._after_referee),
                (RunFolder, "record", None, self._after_row),
                (RunFolder, "finish", None, self._after_summary),
                (Membership, "__init__", None, self._after_joining),
                (Membership, "report_checkpoint", self._before_checkpointed, None),
                (Stream, "send", None, self._after_sending),
                *self.register.watched,
            ):
                stack.enter_context(mock.patch.object(kind, name, _seen(getattr(kind, name), before, after)))
            replay = AdversaryJournal.replay
            stack.enter_context(
                mock.patch.object(AdversaryJournal, "replay", lambda journal: self._replayed(replay(journal)))
            )
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
        kept = {"plans": host._plans, "boards": host._boards, "rows": host._sent._rows, "codes": host._sent._messages}
        for name, rounds in kept.items():
            self._require(len(rounds) <= most, f"a host keeps {name} of {len(rounds)} rounds")
        for name in _DUALS:
            duals = getattr(host._state, name, None)
            self._require(duals is None or (duals >= 0.0).all(), f"a dual is negative before round {host.round}")
        for effect in effects:
            if isinstance(effect, Ask):
                self._asks(host, effect)

    def _asks(self, host: Host, ask: Ask) -> None:
        question, t = ask.question, ask.question.round
        inside = self._set.encloses(question.x) and self._set.encloses(question.points)
        self._require(inside, f"a decision of round {t} or a point lies outside the set")
        life = current()
        assert life is not None
        self._trajectory.enter(life.name, host, t, question.x)

    def _after_joining(self, _: None, membership: Membership, *rest: object) -> None:
        name, known = membership.name, self._joined.get(membership.name, 0)
        self._require(membership.incarnation > known, f"{name} joins as incarnation {membership.incarnation} again")
        self._joined[name] = membership.incarnation

    def _before_checkpointed(self, membership: Membership, round: int) -> None:
        name = membership.name
        safe = self.register.is_safe(name, round)
        self._require(safe, f"{name} speaks of a checkpoint of round {round} that is not safe")

    # the adversary

    def _before_entry(self, journal: AdversaryJournal, entry: Entry) -> None:
        for each in purchases(entry):
            t, agents = each.asked.question.round, each.asked.question.agents.tolist()
            self._require(t in self._committed, f"values of round {t} are bought before it is committed to")
            twice = [agent for agent in agents if (agent, t) in self._bought]
            self._require(not twice, f"agents {twice} buy twice in round {t}")

    def _after_entry(self, _: None, journal: AdversaryJournal, entry: Entry) -> None:
        self._enter(entry)

    def _enter(self, entry: Entry) -> None:
        if isinstance(entry, Commit):
            self._committed.update(range(entry.round, entry.round + len(entry.commitments)))
        for each in purchases(entry):
            question, values = each.asked.question, each.values
            for row, agent in enumerate(question.agents.tolist()):
                self._bought[agent, question.round] = _values(values.f, values.g, row)

    def _replayed(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        self._bought.clear()
        self._committed.clear()
        for entry in entries:
            self._enter(entry)
            yield entry
        for key, values in self._answered.items():
            self._require(self._bought.get(key) == values, f"agent and round {key} was answered, and is forgotten")

    def _before_report(self, revealer: RevealServer, progress: Progress) -> None:
        self._require(progress.round <= self.recorded, f"round {progress.round} is told before its row is written")

    def _before_finish(self, revealer: RevealServer, progress: Progress) -> None:
        self._require(self.rounds == progress.round, "the end is told before the summary is written")

    def _before_reply(self, revealer: RevealServer, host: str, answer: Answer) -> None:
        for row, agent in enumerate(answer.agents.tolist()):
            key, values = (agent, answer.round), _values(answer.values.f, answer.values.g, row)
            self._require(self._bought.get(key) == values, f"agent and round {key} is answered before it is journalled")
            self._answered[key] = values

    def _after_referee(self, effects: object, referee: Referee, event: object) -> None:
        # twice the window: M that has grown meanwhile is not heard before a broken control stream is back
        pages, most = len(referee._ledger._pages), 2 * LIMITS.window + 3 * LIMITS.checkpoint_every + 2
        self._require(pages <= most or not isinstance(event, Scored), f"the ledger keeps {pages} pages")

    def _after_row(self, _: None, results: RunFolder, row: RecordRound, seconds: float) -> None:
        self.recorded = max(self.recorded, row.round)
        self._world.weather.begin()
        self._world.reaper.look()

    def _after_summary(self, _: None, results: RunFolder, end: Summarise, *rest: object) -> None:
        self.digest, self.rounds = end.digest, end.rounds
        self._world.reaper.look()

    def _after_sending(self, _: None, link: Stream, data: bytes) -> None:
        self._require(len(link._outbox) <= link._most, "a link holds more than it may")

    # the end

    def verdict(self) -> str:
        """Return what is wrong with a game that is over; empty where nothing is."""
        world, kept = self._world, self.register.kept
        last = kept.settled or world.game.spec.run.rounds
        if self.rounds != last:
            return f"the game ends with round {self.rounds}, not {last}"
        if wrong := self._trajectory.verdict(self.rounds):
            return wrong
        true = departed(world.game.kind, listed(kept.departures))
        if self.digest != true.digest(self.rounds):
            return f"the digest is {self.digest[:16]}, not {true.digest(self.rounds)[:16]}"
        folder = world.machines[ADVERSARY].folder / "run"
        metrics, text = (read_file(folder / name, disk=self._disk).decode() for name in ("metrics.csv", "spec.toml"))
        if tuple(lasting(metrics)) != true.rows[: self.rounds]:
            return "metrics.csv has not the rows of the reference"
        spec = Spec.parse(text, source="spec.toml")
        if listed(spec.leaving) != listed(kept.departures):
            return f"spec.toml says that {spec.leaving} leave, and the coordinator {kept.departures}"
        return self._verdict_on_journal([decode(record) for record in read(folder / JOURNAL, disk=self._disk)])

    @property
    def _disk(self) -> Any:
        return self._world.machines[ADVERSARY].disk

    def _verdict_on_journal(self, entries: list[Entry]) -> str:
        bought = [
            (agent, each.asked.question.round)
            for entry in entries
            for each in purchases(entry)
            for agent in each.asked.question.agents.tolist()
        ]
        ends = self.register.attendance().ends
        whole = {(agent, t) for agent, end in enumerate(ends) for t in range(1, min(end, self.rounds + 1))}
        void = {(agent, t) for agent, t in bought if t >= ends[agent]}
        if len(bought) != len(set(bought)) or set(bought) - void != whole:
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


def _values(f: Array, g: Array, row: int) -> bytes:
    return bytes(f[row].tobytes() + g[row].tobytes())
