"""Where a simulation stands, for those who watch it."""

from pathlib import Path
from typing import Any

import numpy as np

from slaternet_adversary import Adversary
from slaternet_lab import load
from slaternet_lab.games.simulation import Simulation
from slaternet_lab.specs.resolve import exchanged, resolve


def test_what_a_simulation_does_is_known_at_any_time(tmp_path: Path) -> None:
    seen: dict[str, list[tuple[int, str]]] = {"play": [], "loss": []}
    games: list[Simulation] = []

    class Looking(Adversary):
        constraints = 0

        def play(self, round: int, past: object) -> Any:
            if games:
                scored, _, _, doing = games[0].standing
                seen["play"].append((scored, doing))
            return self

        def loss(self, agents: np.ndarray, points: np.ndarray) -> np.ndarray:
            if games:
                scored, _, _, doing = games[0].standing
                seen["loss"].append((scored, doing))
            return np.zeros(points.shape[:2])

        def constraint(self, agents: np.ndarray, points: np.ndarray) -> np.ndarray:
            return points[..., :0]

    spec = load("paper-short", ["run.agents=2", "run.rounds=20", "graph.name=complete", "graph.rho="])
    spec = resolve(exchanged(spec, Looking), tmp_path)
    game = Simulation(spec, tmp_path)
    games.append(game)
    game.play()
    game.close()

    assert [doing for _, doing in seen["play"]] == [f"fixing functions of round {t}" for t in range(1, 21)]
    doings = list(dict.fromkeys(doing for _, doing in seen["loss"]))
    assert [each for each in doings if each.startswith("playing")] == [f"playing round {t}" for t in range(1, 21)]
    assert [each for each in doings if each.startswith("scoring")] == [f"scoring round {t}" for t in range(1, 21)]
    assert game.standing[0] == 20
