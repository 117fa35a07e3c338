import math
from dataclasses import dataclass

import numpy as np
import pytest

from slaternet.limits import LIMITS
from slaternet.model import Agents, Array
from slaternet.numerics.sets import Box
from slaternet_adversary import Game, Round
from slaternet_adversary.builtin.linear_regression import LinearRegression
from slaternet_adversary.engine.events import Scored
from slaternet_adversary.scoring import Scoring, disagreement


@dataclass(frozen=True)
class Bowls:
    """f_i = |x - c_i|^2 / 2, g_i = (sum(x) - b_i, x_0 + c_{i,0}); nothing for the network as a whole."""

    centres: Array
    bounds: Array

    def loss(self, agents: Agents, points: Array) -> Array:
        away = points - self.centres[agents][:, None]
        loss: Array = 0.5 * np.sum(away * away, axis=-1)
        return loss

    def constraint(self, agents: Agents, points: Array) -> Array:
        rows = (
            points.sum(axis=-1) - self.bounds[agents][:, None],
            points[..., 0] + self.centres[agents][:, None, 0],
        )
        return np.stack(rows, axis=-1)


@dataclass(frozen=True)
class Noisy:
    """Reveals something else than what is scored."""

    truth: Bowls

    def loss(self, agents: Agents, points: Array) -> Array:
        return self.truth.loss(agents, points) + 1.0

    def constraint(self, agents: Agents, points: Array) -> Array:
        return self.truth.constraint(agents, points) + 1.0

    def scoring(self) -> Bowls:
        return self.truth


def bowls(n: int, p: int) -> tuple[Bowls, Array]:
    rng = np.random.default_rng(n)
    return Bowls(rng.standard_normal((n, p)), rng.standard_normal(n)), rng.standard_normal((n, p))


def score(functions: Round, x: Array, constraints: int) -> tuple[Scored, int]:
    scoring, pieces = Scoring(functions, 7, x, np.zeros(x.shape[1]), constraints), 1
    while (scored := scoring.step()) is None:
        pieces += 1
    return scored, pieces


def naive(functions: Round, x: Array) -> tuple[float, float]:
    """(1/n) sum_i f_t(x_i) and (1/n) sum_i ||[g_t(x_i)]_+||, one agent's functions at one decision at a time."""
    n, losses, violations = len(x), 0.0, 0.0
    for i in range(n):
        f, squares = 0.0, 0.0
        for j in range(n):
            agent, point = np.array([j]), x[i][None, None]
            f += float(functions.loss(agent, point)[0, 0])
            for value in functions.constraint(agent, point)[0, 0]:
                squares += max(float(value), 0.0) ** 2
        losses += f / n
        violations += math.sqrt(squares)
    return losses / n, violations / n


@pytest.mark.parametrize(("n", "p", "pieces"), [(1, 1, 1), (12, 3, 1), (30, 4000, 8)])
def test_a_score_is_what_everyone_s_functions_say_at_everyone_s_decision(n: int, p: int, pieces: int) -> None:
    functions, x = bowls(n, p)

    scored, taken = score(functions, x, constraints=2)

    assert taken == pieces
    assert scored.round == 7
    assert (scored.loss, scored.violation) == pytest.approx(naive(functions, x), rel=1e-12)
    zero = np.zeros((n, p))
    assert (scored.zero_loss, scored.zero_violation) == pytest.approx(naive(functions, zero), rel=1e-12)


def test_a_plugin_s_own_network_functions_give_the_same_score() -> None:
    game = Game(15, 6, 3, Box(6, -5.0, 5.0))
    functions = LinearRegression(game).play(4)
    x = np.random.default_rng(0).standard_normal((15, 6))

    scored, _ = score(functions, x, constraints=2)

    assert (scored.loss, scored.violation) == pytest.approx(naive(functions, x), rel=1e-9)
    zero = naive(functions, np.zeros((15, 6)))
    assert (scored.zero_loss, scored.zero_violation) == pytest.approx(zero, rel=1e-9)


def test_what_is_scored_may_differ_from_what_is_revealed() -> None:
    functions, x = bowls(6, 2)

    assert score(Noisy(functions), x, 2) == score(functions, x, 2)


class Watched(Bowls):
    largest = 0

    def loss(self, agents: Agents, points: Array) -> Array:
        Watched.largest = max(Watched.largest, points.nbytes)  # as the plugin would fill it
        return super().loss(agents, points)


def test_no_piece_of_the_work_exceeds_the_chunk_limit() -> None:
    functions, x = bowls(30, 4000)

    score(Watched(functions.centres, functions.bounds), x, 2)

    assert LIMITS.chunk_bytes // 2 < Watched.largest <= LIMITS.chunk_bytes


def test_disagreement_is_the_mean_distance_from_the_mean() -> None:
    x = np.random.default_rng(1).standard_normal((9, 4))
    mean = [sum(row[c] for row in x) / 9 for c in range(4)]
    expected = sum(math.dist(row, mean) for row in x) / 9

    assert disagreement(x) == pytest.approx(expected, rel=1e-12)
    assert disagreement(np.ones((5, 2))) == 0.0
