"""`simulate --watch`, as docs/adversaries.md shows it: a game is played again whenever a file of it is saved."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.game.processes import SLATERNET, digest, write_spec

from slaternet_lab import Run, load, simulate

BOWL = """
import numpy as np

from budget import BUDGET
from slaternet_adversary import Adversary


class Functions:
    def loss(self, agents, points):
        return np.sum((points - 1.0) ** 2, axis=-1)

    def constraint(self, agents, points):
        return np.sum(points, axis=-1, keepdims=True) - BUDGET


class Bowl(Adversary):
    constraints = 1

    def play(self, round, past):
        return Functions()
"""
TILTED = (
    BOWL.replace("return Functions()", "return Functions() if round < 7 else Tilted()")
    + """

class Tilted(Functions):
    def loss(self, agents, points):
        return super().loss(agents, points) + points[..., 0]
"""
)


class Watching:
    """A command that goes on, and the lines that it prints."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def until(self, beginning: str) -> list[str]:
        """Return the lines up to the next that begins so."""
        lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            lines.append(line.rstrip())
            if line.startswith(beginning):
                return lines
        raise AssertionError(f"no {beginning!r} in {lines}")

    def result(self) -> list[str]:
        """Return the lines up to the end of a game."""
        return self.until("watching ")

    def interrupt(self) -> int:
        """End it by Ctrl-C; return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait()


@contextmanager
def watching(folder: Path, *arguments: str) -> Iterator[Watching]:
    """Run `slaternet simulate --watch` in a folder; the results are in `run`."""
    command = (SLATERNET, "simulate", *arguments, "--watch", "--no-figures", "--out", "run")
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            yield Watching(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None


def game(folder: Path, code: str = BOWL) -> Path:
    """Write a spec, the adversary that it names, and a module that this imports; return the spec."""
    (folder / "bowl.py").write_text(code)
    (folder / "budget.py").write_text("BUDGET = 1.0\n")
    return write_spec(folder, rounds=20, plugin="bowl.py:Bowl")


def save(path: Path, text: str) -> None:
    """Write a file as many editors do: another file takes its place."""
    draft = path.with_name(f"{path.name}~")
    draft.write_text(text)
    draft.replace(path)


def line_of(lines: list[str], name: str) -> str:
    (found,) = (line for line in lines if line.startswith(f"{name} "))
    return found


def test_a_saved_plugin_is_played_and_compared_with_the_last_result(tmp_path: Path) -> None:
    spec = game(tmp_path)
    with watching(tmp_path, spec.name) as loop:
        first = loop.result()
        save(tmp_path / "bowl.py", TILTED)
        second = loop.result()
        other = digest(Run.open(tmp_path / "run"))
        save(tmp_path / "bowl.py", BOWL)
        third = loop.result()
        assert loop.interrupt() == 0

    of_file = digest(simulate(load(str(spec), ["adversary.isolation=none"]), out=tmp_path / "b", finished=False))
    assert first[0] == "playing small.toml"
    assert line_of(first, "digest").split()[1] == of_file == digest(Run.open(tmp_path / "run")) != other
    assert first[-1] == "watching bowl.py, budget.py, small.toml; Ctrl-C ends"
    assert second[0] == "saved bowl.py"
    assert line_of(second, "digest") == f"digest     {other[:16]}, another game from round 8 on"
    assert " -> " in line_of(second, "loss")
    assert line_of(third, "digest") == f"digest     {of_file[:16]}, another game from round 8 on"


def test_the_spec_and_what_a_plugin_imports_are_watched_too(tmp_path: Path) -> None:
    spec = game(tmp_path)
    with watching(tmp_path, spec.name) as loop:
        loop.result()
        save(tmp_path / "budget.py", "BUDGET = 0.5\n")
        of_helper = loop.result()
        save(spec, spec.read_text().replace("rounds = 20", "rounds = 30"))
        of_spec = loop.result()
        (tmp_path / "bowl.py").touch()
        of_nothing = loop.result()

    assert of_helper[0] == "saved budget.py"
    assert "another game from round" in line_of(of_helper, "digest")
    assert of_spec[0] == "saved small.toml"
    assert line_of(of_spec, "digest").endswith("the same game up to round 20")
    assert line_of(of_nothing, "digest").endswith("the same game, to the bit")
    assert Run.open(tmp_path / "run").rounds == 30


@pytest.mark.slow
def test_a_program_is_played_again_when_it_is_built_again(tmp_path: Path) -> None:
    game(tmp_path)
    text = f"#!/bin/sh\nexec {sys.executable} -m slaternet_adversary.plugin.worker --listen 127.0.0.1:$1 bowl.py:Bowl\n"
    (tmp_path / "bowl").write_text(text)
    (tmp_path / "bowl").chmod(0o755)
    write_spec(tmp_path, rounds=20, plugin="exec:./bowl {port}")
    with watching(tmp_path, "small.toml") as loop:
        first = loop.result()
        (tmp_path / "bowl").write_text(text + "# again\n")
        second = loop.result()

    assert first[-1] == "watching bowl, small.toml; Ctrl-C ends"
    assert second[0] == "saved bowl"
    assert line_of(second, "digest").endswith("the same game, to the bit")


def test_an_error_is_shown_and_the_next_result_is_compared_with_the_last(tmp_path: Path) -> None:
    spec = game(tmp_path)
    with watching(tmp_path, spec.name) as loop:
        loop.result()
        save(tmp_path / "bowl.py", BOWL.replace("points - 1.0", "pointz - 1.0"))
        wrong_name = loop.result()
        save(tmp_path / "bowl.py", BOWL + "def broken(:\n")
        wrong_syntax = loop.result()
        save(spec, spec.read_text().replace("[graph]", "[grape]"))
        wrong_spec = loop.result()
        save(tmp_path / "bowl.py", BOWL)
        still_wrong = loop.result()
        save(spec, spec.read_text().replace("[grape]", "[graph]"))
        mended = loop.result()

    assert any("bowl.py:10 " in line and line.startswith("slaternet: ") for line in wrong_name)
    assert any("SyntaxError" in line and line.startswith("slaternet: ") for line in wrong_syntax)
    assert any(line.startswith("slaternet: small.toml: [graph] is missing") for line in wrong_spec)
    assert any(line.startswith("slaternet: small.toml: [graph] is missing") for line in still_wrong)
    assert line_of(mended, "digest").endswith("the same game, to the bit")


def test_a_save_ends_a_game_that_does_not_end_and_a_death_is_shown(tmp_path: Path) -> None:
    spec = game(tmp_path, BOWL.replace("return Functions()", "print('endless', flush=True)\n        while True: pass"))
    with watching(tmp_path, spec.name) as loop:
        loop.until("bowl.py:Bowl| endless")
        save(tmp_path / "bowl.py", BOWL.replace("return Functions()", "import os; os.abort()"))
        loop.until("saved bowl.py")
        died = loop.result()
        save(tmp_path / "bowl.py", BOWL)
        first = loop.result()
        assert loop.interrupt() == 0

    assert "the process that played was killed by SIGABRT" in died
    assert line_of(first, "rounds").split() == ["rounds", "20"]


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    spec = game(
        tmp_path,
        BOWL.replace(
            "return Functions()", "import os; print('pid', os.getpid(), flush=True); [0 for _ in iter(int, 1)]"
        ),
    )
    with watching(tmp_path, spec.name) as loop:
        child = int(loop.until("bowl.py:Bowl| pid ")[-1].split()[-1])
        assert loop.interrupt() == 0

    assert not Path(f"/proc/{child}").exists()


@pytest.mark.parametrize(
    ("what", "out", "sentence"),
    [("paper-short", "run", "--watch has no file to watch"), ("mine/spec.toml", "mine", "--out mine holds the spec")],
)
def test_what_cannot_be_watched_is_refused(tmp_path: Path, what: str, out: str, sentence: str) -> None:
    (tmp_path / "mine").mkdir()
    game(tmp_path).rename(tmp_path / "mine" / "spec.toml")
    command = (SLATERNET, "simulate", what, "--watch", "--out", out, "--force")
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert ended.returncode == 2
    assert ended.stderr.startswith(f"slaternet: {sentence}")
    assert not (tmp_path / "run").exists()
    assert (tmp_path / "mine" / "spec.toml").exists()
