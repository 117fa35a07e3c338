"""Every block of code in the documents runs where it stands, or says beside it why it does not."""

import contextlib
import os
import re
import runpy
import shlex
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import PAGES, ROOT, Block, blocks
from typer.testing import CliRunner

from slaternet_lab.cli import app

PLAIN = {"", "text", "yaml", "dockerfile", "proto"}
"""Languages of blocks that show something and do nothing."""
RUN = {"sh", "console", "python", "toml"}
SERVICES = {"coordinator", "adversary", "agent"}
ASKED = {"health", "status", "stop"}
PATIENCE = 60.0
LONG = {"README.md", "docs/adversaries.md", "docs/operate.md", "docs/research.md", "docs/tutorial.md"}
"""Pages with several games over a network."""

ALL = [block for page in PAGES for block in blocks(page)]
SESSIONS = sorted({block.page for block in ALL if block.language in RUN and not block.reason})


def test_every_block_is_of_a_language_that_is_run_or_only_shown() -> None:
    assert [str(block) for block in ALL if block.language not in PLAIN | RUN] == []
    assert len(SESSIONS) > 10


def test_every_excuse_has_a_reason_and_every_test_named_exists_and_reads_the_page() -> None:
    for block in ALL:
        if block.remark.startswith("run by "):
            test, _, reason = block.remark.removeprefix("run by ").partition(": ")
            assert Path(block.page).name in (ROOT / test).read_text(), block
            assert reason, block
        elif block.reason:
            assert len(block.reason.removeprefix("not run: ")) > 10, block


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow if page in LONG else ()) for page in SESSIONS]
)
def test_the_blocks_of_a_page_run_in_their_order(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if block.language in RUN and not block.reason:
            run(block)


def run(block: Block) -> None:
    if block.file:
        name, continued = block.file
        with Path(name).open("a" if continued else "w") as file:
            file.write(block.text)
    elif block.language == "python":
        Path("session.py").write_text(block.text)
        runpy.run_path("session.py")
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "console":
        compare(block)
    else:
        play_all(block)


def play_all(block: Block) -> None:
    """Run the commands of a block, each as it stands but for the port: the test is not alone on its machine."""
    ports: dict[str, str] = {}
    text = re.sub(
        r"(127\.0\.0\.1):(\d+)", lambda found: f"{found[1]}:{ports.setdefault(found[2], free_port())}", block.text
    )
    with contextlib.ExitStack() as background:
        for line in text.splitlines():
            command = line.partition(" #")[0].strip()
            if command.endswith("&"):
                background.enter_context(serving(command.removesuffix("&"), block))
            elif command:
                play(command, block)


def play(command: str, block: Block, *, failing: bool = False) -> str:
    """Run a command of ours in this process, a service or any other program in one of its own."""
    name, *arguments = shlex.split(command)
    if name != "slaternet":
        ran = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=PATIENCE)
        assert ran.returncode == 0, f"{block}: {command}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout
    if arguments[0] in SERVICES:
        with serving(command, block):
            return ""
    deadline = time.monotonic() + (PATIENCE if arguments[0] in ASKED else 0.0)
    while True:
        outcome = CliRunner().invoke(app, arguments)
        if arguments[0] not in ASKED or outcome.exit_code == 0 or time.monotonic() > deadline:
            break  # a service that was just started needs a moment before it answers
    assert (outcome.exit_code != 0) == failing, f"{block}: {command}\n{outcome.output}\n{outcome.exception}"
    return outcome.output


@contextlib.contextmanager
def serving(command: str, block: Block) -> Iterator[None]:
    """Run a command beside what follows: a service of a game to its end, any other program from when it is ready on."""
    name, *arguments = shlex.split(command)
    ours = name == "slaternet"
    assert ours or name == "python", block
    started = [sys.executable, *(["-m", "slaternet_lab"] if ours else []), *arguments]
    logs = subprocess.DEVNULL if ours else subprocess.PIPE
    with subprocess.Popen(started, stdout=logs, stderr=subprocess.DEVNULL, text=True, env={**os.environ}) as process:
        try:
            if process.stdout is not None:
                assert process.stdout.readline().startswith("ready")
            yield
            if ours:
                assert process.wait(PATIENCE) == 0, f"{block}: {command}"
        finally:
            process.kill()


def compare(block: Block) -> None:
    """Run the command of a session and look for what the page shows, however wrapped; of figures only digests count."""
    command, _, shown = block.text.removeprefix("$ ").partition("\n")
    output = play(command, block, failing=" failed " in shown)
    for part in shown.split("...\n"):
        assert figureless(part) in figureless(output), block
    for digest in re.findall(r"\b[0-9a-f]{64}\b", shown):
        assert digest in output, block


def figureless(text: str) -> str:
    return re.sub(r"-?\d[\d.e+-]*", "0", " ".join(text.split()))


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
