"""A disk that is full, under a process's state, its log or its output: exit code 3 and one sentence, no traceback."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.game.processes import DEADLINE, SLATERNET, eventually, recorded, write_spec

from slaternet_lab.specs.resolve import load

FULL = Path("/dev/full")
NO_ROOM = "slaternet: there is no room for the output: No space left on device; free space, and repeat\n"

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="the system has no device that is always full")


@pytest.mark.parametrize("words", [("specs",), ("specs", "paper"), ("--help",), ("--version",), ("show", "--help")])
def test_output_for_which_there_is_no_room_is_a_failed_run(words: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run([SLATERNET, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=DEADLINE)
        silent = subprocess.run([SLATERNET, *words], stdout=full, stderr=full, timeout=DEADLINE)

    assert (done.returncode, done.stderr) == (3, NO_ROOM)
    assert silent.returncode == 3


def test_an_error_for_which_there_is_no_room_keeps_its_exit_code() -> None:
    with FULL.open("w") as full:
        done = subprocess.run([SLATERNET, "show", "nothing"], stdout=full, stderr=full, timeout=DEADLINE)

    assert done.returncode == 2


def test_a_reader_that_has_left_is_no_error_worth_a_word() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(
            [SLATERNET, "specs", "paper"], stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=DEADLINE
        )

    assert (done.returncode, done.stderr) == (1, "")


def fill() -> None:
    """Give a process a disk that is full: no file may grow."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@contextmanager
def service(package: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    words = [sys.executable, "-m", f"slaternet_{package}", *map(str, arguments)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_process_that_is_started_again_while_its_disk_is_still_full_ends_as_it_did_the_first_time(
    tmp_path: Path,
) -> None:
    resolved = tmp_path / "resolved.toml"
    resolved.write_text(load(str(write_spec(tmp_path, rounds=None))).to_toml())
    state = ("--state", tmp_path / "state")
    with ExitStack() as stack:
        coordinator = stack.enter_context(
            service("coordinator", resolved, "--hosts", 1, "--listen", "127.0.0.1:0", *state)
        )
        assert coordinator.stdout is not None
        where = ("--coordinator", coordinator.stdout.readline().split()[-1], *state)
        roles = {"agent": ("--name", "lonely", *where), "adversary": (*where, "--out", tmp_path / "run")}
        first = {role: stack.enter_context(service(role, *words)) for role, words in roles.items()}
        eventually(lambda: recorded(tmp_path / "run") >= 5)
        for role, words in roles.items():
            first[role].kill()
            first[role].wait()
            command = [sys.executable, "-m", f"slaternet_{role}", *map(str, words)]
            with (tmp_path / f"{role}.log").open("w") as log:  # on the same disk
                told = subprocess.run(command, stderr=subprocess.PIPE, text=True, preexec_fn=fill, timeout=DEADLINE)
                untold = subprocess.run(command, stderr=log, preexec_fn=fill, timeout=DEADLINE)

            assert told.returncode == 3
            assert "Traceback" not in told.stderr
            *_, last = told.stderr.splitlines()
            assert last.startswith(f"slaternet {role}: there is no room for {tmp_path}")
            assert last.endswith("; nothing acknowledged is lost: free space and start again")
            assert untold.returncode == 3
