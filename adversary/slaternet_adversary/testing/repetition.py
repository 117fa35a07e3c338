"""The exam of repetition: a game as usual, again by a new instance, without questions, after departures."""

import gc
import statistics
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from slaternet.errors import PluginFailed
from slaternet_adversary.scoring import Scoring
from slaternet_adversary.testing.subject import (
    Fault,
    Line,
    PlayedInstance,
    RoundUnderTest,
    Subject,
    guarding,
    place_of,
)

PLAY_SECONDS, CHUNK_SECONDS = 0.1, 0.005
"""Longer is slow: for `play`, and for one piece of a score, which delays replies."""
STUCK_SECONDS = 1.0
"""A call of the exam's small game that takes longer is too slow for any game."""
KEPT_BYTES = 1024
"""Growth of memory per round that is not reported."""

_FEW = 4
"""With fewer rounds memory is not measured: it may be kept once."""
_LEAVES = 3
"""The round from which the last agent has left, when departures are examined."""


@dataclass
class Reference:
    """A game as usual, which all others must repeat; and seconds of each call by what was called."""

    constraints: int
    history: int
    rowwise: bool
    answers: list[bytes] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"play": [], "evaluate": [], "score": []})
    fault: Fault | None = None
    """Why rounds could not be scored; which method is at fault is found when they are examined one by one."""


@contextmanager
def playing(subject: Subject, decisions: np.ndarray | None = None) -> Iterator[PlayedInstance]:
    """Open an instance for a game."""
    subject.course.ask("its constructor", "__init__", None)
    with subject.opened() as plugin:
        subject.course.answered()
        yield PlayedInstance(subject, plugin, decisions)


def play(subject: Subject, clock: Callable[[], float]) -> Reference:
    """Play the game: functions, then everyone's question, then the score."""
    with playing(subject) as player:
        reference = Reference(player.plugin.constraints, player.plugin.history, player.plugin.rowwise)
        for t in range(1, subject.rounds + 1):
            question = subject.question(t)
            began = clock()
            at = player.play(t)
            played = clock()
            f, g = at.everyones(question)
            asked = clock()
            reference.answers.append(f.tobytes() + g.tobytes())
            reference.seconds["play"].append(played - began)
            reference.seconds["evaluate"].append(asked - played)
            if reference.fault is None:
                _score(at, reference, clock)
        return reference


def _score(at: RoundUnderTest, reference: Reference, clock: Callable[[], float]) -> None:
    """Score a round as in a game, and measure the seconds of each piece of it."""
    x, centre = at.subject.question(at.round)[:, 0], at.subject.game.set.centre
    where = f"the score of {at.name}"
    try:
        with guarding(at.subject, where, "", at.round, of=at.functions, about="scoring"):
            scoring = Scoring(at.functions, at.round, x, centre, reference.constraints)
            scored = None
            while scored is None:
                began = clock()
                scored = scoring.step()
                reference.seconds["score"].append(clock() - began)
        everyone = at.subject.everyone
        at.require_finite(everyone, scored.loss + scored.zero_loss, scored.violation + scored.zero_violation)
    except Fault as fault:
        reference.fault = fault
    except PluginFailed as failure:
        reference.fault = Fault(
            "overflow", failure.fault.sentence if failure.fault else str(failure), place_of(failure)
        )


def again(subject: Subject, reference: Reference) -> Iterator[Line]:
    """Play the game by a new instance, and yield the lines on bits and on memory."""
    middle, kept = subject.rounds // 2, [0, 0]
    with _traced(), playing(subject) as player:
        for t in range(1, subject.rounds + 1):
            if player.play(t).answer() != reference.answers[t - 1]:
                remedy = "let every number come from self.game.stream(...) and the arguments of play"
                text = f"a new instance has other functions in round {t} than the one before it; {remedy}"
                raise Fault("re-creation", text)
            if t in (middle, subject.rounds):
                gc.collect(1)  # young objects: those that a round has left behind
                kept[t == subject.rounds] = tracemalloc.get_traced_memory()[0]
        rounds = f"rounds 1 to {subject.rounds}"
        yield Line("ok", "re-creation", f"a new instance, played again from round 1, has the same bits in {rounds}")
        yield _memory((kept[1] - kept[0]) / max(1, subject.rounds - middle), subject)


def _memory(growth: float, subject: Subject) -> Line:
    if subject.place != "here":
        return Line("note", "memory", "not measured: the plugin runs in a process of its own")
    if subject.rounds < _FEW:
        return Line("note", "memory", f"not measured: it takes {_FEW} rounds to see growth")
    if growth > KEPT_BYTES:
        text = f"{growth / 1024:.1f} KiB more are kept after every round; a long game will run out of memory"
        return Line("warning", "memory", text)
    return Line("ok", "memory", f"{max(0.0, growth) / 1024:.1f} KiB more are kept after a round")


@contextmanager
def _traced() -> Iterator[None]:
    already = tracemalloc.is_tracing()
    if not already:
        tracemalloc.start()
    try:
        yield
    finally:
        if not already:
            tracemalloc.stop()


def unasked(subject: Subject, reference: Reference) -> Line:
    """Play all rounds before the first question, then ask about the newest first; return the line on older rounds."""
    with playing(subject) as player:
        rounds = [player.play(t) for t in range(1, subject.rounds + 1)]
        newest = rounds.pop()
        if newest.answer() != reference.answers[-1]:
            text = f"the functions of {newest.name} are others where nobody asked about earlier rounds"
            raise Fault("reaction", f"{text}, so they depend on questions; let play use nothing but its arguments")
        for at in reversed(rounds):
            if at.answer() != reference.answers[at.round - 1]:
                text = f"{at.name} answers otherwise after later rounds were played"
                raise Fault("older rounds", f"{text}; let every round keep its own functions")
    text = f"asked after round {subject.rounds} was played, the same bits as when they were new"
    return Line("ok", "older rounds", text)


def history(subject: Subject, reference: Reference) -> Line:
    """Play with an agent that leaves, if the adversary has a history; return the line on that."""
    about, h = "history", reference.history
    if not h:
        return Line("ok", about, "oblivious: play is given no decisions")
    seen = f"play is given up to {h} round(s) of decisions, so that every round waits for all agents"
    if subject.game.agents == 1:
        return Line("ok", about, seen)
    decisions = subject.decisions.copy()
    decisions[_LEAVES - 1 :, -1] = np.nan
    try:
        with playing(subject, decisions) as player:
            for t in range(1, subject.rounds + 1):
                at, others, points = player.play(t), subject.everyone[:-1], subject.question(t)[:-1]
                at.loss(others, points)
                at.constraint(others, points)
    except Fault as fault:
        return Line("warning", about, f"{seen}; it fails when an agent has left, whose decisions are NaN: {fault}")
    return Line("ok", about, f"{seen}; it goes on when an agent has left, whose decisions are NaN")


def duration(subject: Subject, seconds: dict[str, list[float]]) -> Line:
    """Return the line on time, by the median of all rounds: a machine may be busy now and then."""
    how = "medians" if subject.place == "here" else "medians, with the way there and back"
    medians = {name: statistics.median(each or [0.0]) for name, each in seconds.items()}
    play, evaluate, score = (f"{1000.0 * each:.4g} ms" for each in medians.values())
    text = f"play takes {play}, everyone's question {evaluate}, a piece of a score {score} ({how})"
    slowest = max(medians, key=lambda name: medians[name])
    where = subject.course.standing("play" if slowest == "play" else "loss")
    if medians[slowest] > STUCK_SECONDS:
        text = f"{text}: {slowest} is too slow for a game, more than {STUCK_SECONDS:g} s a call"
        return Line("failed", "time", text, where)
    if medians["play"] > PLAY_SECONDS:
        return Line("warning", "time", f"{text}: play takes more than {1000.0 * PLAY_SECONDS:g} ms, and everyone waits")
    if medians["score"] > CHUNK_SECONDS:
        limit = f"more than {1000.0 * CHUNK_SECONDS:g} ms, for which replies wait"
        return Line("warning", "time", f"{text}: a piece of a score takes {limit}", where)
    return Line("ok", "time", text)
