"""The report of an exam: an adversary plays a small game several times, and every line is a verdict."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slaternet.errors import PluginFailed, SlaternetError
from slaternet.spec import Spec
from slaternet.spec.debugger import DebuggerNeeded
from slaternet.spec.plugins import is_python
from slaternet_adversary.api import Adversary, Game
from slaternet_adversary.plugin.makers import open_plugin, plays_apart
from slaternet_adversary.testing import feasibility, repetition
from slaternet_adversary.testing.functions import Convex, Gradient
from slaternet_adversary.testing.scores import COSTS, Agreement, ScoreShapes
from slaternet_adversary.testing.subject import ROUNDS, Fault, Line, Place, RoundUnderTest, Subject
from slaternet_adversary.testing.values import Finite, Order, Rowwise, Shapes, ValueCheck

CHECKS = {
    "plays": "it is made, and plays without raising",
    "shapes": "of loss and constraint",
    "finite": "values, everywhere in X",
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
}
"""The lines of a report, in order."""

_BASIC = ("plays", "shapes", "finite")
"""Where one of these fails, the functions cannot be judged."""
WIDE = {"agents": 34, "dimension": 13}
"""The wider game, in which sums in another order have other bits."""


def examine(who: Spec | Subject, *, clock: Callable[[], float] = time.perf_counter) -> list[Line]:
    """Return the report, one line for each of CHECKS; BadSpec where the adversary cannot play this game at all."""
    subject = who if isinstance(who, Subject) else subject_of(who)
    report = _Report()
    with report.faults():
        reference = repetition.play(subject, clock)
        sizes = f"{subject.game.agents} agents in {subject.game.dimension} dimensions"
        text = f"rounds 1 to {subject.rounds} with {sizes}, {reference.constraints} constraint(s) each"
        report.add(Line("ok", "plays", text))
        report.add(repetition.duration(subject, reference.seconds))
        with report.faults():
            for line in repetition.again(subject, reference):
                report.add(line)
        _probe(subject, reference, report)
        if not report.failed("re-creation"):
            with report.faults():
                report.add(repetition.unasked(subject, reference))
        report.add(repetition.history(subject, reference))
        if reference.fault is not None:
            raise reference.fault
    return report.lines()


def subject_of(spec: Spec) -> Subject:
    """Return the adversary of a spec, in the spec's game."""
    run = spec.run
    game = Game(run.agents, run.dimension, spec.function_seed, spec.feasible_set())

    def wider() -> Subject:
        return subject_of(spec.replace(**{f"run.{name}": value for name, value in WIDE.items()}))

    @contextmanager
    def instance() -> Iterator[Adversary]:
        with open_plugin(spec) as (plugin, _):
            yield plugin

    place: Place = "elsewhere" if not is_python(spec.adversary.plugin) else "worker" if plays_apart(spec) else "here"
    return Subject(game, instance, min(ROUNDS, run.rounds or ROUNDS), wider, place)


class _Report:
    """Lines by what they are about; the first fault of each is kept."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}

    def add(self, line: Line) -> None:
        """Add a line, unless a fault was found before."""
        if not self.failed(line.about):
            self._lines[line.about] = line

    def failed(self, about: str) -> bool:
        """Whether a fault was found."""
        return about in self._lines and self._lines[about].verdict == "failed"

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Turn a fault in the block into its line."""
        try:
            yield
        except Fault as fault:
            self.add(Line("failed", fault.about, str(fault), fault.fault))
        except DebuggerNeeded:
            raise
        except PluginFailed as failure:
            self.add(Line("failed", "plays", str(failure), failure.fault))

    def lines(self) -> list[Line]:
        """Return a line for each check."""
        first = next((about for about in CHECKS if self.failed(about)), "")
        missing = f"not examined: correct {first} first"
        return [self._lines.get(about) or Line("note", about, missing) for about in CHECKS]


def _probe(subject: Subject, reference: repetition.Reference, report: _Report) -> None:
    """Ask one instance many questions in every round, and add the lines on its answers."""
    rowwise = Rowwise(claimed=reference.rowwise)
    functions: list[ValueCheck] = [Convex("loss"), Convex("constraint"), Gradient("loss"), Gradient("constraint")]
    agreements = map(Agreement, COSTS)
    checks: list[ValueCheck] = [Shapes(), Finite(), Order(), rowwise, *functions, *agreements, ScoreShapes()]
    with report.faults(), repetition.playing(subject) as player:
        rounds = []
        for t in range(1, subject.rounds + 1):
            at = player.play(t)
            rounds.append(at)
            for check in checks:
                if not report.failed(check.about):
                    with report.faults():
                        check.look(at)
            if not report.failed("re-creation"):
                with report.faults():
                    _unmoved(at, reference, report)
        if not any(map(report.failed, _BASIC)):
            with report.faults():
                report.add(feasibility.feasible(rounds))
    with report.faults():
        _widen(subject, rowwise)
    if not any(map(report.failed, _BASIC)):
        for check in checks:
            report.add(check.finding())


def _unmoved(at: RoundUnderTest, reference: repetition.Reference, report: _Report) -> None:
    """Require that many questions have not changed a round."""
    if at.answer() != reference.answers[at.round - 1]:
        text = f"the functions of {at.name} are others after other questions were asked"
        raise Fault("reaction", f"{text}; fix them in play, and let loss and constraint change nothing")
    report.add(Line("ok", "reaction", "the same functions whatever is asked, in their round and in earlier ones"))


def _widen(subject: Subject, rowwise: Rowwise) -> None:
    """Compare batches in a wider game too, if the adversary claims to be rowwise and can play one."""
    if subject.wider is None or not rowwise.claimed:
        return
    try:
        with repetition.playing(subject.wider()) as player:
            rowwise.look(player.play(1))
    except SlaternetError:
        return  # it plays games of its own size only
    except Fault as fault:
        if fault.about == rowwise.about:
            raise
