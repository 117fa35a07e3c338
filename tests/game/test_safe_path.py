"""Files in the working directory are nobody's modules, whatever their names and whoever has written them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.game.plugins.leaves_code import set_trap
from tests.game.processes import DEADLINE, PLUGINS, SLATERNET, digest, simulated, write_spec

from slaternet_lab import Run
from slaternet_lab.specs.resolve import load

CODE = f"{PLUGINS / 'leaves_code.py'}:LeavesCode"


def command(folder: Path, *words: object) -> "subprocess.CompletedProcess[str]":
    """Run a command in a folder to its end."""
    return subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, timeout=DEADLINE)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Give a working directory with traps in it."""
    here = tmp_path / "here"
    here.mkdir()
    set_trap(here)
    return here


def caught(here: Path) -> str:
    path = here / "caught"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("run", "--hosts", 1), marks=pytest.mark.slow),
        ("simulate",),
        pytest.param(("compare", "--algorithms", "zhang2024,zero", "--seeds", 1, "--jobs", 2), marks=pytest.mark.slow),
    ],
    ids=lambda words: words[0],
)
def test_no_process_that_a_command_starts_imports_from_the_working_directory(
    words: tuple[object, ...], here: Path, tmp_path: Path
) -> None:
    spec = write_spec(tmp_path, rounds=20, plugin=CODE)  # in a worker of its own

    done = command(here, SLATERNET, words[0], spec, *words[1:], "--out", "played")

    assert caught(here) == ""
    assert done.returncode == 0, done.stderr
    if words[0] == "run":
        run = Run.open(here / "played")
        assert digest(run) == digest(simulated(run.spec, tmp_path / "simulated"))


@pytest.mark.parametrize("module", ["lab", "agent", "coordinator", "adversary", "adversary.plugin.worker"])
def test_a_module_that_is_started_by_itself_does_not_either(module: str, here: Path) -> None:
    done = command(here, sys.executable, "-m", f"slaternet_{module}", "--help")

    assert caught(here) == ""
    assert done.returncode == 0, done.stderr


@contextmanager
def service(here: Path, package: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """Start a service as a user may do it."""
    words = [sys.executable, "-m", f"slaternet_{package}", *map(str, arguments)]
    process = subprocess.Popen(words, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_services_that_are_started_one_by_one_play_to_the_digest(here: Path, tmp_path: Path) -> None:
    resolved = tmp_path / "resolved.toml"
    resolved.write_text(load(str(write_spec(tmp_path, rounds=20, plugin=CODE))).to_toml())
    with ExitStack() as stack:
        coordinator = stack.enter_context(
            service(here, "coordinator", resolved, "--hosts", 1, "--listen", "127.0.0.1:0")
        )
        assert coordinator.stdout is not None
        where = ("--coordinator", coordinator.stdout.readline().split()[-1])
        host = stack.enter_context(service(here, "agent", "--name", "lonely", *where))
        adversary = stack.enter_context(service(here, "adversary", *where, "--out", "alone"))
        codes = [process.wait(DEADLINE) for process in (adversary, host, coordinator)]

    assert caught(here) == ""
    assert codes == [0, 0, 0]
    run = Run.open(here / "alone")
    assert digest(run) == digest(simulated(run.spec, tmp_path / "simulated"))


@pytest.mark.slow
def test_what_a_plugin_leaves_in_the_working_directory_is_not_executed_at_the_next_start(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    spec = write_spec(tmp_path, rounds=20, plugin=CODE, more=f'[adversary.options]\nfolder = "{here}"\n')
    first = command(here, SLATERNET, "run", spec, "--out", "first")
    assert first.returncode == 6, first.stderr
    assert (here / "structlog.py").exists()

    second = command(here, SLATERNET, "run", spec, "--out", "second")

    assert caught(here) == ""
    assert second.returncode == 0, second.stderr
    run = Run.open(here / "second")
    assert digest(run) == digest(simulated(run.spec, tmp_path / "simulated"))
