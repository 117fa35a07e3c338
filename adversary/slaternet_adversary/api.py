"""What the author of an adversary imports.

    n   agents        p   dimension        k   agents asked about
    s   points        m   constraints      N   points scored

An adversary chooses loss and constraint functions for every agent and round. g <= 0 means feasible.
"""

import abc
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slaternet.errors import BadSpec
from slaternet.model import Agents, Array
from slaternet.numerics.randomness import stream
from slaternet.numerics.sets import FeasibleSet


class CannotPlay(BadSpec):
    """Raise it for a game this adversary does not support; its sentence is shown to the operator."""


@dataclass(frozen=True)
class Game:
    """What an adversary knows before the first round."""

    agents: int
    dimension: int
    seed: int
    set: FeasibleSet

    def stream(self, purpose: str, agent: int = 0, block: int = 0) -> np.random.Generator:
        """Return the generator of one address; the only randomness an adversary may use."""
        return stream(self.seed, purpose, agent, block)


@dataclass(frozen=True, slots=True)
class History:
    """What all agents decided in earlier rounds."""

    decisions: Array
    """(h, n, p), newest last; h grows from 0 to `history`; NaN for agents that have left."""


class Round(Protocol):
    """The functions of one round, fixed before anyone asks.

    Beyond the two methods below a round may have any of these; each must agree with them:

        loss_gradient(agents, points)        -> (k, s, p)       full-information algorithms need the gradients
        constraint_gradient(agents, points)  -> (k, s, m, p)
        network_loss(agents, points (N, p))  -> (N,)            average loss over `agents` at each point
        network_violation(agents, points)    -> (N,)            norm of their stacked [g]_+ at each point
        quadratic(agents)  -> (H, h, c)      the average loss of `agents` is 1/2 x'Hx + h'x + c
        linear(agents)     -> (B, b)         their stacked constraints are Bx - b, row after row
        scoring()          -> Round          what is scored where it differs from what is revealed; itself if absent
    """

    def loss(self, agents: Agents, points: Array) -> Array:
        """Return f_i at the points of each agent asked about; agents (k,) ascending, points (k, s, p) -> (k, s)."""

    def constraint(self, agents: Agents, points: Array) -> Array:
        """Return g_i at the points of each agent asked about; agents (k,) ascending, points (k, s, p) -> (k, s, m)."""


class Adversary(abc.ABC):
    """An opponent. Subclass it, implement `play`, name it in an entry point.

    `play` runs before any agent may ask about the round, so it can never see the decisions it is judged against. It
    is called with rounds 1, 2, 3, ... in order and may carry state between them, if that comes only from its arguments
    and `self.game.stream(...)`: after a crash a new instance is played again from round 1 and must give the same
    functions. Where a game grants gradients, round 1 of an instance of its own is played before the game, to see that
    there are any.

    Options of a spec arrive as keyword arguments of the constructor. Raise `CannotPlay` for a game this adversary does
    not support; every other exception ends the run and is shown to the operator, never to an agent.
    """

    constraints: int
    """m: rows of g per agent; an agent with fewer pads with -1."""
    history: int = 0
    """Rounds of all agents' decisions that `play` receives; 0 = oblivious."""
    rowwise: bool = False
    """True: an agent's values do not depend, to the last bit, on which others are asked with it."""

    def __init__(self, game: Game) -> None:
        self.game = game

    @abc.abstractmethod
    def play(self, round: int, past: History | None) -> Round:
        """Choose every agent's functions for `round`, knowing only earlier rounds."""
