"""The bytes of rows in a simulation: those that a frame of them has on the wire, without its head."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from slaternet import codec
from slaternet.errors import BadSpec
from slaternet.model import CodedFrame, Head
from slaternet.numerics.sets import Box
from slaternet.spec import GossipSection
from slaternet.v1 import agent_pb2
from slaternet_agent.algorithms import AlgorithmGame
from slaternet_agent.code_registry import build_code
from slaternet_lab.games.simulation import simulate
from slaternet_lab.runs.row_bytes import CountedCode, row_bytes, spent
from slaternet_lab.runs.run import Run
from slaternet_lab.specs.resolve import load

W, N = 13, 6
GAME = AlgorithmGame(N, W, 1, None, 3, Box(W, -5, 5))
SMALL = ["run.agents=6", "run.rounds=12", "run.dimension=3"]
CODES: list[dict[str, object]] = [
    {"code": "exact"},
    {"code": "float16"},
    {"code": "grid", "width": 0.01},
    {"code": "levels", "levels": 7},
    {"code": "sign"},
    {"code": "top-k", "keep": 4},
    {"code": "random-k", "keep": 4},
]


def first(count: int) -> NDArray[np.bool_]:
    return np.arange(N) < count


@pytest.mark.parametrize("section", CODES, ids=lambda each: str(each["code"]))
def test_what_a_code_counts_is_what_its_rows_take_in_a_frame(section: dict[str, object]) -> None:
    code = CountedCode(build_code(GossipSection.model_validate(section), GAME, W))
    rng = np.random.default_rng(1)
    some = [np.zeros((N, W)), rng.standard_normal((N, W)), rng.standard_normal((2, W)), np.empty((0, W))]
    for t, vectors in enumerate(some, 1):
        agents = np.arange(len(vectors))

        symbols = code.encode(vectors, agents, t)

        frame = CodedFrame(t, np.arange(N), symbols, first(len(agents)))
        (message,) = codec.encode_gossip(Head("run", 1, t, "a"), frame, layout=code.layout)
        sent = agent_pb2.GossipMessage.FromString(message).frame.rows
        assert code.rounds[t] == (len(agents), len(sent)) == (len(agents), row_bytes(symbols, code.layout))
        assert code.decode(symbols, agents, t).shape == vectors.shape


def test_a_simulation_leaves_the_bytes_of_its_rows(tmp_path: Path) -> None:
    run = simulate(load("paper", [*SMALL, "gossip.code=sign"]), out=tmp_path / "sign", figures=False)

    lines = (run.folder / "gossip.csv").read_text().splitlines()
    assert lines[0] == "round,rows_sent,row_bytes"
    assert lines[1:] == [f"{t},6,{6 * 4 + -(-6 * 3 // 8)}" for t in range(1, 13)]
    sums = spent(run)
    assert sums is not None
    assert sums.tolist() == [27.0 * t for t in range(1, 13)]
    assert run.metrics["gossip_bytes"].sum() == run.metrics["rows_sent"].sum() == 0


def test_a_trigger_spares_rows(tmp_path: Path) -> None:
    run = simulate(load("paper", [*SMALL, "gossip.trigger=5"]), out=tmp_path / "run", figures=False)

    rows = [line.split(",") for line in (run.folder / "gossip.csv").read_text().splitlines()[1:]]
    assert [int(size) for _, _, size in rows] == [24 * int(count) for _, count, _ in rows]
    assert 0 < sum(int(count) for _, count, _ in rows) < 6 * 12


def test_rows_as_they_are_take_eight_bytes_a_number_of_the_agents_that_play(tmp_path: Path) -> None:
    spec = load("paper", SMALL).replace(departures=[{"round": 7, "agents": [1, 2]}])
    run = simulate(spec, out=tmp_path / "run", figures=False)

    sums = spent(run)

    assert not (run.folder / "gossip.csv").exists()
    assert sums is not None
    assert np.diff(sums, prepend=0.0).tolist() == [6 * 24.0] * 6 + [4 * 24.0] * 6


def test_what_hosts_have_told_goes_before_what_is_computed(tmp_path: Path) -> None:
    run = simulate(load("paper", [*SMALL, "gossip.code=sign"]), out=tmp_path / "run", figures=False)
    run.metrics["gossip_bytes"][:] = 100

    sums = spent(run)

    assert sums is not None
    assert sums.tolist() == [100.0 * t for t in range(1, 13)]


@pytest.mark.parametrize("text", ["", "round\n1\n", "round,rows_sent,row_bytes\n1,6,27\n", "\xff", "a,b,c\n" * 13])
def test_a_file_that_is_damaged_is_named(tmp_path: Path, text: str) -> None:
    run = simulate(load("paper", [*SMALL, "gossip.code=sign"]), out=tmp_path / "run", figures=False)
    (run.folder / "gossip.csv").write_bytes(text.encode("latin-1"))

    with pytest.raises(BadSpec, match=r"gossip\.csv is not as a simulation writes it; delete it, or simulate the game"):
        spent(run)
    (run.folder / "gossip.csv").unlink()
    assert spent(Run.open(run.folder)) is None


def test_a_game_that_is_played_anew_replaces_the_bytes_of_the_old_one(tmp_path: Path) -> None:
    simulate(load("paper", [*SMALL, "gossip.code=sign"]), out=tmp_path / "run", figures=False)

    with pytest.raises(BadSpec, match="holds a run"):
        simulate(load("paper", SMALL), out=tmp_path / "run", figures=False)
    simulate(load("paper", SMALL), out=tmp_path / "run", figures=False, force=True)

    assert not (tmp_path / "run" / "gossip.csv").exists()
