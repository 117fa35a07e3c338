"""A data file that an adversary of one's own declares is changed: commands notice it as if it were the code."""

import json
from pathlib import Path

import pytest
from tests.game.processes import slaternet, write_spec

MARKET = """
from pathlib import Path

import numpy as np
from slaternet_adversary import Adversary


class Functions:
    def __init__(self, price):
        self.price = price

    def loss(self, agents, points):
        return self.price * np.sum(points, axis=-1)

    def constraint(self, agents, points):
        return points[..., :1] - 1.0


class Market(Adversary):
    constraints, rowwise = 1, True

    def __init__(self, game, *, prices: Path):
        super().__init__(game)
        self.prices = [float(each) for each in prices.open()]

    def play(self, round, past):
        return Functions(self.prices[round % len(self.prices)])
"""


@pytest.mark.slow  # seven commands
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_changed_data_is_named_by_whatever_plays_or_examines_the_run_again(isolation: str, tmp_path: Path) -> None:
    (tmp_path / "market.py").write_text(MARKET)
    data, out = tmp_path / "prices.csv", tmp_path / "run"
    data.write_text("1\n2\n")
    spec = write_spec(tmp_path, rounds=20, plugin="market.py:Market")
    spec.write_text(spec.read_text() + '\n[adversary.options]\nprices = "prices.csv"\n')
    isolated = ("--set", f"adversary.isolation={isolation}")

    played = slaternet("run", spec, *isolated, "--hosts", 1, "--out", out, "--json")
    sound = slaternet("audit", out)
    simulated = slaternet("simulate", out, "--out", tmp_path / "same", "--json")
    data.write_text("1\n5\n")
    other = slaternet("simulate", out, "--out", tmp_path / "other", "--json")
    audited = slaternet("audit", out)
    extended = slaternet("resume", out, "--rounds", 40)

    assert (played.code, sound.code, simulated.code) == (0, 0, 0), played.err + sound.out + simulated.err
    assert json.loads(played.out)["digest"] == json.loads(simulated.out)["digest"] != json.loads(other.out)["digest"]
    assert "not checked" not in sound.out
    named = f"market.py:Market, with the data in {data},"
    assert f"{named} is not the code the spec was resolved with" in " ".join(other.err.split())
    assert "not checked" in audited.out
    assert f"{named} has SHA-256".replace(" ", "") in "".join(audited.out.split())
    assert extended.code == 2
    assert f"is not the one it was played with; put that back: {tmp_path}/{named}" in extended.err
