"""When which services of a game are killed: drawn by a seed, told by rounds."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.cluster.services import ADVERSARY, COORDINATOR, PAPER, Services

GAMES = {
    "paper": PAPER,
    "dual-with-memory": (*PAPER, "--set", "algorithm.name=yi2023"),
    "adaptive-adversary": ("resource-fair",),
}
"""What must survive: specs, with their settings."""

_TURNS = 4
_FIRST = 5
# Rounds between the last kill and the end: no more are under way at once, so that the game cannot end before the kill.
_REST = 128


@dataclass(frozen=True, slots=True)
class Kill:
    """So many rounds are scored, and these services die in one instant; they are started again in this order."""

    round: int
    names: tuple[str, ...]


def draw(seed: int, hosts: Sequence[str], rounds: int) -> list[Kill]:
    """Draw kills of each role in turn, of all hosts at once and of everyone at once, over a game of so many rounds."""
    chance = random.Random(f"kills {seed}")
    victims: list[tuple[str, ...]] = []
    for _ in range(_TURNS):
        turn = [(chance.choice(hosts),), (ADVERSARY,), (COORDINATOR,)]
        chance.shuffle(turn)
        victims += turn
    together = [tuple(hosts), (COORDINATOR, ADVERSARY, *hosts)]
    for group in together:
        victims.insert(chance.randrange(len(victims) + 1), tuple(chance.sample(group, len(group))))
    moments = sorted(chance.sample(range(_FIRST, rounds - _REST), len(victims)))
    return [Kill(round, names) for round, names in zip(moments, victims, strict=True)]


def strike(game: Services, kill: Kill) -> None:
    """Wait for the moment, kill, see that nothing recorded is lost by it, and start the same commands again."""
    game.under_way(kill.round)
    before = game.scored()
    game.kill(*kill.names)
    assert game.scored()[: len(before)] == before
    game.start(*kill.names)
