"""The paper's adversary, writing down every question it is asked and what it answers."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slaternet.model import Agents, Array
from slaternet_adversary import Game, History
from slaternet_adversary.builtin.forms import Functions
from slaternet_adversary.builtin.linear_regression import LinearRegression


@dataclass(frozen=True, slots=True)
class Logged:
    """The functions of one round, overheard; scores are not questions."""

    functions: Functions
    round: int
    log: Path

    def loss(self, agents: Agents, points: Array) -> Array:
        return self._written("loss", agents, points, self.functions.loss(agents, points))

    def constraint(self, agents: Agents, points: Array) -> Array:
        return self._written("constraint", agents, points, self.functions.constraint(agents, points))

    def network_loss(self, agents: Agents, points: Array) -> Array:
        return self.functions.network_loss(agents, points)

    def network_violation(self, agents: Agents, points: Array) -> Array:
        return self.functions.network_violation(agents, points)

    def _written(self, what: str, agents: Agents, points: Array, values: Array) -> Array:
        line = {"what": what, "round": self.round, "agents": agents, "points": points, "values": values}
        with self.log.open("a") as file:
            file.write(json.dumps(line, default=np.ndarray.tolist) + "\n")
        return values


class LogsQuestions(LinearRegression):
    """Logs to the file named by its option."""

    def __init__(self, game: Game, *, log: str) -> None:
        super().__init__(game)
        self._log = Path(log)

    def play(self, round: int, past: History | None = None) -> Logged:  # type: ignore[override]
        return Logged(super().play(round, past), round, self._log)
