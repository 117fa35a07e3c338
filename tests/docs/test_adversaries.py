"""The guide to adversaries says what is true: its first four commands, its exam, its limits and its reference."""

import os
import re
import runpy
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.docs.pages import blocks, read, section

from slaternet.limits import LIMITS
from slaternet.spec import Spec
from slaternet_adversary import Adversary, Game, Round
from slaternet_adversary.testing import CHECKS

PAGE = "docs/adversaries.md"
SCRIPTS = {
    "slaternet": "from slaternet_lab.cli import main; main()",
    # what is needed to build is installed, and the network is out of reach
    "pip": "import runpy, sys; sys.argv.insert(2, '--no-build-isolation'); runpy.run_module('pip', None, '__main__')",
}


def first_names(text: str) -> list[str]:
    """Return the names with which the first cells of tables begin."""
    return re.findall(r"^\| `([\w.]+)", text, re.MULTILINE)


def part(text: str, title: str) -> str:
    """Return a section of a section."""
    return text.partition(f"### {title}\n")[2].partition("\n### ")[0]


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
    first = next(block for block in blocks(PAGE) if block.language == "sh")

    shown = [shell(command) for command in first.text.splitlines()]

    assert first.text in section(PAGE, "Four commands")
    assert len(shown) == 4
    assert "failed" not in shown[2]
    run = tmp_path / "runs" / "first"
    assert {each.name for each in run.iterdir()} >= {"summary.json", "loss.png", "violation.png"}
    assert Spec.parse((run / "spec.toml").read_text(), source="spec.toml").adversary.isolation == "process"


def test_the_test_of_the_page_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(PAGE):
        if block.file:
            with Path(block.file[0]).open("a") as file:
                file.write(block.text)

    exam = runpy.run_path("test_bowl.py")["TestFull"]()

    for name in dir(exam):
        if name.startswith("test_"):
            getattr(exam, name)()


def test_the_page_explains_every_line_of_the_exam() -> None:
    assert re.findall(r"^\| `([\w -]+)` \| .* \| .* \|$", section(PAGE, "The exam"), re.MULTILINE) == list(CHECKS)


def test_the_page_states_the_limits_of_a_worker() -> None:
    said = " ".join(section(PAGE, "Isolation").split())

    assert f"{LIMITS.plugin_memory_bytes >> 30} GiB of memory" in said
    assert f"hold {LIMITS.plugin_files} files open" in said
    assert f"take {LIMITS.plugin_seconds:g} seconds for a call" in said
    assert f"at most {LIMITS.chunk_bytes >> 20} MiB" in read(PAGE)


def test_the_reference_has_every_method_and_field() -> None:
    listed = [line.strip() for line in str(Round.__doc__).splitlines() if "->" in line]
    optional = [line.partition("(")[0] for line in listed]

    reference = section(PAGE, "Reference")
    assert first_names(part(reference, "A round")) == ["loss", "constraint", *optional]
    assert first_names(part(reference, "An adversary")) == [*Adversary.__annotations__, "__init__", "play"]
    assert first_names(part(reference, "A game")) == [*Game.__dataclass_fields__, "stream"]
