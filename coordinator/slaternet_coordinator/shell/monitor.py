"""What the coordinator observes with a clock: silence, speed and troubles, and hosts that are away for too long."""

import math
from collections import deque
from collections.abc import Callable, Sequence

import structlog

from slaternet.limits import LIMITS, Limits
from slaternet.model import COORDINATOR, Incident, Refusal
from slaternet.refusals import RefusalCounter
from slaternet_coordinator.engine.roster import MemberView
from slaternet_coordinator.engine.status import Observed

log = structlog.get_logger()

_WINDOW_SECONDS = 5.0
"""How far back the pace of a game is measured."""


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
        """Return how many rounds a second there were; a game that stands still comes to none."""
        self._forget(now)
        if not self._points:
            return 0.0
        since, first = self._points[0]
        return (self._round - first) / (now - since) if now > since else 0.0

    def _forget(self, now: float) -> None:
        while self._points and now - self._points[0][0] > _WINDOW_SECONDS:
            self._points.popleft()


class Observations:
    """Records what happens to a game, and when."""

    def __init__(self, clock: Callable[[], float], breaches: RefusalCounter, limits: Limits = LIMITS) -> None:
        self._clock = clock
        self._heard: dict[str, float] = {}
        self._pace = Pace(limits.report_seconds)
        self._troubles: dict[str, float] = {}
        self._most = limits.troubles
        self._breaches = breaches  # at the coordinator's own server
        breaches.watch(lambda: self.refuse(COORDINATOR, breaches.all))
        self._refused: dict[str, tuple[Refusal, ...]] = {}
        self._watching_seconds = limits.watching_seconds
        self._shown = -math.inf

    def hear(self, name: str) -> None:
        """Record that a message of a process has come."""
        self._heard[name] = self._clock()

    def miss(self, what: str) -> None:
        """Log and record that a process has gone which was expected to stay."""
        log.warning(what)
        self.trouble(what)

    def meet(self, name: str) -> None:
        """Log and record that a process is back which had gone."""
        what = f"{name} is back after {self._clock() - self._heard[name]:.0f} s"
        log.info(what)
        self.trouble(what)

    def score(self, round: int) -> None:
        """Record that a round has been scored."""
        self._pace.advance(self._clock(), round)

    def trouble(self, what: str) -> None:
        """Record that something went wrong; the same trouble is reported once, with its newest time."""
        self._troubles.pop(what, None)
        self._troubles[what] = self._clock()
        while len(self._troubles) > self._most:
            del self._troubles[next(iter(self._troubles))]

    def refuse(self, server: str, breaches: tuple[Refusal, ...]) -> None:
        """Record what a server has refused so far."""
        known = set(self._refused.get(server, ()))
        self._refused[server] = breaches
        for each in breaches:
            # a process that is refused at joining is told why, and so is the operator, in a sentence of its own
            if each not in known and not (server == COORDINATOR and each.kind == "Mismatch"):
                self.trouble(f"{server} has refused a message of {each.host or 'a stranger'}: {each.kind}")

    def show(self) -> None:
        """Record that a user watches the game and will ask again."""
        self._shown = self._clock()

    @property
    def owed(self) -> float:
        """For how many seconds the coordinator must stay, so that a user who watches the game sees its end."""
        return max(0.0, self._shown + self._watching_seconds - self._clock())

    def observed(self) -> Observed:
        """Return all that was seen, as of now."""
        now = self._clock()
        return Observed(
            silent={name: now - heard for name, heard in self._heard.items()},
            rounds_per_second=self._pace.rate(now),
            troubles=tuple(Incident(now - when, what) for what, when in self._troubles.items()),
            refused=self._breaches.all,
        )


class AbsenceMonitor:
    """Finds hosts that have been silent for `longest` seconds; call `look` every `step` seconds.

    Time during which the coordinator itself was suspended does not count. `give_up` tells whether the host is lost now.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        longest: float,
        members: Callable[[], Sequence[MemberView]],
        *,
        give_up: Callable[[str], bool],
        miss: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._longest = longest
        self._members = members
        self._give_up = give_up
        self._miss = miss
        self._looked = clock()
        self._awake = 0.0  # seconds
        self._heard: dict[str, float] = {}
        self._missed: set[str] = set()
        self.step = min(1.0, longest / 8)

    def hear(self, name: str) -> None:
        """Record that a message of a process has come."""
        self._heard[name] = self._awake
        self._missed.discard(name)

    def expect(self, name: str, within: float) -> None:
        """Give a process that was there before this coordinator so many seconds to come back, at least."""
        self._heard[name] = self._awake + max(0.0, within - self._longest)

    def look(self) -> None:
        """Give up who has been away for too long; say once of each that is waited for all the same."""
        now = self._clock()
        self._awake += min(now - self._looked, 2 * self.step)
        self._looked = now
        for host in self._members():  # as they were when this began: giving one up may seat others anew
            if not host.seats:
                continue
            away = self._awake - self._heard.setdefault(host.name, self._awake)
            if host.connected or host.lost or away < self._longest:
                continue
            if not self._give_up(host.name) and host.name not in self._missed:
                self._missed.add(host.name)
                self._miss(f"{host.name} has been away for {self._longest:g} s; the game waits for it")
