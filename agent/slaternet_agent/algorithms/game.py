"""The game as an algorithm knows it before the first round."""

from dataclasses import dataclass

import numpy as np

from slaternet.numerics.randomness import stream
from slaternet.numerics.sets import FeasibleSet


@dataclass(frozen=True)
class AlgorithmGame:
    """The facts about the game that an algorithm and its schedule may use."""

    agents: int
    dimension: int
    constraints: int
    rounds: int | None
    seed: int
    set: FeasibleSet

    def stream(self, purpose: str, agent: int = 0, block: int = 0) -> np.random.Generator:
        """Return the generator of one address; the only randomness an algorithm may use."""
        return stream(self.seed, purpose, agent, block)
