"""Where a plugin cannot be served or debugged, one sentence says so before anything starts."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet.spec.debugger import debugged, is_debugged, without_breakpoints
from slaternet_adversary.plugin.foreground import Foreground
from slaternet_adversary.plugin.makers import plugin_maker
from slaternet_lab.cli import main
from slaternet_lab.games.run import play
from slaternet_lab.specs.shipped import shipped

CODE = """
from slaternet_adversary import Adversary


class Mine(Adversary):
    constraints = 0

    def play(self, round, past):
        raise AssertionError("nobody plays")
"""
SPEC = Spec.parse(shipped("paper-short").text, source="paper-short")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["grpc://127.0.0.1:1"], "TARGET grpc://127.0.0.1:1 is served already"),
        (["exec:./drones {port}"], "TARGET exec:./drones {port} is a program, which serves by itself; start it"),
        (["missing.py:Mine"], "TARGET names the file .*missing.py, which does not exist"),
        (["mine.py:Yours"], "TARGET names Yours, which is not a class of .*Mine"),
        (["mine.py:Mine", "--listen", "0.0.0.0:0"], "--listen 0.0.0.0:0 is not on loopback.*--insecure"),
        (["mine.py:Mine", "--listen", "here"], "--listen"),
    ],
)
def test_what_cannot_be_served_is_refused(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(CODE)

    with pytest.raises(SystemExit) as left:
        main(["adversary-serve", *arguments])

    assert left.value.code == 2
    assert re.match(f"slaternet: {sentence}.*\n$", capsys.readouterr().err)


def test_a_run_does_not_debug_a_plugin_that_runs_elsewhere(tmp_path: Path) -> None:
    spec = SPEC.replace(**{"adversary.plugin": "grpc://127.0.0.1:1"})

    with pytest.raises(BadSpec, match=r"--debug is for plugins in Python, and grpc://127.0.0.1:1 runs elsewhere"):
        play(spec, out=tmp_path / "run", debug=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("same", [True, False])
def test_what_is_served_must_be_the_code_that_the_spec_names(tmp_path: Path, same: bool) -> None:
    mine, other = tmp_path / "mine.py", tmp_path / "other.py"
    mine.write_text(CODE)
    other.write_text(CODE if same else f"{CODE}\n# and more")
    spec = SPEC.replace(**{"adversary.plugin": f"{mine}:Mine", "adversary.options": {}})

    with Foreground(f"{other}:Mine", "127.0.0.1:0") as served, ThreadPoolExecutor(1) as threads:

        def made() -> str:
            with plugin_maker(spec, served_at=served.address) as maker:
                maker.new()
                return maker.code

        code = threads.submit(made)
        code.add_done_callback(lambda _: served.stop())
        served.run()
        if same:
            assert len(code.result()) == 64
        else:
            with pytest.raises(BadSpec, match=rf"served at {served.address} is other code than .*mine.py:Mine"):
                code.result()


def test_a_process_is_debugged_while_a_block_runs() -> None:
    with debugged():
        assert is_debugged()
    assert not is_debugged()


@pytest.mark.parametrize("before", [None, "pdb.set_trace"])
def test_breakpoints_do_nothing_while_a_block_runs(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    if before is not None:
        monkeypatch.setenv("PYTHONBREAKPOINT", before)

    with without_breakpoints():
        breakpoint()

    assert os.environ.get("PYTHONBREAKPOINT") == before
