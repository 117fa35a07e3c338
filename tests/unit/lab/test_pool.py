import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from slaternet.errors import PluginFailed, RunFailed
from slaternet_lab.comparison.play import offline_optimum, simulate_game
from slaternet_lab.games.pool import Task, TaskOutcome, perform
from slaternet_lab.runs.run import Run
from slaternet_lab.specs.resolve import load

MINE = """
import os, pathlib, signal
from slaternet_agent.algorithms.zhang2024 import Zhang2024


class Mine(Zhang2024):
    def __init__(self, game, schedule, *, raises=0, dies=0, stays=0, meets=0):
        super().__init__(game, schedule)
        self._fate = raises, dies, stays, meets

    def update(self, state, decision, seen, t):
        raises, dies, stays, meets = self._fate
        meeting = pathlib.Path(__file__).with_name("meeting")
        if t == meets and meeting.is_fifo():
            meeting.write_bytes(b"") if dies else meeting.read_bytes()
            meeting.unlink(missing_ok=True)
            dies or signal.pause()
        if t == raises:
            raise ValueError("no more")
        if t == dies:
            print("farewell", flush=True)
            os._exit(7)
        if t == stays:
            pathlib.Path(__file__).with_name("pid").write_text(str(os.getpid()))
            signal.pause()
        return super().update(state, decision, seen, t)
"""


def task(folder: Path, name: str, *settings: str) -> Task:
    mine = folder / "mine.py"
    mine.write_text(MINE)
    small = ("run.agents=4", "run.rounds=20", "run.dimension=2", f"algorithm.name={mine}:Mine")
    spec = load("paper", (*small, *(f"algorithm.{setting}" for setting in settings)))
    return Task(name, simulate_game, (spec, folder / name))


def doing(folder: Path, jobs: int, *tasks: Task) -> Generator[TaskOutcome, None, None]:
    return perform(tasks, jobs, folder / "log", lambda *report: None)


def test_tasks_are_done_whatever_happens_to_others(tmp_path: Path) -> None:
    tasks = [
        task(tmp_path, "raises", "raises=5"),
        task(tmp_path, "dies", "dies=5"),
        task(tmp_path, "first"),
        task(tmp_path, "second"),
        Task("optimum", offline_optimum, (task(tmp_path, "first").arguments[0],)),
    ]

    outcomes = list(doing(tmp_path, 1, *tasks))

    assert [outcome.task.name for outcome in outcomes] == ["raises", "dies", "first", "second", "optimum"]
    raised, died, *done = outcomes
    assert isinstance(raised.error, PluginFailed)
    assert "raised ValueError: no more, at " in str(raised.error)
    assert isinstance(died.error, RunFailed)
    assert "the process that played it has died" in str(died.error)
    assert str(tmp_path / "log") in str(died.error)
    assert not any(outcome.error for outcome in done)
    assert isinstance(done[-1].result, float)
    assert Run.open(tmp_path / "first").summary["rounds"] == 20
    assert not (tmp_path / "first" / "loss.png").exists()
    assert "farewell" in (tmp_path / "log").read_text()


def test_of_games_played_side_by_side_only_the_one_that_ends_its_worker_fails(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "meeting")  # once both games are under way, one of them ends its worker
    games = {"dies": ("dies=5", "meets=3"), "first": ("meets=3",), "second": ()}
    tasks = [task(tmp_path, name, *settings) for name, settings in games.items()]

    outcomes = {outcome.task.name: outcome.error for outcome in doing(tmp_path, 2, *tasks)}

    assert [name for name, error in outcomes.items() if error] == ["dies"]
    assert set(outcomes) == {"dies", "first", "second"}
    assert Run.open(tmp_path / "first").summary["rounds"] == 20


@pytest.mark.parametrize("how", ["close", "kill"])
def test_no_worker_outlives_who_started_it_nor_stops_others_when_killed(tmp_path: Path, how: str) -> None:
    os.mkfifo(tmp_path / "pid")
    outcomes = doing(tmp_path, 2, task(tmp_path, "stays", "stays=5"), task(tmp_path, "first"))
    assert next(outcomes).task.name == "first"
    pid = int((tmp_path / "pid").read_text())

    if how == "close":
        outcomes.close()
    else:
        os.kill(pid, signal.SIGKILL)
        (last,) = outcomes
        assert isinstance(last.error, RunFailed)
        assert last.task.name == "stays"

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


SCRIPT = """
import sys
from pathlib import Path
from slaternet.spec import Spec
from slaternet_lab.comparison.play import simulate_game
from slaternet_lab.games.pool import Task, perform

folder = Path(sys.argv[1])
task = Task("stays", simulate_game, (Spec.parse((folder / "spec").read_text(), source="spec"), folder / "stays"))
print([outcome.error for outcome in perform([task], 1, folder / "log", lambda name, round: None)])
"""


def test_workers_of_a_script_without_a_guard_end_when_it_is_killed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    (tmp_path / "spec").write_text(task(tmp_path, "stays", "stays=5").arguments[0].to_toml())
    (tmp_path / "script.py").write_text(SCRIPT)
    script = subprocess.Popen([sys.executable, str(tmp_path / "script.py"), str(tmp_path)], stderr=subprocess.DEVNULL)
    pid = int((tmp_path / "pid").read_text())
    worker = os.pidfd_open(pid)

    script.kill()
    script.wait()

    assert select.select([worker], [], [], 60)[0], "the worker has outlived its parent"
    os.close(worker)
