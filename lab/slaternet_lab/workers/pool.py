"""Tasks shared out to processes on this machine, one at a time each; none outlives the parent."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slaternet import errors
from slaternet.errors import RunFailed, SlaternetError

_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class Task:
    """What a worker is asked to do, and what to call it."""

    name: str
    request: dict[str, Any]


@dataclass(frozen=True)
class Advanced:
    """A game has come to a round."""

    task: Task
    round: int


@dataclass(frozen=True)
class Done:
    """A task is done; `result` is what it says."""

    task: Task
    result: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """A task cannot be done."""

    task: Task
    error: SlaternetError


Event = Advanced | Done | Failed


def cores() -> int:
    """Return how many processes this one may run side by side."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def perform(tasks: Sequence[Task], jobs: int, log: Path) -> Generator[Event, None, None]:
    """Do all tasks, `jobs` at a time, yielding what happens; whoever leaves the iterator early ends the workers.

    What workers and plugins print goes to `log`. A task that fails does not stop the others.
    """
    waiting = deque(tasks)
    workers: list[_Worker] = []
    selector = selectors.DefaultSelector()
    try:
        while waiting or selector.get_map():
            while waiting and len(selector.get_map()) < jobs:
                workers.append(_Worker(log))
                workers[-1].begin(waiting.popleft())
                selector.register(workers[-1], selectors.EVENT_READ, workers[-1])
            for key, _ in selector.select():
                worker: _Worker = key.data
                yield from worker.hear()
                if worker.free and waiting:
                    worker.begin(waiting.popleft())
                elif worker.free or worker.dead:
                    selector.unregister(worker)
    finally:
        for worker in workers:
            worker.end()
        selector.close()


class _Worker:
    """One process of `slaternet_lab.workers.worker`."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._task: Task | None = None
        self._unread = b""
        self.dead = False
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "slaternet_lab.workers.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                bufsize=0,
                # Ctrl-C in the terminal reaches the parent alone, which then ends its workers.
                start_new_session=True,
            )

    def fileno(self) -> int:
        """Return where its answers come."""
        assert self._process.stdout is not None  # a pipe, as asked for above
        return self._process.stdout.fileno()

    @property
    def free(self) -> bool:
        """Whether it waits for a task."""
        return self._task is None and not self.dead

    def begin(self, task: Task) -> None:
        """Give it a task."""
        assert self._process.stdin is not None
        self._task = task
        with contextlib.suppress(BrokenPipeError):  # it has died: the end of its answers says so
            self._process.stdin.write(json.dumps(task.request).encode() + b"\n")

    def hear(self) -> Iterator[Event]:
        """Yield what it says; it must have something to say."""
        data = os.read(self.fileno(), _READ_BYTES)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            yield self._event(json.loads(line))
        if not data:
            self.dead = True
            yield from self._death()

    def _event(self, answer: dict[str, Any]) -> Event:
        assert self._task is not None  # it speaks of its task only
        task = self._task
        if "round" in answer:
            return Advanced(task, answer["round"])
        self._task = None
        if "failed" in answer:
            kind, sentence = answer["failed"]
            return Failed(task, getattr(errors, kind)(sentence))
        return Done(task, answer["done"])

    def _death(self) -> Iterator[Event]:
        code = self._process.wait()
        manner = f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"
        if self._task is not None:
            yield Failed(self._task, RunFailed(f"the process that played it {manner}; see {self._log}"))

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.communicate()  # and close its pipes
