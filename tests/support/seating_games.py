"""Games of four hosts of which some never come back, and what they are told."""

from collections.abc import Sequence
from dataclasses import replace

from tests.support.coordinator_games import EVE, EVE_JOIN, GRAPH, HOST_JOIN, Play

from slaternet.limits import LIMITS
from slaternet.model import (
    Checkpointed,
    Departure,
    Description,
    Holding,
    Seating,
)
from slaternet_coordinator.engine.events import Announce, Effect, Tell
from slaternet_coordinator.engine.rules import Policy
from slaternet_coordinator.graphs import Graph

C, L = LIMITS.checkpoint_every, LIMITS.window
LASTING = replace(HOST_JOIN, durable=True)
FOUR = ("a", "b", "c", "d")


def begun(
    policy: Policy = Policy.LEAVE,
    rounds: int | None = None,
    *,
    spares: Sequence[str] = (),
    together: bool = False,
    reproducible: bool = True,
    departures: tuple[Departure, ...] = (),
    graph: Graph = GRAPH,
) -> Play:
    """Begin a game of four hosts that seat two agents each, and spares."""
    play = Play(
        rounds,
        hosts=4,
        policy=policy,
        departures=departures,
        together=together,
        reproducible=reproducible,
        graph=graph,
    )
    play.join(EVE, replace(EVE_JOIN, durable=True))
    play.open(EVE)
    for name in (*FOUR, *spares):
        play.come(name, LASTING)
    play.say(EVE, Description(2))
    return play


def played(play: Play, round: int, hosts: Sequence[str] = FOUR) -> Play:
    """Let everyone come to a round, with all checkpoints on the way."""
    while play.coordinator.view.scored < round:
        furthest = min(round, play.published)
        for name in hosts:
            if furthest >= C:
                play.say(name, Checkpointed(furthest - furthest % C))
        play.advance(furthest, EVE, *hosts)
    return play


def hold(play: Play, **entered: int) -> list[Effect]:
    """Let hosts answer that they hold."""
    return [effect for name, round in entered.items() for effect in play.say(name, Holding(round))]


def told(effects: list[Effect], name: str, kind: type) -> list[object]:
    """Return what one process is told of a kind."""
    return [
        each.body for each in effects if isinstance(each, Tell) and each.name == name and isinstance(each.body, kind)
    ]


def seated(effects: list[Effect]) -> dict[str, list[int]]:
    """Return who sits where in the seating that some effects announce."""
    seatings = [(each.name, each.body) for each in effects if isinstance(each, Tell) and isinstance(each.body, Seating)]
    return {name: seating.seats.tolist() for name, seating in seatings if name != EVE}


def leaving(play: Play) -> list[tuple[int, list[int]]]:
    """Return the departures of a game."""
    return [(each.round, each.agents.tolist()) for each in play.coordinator._state.departures]


def announced(effects: list[Effect]) -> list[str]:
    """Return what the operator hears."""
    return [each.sentence for each in effects if isinstance(each, Announce)]
