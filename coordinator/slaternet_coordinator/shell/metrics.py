"""The coordinator's own Prometheus metrics."""

from collections.abc import Iterator, Sequence

from slaternet.model import HostStatus
from slaternet.service.metrics import Metric, Reading
from slaternet_coordinator.engine.game_state import GameView, Phase

PHASE = Metric("phase", "gauge", "1 for the phase that the game is in, 0 for the others", ("phase",))
PUBLISHED = Metric("rounds_published", "counter", "rounds whose topology is published")
SPARES = Metric("spares", "gauge", "hosts without a seat, which wait in case one becomes free")
ROUND = Metric("member_round", "gauge", "the last round that a process has finished or scored", ("member",))
CONNECTED = Metric("member_connected", "gauge", "1 while a process has its control stream open, else 0", ("member",))
SEATED = Metric("member_seats", "gauge", "agents seated at a process; 0 of the adversary and of spares", ("member",))

METRICS = (PHASE, PUBLISHED, SPARES, ROUND, CONNECTED, SEATED)


def readings(game: GameView, members: Sequence[HostStatus]) -> Iterator[Reading]:
    """Yield the numbers of the game and of each of its processes."""
    yield PHASE.by((phase, int(phase is game.phase)) for phase in Phase)
    yield PUBLISHED.reads(game.published)
    yield SPARES.reads(sum(member.spare for member in members) if game.phase is not Phase.GATHERING else 0)
    yield ROUND.by((member.name, member.round) for member in members)
    yield CONNECTED.by((member.name, int(member.connected)) for member in members)
    yield SEATED.by((member.name, member.seats) for member in members)
