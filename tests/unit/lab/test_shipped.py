from pathlib import Path

import pytest

from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet_lab.specs import shipped


def test_without_a_name_the_papers_example_is_found() -> None:
    spec = Spec.parse(shipped.find(None).text, source="paper")

    assert (spec.run.agents, spec.run.rounds, spec.run.dimension, spec.run.seed) == (100, 1000, 10, 1)
    assert spec.set.numbers == {"lower": -5.0, "upper": 5.0}
    assert (spec.algorithm.name, spec.algorithm.schedule) == ("zhang2024", "table2")
    assert (spec.graph.name, spec.graph.numbers) == ("paper", {"rho": 0.1})
    assert spec.adversary.options == {"rows": 4, "constraints": 2, "b": 0.01}


def test_every_shipped_spec_says_on_its_first_line_what_it_is() -> None:
    adversaries = ["data-center", "economic-dispatch", "logistic", "moving-target", "resource-fair"]
    theorems = ["theorem1", "theorem2", "theorem3", "theorem4"]

    assert shipped.names() == [*adversaries[:4], "paper", "paper-compressed", "paper-short", adversaries[4], *theorems]
    assert all(shipped.shipped(name).title for name in shipped.names())


def test_a_file_is_found_with_the_folder_its_paths_start_from(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[run]\n")

    found = shipped.find(str(path))

    assert (found.text, found.source, found.base) == ("[run]\n", str(path), tmp_path.resolve())


def test_a_run_folder_stands_for_its_resolved_spec(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text("[run]\n")

    assert shipped.find(str(tmp_path)).text == "[run]\n"


def test_a_name_that_is_nothing_is_answered_with_the_nearest_shipped_one() -> None:
    with pytest.raises(BadSpec, match=r"^papr is neither a file nor a shipped spec; did you mean paper\?$"):
        shipped.find("papr")
    with pytest.raises(BadSpec, match=r"^papr is not a shipped spec; did you mean paper\?$"):
        shipped.shipped("papr")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "noise.toml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(BadSpec, match="is not TOML: it is not text in UTF-8"):
        shipped.find(str(path))
