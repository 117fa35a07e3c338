"""Economic dispatch: the areas of a grid run its generators at the least cost, while sun and wind come as they like.

The areas (the agents) agree on the output x_j of p generators, each in parts of its rated power. Power of an area is in
parts of what it gets when all run at full load, money is per round, and `day` rounds are a day.

    f_{i,t}(x) = sum_j c_{ij,t} x_j + curvature/2 x_j^2            fuel burnt, at what it costs area i
    g_{i,t}(x) = d_{i,t} - r_{i,t} - sum_j S_ij x_j                balance: demand beyond sun and wind is met
                 x_j - plan_{j,t} - ramp           j = i mod p     ramp limits of the generator that area i operates
                 plan_{j,t} - ramp - x_j

    c_{ij,t} = price_j (1 + swing F_t + volatility v)    price_j from 1/2 to 3/2 of `price`, F_t the hour's fuel market
    d_{i,t}  = demand D_t + noise v                      D_t the hour's demand, at most 1
    r_{i,t}  = renewable R_t u                           R_t the hour's best sun and wind, at most 1
    plan_{j,t} = level + roam W_{j,t}                    W_{j,t} once up to 1 and down to -1 a day, j/p of a day late

u is uniform on [0, 1) and v on [-1, 1), fresh for every area, generator and round. S_ij, area i's share of generator j,
is drawn once: uniform on [1/2, 3/2], then scaled so that an area's shares sum to 1.

How far a generator may move depends on where it was, but functions of an oblivious adversary may not depend on
decisions. So ramps are counted from a plan made the day before, which moves slowly, in straight lines.

Every loss is strongly convex with modulus `curvature`. Slater's condition holds with `margin`: all generators at
level = demand + noise + margin meet any demand without sun or wind, and stay as far inside the ramp limits.
"""

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from slaternet.fields import checked
from slaternet.model import Array
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.builtin.forms import RandomNumbers, Separable, along, ladder

# hour by hour from midnight
_DEMAND = np.ravel(
    [
        [0.64, 0.60, 0.58, 0.57, 0.58, 0.62, 0.70, 0.80, 0.86, 0.88, 0.89, 0.90],
        [0.90, 0.88, 0.87, 0.87, 0.90, 0.96, 1.00, 0.98, 0.93, 0.86, 0.78, 0.70],
    ]
)
_RENEWABLE = np.ravel(
    [
        [0.30, 0.30, 0.30, 0.30, 0.30, 0.30, 0.35, 0.45, 0.60, 0.75, 0.88, 0.96],
        [1.00, 0.98, 0.92, 0.80, 0.65, 0.50, 0.38, 0.32, 0.30, 0.30, 0.30, 0.30],
    ]
)
_FUEL = np.ravel(
    [
        [-0.8, -0.9, -1.0, -1.0, -0.9, -0.6, -0.1, 0.4, 0.6, 0.5, 0.3, 0.2],
        [0.1, 0.0, 0.0, 0.2, 0.5, 0.8, 1.0, 0.9, 0.6, 0.2, -0.2, -0.5],
    ]
)
_PLAN = np.array([0.0, 1.0, 0.0, -1.0])


class EconomicDispatch(Adversary):
    """Prices, demand, sun and wind as they come, whatever was decided."""

    constraints = 3
    rowwise = True

    @checked("adversary.options", CannotPlay)
    def __init__(
        self,
        game: Game,
        *,
        day: PositiveInt = 96,
        price: PositiveFloat = 1.0,
        swing: NonNegativeFloat = 0.2,
        volatility: NonNegativeFloat = 0.2,
        curvature: PositiveFloat = 2.0,
        demand: PositiveFloat = 0.4,
        noise: NonNegativeFloat = 0.03,
        renewable: NonNegativeFloat = 0.1,
        ramp: PositiveFloat = 0.4,
        roam: NonNegativeFloat = 0.1,
        margin: PositiveFloat = 0.05,
    ) -> None:
        super().__init__(game)
        self._day = day
        self._prices = price * ladder(game.dimension)
        self._swing, self._volatility = swing, volatility
        self._demand, self._noise, self._renewable = demand, noise, renewable
        self._ramp, self._roam = ramp, roam
        self._level = self._demand + self._noise + margin
        self._check_slater(margin)
        n, p = game.agents, game.dimension
        self._curvature = np.full((n, p), curvature)
        self._operated = np.arange(n) % p
        shares = 0.5 + np.array([game.stream("shares", agent).random(p) for agent in range(n)])
        shares /= np.add.reduce(shares, axis=-1)[:, None]
        self._matrix = np.zeros((n, 3, p))  # B, the same in every round
        self._matrix[:, 0] = -shares
        self._matrix[np.arange(n), 1, self._operated] = 1.0
        self._matrix[np.arange(n), 2, self._operated] = -1.0
        self._numbers = RandomNumbers(game, "functions", n, p + 2)

    @property
    def slater_point(self) -> Array:
        """The generators at the one level that leaves every constraint of every round at least `margin`, (p,)."""
        return np.full(self.game.dimension, self._level)

    def play(self, round: int, past: History | None = None) -> Separable:
        """Return the functions of any round; they depend on nothing but the seed."""
        del past  # oblivious
        n, p = self.game.agents, self.game.dimension
        uniform, time = self._numbers.uniform(round), round / self._day

        market = 1.0 + self._swing * along(_FUEL, time)
        slope = self._prices * (market + self._volatility * (2.0 * uniform[:, :p] - 1.0))

        demand = self._demand * along(_DEMAND, time) + self._noise * (2.0 * uniform[:, p] - 1.0)
        renewable = self._renewable * along(_RENEWABLE, time) * uniform[:, p + 1]
        plan = (self._level + self._roam * along(_PLAN, time - np.arange(p) / p))[self._operated]
        bound = np.stack((renewable - demand, plan + self._ramp, self._ramp - plan), axis=1)
        return Separable(self._curvature, slope, np.zeros(n), self._matrix, bound)

    def _check_slater(self, margin: float) -> None:
        if self._ramp < self._roam + margin:
            raise CannotPlay(
                f"adversary.options.ramp must be at least roam + margin = {self._roam + margin:g}, so that a generator "
                f"can keep still, not {self._ramp:g}"
            )
        if not self.game.set.encloses(self.slater_point):
            raise CannotPlay(
                f"adversary.options.demand + noise + margin = {self._level:g} is an output of all generators that "
                "[set] does not hold; lower them or widen the set"
            )
