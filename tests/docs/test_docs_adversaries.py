"""The page about adversaries says what is true: its commands and code run in their order, its tables are the code's."""

import contextlib
import os
import re
import runpy
import shlex
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slaternet.limits import LIMITS
from slaternet.spec import Spec
from slaternet_adversary import Adversary, Game, Round
from slaternet_adversary.testing import CHECKS
from slaternet_lab.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "adversaries.md").read_text()
PORT = "7100"
"""Of the page; another one in the test, which is not alone on its machine."""
SCRIPTS = {
    "slaternet": "from slaternet_lab.cli import main; main()",
    # what is needed to build is installed, and the network is out of reach
    "pip": "import runpy, sys; sys.argv.insert(2, '--no-build-isolation'); runpy.run_module('pip', None, '__main__')",
}


def section(title: str, page: str = PAGE) -> str:
    level = re.search(rf"^(#+) {title}$", page, re.MULTILINE)
    assert level is not None
    following = re.compile(rf"^#{{1,{len(level[1])}}} (?!\S+\.py)", re.MULTILINE)  # a comment of code is no title
    return following.split(page[level.end() :], maxsplit=1)[0]


def blocks(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def lines(block: str) -> list[str]:
    return [line.strip() for line in block.splitlines() if line.strip()]


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| `([\w.]+)", text, re.MULTILINE)


BLOCKS = blocks(PAGE.replace(section("Four commands"), ""))
RUN = [position for position, (language, _) in enumerate(BLOCKS) if language in ("sh", "console")]


@dataclass
class Shell:
    """A folder and an environment into which packages can be installed, with everything that is installed here."""

    folder: Path

    def __post_init__(self) -> None:
        venv.create(self.folder / "environment", symlinks=True)
        self.bin = self.folder / "environment" / "bin"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        here = self.folder / "environment" / "lib" / version / "site-packages" / "here.pth"
        here.write_text("".join(f"import site; site.addsitedir({each!r})\n" for each in sys.path if "site-" in each))
        for name, code in SCRIPTS.items():
            script = self.bin / name
            script.write_text(f"#!{self.bin / 'python'}\n{code}\n")
            script.chmod(0o755)

    def __call__(self, command: str) -> str:
        """Run a command as it stands; the network is out of reach."""
        settings = {
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        ran = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout


@pytest.mark.slow
def test_four_commands_lead_from_an_empty_folder_to_a_played_game(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    ((language, block),) = blocks(section("Four commands"))

    shown = [shell(command) for command in lines(block)]

    assert (language, len(shown)) == ("sh", 4)
    assert "failed" not in shown[2]
    run = tmp_path / "runs" / "first"
    assert {each.name for each in run.iterdir()} >= {"summary.json", "loss.png", "violation.png"}
    assert Spec.parse((run / "spec.toml").read_text(), source="spec.toml").adversary.isolation == "process"


@pytest.mark.parametrize("position", RUN, ids=lambda position: BLOCKS[position][1].partition("\n")[0].lstrip("$ ")[:40])
def test_the_commands_of_the_page_run_on_the_code_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    monkeypatch.chdir(tmp_path)
    write_code(position)
    language, block = BLOCKS[position]
    if language == "console":
        compare(block)
        return
    port = free_port()
    with contextlib.ExitStack() as background:
        for command in lines(block.replace(PORT, port)):
            if command.endswith("&"):
                background.enter_context(serving(command.removesuffix("&")))
            else:
                play(command)


def test_the_test_of_the_page_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_code(len(BLOCKS))

    exam = runpy.run_path("test_bowl.py")["TestFull"]()

    for name in dir(exam):
        if name.startswith("test_"):
            getattr(exam, name)()


def write_code(before: int) -> None:
    """Write the files of the page as they are at a block."""
    for language, block in BLOCKS[:before]:
        if language == "python":
            write(block)


def write(block: str) -> None:
    """Write a block to the file that its first line names, or add it there."""
    named = re.match(r"# (\S+\.py)(, continued)?\n", block)
    assert named is not None
    with Path(named[1]).open("a" if named[2] else "w") as file:
        file.write(block)


def play(command: str, *, failing: bool = False) -> str:
    """Run a command of ours in this process."""
    name, *arguments = shlex.split(command)
    assert name == "slaternet"
    outcome = CliRunner().invoke(app, arguments)
    assert (outcome.exit_code != 0) == failing, f"{command}\n{outcome.output}\n{outcome.exception}"
    return outcome.output


def compare(block: str) -> None:
    """Run the command of a session and look for what the page shows, however it is wrapped and whatever its figures."""
    command, _, shown = block.removeprefix("$ ").partition("\n")
    output = figureless(play(command, failing=" failed " in shown))
    for part in shown.split("...\n"):
        assert figureless(part) in output


def figureless(text: str) -> str:
    return re.sub(r"-?\d[\d.e+-]*", "0", " ".join(text.split()))


@contextlib.contextmanager
def serving(command: str) -> Iterator[None]:
    """Run a command beside us from the moment it is ready."""
    name, *arguments = shlex.split(command)
    assert name == "python"
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready")
        yield
        process.terminate()


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def test_every_link_leads_somewhere() -> None:
    titles = {title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)}

    for anchor in re.findall(r"\]\(#([\w-]+)\)", PAGE):
        assert anchor in titles
    for path in re.findall(r"\]\(([\w./-]+)\)", PAGE):
        assert (Path(__file__).parents[2] / "docs" / path).exists(), path


def test_the_page_explains_every_line_of_the_exam() -> None:
    assert re.findall(r"^\| `([\w -]+)` \| .* \| .* \|$", section("The exam"), re.MULTILINE) == list(CHECKS)


def test_the_page_states_the_limits_of_a_worker() -> None:
    said = " ".join(section("Isolation").split())

    assert f"{LIMITS.plugin_memory_bytes >> 30} GiB of memory" in said
    assert f"hold {LIMITS.plugin_files} files open" in said
    assert f"take {LIMITS.plugin_seconds:g} seconds for a call" in said
    assert f"at most {LIMITS.chunk_bytes >> 20} MiB" in PAGE


def test_the_reference_has_every_method_and_field() -> None:
    listed = [line.strip() for line in str(Round.__doc__).splitlines() if "->" in line]
    optional = [line.partition("(")[0] for line in listed]

    reference = section("Reference")
    assert first_cells(section("A round", reference)) == ["loss", "constraint", *optional]
    assert first_cells(section("An adversary", reference)) == [*Adversary.__annotations__, "__init__", "play"]
    game = [*Game.__dataclass_fields__, "stream"]
    assert first_cells(section("A game", reference)) == game
