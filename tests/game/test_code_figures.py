"""What gossip codes cost in loss and violation on the paper's example, and the bytes that they send.

Loss and violation are compared with those of an independent numpy loop over the same kind of functions (T = 400), in
parts of those of rows sent as they are.
"""

import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from tests.support.services import playing

from slaternet import codec
from slaternet.model import CodedFrame, Head, Layout, Symbols
from slaternet_agent.algorithms import AlgorithmGame
from slaternet_agent.code_registry import build_code
from slaternet_lab import Run, load
from slaternet_lab.games.simulation import Simulation

SEEDS = range(1, 6)
EXACT = 5165.0, 1167.0
FIGURES: dict[str, tuple[tuple[str, ...], float, float]] = {
    "float16": (("gossip.code=float16",), 5166.0, 1167.0),
    "grid of 0.05": (("gossip.code=grid", "gossip.width=0.05"), 5169.0, 1164.0),
    "grid of 1/t": (("gossip.code=grid", "gossip.width=1.0", "gossip.power=1.0"), 5168.0, 1164.0),
    "grid of 10/t on differences": (
        ("gossip.code=grid", "gossip.width=10.0", "gossip.power=1.0", "gossip.difference=true"),
        5183.0,
        1146.0,
    ),
    "sign": (("gossip.code=sign", "gossip.step=1.0"), 5292.0, 1189.0),
    "top-k, 3 of 10": (("gossip.code=top-k", "gossip.keep=3"), 5290.0, 1206.0),
    "levels, 16": (("gossip.code=levels", "gossip.levels=16"), 5192.0, 1167.0),
    "trigger of 20/t": (("gossip.trigger=20.0",), 5166.0, 1168.0),
}
"""By name: the settings, and the loss and violation of the independent loop."""


@functools.cache
def figures(settings: tuple[str, ...]) -> tuple[float, float]:
    """Return the mean loss and violation over the seeds."""
    ended = []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            spec = load("paper", ["run.rounds=400", f"run.seed={seed}", "record.decisions=false", *settings])
            game = Simulation(spec, Path(folder))
            game.play()
            game.close()
            summary = Run.open(folder).summary
            assert summary is not None
            ended.append((summary["cumulative_loss"], summary["cumulative_violation"]))
    loss, violation = np.mean(ended, axis=0).tolist()
    return loss, violation


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_loss_and_violation_of_a_code_are_those_of_an_independent_loop(name: str) -> None:
    settings, *expected = FIGURES[name]
    shares = [found / exact for found, exact in zip(figures(settings), figures(()), strict=True)]
    loss, violation = (each / exact for each, exact in zip(expected, EXACT, strict=True))

    assert shares == [pytest.approx(loss, abs=0.015), pytest.approx(violation, abs=0.04)]


@pytest.mark.slow
def test_a_code_that_keeps_every_coordinate_plays_the_game_without_a_code_but_for_rounding() -> None:
    everything = figures(("gossip.code=top-k", "gossip.keep=10", "gossip.step=1.0"))

    assert everything == pytest.approx(figures(()), rel=1e-6)


WIDE = ("run.agents=10", "run.dimension=200", "run.rounds=40", "record.decisions=false", "graph.name=complete")
SENT = {
    "float32": ("gossip.code=float32",),
    "float16": ("gossip.code=float16",),
    "grid": ("gossip.code=grid", "gossip.width=0.05"),
    "top-k": ("gossip.code=top-k", "gossip.keep=20"),
    "random-k": ("gossip.code=random-k", "gossip.keep=20"),
    "sign": ("gossip.code=sign",),
    "sign, triggered": ("gossip.code=sign", "gossip.trigger=400.0"),
}


@pytest.mark.parametrize("name", SENT)
async def test_gossip_bytes_are_those_of_the_codes_formula_and_the_heads_of_frames(name: str, tmp_path: Path) -> None:
    spec = load("paper", [*WIDE, *SENT[name]])
    async with playing(spec, tmp_path / "game", hosts=2) as game:
        run = await game.over()
    assert run.summary is not None
    network = run.summary["network"]
    code = build_code(spec.gossip, AlgorithmGame(10, 200, 1, 40, 1, spec.feasible_set()), 200)
    bits = code.bits_per_row() or 200 * 8  # a grid of 0.05 on [-5, 5] has 201 points
    head = frame_head(code.encode(np.zeros((0, 200)), np.empty(0, np.intp), 1), code.layout, run)

    formula = network["rows_sent"] * bits / 8 + network["frames"] * head

    assert network["gossip_bytes"] == pytest.approx(formula, rel=0.1)
    everything = 2 * 5 * 40
    assert network["rows_sent"] == everything if "triggered" not in name else 0 < network["rows_sent"] < everything
    rows = run.metrics
    assert (rows["rows_sent"].sum(), rows["gossip_bytes"].sum()) == (network["rows_sent"], network["gossip_bytes"])


def frame_head(nothing: Symbols, layout: Layout, run: Run) -> int:
    """Return the bytes of a frame without rows, with gRPC's prefix."""
    assert run.summary is not None
    head = Head(run.summary["run"], 1, 20, "agent-1")
    frame = CodedFrame(20, np.arange(5), nothing, np.zeros(5, dtype=bool))
    return len(codec.encode_gossip(head, frame, layout=layout, stated=False)[0]) + 5
