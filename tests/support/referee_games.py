"""A referee, and hosts that ask it what they would in a game."""

import hashlib
from dataclasses import replace

import numpy as np

from slaternet.limits import LIMITS, Limits
from slaternet.model import Array, Question, Usage, Values
from slaternet.numerics.sets import Box
from slaternet_adversary.engine.commitments import Commitments
from slaternet_adversary.engine.events import (
    Asked,
    Effect,
    Evaluate,
    Evaluated,
    Event,
    Play,
    Played,
    RecordRound,
    Reply,
    Score,
    Summarise,
    Used,
)
from slaternet_adversary.engine.referee import Referee
from slaternet_adversary.scoring import Scored

N, P, M, T = 5, 2, 2, 6
WINDOW = 3
CODE = "0f" * 32
BOX = Box(P, -1.0, 1.0)
SEATS = {"a": np.array([0, 2]), "b": np.array([1, 3, 4])}
SEATING = list(SEATS.items())


def new_referee(rounds: int | None = T, history: int = 0, score_every: int = 1, limits: Limits = LIMITS) -> Referee:
    return Referee(
        N,
        BOX,
        points=2,
        constraints=M,
        rounds=rounds,
        history=history,
        score_every=score_every,
        commitments=Commitments(CODE, {}, 3),
        limits=replace(limits, window=WINDOW),
    )


def decisions(t: int) -> Array:
    """x_{0,t} .. x_{n-1,t}."""
    return np.random.default_rng(t).uniform(-0.9, 0.9, (N, P))


def usage(host: str, t: int) -> Usage:
    """Return what a host has spent up to a round."""
    return Usage(t, 3 * t, 100 * t + len(SEATS[host]), t, t / 8, 7 * t, 90 * t)


def question(host: str, t: int) -> Question:
    agents = SEATS[host]
    x = decisions(t)[agents]
    return Question(t, agents, x, np.stack((x, x + 0.05), axis=1))


def evaluated(effect: Evaluate) -> Evaluated:
    asked = effect.batch.question
    f = asked.points.sum(axis=2) + asked.round
    return Evaluated(effect.batch, Values(f, np.stack((f, -f), axis=2)))


def scored(t: int) -> Scored:
    return Scored(t, 1.0 * t, 2.0 * t, 3.0 * t, 4.0 * t, 0.5)


def digests(rounds: int) -> list[bytes]:
    """d_1 .. d_T, by the definition."""
    chain = [bytes(32)]
    for t in range(1, rounds + 1):
        numbers = b"".join(np.float64(v).astype("<f8").tobytes() for x in decisions(t) for v in x)
        chain.append(hashlib.sha256(chain[-1] + numbers).digest())
    return chain[1:]


class Arena:
    """A referee whose effects are carried out at once, and all that it wanted done."""

    def __init__(self, rounds: int | None = T, history: int = 0, score_every: int = 1, limits: Limits = LIMITS) -> None:
        self.referee = new_referee(rounds, history, score_every, limits)
        self.log: list[Effect] = []
        self.do(self.referee.seat(SEATING))

    def hand(self, event: Event) -> list[Effect]:
        return self.do(self.referee.handle(event))

    def do(self, effects: list[Effect]) -> list[Effect]:
        """Carry effects out, first to last, and return all that came of them."""
        done: list[Effect] = []
        while effects:
            effect, *effects = effects
            done.append(effect)
            match effect:
                case Play(round):
                    effects += self.referee.handle(Played(round))
                case Evaluate():
                    effects += self.referee.handle(evaluated(effect))
                case Score(round):
                    effects += self.referee.handle(scored(round))
        self.log += done
        return done

    def ask(self, host: str, t: int, at: float = 0.0) -> list[Effect]:
        return self.hand(Asked(host, question(host, t), at))

    def close(self, host: str, t: int) -> list[Effect]:
        return self.hand(Used(host, 1, usage(host, t)))

    def play(self, first: int, last: int) -> "Arena":
        for t in range(first, last + 1):
            for host in SEATS:
                self.ask(host, t)
        return self

    @property
    def records(self) -> list[RecordRound]:
        return [effect for effect in self.log if isinstance(effect, RecordRound)]

    @property
    def summaries(self) -> list[Summarise]:
        return [effect for effect in self.log if isinstance(effect, Summarise)]


def only_reply(effects: list[Effect]) -> Reply:
    (reply,) = [effect for effect in effects if isinstance(effect, Reply)]
    return reply
