"""A secured game whose coordinator and adversary are flooded while one of its hosts is killed and comes back."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.loopback import on_loopback
from tests.cluster.machines import DEADLINE, eventually
from tests.cluster.services import ADVERSARY, COORDINATOR, Services, Wire, simulated
from tests.cluster.soak import Gauge
from tests.support.flood import SPARE_FILES, Target, files_allowed, flooded

from slaternet.limits import LIMITS

SPEC = ("paper", "--set", "run.agents=6", "--set", "run.dimension=4")
HOSTS = 3
VICTIM = "agent-2"
STRANGER = f"agent-{HOSTS + 1}"
"""Who floods with streams: it has a certificate of the game's CA, but no ticket."""

_STREAMS_AT_ONCE = 400
_REST = 45.0  # seconds of the flood that are left when the game is stopped
_PAUSE = 0.5
_PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Scale:
    """How many connections and streams there are in all, and how many connections at the same time."""

    connections: int
    at_once: int
    streams: int

    @property
    def obstacle(self) -> str:
        """Why this machine does not allow such a flood; empty where it does."""
        wanted, allowed = self.at_once + SPARE_FILES, files_allowed()
        if allowed >= wanted:
            return ""
        return f"{wanted} open files are needed and {allowed} are allowed; raise the hard limit, `ulimit -Hn`"


@dataclass(slots=True)
class Outcome:
    """How long everything took, in seconds, and what the floods have counted."""

    back: float = 0.0
    statuses: list[float] = field(default_factory=list)
    stop: float = 0.0
    unanswered: int = 0
    """How many commands had to be repeated."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    gauges: dict[str, Gauge] = field(default_factory=dict)
    rounds: int = 0


def play(folder: Path, scale: Scale, say: Callable[[str], None]) -> Outcome:
    """Play a game under a flood, which must outlast it; the game must end in the bits of its simulation.

    When the flood is at its height a host is killed and started again. Status is asked all the while. Shortly
    before the end of the flood the game is stopped.
    """
    outcome = Outcome(gauges={name: Gauge() for name in (COORDINATOR, ADVERSARY)})
    with on_loopback(folder, HOSTS, None, spec=SPEC, wire=Wire.TLS) as game:
        game.start(*game.names)
        game.under_way(200)  # so that a host that comes back goes on from a checkpoint
        targets, certificates = _targets(game), folder / "certs"
        with (
            flooded("connections", scale.connections, scale.at_once, targets, folder) as connections,
            flooded("streams", scale.streams, _STREAMS_AT_ONCE, targets, folder, certificates, STRANGER) as streams,
        ):
            floods = {"connections": connections, "streams": streams}
            eventually(lambda: connections.full and streams.full, lambda: f"{connections.counts}, {streams.counts}")
            outcome.back = _lose_and_regain(game)
            say(f"{VICTIM} is back in play after {outcome.back:.1f} s")
            until = time.monotonic() + _PATIENCE
            while not outcome.statuses or max(flood.left for flood in floods.values()) > _REST:
                assert time.monotonic() < until, f"the flood does not end: {connections.counts}, {streams.counts}"
                outcome.statuses.append(_answered(game.status, outcome))
                for name, gauge in outcome.gauges.items():
                    gauge.read(game[name].pid, time.monotonic())
                time.sleep(_PAUSE)  # the next look; nothing depends on its length
            outcome.stop = _answered(game.stop, outcome)
            assert any(flood.flows for flood in floods.values()), "the flood has ended before all was answered"
            say(f"the slowest status took {max(outcome.statuses):.1f} s, stop {outcome.stop:.1f} s")
            digest = game.end_well()
            for kind, flood in floods.items():
                flood.end()
                outcome.counts[kind] = flood.counts
        outcome.rounds = len(game.scored())
    assert digest == simulated(outcome.rounds, SPEC)
    return outcome


def _targets(game: Services) -> list[Target]:
    address = next(each["address"] for each in game.status()["hosts"] if each["role"] == ADVERSARY)
    return [
        Target(COORDINATOR, game.address, "/slaternet.v1.Coordinator/Control"),
        Target(ADVERSARY, address, "/slaternet.v1.Adversary/Reveal"),
    ]


def _lose_and_regain(game: Services) -> float:
    """Kill a host, start it again, and wait until rounds are scored that need it; return the seconds since then."""
    game.kill(VICTIM)
    reached = len(game.scored())
    began = time.monotonic()
    game.start(VICTIM)
    game.under_way(reached + 2 * LIMITS.window + 1)  # further than others get while it is away
    return time.monotonic() - began


def _answered(ask: Callable[[], object], outcome: Outcome) -> float:
    """Run a command of the operator until it is answered; return after how many seconds it was."""
    began = time.monotonic()
    while True:
        try:
            ask()
        except AssertionError:  # it has ended with an exit code
            assert time.monotonic() < began + DEADLINE, "the operator is not answered"
            outcome.unanswered += 1
        else:
            return time.monotonic() - began
