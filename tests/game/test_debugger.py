"""A plugin is debugged from a terminal: the prompt appears, it can be stepped through, and the game is the same one."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from tests.docs.pages import blocks
from tests.game.processes import PLUGINS, SLATERNET, Outcome, slaternet, write_spec
from tests.support.ide import debugged
from tests.support.terminal import Terminal, in_terminal

PLUGIN = PLUGINS / "stops.py"
ROUNDS = 12
PROMPT = r"\(Pdb\) $"


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the digest of the game without a debugger."""
    folder = tmp_path_factory.mktemp("plain")
    spec = write_spec(folder, rounds=ROUNDS, plugin=f"{PLUGIN}:Runs")
    outcome = slaternet("simulate", spec, "--out", folder / "run", "--json")
    assert outcome.code == 0, outcome.err
    return str(json.loads(outcome.out)["digest"])


def step(terminal: Terminal) -> None:
    """Look at a variable, step over the line that changes it, look again, and go on."""
    terminal.expect(PROMPT)
    terminal.type("p size")
    terminal.expect(r"51\n\(Pdb\) $")
    terminal.type("n")
    terminal.expect(r"play\(\)\n.*\n\(Pdb\) $")
    terminal.type("p size")
    terminal.expect(r"52\n\(Pdb\) $")
    terminal.type("c")


HERE = ("--set", "adversary.isolation=none")


@pytest.mark.parametrize(
    ("plugin", "how"),
    [
        ("Stops", ("simulate",)),
        ("Traces", ("simulate",)),
        ("Stops", ("simulate", *HERE)),
        ("Traces", ("simulate", *HERE)),
        ("Stops", ("simulate", "--debug", "--json")),
        ("Stops", ("run", "--debug")),
    ],
)
def test_a_debugger_in_a_plugin_has_the_terminal(
    tmp_path: Path, digest: str, how: tuple[str, ...], plugin: str
) -> None:
    command, *debug = how
    spec = write_spec(tmp_path, rounds=ROUNDS, plugin=f"{PLUGIN}:{plugin}")
    with in_terminal([SLATERNET, command, spec, "--out", "run", *debug], tmp_path) as terminal:
        step(terminal)
        assert terminal.ends() == 0, terminal.text

    assert digest in terminal.text
    assert terminal.text.count("(Pdb)") == 4, terminal.text
    assert f'plugin = "{PLUGIN}:{plugin}"' in (tmp_path / "run" / "spec.toml").read_text()


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_debugger_in_an_exam_has_the_terminal(tmp_path: Path, isolation: str) -> None:
    command = [SLATERNET, "adversary-check", f"{PLUGIN}:Stops", "--set", f"adversary.isolation={isolation}"]
    with in_terminal(command, tmp_path) as terminal:
        step(terminal)
        for _ in range(20):  # each new instance stops there, too
            if terminal.expect(r"\(Pdb\) $|theorems .*").group().startswith("theorems"):
                break
            terminal.type("c")
        assert terminal.ends() == 0, terminal.text


@pytest.mark.parametrize("how", [("simulate",), ("run", "--debug")], ids=" ".join)
def test_quitting_the_debugger_ends_the_command_in_one_sentence(tmp_path: Path, how: tuple[str, ...]) -> None:
    command, *debug = how
    spec = write_spec(tmp_path, rounds=ROUNDS, plugin=f"{PLUGIN}:Stops")
    with in_terminal([SLATERNET, command, spec, "--out", "run", *debug], tmp_path) as terminal:
        terminal.expect(PROMPT)
        terminal.type("q")
        assert terminal.ends() == 130, terminal.text

    assert terminal.text.endswith("(Pdb) q\nslaternet: the debugger was quit, and the game is not played on\n")


@pytest.mark.parametrize("command", ["simulate", "run"])
def test_the_first_error_of_a_plugin_opens_a_debugger_at_the_line_of_its_author(tmp_path: Path, command: str) -> None:
    spec = write_spec(tmp_path, rounds=ROUNDS, plugin=f"{PLUGIN}:Stumbles")
    with in_terminal([SLATERNET, command, spec, "--out", "run", "--debug"], tmp_path) as terminal:
        terminal.expect(r"LinAlgError: Singular matrix\n> .*stops.py\(\d+\)play\(\)\n-> np.linalg.inv.*\n\(Pdb\) $")
        terminal.type("p size")
        terminal.expect(r"51\n\(Pdb\) $")
        terminal.type("q")
        assert terminal.ends() == 6, terminal.text

    assert "Singular matrix" in terminal.text.splitlines()[-1]


def test_a_plugin_is_debugged_where_it_is_served(tmp_path: Path, digest: str) -> None:
    spec = write_spec(tmp_path, rounds=ROUNDS)
    with in_terminal([SLATERNET, "adversary-serve", f"{PLUGIN}:Stops"], tmp_path) as serving:
        target = serving.expect(r"--adversary (grpc://127.0.0.1:\d+)\n").group(1)
        with in_terminal([SLATERNET, "run", spec, "--adversary", target, "--out", "run"], tmp_path) as playing:
            step(serving)
            assert playing.ends() == 0, playing.text
        serving.interrupt()
        assert serving.ends() == 0, serving.text

    assert digest in playing.text


@pytest.mark.slow
def test_a_call_that_hangs_is_asked_again_and_interrupted_at_its_line(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, rounds=ROUNDS, plugin=f"{PLUGIN}:Hangs")
    line = PLUGIN.read_text().partition("signal.pause()")[0].count("\n") + 1
    outcome = slaternet("simulate", spec, "--out", tmp_path / "run", "--set", "adversary.seconds=3")
    assert outcome.code == 6, outcome.err
    assert "; to ask that call again: slaternet adversary-call " in outcome.err

    with in_terminal([SLATERNET, "adversary-call", f"{PLUGIN}:Hangs", "run"], tmp_path) as terminal:
        terminal.expect("here it hangs")
        terminal.interrupt()
        assert terminal.ends() == 130, terminal.text

    # the line that hangs, or the one before it, where Ctrl-C is faster
    assert any(f"slaternet: it was at {PLUGIN}:{each}, in play\n" in terminal.text for each in (line - 1, line))


def refused(*arguments: object) -> str:
    """Run a command that has no terminal; return the sentence with which it ends."""
    outcome: Outcome = slaternet(*arguments)
    assert outcome.code == 6, outcome
    return outcome.err.splitlines()[-1]


@pytest.mark.parametrize(("command", "plugin"), [("simulate", "Stops"), ("run", "Traces")])
def test_a_debugger_without_a_terminal_is_refused_with_the_way_out(tmp_path: Path, command: str, plugin: str) -> None:
    spec = write_spec(tmp_path, rounds=ROUNDS, plugin=f"{PLUGIN}:{plugin}")

    sentence = refused(command, spec, "--out", tmp_path / "run")

    call = {"Stops": "breakpoint()\n", "Traces": "pdb.set_trace()\n"}[plugin]
    line = PLUGIN.read_text().partition(f"            {call}")[0].count("\n") + 1
    assert re.search(rf"a debugger was called at .*stops.py:{line}, .* --debug", sentence), sentence


def test_the_page_shows_what_a_terminal_shows(tmp_path: Path) -> None:
    page = blocks("docs/debugging-plugins.md")
    code = next(block.text for block in page if block.file)
    fixed = "        size = 1 / round\n"
    (tmp_path / "mine.py").write_text(code.replace(fixed, f"{fixed}        breakpoint()\n"))
    command, *shown = next(block.text for block in page if "(Pdb)" in block.text).splitlines()

    with in_terminal([SLATERNET, *shlex.split(command)[2:]], tmp_path) as terminal:
        for line in shown:
            prompt, typed = re.fullmatch(r"(\(Pdb\) |)(.*)", line).groups()
            terminal.expect(re.escape(prompt or typed.replace("/home/me", str(tmp_path))))
            if prompt:
                terminal.type(typed)
        terminal.expect(r"mine.py\(24\)play")  # in round 2


@pytest.mark.slow
def test_an_ide_that_follows_the_command_stops_in_a_plugin(tmp_path: Path, digest: str) -> None:
    pytest.importorskip("debugpy")
    line = PLUGIN.read_text().partition("        return Bowls(np.full(")[0].count("\n") + 1
    spec = write_spec(tmp_path, rounds=ROUNDS, plugin=f"{PLUGIN}:Runs")

    with debugged(["simulate", spec, "--out", "run"], tmp_path, PLUGIN, line) as ide:
        for round in range(1, ROUNDS + 1):
            assert ide.stopped("round") == str(round)
        ide.ended()

    assert str(json.loads((tmp_path / "run" / "summary.json").read_text())["digest"]) == digest


def test_pdb_that_starts_the_command_stops_in_a_plugin(tmp_path: Path) -> None:
    line = PLUGIN.read_text().partition("        return Bowls(np.full(")[0].count("\n") + 1
    spec = write_spec(tmp_path, rounds=ROUNDS, plugin=f"{PLUGIN}:Runs")
    command = [sys.executable, "-m", "pdb", "-m", "slaternet_lab", "simulate", spec, "--out", "run"]
    with in_terminal(command, tmp_path) as terminal:
        terminal.expect(PROMPT)
        terminal.type(f"break {PLUGIN}:{line}")
        terminal.expect(PROMPT)
        terminal.type("c")
        terminal.expect(r"stops.py\(\d+\)play\(\)\n.*\n\(Pdb\) $")
        terminal.type("p round")
        terminal.expect(r"\n1\n\(Pdb\) $")
