import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from slaternet.errors import BadSpec
from slaternet_lab.cli import main
from slaternet_lab.games.simulation import simulate
from slaternet_lab.specs.resolve import load

SMALL = ("run.agents=6", "run.rounds=12", "graph.name=ring")
FORMS = ("paper", "theorem3", "economic-dispatch", "data-center")
OWN = """
from slaternet_adversary.builtin.forms import Functions
from slaternet_adversary.builtin.linear_regression import LinearRegression

class Shrinking(LinearRegression):
    def play(self, round, past=None):
        functions = super().play(round)
        return Functions(functions.matrix[:, round - 1 :], functions.offset[:, round - 1 :], 5 - round)

class Same(LinearRegression):
    pass
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def slaternet(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(each) for each in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def record(spec: str, *arguments: str, settings: tuple[str, ...] = SMALL) -> int:
    pairs = [word for each in settings for word in ("--set", each)]
    return slaternet("record", spec, "--out", "trace.npz", *pairs, *arguments)


def digest(spec: str, *settings: str) -> object:
    run = simulate(load(spec, (*SMALL, *settings)), out=Path("run"), force=True, figures=False)
    assert run.summary is not None
    return run.summary["digest"]


@pytest.mark.parametrize("spec", FORMS)
def test_playing_a_record_gives_the_digest_of_the_original(spec: str) -> None:
    assert record(spec) == 0

    replayed = digest(spec, "adversary.plugin=replay", "adversary.options.path=trace.npz")

    assert replayed == digest(spec)


def test_a_spec_finds_its_trace_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = load("paper", SMALL)
    record("paper")
    (tmp_path / "mine.toml").write_text(
        original.replace(adversary={"plugin": "replay", "options": {"path": "trace.npz"}}).to_toml()
    )
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")

    assert load("../mine.toml").adversary.options == {"path": str(tmp_path / "trace.npz")}


def test_the_result_is_told_to_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    record("paper")
    told = capsys.readouterr().out
    record("paper", "--json", "--force")
    result = json.loads(capsys.readouterr().out)

    assert "--set adversary.plugin=replay --set adversary.options.path=trace.npz" in " ".join(told.split())
    assert result.pop("bytes") == Path("trace.npz").stat().st_size
    assert len(result.pop("sha256")) == 64
    assert (result.pop("file"), result.pop("adversary")) == ("trace.npz", "linear-regression")
    assert result == {"rounds": 12, "agents": 6, "dimension": 10, "rows": 4, "constraints": 2}


def test_a_file_is_overwritten_only_by_force(capsys: pytest.CaptureFixture[str]) -> None:
    Path("trace.npz").write_text("precious")

    assert record("paper") == 2
    assert "--out trace.npz exists; name another file, or add --force to overwrite it" in capsys.readouterr().err
    assert Path("trace.npz").read_text() == "precious"
    assert record("paper", "--force") == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("adversary.plugin=resource-fair", "set.lower=0.0"), "by the decisions of a game, and here nobody decides"),
        (("adversary.plugin=logistic",), "its functions are not given as the arrays of a trace"),
        (("adversary.plugin=own.py:Shrinking",), "its functions have other shapes in round 2 than before"),
        (("run.rounds=",), "run.rounds is missing, and a record has an end"),
    ],
)
def test_what_cannot_be_recorded_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], settings: tuple[str, ...], words: str
) -> None:
    Path("own.py").write_text(OWN)

    assert record("paper", settings=(*SMALL, *settings)) == 2
    refused = capsys.readouterr().err
    assert words in refused
    assert refused.count("\n") == 1
    assert not Path("trace.npz").exists()


def test_a_write_that_fails_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    Path("trace.npz.draft").mkdir()

    assert record("paper") == 2
    assert "--out trace.npz cannot be written: Is a directory; mend that" in capsys.readouterr().err


@pytest.mark.parametrize("out", ["trace.txt", "nowhere/trace.npz"])
def test_a_wrong_file_name_is_refused_before_anything_is_played(out: str) -> None:
    assert slaternet("record", "paper", "--out", out) == 2


def test_a_plugin_of_one_s_own_is_recorded_too() -> None:
    Path("own.py").write_text(OWN)

    assert record("paper", settings=(*SMALL, "adversary.plugin=own.py:Same")) == 0


def test_a_record_that_the_disk_cannot_hold_is_not_begun(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=1000))

    assert record("paper") == 2
    assert "MB are free; record fewer rounds" in capsys.readouterr().err


def test_the_samples_of_logistic_are_found_beside_the_spec(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text("a,b,label\n1,2,1\n2,1,0\n")
    data = ("adversary.plugin=logistic", "adversary.options.data=samples.csv", "run.dimension=2")

    assert load("paper", (*SMALL, *data)).adversary.options["data"] == str(tmp_path / "samples.csv")
    with pytest.raises(BadSpec, match="has 2 columns besides label and group"):
        load("paper", (*SMALL, *data[:2]))
