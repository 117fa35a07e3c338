"""What the coordinator observes with a clock: silence, speed and incidents, and hosts that are away for too long."""

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence

import structlog

from slaternet.limits import LIMITS, Limits
from slaternet.model import COORDINATOR, DISTURBED, HostStatus, Incident, IncidentRecord, Refusal
from slaternet.refusals import RefusalCounter
from slaternet_coordinator.engine.status import Observed

log = structlog.get_logger()

_WINDOW_SECONDS = 5.0
"""The time over which the pace of a game is measured."""


class Pace:
    """Rounds per second over the last few seconds."""

    def __init__(self, spacing: float) -> None:
        self._spacing = spacing  # seconds between two points, so that a fast game does not fill the memory
        self._points: deque[tuple[float, int]] = deque()
        self._round = 0

    def advance(self, now: float, round: int) -> None:
        """Record that a round has been scored."""
        self._round = max(self._round, round)
        if not self._points or now - self._points[-1][0] >= self._spacing:
            self._points.append((now, self._round))
        self._forget(now)

    def rate(self, now: float) -> float:
        """Return the rounds per second; 0 for a game that does not advance."""
        self._forget(now)
        if not self._points:
            return 0.0
        since, first = self._points[0]
        return (self._round - first) / (now - since) if now > since else 0.0

    def _forget(self, now: float) -> None:
        while self._points and now - self._points[0][0] > _WINDOW_SECONDS:
            self._points.popleft()


class Observations:
    """Records what happens in a game, and when."""

    def __init__(
        self,
        clock: Callable[[], float],
        refusals: RefusalCounter,
        limits: Limits = LIMITS,
        *,
        now: Callable[[], float],
        round: Callable[[], int],
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._now = now
        self._round = round
        self._records: deque[IncidentRecord] = deque(maxlen=limits.incidents)
        self._disturbed: IncidentRecord | None = None
        self.on_record: Callable[[IncidentRecord], None] = lambda record: None
        self._contacts: dict[str, float] = {}
        self._pace = Pace(limits.report_seconds)
        self._incidents: dict[str, float] = {}
        self._own_refusals = refusals  # at the coordinator's own server
        refusals.watch(lambda: self.record_refusals(COORDINATOR, refusals.all))
        self._refused: dict[str, tuple[Refusal, ...]] = {}
        self._watched = -math.inf
        self._recorded_at = 0.0
        self._refusal_sentences: dict[str, set[str]] = {}  # by the server that has refused
        self._recorded: Counter[tuple[str, str]] = Counter()  # by process and kind

    def note_contact(self, name: str) -> None:
        """Record that a message of a process has arrived."""
        self._contacts[name] = self._clock()

    def warn(self, process: str, kind: str, sentence: str, evidence: str = "") -> None:
        """Log and record an incident."""
        log.warning(sentence)
        self.record(process, kind, sentence, evidence)

    def report_return(self, name: str) -> None:
        """Log and record that a process has reconnected."""
        what = f"{name} is back after {self._clock() - self._contacts[name]:.0f} s"
        log.info(what)
        self.record(name, "back", what)

    def note_score(self, round: int) -> None:
        """Record that a round has been scored."""
        self._pace.advance(self._clock(), round)

    def record(self, process: str, kind: str, sentence: str, evidence: str = "") -> None:
        """Record an incident, unless one process has had very many of its kind."""
        self._show(sentence)
        self._recorded[process, kind] += 1
        if self._recorded[process, kind] > self._limits.incidents_alike and kind != DISTURBED:
            return
        # times grow, so that the adversary tells a new incident from one that is sent again
        self._recorded_at = max(self._now(), math.nextafter(self._recorded_at, math.inf))
        record = IncidentRecord(self._round(), self._recorded_at, process, kind, sentence, evidence)
        self._records.append(record)
        if kind == DISTURBED:
            self._disturbed = record
        self.on_record(record)

    @property
    def records(self) -> list[IncidentRecord]:
        """The newest incidents, and however old it is, the last that disturbed the game: the summary depends on it."""
        forgotten = [] if self._disturbed is None or self._disturbed in self._records else [self._disturbed]
        return [*forgotten, *self._records]

    def _show(self, sentence: str) -> None:
        """Show an incident in the status; one that happens again has its newest time."""
        self._incidents.pop(sentence, None)
        self._incidents[sentence] = self._clock()
        while len(self._incidents) > self._limits.troubles:
            del self._incidents[next(iter(self._incidents))]

    def record_refusal(self, server: str, process: str, sentence: str) -> None:
        """Record that a server has refused a process, each sentence once, and not so many that no room is left."""
        sentences = self._refusal_sentences.setdefault(server, set())
        if sentence in sentences or len(sentences) >= self._limits.breaches:
            self._show(sentence)
            return
        sentences.add(sentence)
        self.record(process, "refused", sentence)

    def record_refusals(self, server: str, refusals: tuple[Refusal, ...], *, claimed: bool = False) -> None:
        """Record all that a server has refused until now; what is merely `claimed` is about the server itself."""
        known = set(self._refused.get(server, ()))
        self._refused[server] = refusals
        for each in refusals:
            # a refused Join is recorded in a sentence of its own, which the process receives, too
            if each not in known and not (server == COORDINATOR and each.kind == "Mismatch"):
                what = f"{server} has refused a message of {each.host or 'a stranger'}: {each.kind}"
                self.record_refusal(server, server if claimed else each.host or server, what)

    def note_watcher(self) -> None:
        """Record that a user watches the game and will ask again."""
        self._watched = self._clock()

    @property
    def linger_seconds(self) -> float:
        """How long the coordinator must stay, so that a user who watches the game sees its end."""
        return max(0.0, self._watched + self._limits.watching_seconds - self._clock())

    def observed(self) -> Observed:
        """Return all observations, as of now."""
        now = self._clock()
        return Observed(
            silent={name: now - contact for name, contact in self._contacts.items()},
            rounds_per_second=self._pace.rate(now),
            troubles=tuple(Incident(now - when, what) for what, when in self._incidents.items()),
            refused=self._own_refusals.all,
        )


class AbsenceMonitor:
    """Finds hosts that have been silent for `longest` seconds; call `look` every `step` seconds.

    Time during which the coordinator itself was suspended does not count. `give_up` returns whether the host is lost.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        longest: float,
        members: Callable[[], Sequence[HostStatus]],
        *,
        give_up: Callable[[str], bool],
        warn: Callable[[str, str, str], None],
    ) -> None:
        self._clock = clock
        self._longest = longest
        self._members = members
        self._give_up = give_up
        self._warn = warn
        self._looked = clock()
        self._awake = 0.0  # seconds
        self._contacts: dict[str, float] = {}
        self._warned: set[str] = set()
        self.step = min(1.0, longest / 8)

    def note_contact(self, name: str) -> None:
        """Record that a message of a process has arrived."""
        self._contacts[name] = self._awake
        self._warned.discard(name)

    def expect(self, name: str, within: float) -> None:
        """Give a process of a restored game at least `within` seconds to reconnect."""
        self._contacts[name] = self._awake + max(0.0, within - self._longest)

    def look(self) -> None:
        """Give up hosts that have been away for too long; warn once of each that the game waits for all the same."""
        now = self._clock()
        self._awake += min(now - self._looked, 2 * self.step)
        self._looked = now
        for host in self._members():  # a snapshot: giving one up may move seats
            if not host.seats:
                continue
            away = self._awake - self._contacts.setdefault(host.name, self._awake)
            if host.connected or host.lost or away < self._longest:
                continue
            if not self._give_up(host.name) and host.name not in self._warned:
                self._warned.add(host.name)
                self._warn(
                    host.name, "away", f"{host.name} has been away for {self._longest:g} s; the game waits for it"
                )
