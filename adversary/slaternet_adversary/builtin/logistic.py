"""Learning a classifier from a stream of labelled samples, without favouring one of two groups.

    f_{i,t}(x) = (1/rows) sum_r ln(1 + exp(-y_r a_r'x)) + mu/2 |x|^2      samples a_r (p,) with labels y_r = 1 or -1
    g_{i,t}(x) = ( d'x - slack,                                          d = mean of a_r over group 1
                  -d'x - slack,                                              - mean of a_r over group 0
                  (|x|^2 - budget^2) / (2 budget) )                      so that |x| <= budget

Every agent sees its own `rows` samples in every round; the first two constraints let the groups' average scores x'a
differ by at most `slack` (d = 0 where an agent sees one group only). x = 0 satisfies all of them with margin
min(slack, budget / 2), Slater's condition. mu > 0 makes every loss strongly convex.

Without `data` the samples are drawn. Features are uniform on [-1, 1], those of group 1 moved up by `gap`; labels are
y = sign(a'w_t + e), e uniform on [-noise, noise], and the separator w_t drifts: its coordinate j is 1 + drift times a
wave of straight lines that goes from 0 up to 1, down to -1 and back in `period` rounds, and starts j/p later.

`data` names a table (see `samples`), whose rows are dealt in order: the first `rows` of them to agent 0 in round 1, the
next to agent 1, and so on. With `repeat` they are dealt again from the first when none is left. `scale` divides every
feature by its largest absolute value, which bounds the losses whatever the data are.
"""

from pathlib import Path

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from slaternet.fields import checked
from slaternet.model import Agents, Array
from slaternet.numerics.portable import sigmoid, softplus
from slaternet_adversary.api import Adversary, CannotPlay, Game, History
from slaternet_adversary.builtin import samples
from slaternet_adversary.builtin.forms import RandomNumbers

_PIECE = 1 << 19
"""Margins, of samples at points, that are held at once while a round is scored."""
_FACTORS = 512
"""As many numbers between 1 and 2 are multiplied without overflow."""


class LogisticRound:
    """Every agent's functions in one round.

    Values are elementwise arithmetic and sums over the last axis, so that an agent's bits do not depend on the others
    in a question. Scores are for the observer alone and may use BLAS and the library's exponential.
    """

    __slots__ = ("_budget", "_gap", "_mu", "_slack", "signed")

    def __init__(self, signed: Array, gap: Array | None, mu: float, slack: float, budget: float) -> None:
        self.signed = signed  # -y_r a_r', (n, rows, p)
        self._gap = gap  # d, (n, p); None where the groups are not known
        self._mu, self._slack, self._budget = mu, slack, budget

    def loss(self, agents: Agents, points: Array) -> Array:
        """Return the average of ln(1 + exp(-y a'x)) plus mu/2 |x|^2, (k, s)."""
        loss: Array = np.add.reduce(softplus(self._margins(agents, points)), axis=-1)
        loss /= self.signed.shape[1]
        loss += 0.5 * self._mu * _square(points)
        return loss

    def loss_gradient(self, agents: Agents, points: Array) -> Array:
        """Return the average of -y a / (1 + exp(y a'x)) plus mu x, (k, s, p)."""
        weights = sigmoid(self._margins(agents, points))
        columns = self.signed[agents].transpose(0, 2, 1)[:, None]  # (k, 1, p, rows)
        gradient: Array = np.add.reduce(np.multiply(columns, weights[:, :, None], order="C"), axis=-1)
        gradient /= self.signed.shape[1]
        gradient += self._mu * points
        return gradient

    def constraint(self, agents: Agents, points: Array) -> Array:
        """Return the constraints, (k, s, 3); (k, s, 1), the budget alone, where the groups are not known."""
        budget = (_square(points) - self._budget**2) / (2.0 * self._budget)
        if self._gap is None:
            return budget[..., None]
        difference = np.add.reduce(np.multiply(self._gap[agents][:, None], points, order="C"), axis=-1)
        return np.stack((difference - self._slack, -difference - self._slack, budget), axis=-1)

    def constraint_gradient(self, agents: Agents, points: Array) -> Array:
        """Return d, -d and x / budget, (k, s, 3, p)."""
        budget: Array = points / self._budget
        if self._gap is None:
            return budget[:, :, None]
        gap = np.broadcast_to(self._gap[agents][:, None], points.shape)
        return np.stack((gap, -gap, budget), axis=2)

    def network_loss(self, agents: Agents, points: Array) -> Array:
        """Return the agents' average loss at points (N, p), in pieces of bounded size."""
        signed = self.signed[agents].reshape(-1, points.shape[1])
        loss: Array = np.einsum("np,np->n", 0.5 * self._mu * points, points)
        step = max(1, _PIECE // len(signed))
        for first in range(0, len(points), step):
            here = slice(first, first + step)
            loss[here] += _softplus_sum(points[here] @ signed.T) / len(signed)
        return loss

    def network_violation(self, agents: Agents, points: Array) -> Array:
        """Return the norm of the agents' stacked [g]_+ at points (N, p)."""
        square = np.einsum("np,np->n", points, points)
        over = np.maximum(square - self._budget**2, 0.0) / (2.0 * self._budget)
        violation = len(agents) * over * over
        if self._gap is not None:
            # of d'x - slack and -d'x - slack one at most is above 0
            unfair = np.maximum(np.abs(points @ self._gap[agents].T) - self._slack, 0.0)
            violation += np.einsum("nk,nk->n", unfair, unfair)
        norm: Array = np.sqrt(violation)
        return norm

    def _margins(self, agents: Agents, points: Array) -> Array:
        """Return -y a'x of every sample at every point, (k, s, rows)."""
        product = np.multiply(self.signed[agents][:, None], points[:, :, None], order="C")
        margins: Array = np.add.reduce(product, axis=-1)
        return margins


class Logistic(Adversary):
    """Samples as they come, whatever was decided."""

    rowwise = True

    @checked("adversary.options", CannotPlay)
    def __init__(
        self,
        game: Game,
        *,
        rows: PositiveInt = 8,
        mu: NonNegativeFloat = 0.01,
        slack: PositiveFloat = 2.0,
        budget: PositiveFloat = 4.0,
        drift: float = 0.5,
        period: PositiveInt = 200,
        noise: NonNegativeFloat = 0.5,
        gap: float = 0.5,
        data: Path | None = None,
        repeat: bool = True,
        scale: bool = True,
    ) -> None:
        super().__init__(game)
        self._mu, self._slack, self._budget = mu, slack, budget
        self._stream: _Drawn | _Dealt
        if data is None:
            self._stream = _Drawn(game, rows, drift=drift, period=period, noise=noise, gap=gap)
        else:
            self._stream = _Dealt(game, rows, data, repeat=repeat, scale=scale)
        self.constraints = 3 if self._stream.grouped else 1
        self.rounds = self._stream.rounds
        """Rounds it has samples for; None: any number."""

    def play(self, round: int, past: History | None = None) -> LogisticRound:
        """Return the functions of any round; they depend on the seed or the data alone."""
        del past  # oblivious
        features, labels, groups = self._stream.at(round)
        gap = None if groups is None else _difference(features, groups)
        return LogisticRound(-labels[..., None] * features, gap, self._mu, self._slack, self._budget)


class _Drawn:
    """Samples that are drawn."""

    grouped = True
    rounds = None

    def __init__(self, game: Game, rows: int, *, drift: float, period: int, noise: float, gap: float) -> None:
        self._shape = game.agents, rows, game.dimension
        self._drift, self._period, self._noise, self._gap = drift, period, noise, gap
        self._numbers = RandomNumbers(game, "functions", game.agents, rows * (game.dimension + 2))

    def at(self, round: int) -> tuple[Array, Array, Array]:
        """Return features (n, rows, p), labels and groups (n, rows) of a round."""
        n, rows, p = self._shape
        uniform = self._numbers.uniform(round).reshape(n, rows, p + 2)
        groups = np.where(uniform[..., p] < 0.5, 0.0, 1.0)
        features = 2.0 * uniform[..., :p] - 1.0
        features += self._gap * groups[..., None]
        turns = (round / self._period - np.arange(p) / p + 0.25) % 1.0
        separator = 1.0 + self._drift * (1.0 - np.abs(4.0 * turns - 2.0))  # w_t
        scores = np.add.reduce(np.multiply(features, separator, order="C"), axis=-1)
        scores += self._noise * (2.0 * uniform[..., p + 1] - 1.0)
        return features, np.where(scores < 0.0, -1.0, 1.0), groups


class _Dealt:
    """Samples of a table, in order."""

    def __init__(self, game: Game, rows: int, data: Path, *, repeat: bool, scale: bool) -> None:
        self._shape = game.agents, rows
        self._who = f"adversary.options.data = {data}"
        self._samples = samples.load(data, "adversary.options.data", dimension=game.dimension, scale=scale)
        self.grouped = self._samples.groups is not None
        self.rounds = None if repeat else len(self._samples.labels) // (game.agents * rows)

    def at(self, round: int) -> tuple[Array, Array, Array | None]:
        """Return features (n, rows, p), labels and groups (n, rows) of a round."""
        n, rows = self._shape
        count = len(self._samples.labels)
        if self.rounds is not None and round > self.rounds:
            remedy = f"set run.rounds to at most {self.rounds} or adversary.options.repeat = true"
            raise CannotPlay(f"{self._who} has {count} samples, which end before round {round} does; {remedy}")
        chosen = ((round - 1) * n * rows + np.arange(n * rows).reshape(n, rows)) % count
        groups = self._samples.groups
        return self._samples.features[chosen], self._samples.labels[chosen], None if groups is None else groups[chosen]


def _difference(features: Array, groups: Array) -> Array:
    """Return the mean features of group 1 minus those of group 0, (n, p); 0 where a group has no sample."""
    ones = np.add.reduce(groups, axis=-1)
    zeros = groups.shape[-1] - ones
    both = (ones > 0.0) & (zeros > 0.0)
    weights = groups / np.maximum(ones, 1.0)[:, None] - (1.0 - groups) / np.maximum(zeros, 1.0)[:, None]
    weights *= both[:, None]
    product = np.multiply(features.transpose(0, 2, 1), weights[:, None], order="C")
    difference: Array = np.add.reduce(product, axis=-1)
    return difference


def _square(points: Array) -> Array:
    """Return |x|^2 of every point."""
    square: Array = np.add.reduce(np.multiply(points, points, order="C"), axis=-1)
    return square


def _softplus_sum(z: Array) -> Array:
    """Return the sum of ln(1 + exp(z)) over each row: one logarithm for hundreds of factors 1 + exp(-|z|)."""
    total: Array = np.add.reduce(np.maximum(z, 0.0), axis=-1)
    np.abs(z, out=z)
    np.exp(np.negative(z, out=z), out=z)
    z += 1.0
    total += np.add.reduce(np.log(np.multiply.reduceat(z, np.arange(0, z.shape[1], _FACTORS), axis=1)), axis=-1)
    return total
