"""The exam: an adversary plays a small game several times, and every line is a verdict."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from slaternet.errors import SlaternetError
from slaternet.spec import Spec
from slaternet.spec.plugins import is_python
from slaternet_adversary.api import Adversary, Game
from slaternet_adversary.plugin.makers import open_plugin, plays_apart
from slaternet_adversary.testing import feasibility, repetition
from slaternet_adversary.testing.apart import examine_apart
from slaternet_adversary.testing.course import Course
from slaternet_adversary.testing.functions import Convex, Gradient
from slaternet_adversary.testing.report import Report
from slaternet_adversary.testing.scores import COSTS, Agreement, ScoreShapes
from slaternet_adversary.testing.subject import ROUNDS, Fault, Line, Place, RoundUnderTest, Subject
from slaternet_adversary.testing.values import Arrays, Dtype, Finite, Order, Overflow, Rowwise, Shapes, ValueCheck

_BASIC = ("plays", "shapes", "dtype", "finite", "overflow")
"""Where one of these fails, the functions cannot be judged."""
_GAMES = 5
"""How often the game is played, if the adversary looks back; otherwise once less."""
WIDE = {"agents": 34, "dimension": 13}
"""The wider game, in which sums in another order have other bits."""

Progress = Callable[[str, int, int], None]
"""Receives what is asked now, how many rounds have been played, and how many there are."""


def examine(
    who: Spec | Subject,
    *,
    rounds: int | None = None,
    seconds: float | None = None,
    progress: Progress = lambda head, done, total: None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Line]:
    """Return the report, one line for each of CHECKS; BadSpec where the adversary cannot play this game at all.

    It plays so many `rounds` of a game, and ends after `seconds`. A spec's adversary runs where the spec says, by
    default in a worker: there an exit, a crash or an endless loop is a line of the report.
    """
    if isinstance(who, Spec):
        played = who.run.rounds
        rounds = min(rounds or ROUNDS, played or rounds or ROUNDS)
    else:
        rounds = rounds or who.rounds

    def told(call: str, played: int) -> None:
        progress(call, played, _GAMES * rounds)

    if isinstance(who, Spec) and is_python(who.adversary.plugin) and plays_apart(who):
        return examine_apart(who, rounds, seconds, told).lines()
    subject = subject_of(who) if isinstance(who, Spec) else who
    subject = replace(subject, rounds=rounds, course=Course(seconds, clock, told))
    report = Report(subject.course)
    examine_here(subject, report, clock)
    where = "output is that of this process" if subject.place == "here" else "plugin runs in a process of its own"
    report.add(Line("note", "prints", f"not counted: the {where}"))
    return report.lines()


def examine_here(subject: Subject, report: Report, clock: Callable[[], float] = time.perf_counter) -> None:
    """Add the lines to a report."""
    with report.within_time(), report.faults():
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


def subject_of(spec: Spec, *, labels: bool = True) -> Subject:
    """Return the adversary of a spec, in the spec's game: in this process, or in a program of another language."""
    run = spec.run
    game = Game(run.agents, run.dimension, spec.function_seed, spec.feasible_set())

    def wider() -> Subject:
        return subject_of(spec.replace(**{f"run.{name}": value for name, value in WIDE.items()}), labels=labels)

    @contextmanager
    def instance() -> Iterator[Adversary]:
        with open_plugin(spec, labels=labels) as (plugin, _):
            yield plugin

    place: Place = "here" if is_python(spec.adversary.plugin) else "elsewhere"
    return Subject(game, instance, min(ROUNDS, run.rounds or ROUNDS), wider, place)


def _probe(subject: Subject, reference: repetition.Reference, report: Report) -> None:
    """Ask one instance many questions in every round, and add the lines on its answers."""
    rowwise = Rowwise(claimed=reference.rowwise)
    values: list[ValueCheck] = [Shapes(), Finite(), Overflow(), Arrays(subject.numbers), Order(), rowwise]
    functions: list[ValueCheck] = [Convex("loss"), Convex("constraint"), Gradient("loss"), Gradient("constraint")]
    checks = [*values, *functions, *map(Agreement, COSTS), ScoreShapes(), Dtype(subject.numbers)]
    with report.faults(), repetition.playing(subject) as player:
        rounds = []
        for t in range(1, subject.rounds + 1):
            at = player.play(t)
            rounds.append(at)
            for check in checks:
                if not report.failed(check.about) and not any(map(report.failed, _BASIC)):
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
            with report.faults():
                report.add(check.finding())


def _unmoved(at: RoundUnderTest, reference: repetition.Reference, report: Report) -> None:
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
        with repetition.playing(replace(subject.wider(), course=subject.course)) as player:
            rowwise.look(player.play(1))
    except SlaternetError:
        return  # it plays games of its own size only
    except Fault as fault:
        if fault.about == rowwise.about:
            raise
