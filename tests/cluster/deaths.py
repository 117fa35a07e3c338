"""The places at which a process may die, and a game in which one does at all of them."""

import signal
from pathlib import Path

from tests.cluster.loopback import on_loopback
from tests.cluster.services import ADVERSARY, COORDINATOR, Services, simulated

from slaternet.storage.failpoints import NAMES, VARIABLE

SPEC = ("paper", "--set", "run.agents=4", "--set", "run.dimension=2")
ROUNDS = 600
VICTIMS = {"agent": "agent-1", "adversary": ADVERSARY, "coordinator": COORDINATOR}
"""Who dies, by the role that a place's name begins with."""
WORKER = "adversary_during_evaluation"
"""The only place that is in no service, but in the process of a plugin."""

# by then a host that comes back goes on from a checkpoint, since no round is published so far beyond the low-water mark
_SETTLED = 200
# what comes first in a game and what comes last; all others may come in any order between
_ORDER = ["_during_join", "", "_during_recovery", "_after_last_report"]
_TIMES = {
    "agent_before_query": 40,
    "agent_after_reply": 40,
    "adversary_before_play": 40,
    "adversary_after_play": 40,
    "adversary_after_grant": 40,
    "adversary_after_answer": 40,
    WORKER: 250,  # in each of its lives, which begins with answers that it has given before
    "coordinator_before_round": 3,
    "coordinator_after_round": 3,
    "coordinator_during_join": 2,
}


def armed(place: str) -> dict[str, str]:
    """Return what has a process die when it has passed a place so often that it is well under way."""
    return {VARIABLE: f"{place}:kill@{_TIMES.get(place, 1)}"}


def places(role: str) -> list[str]:
    """Return the places of a role's service, in an order in which one game can pass all of them."""
    mine = [name for name in NAMES if name.startswith(f"{role}_") and name != WORKER]
    special = [end for end in _ORDER if end]
    return sorted(mine, key=lambda name: _ORDER.index(next((end for end in special if name.endswith(end)), "")))


def walk(role: str, folder: Path) -> list[str]:
    """Play a game in which a service dies at every place of its role, and is started again; return where it died.

    The game must end in the bits of its simulation.
    """
    died = []
    with on_loopback(folder, 2, ROUNDS, spec=SPEC) as game:
        for place in places(role):
            _die(game, VICTIMS[role], place)
            died.append(place)
        game.start(VICTIMS[role])
        assert game.end_well() == simulated(ROUNDS, SPEC)
    return died


def _die(game: Services, victim: str, place: str) -> None:
    """Have the next life of a process end at a place; where it must have had one before, see to that first."""
    if place.endswith("_during_recovery"):
        game.start(victim)
        game.under_way(_SETTLED)
        game.kill(victim)
    game.start(victim, variables=armed(place))
    game.start(*game.missing())
    game[victim].says(f"failpoint {place}: killed")
    assert game[victim].ends() == -signal.SIGKILL


def lose_worker(folder: Path) -> None:
    """Play a game in which a plugin's process dies, in each of its lives: the adversary plays it again, saying so.

    The game must end in the bits of its simulation.
    """
    spec = (*SPEC, "--set", "adversary.isolation=process")
    with on_loopback(folder, 1, ROUNDS, spec=spec) as game:
        game.start(COORDINATOR, *game.hosts)
        game.start(ADVERSARY, variables=armed(WORKER))
        game[ADVERSARY].says(f"failpoint {WORKER}: killed")
        game[ADVERSARY].says("the plugin is played again", "plugin LinearRegression")
        assert game.end_well() == simulated(ROUNDS, spec)
