import hashlib
from pathlib import Path

import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet_lab.specs.resolve import load, load_for_all
from slaternet_lab.specs.shipped import find

ALGORITHM = "from slaternet_agent.algorithms.zhang2024 import Zhang2024\n\n\nclass Mine(Zhang2024):\n    pass\n"


def paper(**changes: object) -> Spec:
    return Spec.parse(find("paper-short").text, source="paper-short").replace(**changes)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory; what a spec there names stands in it too."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "mine.py").write_text(ALGORITHM)
    return tmp_path / "here"


def test_a_relative_path_stays_as_it_is_and_starts_from_the_working_directory(here: Path) -> None:
    elsewhere = here.parent / "mine.toml"
    elsewhere.write_text(paper(**{"algorithm.name": "mine.py:Mine"}).to_toml())

    spec = load_for_all(str(elsewhere))

    assert spec.algorithm.name == "mine.py:Mine"
    assert spec.algorithm.sha256 == hashlib.sha256(ALGORITHM.encode()).hexdigest()
    with pytest.raises(BadSpec, match=r"algorithm\.name names the file .*mine\.py, which does not exist"):
        load(str(elsewhere))  # who plays alone looks beside the spec


def test_a_path_in_a_setting_stays_as_it_is_too(here: Path) -> None:
    assert load_for_all("paper-short", ["algorithm.name=./mine.py:Mine"]).algorithm.name == "./mine.py:Mine"
    absolute = f"{here}/mine.py:Mine"
    assert load_for_all("paper-short", [f"algorithm.name={absolute}"]).algorithm.name == absolute


@pytest.mark.parametrize("seed", [None, 7, "random"])
def test_a_seed_that_is_to_be_drawn_is_left_to_the_coordinator(seed: object, here: Path) -> None:
    Path("mine.toml").write_text(paper(**{"adversary.seed": seed}).to_toml())

    assert load_for_all("mine.toml").adversary.seed == seed
    assert load_for_all("mine.toml").digest() == load_for_all("mine.toml").digest()


def test_files_of_graphs_and_data_stay_as_they_are_too(here: Path) -> None:
    np.savez(here / "w.npz", W=np.full((1, 6, 6), 1 / 6))
    settings = ["run.agents=6", "graph.name=file", "graph.path=w.npz"]

    spec = load_for_all("paper-short", settings)

    assert spec.graph.numbers["path"] == "w.npz"
    assert spec.graph.sha256 == load("paper-short", settings).graph.sha256


def test_what_the_mode_of_playing_implies_is_not_taken_back(here: Path) -> None:
    (here / "graph.py").write_text("raise AssertionError('nobody asks for this')\n")
    alone = paper(**{"graph": {"name": "graph.py:Mine"}, "algorithm.mode": "local"})
    Path("alone.toml").write_text(alone.to_toml())

    assert load_for_all("alone.toml").graph.name == "none"


def test_without_paths_it_is_the_spec_that_one_plays_alone() -> None:
    settings = ["run.rounds=7", "algorithm.name=yi2023"]

    assert load_for_all("paper-short", settings) == load("paper-short", settings)
