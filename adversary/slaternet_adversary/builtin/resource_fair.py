"""Fair use of shared resources: the price of a resource rises with its recent use. An adaptive adversary.

The agents agree on how much x_j of each of p resources (channels, machines, water) everyone takes. What agent i wants
and does not get, or gets and does not want, costs it; so does what it takes, at prices that rise where the crowd is.

    f_{i,t}(x) = sum_j w_{j,t} x_j + 1/2 (x_j - v_{ij,t})^2
    g_{i,t}(x) = sum_j x_j - b_{i,t}                                 agent i's budget
                 x_j - fair/p sum_l x_l - slack      j = i mod p     no resource far beyond an equal share

    w_{j,t}  = price ((1 - grudge) + grudge p s_{j,t})
    s_{j,t}  = sum |x_{i,tau,j}| / sum_l sum |x_{i,tau,l}|     over all agents i and the last `memory` rounds tau < t
    v_{ij,t} = want_ij + noise v           want_ij from 1/2 to 3/2 of `want`, times a number uniform on [1/2, 3/2]
    b_{i,t}  = budget (1 + spread u)       u uniform on [0, 1), v on [-1, 1), fresh for every agent and round

s_{j,t} is the share of resource j in everything that was used lately: 1/p for all where nothing was, as before the
first round. Agents that have left count no more. Prices average `price`; with grudge = 0 they forget, and are all the
same. want_ij is drawn once; most agents like the same resources, the last ones, so there is a crowd.

Prices are fixed before anyone decides, so losses are convex whatever was decided, strongly with modulus 1. They are
bounded: w lies between price (1 - grudge) and price (1 - grudge + grudge p). Slater's condition holds at x = 0, with
margin min(budget, slack).
"""

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from slaternet.fields import checked
from slaternet.model import Array
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.builtin.forms import Part, RandomNumbers, Separable, ladder


class ResourceFair(Adversary):
    """Punishes the last decisions: prices follow the crowd."""

    constraints = 2
    rowwise = True

    @checked("adversary.options", CannotPlay)
    def __init__(
        self,
        game: Game,
        *,
        memory: PositiveInt = 5,
        price: NonNegativeFloat = 0.4,
        grudge: Part = 0.8,
        want: PositiveFloat = 0.6,
        noise: NonNegativeFloat = 0.3,
        budget: PositiveFloat = 1.0,
        spread: NonNegativeFloat = 0.5,
        fair: PositiveFloat = 1.1,
        slack: PositiveFloat = 0.05,
    ) -> None:
        super().__init__(game)
        n, p = game.agents, game.dimension
        self.history = memory
        self._price, self._grudge = price, grudge
        self._noise = noise
        self._budget, self._spread, self._slack = budget, spread, slack
        if not game.set.encloses(self.slater_point):
            raise CannotPlay("adversary.plugin = resource-fair needs a [set] that holds 0, where nothing is used")
        likings = np.array([game.stream("likings", agent).random(p) for agent in range(n)])
        self._want = want * ladder(p) * (0.5 + likings)
        self._curvature = np.ones((n, p))
        self._matrix = np.ones((n, 2, p))
        self._matrix[:, 1] = -fair / p
        self._matrix[np.arange(n), 1, np.arange(n) % p] += 1.0
        self._numbers = RandomNumbers(game, "functions", n, p + 1)

    @property
    def slater_point(self) -> Array:
        """Using nothing, which leaves every constraint of every round at least min(budget, slack), (p,)."""
        return np.zeros(self.game.dimension)

    def play(self, round: int, past: History | None = None) -> Separable:
        """Return the functions of a round; they depend on the seed and on the last decisions."""
        p, uniform = self.game.dimension, self._numbers.uniform(round)
        wanted = self._want + self._noise * (2.0 * uniform[:, :p] - 1.0)
        constant = 0.5 * np.add.reduce(wanted * wanted, axis=-1)
        bound = np.full((self.game.agents, 2), self._slack)
        bound[:, 0] = self._budget * (1.0 + self._spread * uniform[:, p])
        shares = np.full(p, 1.0 / p) if past is None else usage(past.decisions)
        prices = self._price * ((1.0 - self._grudge) + self._grudge * p * shares)  # w_{j,t}
        return Separable(self._curvature, prices - wanted, constant, self._matrix, bound)


def usage(decisions: Array) -> Array:
    """Return each resource's share in all that was used, (p,): decisions (h, n, p), NaN for agents that have left."""
    p = decisions.shape[-1]
    # a contiguous row for each resource: sums over the last axis have the same bits on every machine
    used = np.ascontiguousarray(np.abs(decisions).reshape(-1, p).T)
    used[np.isnan(used)] = 0.0
    amounts: Array = np.add.reduce(used, axis=-1)
    total = float(np.add.reduce(amounts))
    return amounts / total if total > 0.0 else np.full(p, 1.0 / p)
