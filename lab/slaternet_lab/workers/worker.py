"""`python -m slaternet_lab.workers.worker`: a process that does one task after another for `workers.pool`.

A line of JSON on standard input is a task, {"task": ..., "spec": TOML, ...}. Lines on standard output answer it:
{"round": t} now and then, and at last {"done": {...}} or {"failed": [class of the error, sentence]}.
The process ends at once when its standard input does, so that no worker outlives who started it.
"""

import json
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from slaternet.environment import prepare
from slaternet.errors import SlaternetError

_PAUSE = 0.2
"""Seconds between two reports of how far a game has come."""


def main() -> None:
    """Serve until standard input ends."""
    prepare()
    # What a plugin prints goes to the log; only answers go to who listens.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    tasks: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(tasks,), daemon=True).start()
    while True:
        task = tasks.get()
        try:
            result = _TASKS[task["task"]](task, Reports(answers))
        except SlaternetError as error:
            _say(answers, {"failed": [type(error).__name__, str(error)]})
        else:
            _say(answers, {"done": result})


class Reports:
    """Tells how far a game has come, not too often."""

    def __init__(self, answers: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._answers = answers
        self._clock = clock
        self._said = clock()

    def update(self, round: int, loss: float, violation: float, note: str = "") -> None:
        """Say the round."""
        del loss, violation, note
        if self._clock() - self._said >= _PAUSE:
            self._said = self._clock()
            _say(self._answers, {"round": round})


def _play(task: dict[str, Any], reports: Reports) -> dict[str, object]:
    """Simulate a game; its results are in its folder."""
    from slaternet.spec import Spec
    from slaternet_lab.simulation import simulate

    spec = Spec.parse(task["spec"], source="spec")
    simulate(spec, out=Path(task["folder"]), force=True, progress=reports, figures=False)
    return {}


def _optimum(task: dict[str, Any], reports: Reports) -> dict[str, object]:
    """Find the least loss of a fixed decision that is feasible in all rounds of a game."""
    from slaternet.spec import Spec
    from slaternet_lab.hindsight.comparator import offline

    del reports
    return {"value": offline(Spec.parse(task["spec"], source="spec")).value}


def _grow(task: dict[str, Any], reports: Reports) -> dict[str, object]:
    """Simulate a game and say what had been gathered at each horizon; its folder is not kept."""
    from slaternet.spec import Spec
    from slaternet_lab.hindsight.comparator import optima
    from slaternet_lab.simulation import simulate

    spec, horizons = Spec.parse(task["spec"], source="spec"), task["horizons"]
    with tempfile.TemporaryDirectory(prefix="slaternet-") as folder:
        metrics = simulate(spec, out=Path(folder), progress=reports, figures=False).metrics
    at = [horizon - 1 for horizon in horizons]
    return {
        "loss": metrics["cumulative_loss"][at].tolist(),
        "violation": metrics["cumulative_violation"][at].tolist(),
        "optima": [each.value for each in optima(spec, horizons)] if task["optima"] else None,
    }


_TASKS = {"play": _play, "optimum": _optimum, "grow": _grow}


def _listen(tasks: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        tasks.put(json.loads(line))
    os._exit(0)


def _say(answers: IO[str], answer: dict[str, object]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
