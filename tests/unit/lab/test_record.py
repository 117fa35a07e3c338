import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from slaternet.errors import BadSpec
from slaternet_adversary.plugin.worker import PluginWorker, serve
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


CLOSED = """
import numpy as np
from slaternet_adversary import Adversary

class Bowls:
    def __init__(self, centres, tilt):
        self.centres, self.tilt = centres, tilt
        self.hessian = np.eye(centres.shape[1]) + 0.5

    def loss(self, agents, points):
        away = points - self.centres[agents][:, None]
        return 0.5 * np.einsum("ksp,pq,ksq->ks", away, self.hessian, away) + self.tilt

    def constraint(self, agents, points):
        total = points.sum(axis=-1)
        return np.stack((total - 1.0 - agents[:, None], -total - 9.0), axis=-1)

    def quadratic(self, agents):
        centres = self.centres[agents]
        constant = 0.5 * np.einsum("kp,pq,kq->k", centres, self.hessian, centres).mean() + self.tilt
        return self.hessian, -(centres @ self.hessian).mean(axis=0), constant

    def linear(self, agents):
        row = np.ones(self.centres.shape[1])
        return np.tile([row, -row], (len(agents), 1)), np.stack((1.0 + agents, 9.0 + 0 * agents), axis=1).ravel()

class Closed(Adversary):
    constraints = 2

    def play(self, round, past):
        shape = self.game.agents, self.game.dimension
        return Bowls(self.game.stream("centres", block=round).uniform(-1, 1, shape), 0.1 * round)

class Partly(Closed):
    def play(self, round, past):
        functions = super().play(round, past)
        if round > 2:
            functions.linear = None
        return functions

class Scored(Closed):
    def play(self, round, past):
        functions = super().play(round, past)
        scored, functions.tilt = super().play(round, past), 9.0
        functions.quadratic, functions.scoring = scored.quadratic, lambda: scored
        return functions
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
    assert result == {"rounds": 12, "agents": 6, "dimension": 10, "rows": 4, "constraints": 2, "same_digest": True}


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
        (("adversary.plugin=logistic",), "round 1 has no method quadratic and no method linear"),
        (("adversary.plugin=closed.py:Partly",), "because round 3 has no method linear; name one whose rounds have"),
        (("adversary.plugin=closed.py:Scored",), "quadratic of agent 0 in round 1 is not the loss that is revealed"),
        (("adversary.plugin=own.py:Shrinking",), "its functions have other shapes in round 2 than before"),
        (("run.rounds=",), "run.rounds is missing, and a record has an end"),
    ],
)
def test_what_cannot_be_recorded_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], settings: tuple[str, ...], words: str
) -> None:
    Path("own.py").write_text(OWN)
    Path("closed.py").write_text(CLOSED)

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


@pytest.mark.parametrize("where", ["none", "process", "grpc"])
def test_closed_forms_are_recorded_wherever_the_plugin_runs(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.py").write_text(CLOSED)
    server, port = serve(PluginWorker("own.py:Closed"), "127.0.0.1:0")
    grpc = f"adversary.plugin=grpc://127.0.0.1:{port}"
    named = (grpc,) if where == "grpc" else ("adversary.plugin=own.py:Closed", f"adversary.isolation={where}")
    try:
        assert record("paper", "--json", settings=(*SMALL, *named)) == 0
    finally:
        server.stop(0).wait()
    told = json.loads(capsys.readouterr().out)
    runs = [
        simulate(load("paper", (*SMALL, *settings)), out=Path(f"run-{place}"), figures=False)
        for place, settings in enumerate(
            [
                ("adversary.plugin=own.py:Closed", "adversary.isolation=none"),
                ("adversary.plugin=replay", "adversary.options.path=trace.npz"),
            ]
        )
    ]

    assert (told["rows"], told["constraints"], told["same_digest"]) == (0, 2, False)
    for name in ("loss", "violation"):
        np.testing.assert_allclose(runs[1].metrics[name], runs[0].metrics[name], rtol=1e-6)


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
