"""The report of an exam: a verdict for each check, whatever was found, and however far the exam has come."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from slaternet.errors import PluginFailed
from slaternet.spec.debugger import DebuggerNeeded
from slaternet_adversary.testing.course import Course, OutOfTime
from slaternet_adversary.testing.subject import Fault, Line, place_of

CHECKS = {
    "plays": "it is made, and plays without raising",
    "shapes": "of loss and constraint",
    "dtype": "float64, or numbers that become it without loss",
    "arrays": "that are returned and never changed later",
    "finite": "values, everywhere in X",
    "overflow": "values whose squares and sums are finite, too",
    "re-creation": "a new instance has the same functions",
    "query order": "a question's answer does not depend on the one before it",
    "reaction": "functions do not depend on questions, neither of their round nor of earlier ones",
    "older rounds": "can be asked about after later ones were played",
    "rowwise": "an agent's bits do not depend on who is asked with it, where that is claimed",
    "history": "what play is given, also after an agent has left",
    "convex f": "no loss lies above a chord",
    "convex g": "no constraint lies above a chord",
    "loss_gradient": "against differences",
    "constraint_gradient": "against differences",
    "network_loss": "against loss",
    "network_violation": "against constraint",
    "quadratic": "against loss",
    "linear": "against constraint",
    "scoring": "what is scored where it is not what is revealed",
    "feasible": "some point of X satisfies all constraints, with a margin",
    "time": "of a round",
    "memory": "that is kept after a round",
    "prints": "lines on standard output and error",
}
"""The lines of a report, in order."""

_METHODS = {
    **dict.fromkeys(("re-creation", "reaction", "older rounds", "history", "time", "memory"), "play"),
    **dict.fromkeys(("convex f", "rowwise"), "loss"),
    **dict.fromkeys(("convex g", "feasible"), "constraint"),
    **dict.fromkeys(("plays", "shapes", "dtype", "arrays", "finite", "overflow", "query order"), ""),
}
"""By line: the method that it is about; "" is the one that was called last. Other lines are named after theirs."""


class Report:
    """Lines by what they are about; the first fault of each is kept."""

    def __init__(self, course: Course, told: Callable[[Line], None] = lambda line: None) -> None:
        """Tell each line as it is added."""
        self._course = course
        self._told = told
        self._lines: dict[str, Line] = {}
        self.ended = ""
        """Why no more is examined, if that is not for a fault."""

    def add(self, line: Line) -> None:
        """Add a line, unless a fault was found before."""
        if self.failed(line.about):
            return
        if line.verdict in ("warning", "failed") and not line.where:
            line = replace(line, where=self._course.standing(_METHODS.get(line.about, line.about)))
        self._lines[line.about] = line
        self._told(line)

    def failed(self, about: str) -> bool:
        """Whether a fault was found."""
        return about in self._lines and self._lines[about].verdict == "failed"

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Turn a fault in the block into its line."""
        try:
            yield
        except Fault as fault:
            self.add(Line("failed", fault.about, str(fault), fault.where, fault.fault))
        except DebuggerNeeded:
            raise
        except PluginFailed as failure:
            self.add(Line("failed", "plays", str(failure), place_of(failure), failure.fault))

    @contextmanager
    def within_time(self) -> Iterator[None]:
        """End the block where the time of the exam is over, and say so in the lines that are missing."""
        try:
            yield
        except OutOfTime:
            self.ended = f"the time of the exam was over after {self._course.seconds:g} seconds, at {self._course.call}"

    def lines(self) -> list[Line]:
        """Return a line for each check."""
        first = next((about for about in CHECKS if self.failed(about)), "")
        why = self.ended or f"correct {first} first"
        return [self._lines.get(about) or Line("note", about, f"not examined: {why}") for about in CHECKS]
