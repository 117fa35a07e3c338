"""Thirty broken adversaries, each played by `simulate`, by the services of `run`, by the exam and over `grpc://`.

Whatever is wrong, and however it is played, the author is told his line where there is one, the round and the method,
and what to do (docs/debug.md, "The plugin fails"). As a module, `python -m
tests.game.test_broken_plugins` prints what each way says.
"""

import asyncio
import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import structlog
from tests.game.processes import slaternet
from tests.support.broken_plugins import CORPUS, Broken, here
from tests.support.services import DEADLINE, LOOPBACK, gathering, small_spec

from slaternet.errors import SlaternetError
from slaternet.limits import LIMITS
from slaternet.service.config import ProcessConfig
from slaternet.service.logs import error_logger
from slaternet.spec import Spec
from slaternet_adversary.plugin import makers
from slaternet_adversary.plugin.worker import PluginWorker, serve
from slaternet_adversary.shell.failed_call import FAILED_CALL
from slaternet_adversary.shell.service import AdversaryService
from slaternet_adversary.testing import examine
from slaternet_agent.shell.service import HostService
from slaternet_lab.games.simulation import simulate

ROUNDS = 12
IMPATIENT = replace(LIMITS, plugin_seconds=5.0)
"""For a plugin that hangs; enough to start its worker."""


@cache
def plain() -> Spec:
    return small_spec("run.agents=4", rounds=ROUNDS)


def spec_of(broken: Broken, folder: Path, isolation: str | None = "process") -> Spec:
    """Return the spec of a game with it; resolving it would fail at once."""
    adversary = {"plugin": f"{broken.write(folder)}:Mine", "isolation": isolation, "options": dict(broken.given)}
    return plain().replace(adversary=adversary)


def by_simulation(broken: Broken, folder: Path) -> str:
    """Simulate it, in this process unless it would harm that; return what the author is told."""
    return _simulated(spec_of(broken, folder, "process" if broken.deadly else "none"), folder)


def _simulated(spec: Spec, folder: Path) -> str:
    try:
        simulate(spec, out=folder / "run", figures=False, finished=False)
    except SlaternetError as error:
        return str(error)
    return ""


def by_services(broken: Broken, folder: Path) -> str:
    """Play it over gRPC, behind its worker; return what the operator of the adversary is told."""
    adversary = asyncio.run(_adversary(spec_of(broken, folder), folder / "run"))
    if isinstance(adversary, SlaternetError):
        return str(adversary)
    assert adversary == 0, adversary
    return ""


async def _adversary(spec: Spec, folder: Path) -> int | BaseException:
    """Return how the adversary has left; where it fails before the game begins, the others wait for another one."""
    async with gathering(spec, hosts=1) as game, asyncio.timeout(DEADLINE):
        game.start(HostService(ProcessConfig("agent-1", game.address, LOOPBACK)))
        game.start(AdversaryService(ProcessConfig("adversary", game.address, LOOPBACK), folder))
        [adversary] = await asyncio.gather(game.tasks[-1], return_exceptions=True)
        return adversary


def by_server(broken: Broken, folder: Path) -> str:
    """Serve it as its author would, and simulate the game over grpc://; return what the author is told."""
    spec = spec_of(broken, folder, None)
    with _listening(spec.adversary.plugin, apart=broken.deadly) as address:
        return _simulated(spec.replace(**{"adversary.plugin": f"grpc://{address}"}), folder)


@contextlib.contextmanager
def _listening(target: str, *, apart: bool) -> Iterator[str]:
    """Serve a plugin on loopback, in this process unless it would harm that; gives the address."""
    if not apart:
        server, port = serve(PluginWorker(target), "127.0.0.1:0")
        yield f"127.0.0.1:{port}"
        server.stop(0).wait()
        return
    command = (sys.executable, "-P", "-m", "slaternet_adversary.plugin.worker", "--listen", "127.0.0.1:0", target)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("ready ").strip()
        process.kill()


def by_exam(broken: Broken, folder: Path) -> str:
    """Examine it, in this process unless it would harm that; return what the author is to look at."""
    spec = spec_of(broken, folder, "process" if broken.deadly else "none")
    try:
        report = examine(spec.replace(**{"feedback": None, "adversary.seconds": 5.0}))
    except SlaternetError as error:
        return str(error)
    found = [line for line in report if line.verdict == "failed" or (line.about == "dtype" and line.verdict != "ok")]
    return "; ".join(f"{line.about}: {line.text}" for line in found)


WAYS: dict[str, Callable[[Broken, Path], str]] = {
    "simulate": by_simulation,
    "run": by_services,
    "grpc": by_server,
    "exam": by_exam,
}


def due(way: str, broken: Broken) -> tuple[str, ...]:
    """Return the words that a way must say; none where it ends well."""
    if way == "exam":
        return (broken.exam or broken.says) if broken.seen else ()
    return (broken.served or broken.says) if way == "grpc" else broken.says


@pytest.mark.parametrize("way", [pytest.param(each, marks=[pytest.mark.slow] * (each == "grpc")) for each in WAYS])
@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=[pytest.mark.slow] * (each in ("endless loop", "slow"))) for each in CORPUS]
)
def test_a_broken_plugin_is_told_with_line_round_method_and_remedy(
    what: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = CORPUS[what]
    if "hangs" in str(broken.says):
        monkeypatch.setattr(makers, "LIMITS", IMPATIENT)

    told = WAYS[way](broken, tmp_path)

    words = due(way, broken)
    assert bool(told) == bool(words) or not broken.seen, told
    assert all(word in told for word in words), told
    raises = " raised " in told or way != "exam"  # a breach that the exam itself has found has figures instead
    if words and raises and (way != "grpc" or not broken.served):
        assert here(tmp_path / "mine.py") in told
    if words and way != "exam" and " of round " in told:
        assert (tmp_path / "run" / FAILED_CALL).exists()


def test_a_file_that_is_missing_is_told_with_the_remedy(tmp_path: Path) -> None:
    outcome = slaternet("simulate", "paper-short", "--adversary", f"{tmp_path}/none.py:Mine")

    assert outcome.code == 2
    assert f"names the file {tmp_path}/none.py, which does not exist; correct the path" in outcome.err


_GRAPH = """\
from slaternet_coordinator.graphs.fixed import Ring

class Mine:
    def __init__(self, agents, seed):
        self.ring = Ring(agents, seed)

    def matrix(self, t):
        return self.ring.matrix(1 // (t - 5) + 1)
"""


@pytest.mark.parametrize("command", ["simulate", "run"])
def test_a_graph_that_fails_ends_the_game_with_its_line(command: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.py"
    path.write_text(_GRAPH)

    outcome = slaternet(command, "paper-short", "--set", f"graph.name={path}:Mine", "--out", tmp_path / "run")

    assert outcome.code == {"simulate": 6, "run": 3}[command], outcome.err
    raised = rf"matrix of round 5 raised ZeroDivisionError: .*, at {re.escape(str(path))}:8 `return"
    assert re.search(raised, outcome.err), outcome.err


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_the_failed_call_of_an_adaptive_plugin_is_asked_again(isolation: str, tmp_path: Path) -> None:
    path = CORPUS["NaN"].write(tmp_path)
    path.write_text(path.read_text().replace("    constraints = 1\n", "    constraints = 1\n    history = 2\n"))
    adversary = {"plugin": f"{path}:Mine", "isolation": isolation}

    told = _simulated(plain().replace(adversary=adversary), tmp_path)
    again = slaternet("adversary-call", f"{path}:Mine", tmp_path / "run")
    mended = path.with_name("mended.py")
    mended.write_text(
        path.read_text().replace("np.nan", "0.0").replace("Functions(round)", "Functions(len(past.decisions))")
    )
    well = slaternet("adversary-call", f"{mended}:Mine", tmp_path / "run")

    assert told.endswith(f"; to ask that call again: slaternet adversary-call {path}:Mine {tmp_path / 'run'}")
    assert again.code == 6
    assert f"loss of round 9 for agent 2 returned nan, which is not finite, at {here(path)}" in again.err
    assert well.code == 0, well.err
    assert "loss of round 9 does not fail any more" in well.out


def test_scoring_that_failed_with_play_is_asked_again(tmp_path: Path) -> None:
    broken = CORPUS["raises in scoring"]
    told = _simulated(spec_of(broken, tmp_path), tmp_path)

    again = slaternet("adversary-call", f"{tmp_path}/mine.py:Mine", tmp_path / "run")

    assert "scoring of round 9 raised Unscored" in told
    assert again.code == 6
    assert "scoring of round 9 raised Unscored" in again.err


def test_run_shows_the_author_s_part_of_the_traceback_and_all_of_it_on_demand(tmp_path: Path) -> None:
    path = CORPUS["deep in numpy.linalg"].write(tmp_path)
    common = ("run", "paper-short", "--adversary", f"{path}:Mine", "--set", "run.rounds=12", "--hosts", "1")

    short = slaternet(*common, "--out", tmp_path / "short")
    whole = slaternet(*common, "--out", tmp_path / "whole", "--traceback")

    place = here(path)
    assert short.code == whole.code == 6
    assert f"raised LinAlgError: Singular matrix, at {place} `np.linalg.inv(" in short.err
    assert f'  File "{path}", line {place.rpartition(":")[2]}, in loss\n' in short.err
    assert "_linalg.py" not in short.err
    assert "Traceback (most recent call last):" in whole.err
    assert "_linalg.py" in whole.err


def _print_table() -> None:
    """Print what each way says of each plugin, as markdown."""
    print(f"| plugin | {' | '.join(WAYS)} |\n|{'---|' * (1 + len(WAYS))}")
    for what, broken in CORPUS.items():
        cells = []
        for name, way in WAYS.items():
            with tempfile.TemporaryDirectory() as folder:
                skipped = name == "exam" and broken.deadly
                told = "not examined here" if skipped else way(broken, Path(folder)) or "plays to the end"
                cells.append(told.replace(folder + "/", "").replace("|", "\\|"))
        print(f"| {what} | {' | '.join(cells)} |")


if __name__ == "__main__":
    makers.LIMITS = IMPATIENT
    structlog.configure(logger_factory=error_logger)
    _print_table()
