"""The exam in a worker: what ends the worker is a line of the report.

The worker takes its game from its standard input, examines the plugin and writes to its standard output, line by line:

    {"call": ...}     the call that comes next, file and line of the method, rounds played so far
    {"line": ...}     a line of the report; what the plugin has raised, as it travels to a game, in hexadecimal digits
    {"refused": ...}  the sentence of BadSpec
    {"debugger": ...} the sentence of DebuggerNeeded: the plugin has called one
    {"ended": ...}    that the exam is over; why before its end, if so
    other text        where the process was when it crashed or took too long for a call, as `faulthandler` writes it

Its standard error is what the plugin prints: it is counted, and passed on.
"""

import json
import os
import re
import selectors
import sysconfig
from contextlib import suppress
from dataclasses import dataclass, field

from slaternet.codec.faults import decode_fault
from slaternet.errors import BadSpec
from slaternet.limits import LIMITS
from slaternet.prints import LabelledLines, label_of
from slaternet.spec import Spec
from slaternet.spec.debugger import DebuggerNeeded
from slaternet.texts import cleaned
from slaternet_adversary.plugin.makers import limits_of
from slaternet_adversary.plugin.sandbox import SandboxedWorker
from slaternet_adversary.testing.course import Course, Told
from slaternet_adversary.testing.report import Report
from slaternet_adversary.testing.subject import Line

_LATE = "was killed by SIGALRM"
"""How the worker ends where a call has taken too long."""
_PIECE = 1 << 16
_LOOK_SECONDS = 1.0
_LIBRARIES = re.compile(rf"{re.escape(sysconfig.get_path('stdlib'))}|/(site|dist)-packages/|/slaternet(_adversary)?/|<")
_SHOWN = 80
"""Letters of a line that is printed which the report repeats."""
_FRAME = re.compile(r'  File "(?P<file>.+)", line (?P<line>\d+) in ')


def examine_apart(spec: Spec, rounds: int, seconds: float | None, told: Told) -> Report:
    """Return the report on a spec's adversary, which plays so many rounds in a worker, for at most so long."""
    account = _Account(Report(Course(seconds)), told, LabelledLines(label_of(spec.adversary.plugin)))
    job = json.dumps({"spec": spec.to_toml(), "rounds": rounds, "seconds": seconds})
    with _ExamWorker(spec.adversary.plugin, limits_of(spec)) as worker:
        with suppress(BrokenPipeError):  # it has ended already
            os.write(worker.tether, job.encode() + b"\n")
        _listen(worker, account)
        account.conclude(worker.ended(LIMITS.grace_seconds))
    return account.report


class _ExamWorker(SandboxedWorker):
    """A worker whose standard streams are piped to us."""

    _module = "slaternet_adversary.testing.apart_child"
    _piped = True


def _listen(worker: SandboxedWorker, account: "_Account") -> None:
    """Take what the worker writes until it says no more; what it has started may keep its streams open."""
    rest = {stream.fileno(): b"" for stream in worker.outputs}
    report, _ = rest  # in the order of the streams
    with selectors.DefaultSelector() as selector:
        for each in rest:
            selector.register(each, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(_LOOK_SECONDS)
            if not ready and (account.over or worker.ended(0.0)):
                return
            for key, _ in ready:
                data = os.read(key.fd, _PIECE)
                *lines, rest[key.fd] = (rest[key.fd] + data).split(b"\n")
                if not data:  # the end, maybe within a line
                    selector.unregister(key.fd)
                    lines = list(filter(None, [rest[key.fd]]))
                for line in lines:
                    (account.hear if key.fd == report else account.overhear)(line)


@dataclass
class _Account:
    """What the worker has written so far."""

    report: Report
    told: Told
    shown: LabelledLines
    over: bool = False
    _call: str = "its start"
    _where: str = ""
    _crash: list[str] = field(default_factory=list)
    _prints: list[str] = field(default_factory=list)

    def hear(self, line: bytes) -> None:
        """Take a line of its standard output."""
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        match record:
            case {"call": [str(call), str(where), int(played)]}:
                self._call, self._where = call, where
                self.told(call, played)
            case {"line": [verdict, about, text, where, str(fault)]}:
                raised = decode_fault(bytes.fromhex(fault)) if fault else None
                self.report.add(Line(verdict, about, text, where, raised))
            case {"refused": str(sentence)}:
                raise BadSpec(sentence)
            case {"debugger": str(sentence)}:
                raise DebuggerNeeded(sentence)
            case {"ended": str(why)}:
                self.report.ended, self.over = why, True
            case _:
                self._crash.append(line.decode(errors="replace"))

    def overhear(self, line: bytes) -> None:
        """Take a line of its standard error."""
        self.shown.write(line + b"\n")
        self._prints.append(line.decode(errors="replace"))

    def conclude(self, manner: str) -> None:
        """Add the lines on how the process has ended, where that was before the exam was over, and on its output."""
        if not self.over:
            if manner == _LATE:
                what = "had not returned when the time for a call was over; look for an endless loop"
            elif "exit code" in manner:
                what = f"ended its process, which {manner}; raise an error there instead"
            else:
                what = f"ended its process, which {manner}; look into compiled code that it calls, and its memory"
            place = next(filter(None, map(_place, self._crash)), self._where)
            self.report.add(Line("failed", "plays", f"{self._call} {what}", place))
        count, first = len(self._prints), cleaned(self._prints[0])[:_SHOWN] if self._prints else ""
        text = f"it prints {count} line(s) in this exam, the first: {first}" if count else "it prints nothing"
        self.report.add(Line("note" if count else "ok", "prints", text))


def _place(line: str) -> str:
    """Return file and line of a frame, as `faulthandler` writes it, in the author's code; empty for any other."""
    frame = _FRAME.match(line)
    return f"{frame['file']}:{frame['line']}" if frame and not _LIBRARIES.search(frame["file"]) else ""
