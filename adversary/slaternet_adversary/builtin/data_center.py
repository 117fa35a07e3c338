"""Data centres: jobs go to the sites where power is cheap, while prices, traffic and capacities change.

The front-ends that take jobs in (the agents) agree on the load x_j >= 0 that each of them books at p sites, in parts of
the busiest traffic: with traffic = 1, sum_j x_j = 1 serves it. Money is per round, and `day` rounds are a day. X is
best a simplex, {x >= 0, sum x <= size}.

    f_{i,t}(x) = sum_j c_{ij,t} x_j + congestion/2 x_j^2           power at its price, and waiting where it is crowded
    g_{i,t}(x) = a_{i,t} - sum_j x_j                               all traffic is served
                 x_j - C_{j,t}                     j = i mod p     capacity of the site that front-end i watches

    c_{ij,t} = price_j (1 + swing E_{j,t} + volatility v) + distance D_ij      E_{j,t} the hour's power market at site j
    a_{i,t}  = traffic A_{i,t} + noise v                                       A_{i,t} the hour's traffic, at most 1
    C_{j,t}  = capacity/p (1 - repair u)                                       part of a site is under repair

price_j goes from 1/2 to 3/2 of `price`. Sites and front-ends lie around the globe: days of site j begin j/p of a day
late, those of front-end i i/n of a day. u is uniform on [0, 1), fresh for every site and round, and v on [-1, 1), fresh
for every front-end, site and round. D_ij, how far site j is from front-end i, is uniform on [0, 1) and drawn once.

Every loss is strongly convex with modulus `congestion`. Slater's condition holds with equal loads on all sites,
`booked` in all, half way between what must be served and what there is always room for:

    booked = (traffic + noise + capacity (1 - repair)) / 2         margin = (booked - traffic - noise) / p
"""

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from slaternet.fields import checked
from slaternet.model import Array
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.builtin.forms import Part, RandomNumbers, Separable, along, ladder

# hour by hour from midnight
_POWER = np.ravel(
    [
        [-0.7, -0.9, -1.0, -1.0, -0.8, -0.4, 0.2, 0.7, 0.8, 0.5, 0.2, 0.0],
        [-0.2, -0.3, -0.2, 0.0, 0.4, 0.8, 1.0, 1.0, 0.7, 0.3, -0.1, -0.4],
    ]
)
_TRAFFIC = np.ravel(
    [
        [0.55, 0.45, 0.38, 0.34, 0.33, 0.36, 0.45, 0.60, 0.75, 0.85, 0.90, 0.92],
        [0.90, 0.91, 0.92, 0.92, 0.91, 0.90, 0.92, 0.96, 1.00, 0.98, 0.85, 0.70],
    ]
)


class DataCenter(Adversary):
    """Prices, traffic and capacities as they come, whatever was decided."""

    constraints = 2
    rowwise = True

    @checked("adversary.options", CannotPlay)
    def __init__(
        self,
        game: Game,
        *,
        day: PositiveInt = 96,
        price: PositiveFloat = 1.0,
        swing: NonNegativeFloat = 0.3,
        volatility: NonNegativeFloat = 0.2,
        distance: NonNegativeFloat = 0.2,
        congestion: PositiveFloat = 3.0,
        traffic: PositiveFloat = 1.0,
        noise: NonNegativeFloat = 0.05,
        capacity: PositiveFloat = 2.4,
        repair: Part = 0.3,
    ) -> None:
        super().__init__(game)
        n, p = game.agents, game.dimension
        self._day = day
        self._prices = price * ladder(p)
        self._swing, self._volatility = swing, volatility
        self._traffic, self._noise = traffic, noise
        self._capacity, self._repair = capacity, repair
        self._check_slater()
        self._far = distance * np.array([game.stream("distances", agent).random(p) for agent in range(n)])
        self._curvature = np.full((n, p), congestion)
        self._watched = np.arange(n) % p
        self._matrix = np.full((n, 2, p), -1.0)
        self._matrix[:, 1] = 0.0
        self._matrix[np.arange(n), 1, self._watched] = 1.0
        self._markets = RandomNumbers(game, "functions", n, p + 1)
        self._repairs = RandomNumbers(game, "repairs", p, 1)

    @property
    def slater_point(self) -> Array:
        """The equal load that leaves every constraint of every round at least `margin`, (p,)."""
        p = self.game.dimension
        booked = 0.5 * (self._traffic + self._noise + self._capacity * (1.0 - self._repair))
        return np.full(p, booked / p)

    @property
    def margin(self) -> float:
        """The room that the Slater point leaves to every constraint."""
        return 0.5 * (self._capacity * (1.0 - self._repair) - self._traffic - self._noise) / self.game.dimension

    def play(self, round: int, past: History | None = None) -> Separable:
        """Return the functions of any round; they depend on nothing but the seed."""
        del past  # oblivious
        n, p = self.game.agents, self.game.dimension
        uniform, time = self._markets.uniform(round), round / self._day

        market = 1.0 + self._swing * along(_POWER, time - np.arange(p) / p)
        slope = self._prices * (market + self._volatility * (2.0 * uniform[:, :p] - 1.0)) + self._far

        arrivals = self._traffic * along(_TRAFFIC, time - np.arange(n) / n) + self._noise * (2.0 * uniform[:, p] - 1.0)
        capacity = self._capacity / p * (1.0 - self._repair * self._repairs.uniform(round)[:, 0])
        bound = np.stack((-arrivals, capacity[self._watched]), axis=1)
        return Separable(self._curvature, slope, np.zeros(n), self._matrix, bound)

    def _check_slater(self) -> None:
        if not self.margin > 0.0:
            least = (self._traffic + self._noise) / (1.0 - self._repair)
            raise CannotPlay(
                f"adversary.options.capacity must be above (traffic + noise) / (1 - repair) = {least:g}, so that all "
                f"traffic can be served, not {self._capacity:g}"
            )
        if not self.game.set.encloses(self.slater_point):
            load = self.slater_point[0]
            raise CannotPlay(
                f"adversary.options.traffic, noise and capacity put a load of {load:g} on every site, which [set] does "
                "not hold; lower them or widen the set"
            )
