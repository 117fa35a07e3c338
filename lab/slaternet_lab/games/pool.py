"""Games played side by side in processes on this machine; none of the processes outlives the parent.

Nothing here imports numpy at its top: a worker sets the number of BLAS threads before it does.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from types import ModuleType
from typing import Any

from slaternet.errors import RunFailed, SlaternetError
from slaternet.service.library_defaults import set_library_defaults
from slaternet.storage.disk import open_log

_PAUSE = 0.2
"""Seconds between two progress reports of a game."""

_SAFE_PATH = "PYTHONSAFEPATH"

Reports = SimpleQueue[tuple[str, int]]
"""What workers report: the name of a task and the round of its game, 0 when it begins."""


@dataclass(frozen=True)
class Task:
    """A call `function(*arguments, Rounds)` for a worker."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class TaskOutcome:
    """How a task ended: with a result, or with an error."""

    task: Task
    result: Any = None
    error: SlaternetError | None = None


def cores() -> int:
    """Return how many processes this one may run side by side."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def perform(
    tasks: Sequence[Task], jobs: int, log: Path, advanced: Callable[[str, int], None]
) -> Generator[TaskOutcome, None, None]:
    """Run all tasks, `jobs` at a time, and yield how each ended; one that fails does not stop the others.

    `advanced` is called with the name of a task and the round that its game has reached. What workers and plugins print
    goes to `log`. Closing the generator ends the workers at once.
    """
    groups = [list(tasks)] if tasks else []
    while groups:
        group = groups.pop(0)
        with _workers(min(jobs, len(group)), log) as (executor, reports):
            begun, unfinished = yield from _attempt(group, executor, reports, advanced)
        # One worker has died, which ends all of them. To find out whose game it was, each is played alone.
        suspects = [task for task in unfinished if task.name in begun]
        if unfinished and not suspects:
            raise RunFailed(f"the processes that play games cannot start; see {log}")
        if len(suspects) == 1:
            sentence = f"the process that played it has died: killed, out of memory, or ended by a plugin; see {log}"
            yield TaskOutcome(suspects[0], error=RunFailed(sentence))
        else:
            groups += [[task] for task in suspects]
        if rest := [task for task in unfinished if task.name not in begun]:
            groups.insert(0, rest)


def _attempt(
    tasks: Sequence[Task], executor: Executor, reports: Reports, advanced: Callable[[str, int], None]
) -> Generator[TaskOutcome, None, tuple[set[str], list[Task]]]:
    """Run tasks until all are done, or a worker dies; return the names of those begun, and those not finished."""
    begun: set[str] = set()
    unfinished = list(tasks)
    futures: dict[Future[Any], Task] = {}
    with _spawning(), contextlib.suppress(BrokenProcessPool):  # a worker may die while the last tasks are submitted
        for task in tasks:
            futures[executor.submit(_run, task)] = task
    while futures:
        done, _ = wait(futures, _PAUSE, FIRST_COMPLETED)
        while not reports.empty():
            name, round = reports.get()
            begun.add(name)
            advanced(name, round)
        for future in [future for future in futures if future in done]:
            task = futures.pop(future)
            try:
                outcome = TaskOutcome(task, result=future.result())
            except SlaternetError as error:
                outcome = TaskOutcome(task, error=error)
            except BrokenProcessPool:
                continue
            unfinished.remove(task)
            yield outcome
    return begun, unfinished


@contextlib.contextmanager
def _workers(jobs: int, log: Path) -> Iterator[tuple[Executor, Reports]]:
    """Run workers for the block; they end with it, or when this process dies."""
    open_log(log).close()  # a worker could not say why it cannot
    context = multiprocessing.get_context("spawn")
    with _safe_path():  # its lock starts a process, too
        reports = context.SimpleQueue()
    alive, tether = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(jobs, context, _start_worker, (alive, reports, log))
    try:
        yield executor, reports
    finally:
        tether.close()
        executor.shutdown()
        alive.close()
        reports.close()


@contextlib.contextmanager
def _spawning() -> Iterator[None]:
    """Shield processes that are started within from Ctrl-C, and from running the user's script again."""
    main, mask = sys.modules["__main__"], signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        with _safe_path():
            yield
    finally:
        sys.modules["__main__"] = main
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Keep processes that are started within from importing files of the working directory."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


_reports: Reports | None = None
"""In a worker: where its reports go."""


def _start_worker(alive: Connection, reports: Reports, log: Path) -> None:
    global _reports
    set_library_defaults()
    _reports = reports
    with open_log(log) as file:
        for output in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), output.fileno())
    threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()


def _end_with_parent(alive: Connection) -> None:
    alive.poll(None)  # until the other end is closed: nothing is ever sent
    os._exit(1)


def _run(task: Task) -> Any:  # noqa: ANN401
    assert _reports is not None  # this process is a worker
    reports = _reports
    reports.put((task.name, 0))
    return task.function(*task.arguments, Rounds(lambda t: reports.put((task.name, t))))


class Rounds:
    """Reports the round of a game, not too often."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report
        self._reported = time.monotonic()

    def update(self, round: int, loss: float, violation: float, note: str = "") -> None:
        """Report the round, unless one was reported just now."""
        del loss, violation, note
        if time.monotonic() - self._reported >= _PAUSE:
            self._reported = time.monotonic()
            self._report(round)
