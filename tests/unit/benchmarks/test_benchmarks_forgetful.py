"""A forgetful game (benchmarks/forgetful) is the same game, and keeps nothing of itself."""

from pathlib import Path

import pytest
from benchmarks.race import FORGETFUL
from benchmarks.trees import SPAWN, Tree

from slaternet_lab.games.simulation import simulate
from slaternet_lab.specs.resolve import load

ROUNDS = ["run.rounds=70"]


@pytest.mark.slow
def test_a_forgetful_game_keeps_neither_journal_nor_checkpoints_and_ends_in_the_same_digest(tmp_path: Path) -> None:
    simulated = simulate(load("paper-short", ROUNDS), out=tmp_path / "run", figures=False)

    with Tree().started("run", "paper-short", settings=ROUNDS, first=[FORGETFUL], variables=SPAWN) as game:
        digest = game.finish()["digest"]
        checkpoints = list(game.folder.glob("state/agent-*/checkpoints/*"))
        journal = (game.folder / "journal" / "adversary").stat().st_size

    assert simulated.summary is not None
    assert digest == simulated.summary["digest"]
    assert checkpoints == []
    assert journal < 1000  # its heading; of a round it would have thousands
