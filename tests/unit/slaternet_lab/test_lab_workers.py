import os
import signal
from pathlib import Path

import pytest

from slaternet.errors import PluginFailed, RunFailed
from slaternet_lab.folder import Run
from slaternet_lab.resolve import load
from slaternet_lab.workers.pool import Advanced, Done, Failed, Task, perform

MINE = """
import os, pathlib, signal
from slaternet_agent.algorithms.zhang2024 import Zhang2024


class Mine(Zhang2024):
    def __init__(self, game, schedule, *, raises=0, dies=0, stays=0):
        super().__init__(game, schedule)
        self._fate = raises, dies, stays

    def update(self, state, decision, seen, t):
        raises, dies, stays = self._fate
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
    return Task(name, {"task": "play", "spec": spec.to_toml(), "folder": str(folder / name)})


def test_tasks_are_done_whatever_happens_to_others(tmp_path: Path) -> None:
    tasks = [
        task(tmp_path, "raises", "raises=5"),
        task(tmp_path, "dies", "dies=5"),
        task(tmp_path, "first"),
        task(tmp_path, "second"),
        Task("optimum", {"task": "optimum", "spec": task(tmp_path, "first").request["spec"]}),
    ]

    events = [event for event in perform(tasks, 1, tmp_path / "log") if not isinstance(event, Advanced)]

    assert [event.task.name for event in events] == ["raises", "dies", "first", "second", "optimum"]
    raised, died, *done = events
    assert isinstance(raised, Failed)
    assert isinstance(raised.error, PluginFailed)
    assert "failed: round 5 raised ValueError at mine.py, line 14: no more" in str(raised.error)
    assert isinstance(died, Failed)
    assert isinstance(died.error, RunFailed)
    assert "ended with exit code 7" in str(died.error)
    assert all(isinstance(event, Done) for event in done)
    assert Run.open(tmp_path / "first").summary["rounds"] == 20
    assert not (tmp_path / "first" / "loss.png").exists()
    assert "farewell" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("how", ["close", "kill"])
def test_no_worker_outlives_who_started_it_nor_stops_others_when_killed(tmp_path: Path, how: str) -> None:
    os.mkfifo(tmp_path / "pid")
    events = perform([task(tmp_path, "stays", "stays=5"), task(tmp_path, "first")], 2, tmp_path / "log")
    next(event for event in events if isinstance(event, Done))
    pid = int((tmp_path / "pid").read_text())

    if how == "close":
        events.close()
    else:
        os.kill(pid, signal.SIGKILL)
        (last,) = [event for event in events if isinstance(event, Failed)]
        assert "was killed by SIGKILL" in str(last.error)

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
