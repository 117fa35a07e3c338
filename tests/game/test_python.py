"""`play` is offered to programs: it works in any thread, and where an event loop runs already."""

import signal
import threading
from pathlib import Path

import pytest
from tests.game.processes import digest, simulated, write_spec

from slaternet.spec import Spec
from slaternet_lab import load, play


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return load(str(write_spec(tmp_path, rounds=10)))


async def test_a_game_is_played_where_an_event_loop_runs_as_in_a_notebook(spec: Spec, tmp_path: Path) -> None:
    run = play(spec, hosts=1, out=tmp_path / "run")

    assert digest(run) == digest(simulated(spec, tmp_path / "simulation"))


def test_a_game_is_played_in_a_thread_and_leaves_signals_as_they_were(spec: Spec, tmp_path: Path) -> None:
    def handlers() -> list[object]:
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    before = handlers()
    thread = threading.Thread(target=play, args=(spec,), kwargs={"hosts": 1, "out": tmp_path / "run"})
    thread.start()
    thread.join()

    assert (tmp_path / "run" / "summary.json").exists()
    assert handlers() == before
