import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from slaternet.spec import Spec
from slaternet_adversary.engine.commitments import Commitments
from slaternet_lab import simulate
from slaternet_lab.specs.resolve import load

CODE = "0f" * 32

ADAPTIVE = """
from slaternet_adversary.builtin.moving_target import MovingTarget

class Adaptive(MovingTarget):
    history = 2
"""


def recomputed(spec: Spec, t: int, known: bytes) -> str:
    """Return the commitment of round t, by the definition; `known` is d_{t-1} of an adaptive adversary."""
    options = json.dumps(spec.adversary.options, sort_keys=True, separators=(",", ":")).encode()
    parts = (
        bytes.fromhex(spec.adversary.sha256),
        hashlib.sha256(options).digest(),
        struct.pack("<QQ", 5 if spec.adversary.seed is None else spec.adversary.seed, t),
    )
    return hashlib.sha256(b"".join(parts) + known).hexdigest()


def digests(x: np.ndarray) -> list[bytes]:
    """d_0, d_1, ..., by the definition."""
    chain = [bytes(32)]
    for decisions in x:
        chain.append(hashlib.sha256(chain[-1] + decisions.astype("<f8").tobytes()).digest())
    return chain


def written(folder: Path) -> list[str]:
    """Return the lines of commitments.csv."""
    return (folder / "commitments.csv").read_text().splitlines()


@pytest.mark.parametrize("seed", ["", 2**63 - 1])
@pytest.mark.parametrize("adaptive", [False, True])
def test_every_commitment_of_a_run_is_made_again_from_its_spec_and_decisions(
    adaptive: bool, seed: object, tmp_path: Path
) -> None:
    file = tmp_path / "adaptive.py"
    file.write_text(ADAPTIVE)
    plugin = f"{file}:Adaptive" if adaptive else "moving-target"
    small = (
        "run.agents=4",
        "run.dimension=3",
        "run.rounds=37",
        "run.seed=5",
        f"adversary.seed={seed}",
        "record.decisions=true",
    )
    run = simulate(load("paper-short", (*small, f"adversary.plugin={plugin}")), out=tmp_path / "run", figures=False)

    spec = Spec.parse((run.folder / "spec.toml").read_text(), source="again")
    with np.load(run.folder / "decisions.npz") as archive:
        chain = digests(archive["x"])
    assert run.summary is not None
    assert run.summary["digest"] == chain[-1].hex()
    expected = [recomputed(spec, t, chain[t - 1] if adaptive else b"") for t in range(1, 38)]
    assert written(run.folder) == ["round,commitment", *(f"{t},{each}" for t, each in enumerate(expected, 1))]


def test_a_commitment_binds_code_options_seed_round_and_what_is_known() -> None:
    options = {"drift": 0.1, "name": "ü", "nested": {"b": [1, 2.5], "a": True}}
    variants = [
        Commitments(CODE, options, 7).of(3),
        Commitments("f0" * 32, options, 7).of(3),
        Commitments("", options, 7).of(3),
        Commitments(CODE, {**options, "drift": 0.2}, 7).of(3),
        Commitments(CODE, {}, 7).of(3),
        Commitments(CODE, options, 8).of(3),
        Commitments(CODE, options, 7).of(4),
        Commitments(CODE, options, 7).of(3, bytes(32)),
        Commitments(CODE, options, 7).of(3, b"\1" * 32),
    ]

    assert len(set(variants)) == len(variants)
    assert Commitments(CODE, dict(reversed(options.items())), 7).of(3) == variants[0]  # the order of options is none
