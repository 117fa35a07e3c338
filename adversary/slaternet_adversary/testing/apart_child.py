"""The exam in a worker, within: it limits itself as one that plays, and writes what `apart` reads."""

import faulthandler
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import IO, NoReturn, cast

import structlog

from slaternet.codec.faults import encode_fault
from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet.spec.debugger import DebuggerNeeded, refuse_debuggers
from slaternet_adversary.plugin.makers import limits_of
from slaternet_adversary.plugin.worker import keep_streams
from slaternet_adversary.testing.course import Course, Told
from slaternet_adversary.testing.exam import examine_here, subject_of
from slaternet_adversary.testing.repetition import STUCK_SECONDS
from slaternet_adversary.testing.report import Report
from slaternet_adversary.testing.subject import Line


def main(_: list[str], untethered: Callable[[], None]) -> NoReturn:
    """Take the exam that standard input has a line about; when that is closed, call `untethered`."""
    tether, output = keep_streams()
    assert tether is not None  # a pipe
    refuse_debuggers()
    # what goes wrong is in the report; a log of ours would be counted as output of the plugin
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    lines = cast("IO[bytes]", os.fdopen(tether, "rb", buffering=0))
    job = json.loads(lines.readline())
    threading.Thread(target=_end_with, args=(lines, untethered), daemon=True).start()
    faulthandler.enable(output, all_threads=False)
    # acts within C code, too: the traceback is written, and the process ends
    faulthandler.register(signal.SIGALRM, output, all_threads=False, chain=True)
    process = os.getpid()

    def tell(**record: object) -> None:
        if os.getpid() != process:
            os._exit(0)  # the plugin has forked, and its child has returned to the exam of its parent
        os.write(output, json.dumps(record).encode() + b"\n")

    spec = Spec.parse(job["spec"], source="the exam").replace(**{"adversary.isolation": "none"})
    longest = limits_of(spec).plugin_seconds
    course = _TimedCourse(longest, job["seconds"], told=lambda call, played: tell(call=(call, course.where, played)))
    report = Report(course, told=lambda line: tell(line=_written(line)))
    try:
        examine_here(replace(subject_of(spec, labels=False), rounds=job["rounds"], course=course), report)
        tell(ended=report.ended)
    except BadSpec as error:
        tell(refused=str(error))
    except DebuggerNeeded as error:
        tell(debugger=str(error))
    sys.exit(0)


def _end_with(lines: IO[bytes], untethered: Callable[[], None]) -> None:
    while lines.read():
        pass
    untethered()


class _TimedCourse(Course):
    """Ends the process in a call that takes longer than one of a game may, or than there is time for."""

    def __init__(self, longest: float, seconds: float | None, told: Told) -> None:
        super().__init__(seconds, told=told)
        self._longest = longest

    def ask(self, call: str, method: str, of: object) -> None:
        super().ask(call, method, of)
        signal.setitimer(signal.ITIMER_REAL, min(self._longest, max(self.rest, STUCK_SECONDS)))

    def answered(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _written(line: Line) -> tuple[str, ...]:
    """Return a line of the report for JSON."""
    fault = "" if line.fault is None else encode_fault(line.fault).hex()
    return line.verdict, line.about, line.text, line.where, fault
