from pathlib import Path

from structlog.testing import capture_logs

from slaternet_lab.games.finish import finish
from slaternet_lab.games.simulation import Simulation
from slaternet_lab.specs.resolve import load

ALGORITHM = """
from slaternet_agent.algorithms.zhang2024 import Zhang2024


class Mine(Zhang2024):
    pass
"""


def test_a_game_that_is_over_is_drawn_even_where_its_algorithm_is_not_at_hand(tmp_path: Path) -> None:
    file, folder = tmp_path / "mine.py", tmp_path / "run"
    file.write_text(ALGORITHM)
    spec = load("paper-short", [f"algorithm.name={file}:Mine", "run.agents=4", "run.rounds=5"])
    folder.mkdir()
    game = Simulation(spec, folder)
    game.play()
    game.close()
    file.unlink()

    with capture_logs() as logs:
        run = finish(folder)

    assert run.summary["rounds"] == 5
    assert (folder / "loss.png").exists()
    assert (folder / "violation.png").exists()
    assert not (folder / "assumptions.txt").exists()
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert "assumptions.txt is not written: algorithm.name names the file" in logs[0]["event"]
