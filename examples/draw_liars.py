"""Plays examples/liars.toml with and without liars, and draws what the others lose: docs/images/liars.png.

python examples/draw_liars.py [FILE]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from slaternet_lab import Run, load, simulate
from slaternet_lab.functions.replay import replay

HERE = Path(__file__).parent
LIARS = (3, 11)  # as in liars.py
GAMES = {
    "zhang2024": ("zhang2024", "tab:blue", "--"),
    "zhang2024, two agents lie": ("liars.py:LyingZhang2024", "tab:blue", "-"),
    "clipped": ("clipped", "tab:orange", "--"),
    "clipped, two agents lie": ("liars.py:LyingClipped", "tab:orange", "-"),
}
"""The algorithm of each game, and its colour and line."""


def play(algorithm: str, folder: Path, *settings: str) -> Run:
    """Play the game of liars.toml with an algorithm."""
    spec = load(str(HERE / "liars.toml"), [f"algorithm.name={_located(algorithm)}", "record.decisions=true", *settings])
    return simulate(spec, out=folder, figures=False)


def others_losses(run: Run) -> NDArray[np.float64]:
    """Return the average loss of all agents at the decisions of those that do not lie, by round."""
    others = np.setdiff1d(np.arange(run.spec.run.agents), LIARS)
    losses = []
    for functions, decisions in zip(replay(run.spec, run.rounds), run.decisions, strict=True):
        hessian, slope, constant = functions.quadratic()
        x = decisions[others]
        losses.append(float(np.mean(0.5 * np.sum((x @ hessian) * x, axis=1) + x @ slope + constant)))
    return np.array(losses)


def draw(file: Path) -> None:
    """Draw the cumulative losses of the four games."""
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.subplots()
    with tempfile.TemporaryDirectory() as folder:
        for number, (label, (algorithm, colour, line)) in enumerate(GAMES.items()):
            losses = np.cumsum(others_losses(play(algorithm, Path(folder) / str(number))))
            axes.plot(np.arange(1, len(losses) + 1), losses, line, color=colour, label=label)
    axes.set(xlabel="round", ylabel="cumulative loss of the other 18 agents")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file, dpi=110)


def _located(algorithm: str) -> str:
    return str(HERE / algorithm) if algorithm.startswith("liars.py") else algorithm


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "docs" / "images" / "liars.png")
