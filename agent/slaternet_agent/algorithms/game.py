"""What an agent knows of the game before the first round."""

from dataclasses import dataclass

import numpy as np

from slaternet.numerics.randomness import stream
from slaternet.numerics.sets import FeasibleSet


@dataclass(frozen=True)
class AlgorithmGame:
    """What an algorithm and its schedule may know of the game."""

    agents: int
    dimension: int
    constraints: int
    rounds: int | None
    seed: int
    set: FeasibleSet

    def stream(self, purpose: str, agent: int = 0, block: int = 0) -> np.random.Generator:
        """Return the generator of one address; the only randomness an algorithm may use."""
        return stream(self.seed, purpose, agent, block)
