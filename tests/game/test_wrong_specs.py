"""What a user got wrong is one sentence that names the key and the remedy; nothing is started."""

from pathlib import Path

import pytest
from tests.game.processes import PLUGINS, slaternet, write_spec

NEVER = ("graph.name=erdos-renyi", "graph.rho=0.0000001")

WRONG = {
    "an unknown key": (["run.agnets=4"], "run.agnets", "agents"),
    "no agents": (["run.agents=0"], "run.agents", "at least 1"),
    "delta above r(X) xi": (["algorithm.delta0=5.5"], "delta", "r(X)"),
    "a graph that never connects": (NEVER, "graph.name", "give it more edges"),
    "a plugin that does not exist": (["adversary.plugin=linear-regresion"], "adversary.plugin", "linear-regression"),
    "a file that does not exist": ([f"adversary.plugin={PLUGINS / 'none.py'}:None"], "adversary.plugin", "correct"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_spec_is_one_sentence_with_key_and_remedy(what: str, tmp_path: Path) -> None:
    settings, key, remedy = WRONG[what]
    spec = write_spec(tmp_path, rounds=20)
    arguments = [word for setting in settings for word in ("--set", setting)]

    outcome = slaternet("run", spec, *arguments, "--out", tmp_path / "run")

    assert_refused(outcome.code, outcome.err, key, remedy)
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_no_toml_is_one_sentence_with_line_and_column(tmp_path: Path) -> None:
    spec = tmp_path / "broken.toml"
    spec.write_text('[run]\nname = "broken"\nagents four\n')

    outcome = slaternet("run", spec, "--out", tmp_path / "run")

    assert_refused(outcome.code, outcome.err, "broken.toml", "line 3")


def assert_refused(code: int, sentence: str, *words: str) -> None:
    assert code == 2
    assert sentence.startswith("slaternet: ")
    assert sentence.count("\n") == 1
    for word in words:
        assert word in sentence
