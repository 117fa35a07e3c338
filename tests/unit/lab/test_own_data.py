"""A file that an adversary of one's own declares: found from the spec's folder, and hashed."""

import hashlib
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from slaternet.errors import BadSpec
from slaternet.spec.plugins import ADVERSARIES, digest
from slaternet_lab.specs.resolve import load, load_for_all

MINE = """
from __future__ import annotations

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

    def __init__(self, game, *, prices: Path | None = None, more: Path | None = None):
        super().__init__(game)
        assert prices is None or isinstance(prices, Path)
        self.prices = [1.0] if prices is None or prices.is_dir() else [float(each) for each in prices.open()]

    def play(self, round, past):
        return Functions(self.prices[round % len(self.prices)])
"""
SPEC = """
[run]
agents = 3
rounds = 4
dimension = 2
[set]
kind = "box"
lower = -1.0
upper = 1.0
[algorithm]
name = "zhang2024"
[graph]
name = "complete"
[adversary]
plugin = "code/market.py:Market"
[adversary.options]
prices = "data/prices.csv"
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a spec whose code and data lie beside it; the working directory is another folder."""
    for name, text in (("code/market.py", MINE), ("data/prices.csv", "1\n2\n"), ("mine.toml", SPEC)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return tmp_path / "mine.toml"


def hashed(*parts: str) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def test_a_declared_path_starts_at_the_spec_s_folder_and_its_content_is_hashed(spec: Path) -> None:
    data, code = spec.parent / "data/prices.csv", digest(ADVERSARIES, f"{spec.parent}/code/market.py:Market", key="")

    resolved = load(str(spec))

    assert resolved.adversary.isolation == "process"
    assert resolved.adversary.options == {"prices": str(data)}
    assert resolved.adversary.sha256 == hashed(code, hashlib.sha256(b"1\n2\n").hexdigest())
    data.write_text("1\n3\n")
    assert load(str(spec)).adversary.sha256 == hashed(code, hashlib.sha256(b"1\n3\n").hexdigest())


def test_two_files_are_hashed_with_their_keys(spec: Path) -> None:
    (spec.parent / "data/more.csv").write_text("5\n")
    code = digest(ADVERSARIES, f"{spec.parent}/code/market.py:Market", key="")
    hashes = {key: hashlib.sha256(text).hexdigest() for key, text in (("more", b"5\n"), ("prices", b"1\n2\n"))}
    lines = "".join(f"{each}  adversary.options.{key}\n" for key, each in hashes.items())

    resolved = load(str(spec), [f"adversary.options.more={spec.parent}/data/more.csv"])

    assert resolved.adversary.sha256 == hashed(code, hashlib.sha256(lines.encode()).hexdigest())


def test_a_path_in_a_setting_starts_from_the_working_directory(spec: Path) -> None:
    Path("mine.csv").write_text("7\n")

    assert load(str(spec), ["adversary.options.prices=mine.csv"]).adversary.options == {
        "prices": str(Path("mine.csv").resolve())
    }


def test_another_file_is_no_change_of_the_one_that_the_run_was_played_with(spec: Path) -> None:
    Path("mine.csv").write_text("7\n")
    Path("resolved.toml").write_text(load(str(spec)).to_toml())

    with capture_logs() as logs:
        load("resolved.toml", ["adversary.options.prices=mine.csv"])

    assert logs == []


def test_for_services_paths_stay_as_they_are_written(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(spec.parent)

    assert load_for_all(str(spec)).adversary.options == {"prices": "data/prices.csv"}


def test_a_file_that_is_not_there_is_named_before_the_plugin_meets_it(spec: Path) -> None:
    (spec.parent / "data/prices.csv").unlink()

    with pytest.raises(BadSpec, match=r"^adversary\.options\.prices = /.*/data/prices\.csv cannot be read: No such"):
        load(str(spec))


def test_a_folder_is_passed_on_and_said_to_be_unhashed(spec: Path) -> None:
    code = digest(ADVERSARIES, f"{spec.parent}/code/market.py:Market", key="")

    with capture_logs() as logs:
        resolved = load(str(spec), [f"adversary.options.prices={spec.parent}/data"])

    assert resolved.adversary.sha256 == code
    assert [each["event"] for each in logs] == [
        f"adversary.options.prices = {spec.parent}/data is a folder, and its content is not hashed; a change of it "
        "will not be noticed"
    ]
