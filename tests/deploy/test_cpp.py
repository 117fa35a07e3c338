"""The adversary in C++ that `adversary-new --lang cpp` makes: built by Debian's gRPC, examined, played and killed."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.game.processes import Outcome, digest, playing, recorded, simulated, slaternet
from tests.game.test_programs import DEPTH
from tests.game.test_workers import Worker

from slaternet_lab import Run
from slaternet_lab.tools.scaffold import create

BUILD_SECONDS = 600.0
pytestmark = [pytest.mark.deploy, pytest.mark.timeout(BUILD_SECONDS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the scaffold; a warning is an error."""
    libraries = ["pkg-config", "--exists", "grpc++"]
    for tool in ("g++", "make", "protoc", "grpc_cpp_plugin", "pkg-config"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed; `make test-deploy` installs it, as root on Debian")
    if subprocess.run(libraries).returncode:
        pytest.skip("gRPC for C++ is not installed; `make test-deploy` installs it, as root on Debian")
    made = create("power-market", tmp_path_factory.mktemp("cpp"), "cpp")
    built = subprocess.run(["make", "-C", made], capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert (built.returncode, built.stderr) == (0, ""), built.stderr
    return made


def check(folder: Path, *arguments: str) -> Outcome:
    return slaternet("adversary-check", f"exec:{folder}/build/power-market --port {{port}}", *arguments)


def test_it_passes_the_exam(folder: Path) -> None:
    outcome = check(folder)

    assert outcome.code == 0, outcome.out + outcome.err
    assert "failed" not in outcome.out


def test_it_refuses_an_option_with_its_own_sentence(folder: Path) -> None:
    outcome = check(folder, "--set", "adversary.options.budget=0")

    assert outcome.code == 2
    assert outcome.err.splitlines()[-1] == "slaternet: adversary.options.budget must be a number above 0"


def test_killed_in_mid_game_it_ends_in_the_bits_of_its_simulation(folder: Path, tmp_path: Path) -> None:
    with playing(folder / "spec.toml", tmp_path / "run", "--set", "run.rounds=1500") as game:
        program = Worker(game)
        game.under_way(20)
        program.kill(DEPTH)
        outcome = game.outcome()

    assert outcome.code == 0, outcome.err
    assert recorded(game.folder) == 1500
    assert "the plugin is played again" in (game.folder / "state" / "adversary" / "log").read_text()
    run = Run.open(game.folder)
    assert digest(run) == digest(simulated(run.spec, tmp_path / "simulated"))
