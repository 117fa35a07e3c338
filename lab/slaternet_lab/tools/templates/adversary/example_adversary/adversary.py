"""Buying together: agents agree on quantities of p goods, each with wishes of its own, at prices that change.

    f_{i,t}(x) = 1/2 |x - d|^2             d (p,) is what agent i wishes in round t; it wanders inside X
    g_{i,t}(x) = c'(x - centre) - budget   c (p,) uniform on 1 + [-spread, spread]: the prices that agent i is quoted

g <= 0 means feasible. The centre of X is feasible with margin `budget` in every round, which is Slater's condition, and
every loss is strongly convex with modulus 1. Wishes are worth more than the budget, so that moving pays and the
constraints bind. Replace the functions by yours; the comments say what the game relies on.

    n agents   p dimension   k agents asked about   s points each   m constraints each (here 1)   N points scored
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slaternet_adversary import Adversary, CannotPlay, Game, History

Agents = NDArray[np.intp]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Functions:
    """Every agent's functions in one round. They are fixed: asked twice, they answer twice the same."""

    wishes: Array  # (n, p)
    prices: Array  # (n, p)
    limits: Array  # (n,): g_i(x) = prices_i'x - limits_i

    # The two methods that every round has. `agents` (k,) ascends; agent i asks about points[i], so that the two
    # arrays belong together. Sums over the last axis, and no `@`: BLAS would change the last bit of an agent's value
    # with the number of agents asked about together, and `rowwise = True` below promises that nothing does.

    def loss(self, agents: Agents, points: Array) -> Array:
        """Return f_i at the points of each agent: points (k, s, p) -> (k, s)."""
        away = points - self.wishes[agents][:, None]
        loss: Array = 0.5 * np.sum(away * away, axis=-1)
        return loss

    def constraint(self, agents: Agents, points: Array) -> Array:
        """Return g_i at the points of each agent: points (k, s, p) -> (k, s, m)."""
        spent = np.sum(self.prices[agents][:, None] * points, axis=-1)
        excess: Array = spent - self.limits[agents][:, None]
        return excess[..., None]

    # Gradients. Algorithms with full information need them, and `slaternet regret` where there is no closed form.

    def loss_gradient(self, agents: Agents, points: Array) -> Array:
        """Return the gradients of f_i: points (k, s, p) -> (k, s, p)."""
        return points - self.wishes[agents][:, None]

    def constraint_gradient(self, agents: Agents, points: Array) -> Array:
        """Return the gradients of g_i: points (k, s, p) -> (k, s, m, p)."""
        return np.repeat(self.prices[agents][:, None, None], points.shape[1], axis=1)

    # Scores. Every decision is scored by the functions of all agents, n x N evaluations unless there is a short cut.
    # No agent sees a score, so `@` is welcome here.

    def network_loss(self, agents: Agents, points: Array) -> Array:
        """Return the average of f_i over `agents` at each of points (N, p) -> (N,)."""
        hessian, slope, constant = self.quadratic(agents)
        loss: Array = np.sum((points @ (0.5 * hessian) + slope) * points, axis=-1) + constant
        return loss

    def network_violation(self, agents: Agents, points: Array) -> Array:
        """Return the norm of the stacked [g_i]_+ of `agents` at each of points (N, p) -> (N,)."""
        matrix, bound = self.linear(agents)
        excess = np.maximum(points @ matrix.T - bound, 0.0)
        norm: Array = np.sqrt(np.sum(excess * excess, axis=-1))
        return norm

    # The closed form, if there is one: the best fixed decision in hindsight, and with it the regret, is then exact.

    def quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
        """Return (H, h, c): the average loss of `agents` is 1/2 x'Hx + h'x + c."""
        wishes = self.wishes[agents]
        return np.eye(wishes.shape[1]), -wishes.mean(axis=0), 0.5 * float(np.sum(wishes * wishes)) / len(agents)

    def linear(self, agents: Agents) -> tuple[Array, Array]:
        """Return (B, b): the stacked constraints of `agents` are Bx - b; B (k m, p), b (k m,)."""
        return self.prices[agents], self.limits[agents]


class ExampleAdversary(Adversary):
    """Wishes that wander from round to round, and fresh prices in every round."""

    constraints = 1  # m. An agent with fewer constraints than others pads with -1; an option may set self.constraints.
    history = 0  # oblivious; with 3, `play` gets all decisions of the 3 rounds before and may react to them
    rowwise = True  # without it every agent is asked about alone, which is slower and never wrong

    # The keyword arguments are the options of a spec, [adversary.options]. A name that is not among them is refused
    # before this is called; whether a value makes sense is for you to say, with a sentence that the user can act on.
    def __init__(
        self, game: Game, *, budget: float = 1.0, spread: float = 0.5, wish: float = 1.0, drift: float = 0.05
    ) -> None:
        super().__init__(game)
        if not budget > 0.0:
            raise CannotPlay(f"adversary.options.budget must be above 0, for Slater's condition to hold, not {budget}")
        if not 0.0 <= spread < 1.0:
            raise CannotPlay(f"adversary.options.spread must be at least 0 and below 1, not {spread}")
        self._budget = budget
        self._spread = spread
        self._drift = drift
        # All randomness comes from streams with an address: purpose, agent, block. The same address gives the same
        # numbers again, on any machine. This one is drawn once, so it needs neither agent nor block.
        about = game.set.centre + wish
        self._wishes = game.set.project(about + game.stream("wishes").uniform(-1.0, 1.0, (game.agents, game.dimension)))

    # Called with 1, 2, 3, ... in order, before any agent may ask about the round. State between rounds is allowed if
    # it comes from nothing but the arguments and the streams: a new instance, played again from round 1, must give the
    # same functions. Earlier rounds are still asked about, so make new arrays and leave theirs alone.
    def play(self, round: int, past: History | None) -> Functions:
        """Choose the functions of `round`."""
        del past  # None, because history = 0
        generator = self.game.stream("round", block=round)  # one generator for what belongs to one round
        steps, quotes = generator.uniform(-1.0, 1.0, (2, self.game.agents, self.game.dimension))
        self._wishes = self.game.set.project(self._wishes + self._drift * steps)
        prices = 1.0 + self._spread * quotes
        limits = self._budget + np.sum(prices * self.game.set.centre, axis=-1)
        return Functions(self._wishes, prices, limits)
