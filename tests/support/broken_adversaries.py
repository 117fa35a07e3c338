# ruff: noqa: D106
"""A good adversary, and one for every way to break the contract: each is the good one but for a single thing."""

import sys
from typing import Any

import numpy as np

from slaternet.model import Agents, Array
from slaternet_adversary import Adversary, Game, History


class Functions:
    """f_i(x) = 1/2 |x - c_i|^2 and g_i(x) = sum x - b_i, c (n, p), b (n,)."""

    def __init__(self, c: Array, b: Array) -> None:
        self.c, self.b = c, b

    def loss(self, agents: Agents, points: Array) -> Array:
        away = points - self.c[agents][:, None]
        return np.asarray(0.5 * np.sum(away * away, axis=-1))

    def constraint(self, agents: Agents, points: Array) -> Array:
        return np.asarray(np.sum(points, axis=-1) - self.b[agents][:, None])[..., None]

    def loss_gradient(self, agents: Agents, points: Array) -> Array:
        return points - self.c[agents][:, None]

    def constraint_gradient(self, agents: Agents, points: Array) -> Array:
        return np.ones((*points.shape[:2], 1, points.shape[2]))

    def network_loss(self, agents: Agents, points: Array) -> Array:
        hessian, slope, constant = self.quadratic(agents)
        return np.asarray(np.sum((0.5 * points @ hessian + slope) * points, axis=1) + constant)

    def network_violation(self, agents: Agents, points: Array) -> Array:
        excess = np.maximum(points.sum(axis=1)[:, None] - self.b[agents], 0.0)
        return np.asarray(np.sqrt(np.sum(excess * excess, axis=1)))

    def quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
        c = self.c[agents]
        return np.eye(c.shape[1]), -c.mean(axis=0), float(0.5 * np.sum(c * c) / len(agents))

    def linear(self, agents: Agents) -> tuple[Array, Array]:
        return np.ones((len(agents), self.c.shape[1])), self.b[agents]


class Good(Adversary):
    """Fresh functions in every round."""

    constraints = 1
    rowwise = True
    Round: type[Functions] = Functions

    def play(self, round: int, past: History | None) -> Any:
        draw = self.game.stream("functions", 0, round)
        n, p = self.game.agents, self.game.dimension
        return self.Round(draw.standard_normal((n, p)), 1.0 + draw.random(n))


class Adaptive(Good):
    """Pulls towards where the agents were, as far as they are still there."""

    history = 2

    def play(self, round: int, past: History | None) -> Any:
        functions = super().play(round, None)
        assert past is not None
        if len(past.decisions):
            functions.c = functions.c + np.nanmean(past.decisions[-1], axis=0)
        return functions


# Values


class WrongShape(Good):
    class Round(Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            return super().loss(agents, points)[:, 0]


class SinglePrecision(Good):
    class Round(Functions):
        def constraint(self, agents: Agents, points: Array) -> Array:
            return super().constraint(agents, points).astype(np.float32)  # type: ignore[return-value]


class ComplexNumbers(Good):
    class Round(Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            return super().loss(agents, points) + 0j  # type: ignore[return-value]


class Objects(Good):
    class Round(Functions):
        def constraint(self, agents: Agents, points: Array) -> Array:
            return super().constraint(agents, points).astype(object)


class Ragged(Good):
    class Round(Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            return [[0.0], [0.0, 0.0]]  # type: ignore[return-value]


class BigEndian(Good):
    class Round(Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            return super().loss(agents, points).astype(">f8")


class WholeNumbers(Good):
    class Round(Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            return np.zeros(points.shape[:2], dtype=np.int64)  # type: ignore[return-value]

        loss_gradient = network_loss = quadratic = None  # type: ignore[assignment]


class Lists(Good):
    class Round(Functions):
        def constraint(self, agents: Agents, points: Array) -> Array:
            return super().constraint(agents, points).tolist()  # type: ignore[return-value]


class Strided(Good):
    class Round(Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            return np.asfortranarray(super().loss(agents, points))


class ReusedBuffer(Good):
    """Returns views of one array, in which it computes every answer."""

    class Round(Functions):
        buffer = np.empty(1 << 12)

        def loss(self, agents: Agents, points: Array) -> Array:
            losses = super().loss(agents, points)
            self.buffer[: losses.size] = losses.ravel()
            view = self.buffer[: losses.size].reshape(losses.shape).view()
            view.setflags(write=False)
            return view


class Huge(Good):
    class Round(Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            return 1e300 * super().loss(agents, points)


class HugeScore(Good):
    """Every value is small enough, and their average as it computes it is not."""

    class Round(Functions):
        def network_loss(self, agents: Agents, points: Array) -> Array:
            return 1e308 * (10.0 + super().network_loss(agents, points))


class NotFinite(Good):
    class Round(Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            return super().loss(agents, points) - np.log(1.9 - points[..., 0])


class NonDeterministic(Good):
    def __init__(self, game: Game) -> None:
        super().__init__(game)
        self._luck = np.random.default_rng()

    def play(self, round: int, past: History | None) -> Any:
        functions = super().play(round, past)
        functions.c = functions.c + self._luck.random()
        return functions


class OrderDependent(Good):
    class Round(Functions):
        asked = 0

        def loss(self, agents: Agents, points: Array) -> Array:
            self.asked += 1
            return super().loss(agents, points) + 0.001 * self.asked

        network_loss = None  # type: ignore[assignment]
        quadratic = None  # type: ignore[assignment]


class ReactsToTheRound(Good):
    """Moves away from the first point that anyone asks about."""

    class Round(Functions):
        moved = False

        def loss(self, agents: Agents, points: Array) -> Array:
            if not self.moved:
                self.c = self.c - points[0, 0]
                self.moved = True
            return super().loss(agents, points)


class ReactsToEarlierRounds(Good):
    """Remembers what it was asked last, and uses it in the round after."""

    def __init__(self, game: Game) -> None:
        super().__init__(game)
        self.heard = np.zeros(game.dimension)

    def play(self, round: int, past: History | None) -> Any:
        functions, spy = super().play(round, past), self
        functions.c = functions.c - self.heard

        class Spying(Functions):
            def loss(self, agents: Agents, points: Array) -> Array:
                spy.heard = points[0, 0]
                return super().loss(agents, points)

        return Spying(functions.c, functions.b)


class OneBoard(Good):
    """All rounds look at the functions of the newest."""

    def __init__(self, game: Game) -> None:
        super().__init__(game)
        self._board = Functions(np.empty(0), np.empty(0))

    def play(self, round: int, past: History | None) -> Any:
        functions = super().play(round, past)
        self._board.c, self._board.b = functions.c, functions.b
        return self._board


class BatchDependent(Good):
    class Round(Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            losses = super().loss(agents, points)
            return losses + 1e-12 * losses.mean()


class BatchDependentAndSaysSo(BatchDependent):
    rowwise = False


# Functions


class NonConvexLoss(Good):
    class Round(Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            return super().loss(agents, points) - points[..., 0] ** 2

        loss_gradient = network_loss = quadratic = None  # type: ignore[assignment]


class NonConvexConstraint(Good):
    class Round(Functions):
        def constraint(self, agents: Agents, points: Array) -> Array:
            return super().constraint(agents, points) - np.abs(points[..., :1])

        constraint_gradient = network_violation = linear = None  # type: ignore[assignment]


class WrongGradient(Good):
    class Round(Functions):
        def loss_gradient(self, agents: Agents, points: Array) -> Array:
            return 2.0 * super().loss_gradient(agents, points)


class WrongConstraintGradient(Good):
    class Round(Functions):
        def constraint_gradient(self, agents: Agents, points: Array) -> Array:
            return -super().constraint_gradient(agents, points)


class WrongNetworkLoss(Good):
    """The sum, not the average."""

    class Round(Functions):
        def network_loss(self, agents: Agents, points: Array) -> Array:
            return super().network_loss(agents, points) * len(agents)


class ShortNetworkLoss(Good):
    """One number for all points."""

    class Round(Functions):
        def network_loss(self, agents: Agents, points: Array) -> Array:
            return super().network_loss(agents, points)[:1]


class WrongNetworkViolation(Good):
    """The sum of violations, not their norm."""

    class Round(Functions):
        def network_violation(self, agents: Agents, points: Array) -> Array:
            return np.asarray(np.sum(np.maximum(points.sum(axis=1)[:, None] - self.b[agents], 0.0), axis=1))


class WrongQuadratic(Good):
    """Without the constant."""

    class Round(Functions):
        def quadratic(self, agents: Agents) -> tuple[Array, Array, float]:
            return (*super().quadratic(agents)[:2], 0.0)

        def network_loss(self, agents: Agents, points: Array) -> Array:
            return np.array([self.loss(agents, np.tile(x, (len(agents), 1, 1))).mean() for x in points])


class WrongLinear(Good):
    """Bx + b instead of Bx - b."""

    class Round(Functions):
        def linear(self, agents: Agents) -> tuple[Array, Array]:
            matrix, bound = super().linear(agents)
            return matrix, -bound


class WrongScoring(Good):
    """What is scored is drawn when it is asked for."""

    class Round(Functions):
        def scoring(self) -> Functions:
            return Functions(np.random.default_rng().random(self.c.shape), self.b)


class Infeasible(Good):
    def play(self, round: int, past: History | None) -> Any:
        functions = super().play(round, past)
        functions.b = functions.b - 20.0
        return functions


class InfeasibleTogether(Infeasible):
    """Every agent has feasible points; no point is feasible for two of them."""

    class Round(Functions):
        def constraint(self, agents: Agents, points: Array) -> Array:
            sign = np.where(agents % 2, 1.0, -1.0)[:, None, None]
            return sign * (points[..., :1] - 0.5) + 0.1

        constraint_gradient = network_violation = linear = None  # type: ignore[assignment]


# Conduct


class Clock:
    """Stands still but for what is said to take time."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Slow(Good):
    clock = Clock()

    def play(self, round: int, past: History | None) -> Any:
        self.clock.now += 1.5
        return super().play(round, past)


class SlowToScore(Good):
    """By the time of the test's clock: 8 ms for a piece of a score."""

    clock = Clock()

    class Round(Functions):
        def network_violation(self, agents: Agents, points: Array) -> Array:
            SlowToScore.clock.now += 0.008
            return super().network_violation(agents, points)


class Raises(Good):
    def play(self, round: int, past: History | None) -> Any:
        if round == 3:
            raise KeyError("prices")
        return super().play(round, past)


class Exits(Good):
    def play(self, round: int, past: History | None) -> Any:
        sys.exit(0)


class WritesIntoTheQuestion(Good):
    class Round(Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            points -= self.c[agents][:, None]
            return np.asarray(0.5 * np.sum(points * points, axis=-1))


class Undescribed(Good):
    constraints = 1.0  # type: ignore[assignment]


class Hoarder(Good):
    """Keeps what it has played."""

    def __init__(self, game: Game) -> None:
        super().__init__(game)
        self._rounds: list[Any] = []

    def play(self, round: int, past: History | None) -> Any:
        self._rounds.append((super().play(round, past), np.zeros(1000)))
        return self._rounds[-1][0]


class Unscorable(Good):
    """Fails where it is scored, though it has no method for that."""

    class Round(Functions):
        def loss(self, agents: Agents, points: Array) -> Array:
            if points.shape[1] == 7:
                raise RuntimeError("seven")
            return super().loss(agents, points)

        network_loss = network_violation = quadratic = linear = None  # type: ignore[assignment]


class Clinging(Adaptive):
    """Has not thought of agents that leave."""

    def play(self, round: int, past: History | None) -> Any:
        functions = Good.play(self, round, None)
        assert past is not None
        if len(past.decisions):
            functions.c = functions.c + np.mean(past.decisions[-1], axis=0)
        return functions
