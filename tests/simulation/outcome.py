"""How a world went."""

from collections import Counter
from dataclasses import dataclass

from tests.simulation.losses import Losses


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a world went."""

    seed: int
    kind: str
    hosts: int
    losses: Losses
    faults: Counter[str]
    crashes: int
    rounds: int
    virtual_seconds: float
    heal_seconds: float
    """From when everything had healed until the game came a round further; none where it was over."""
    digest: str
    events: int
