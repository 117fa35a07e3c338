"""Some of the answers that a plugin has given, to be asked for again when it is played again."""

from collections.abc import Iterator
from dataclasses import replace

from slaternet.codec.plugin import EvaluateReply, EvaluateRequest
from slaternet.limits import LIMITS


class KeptAnswers:
    """One question of every so many rounds and its answer, at most `reasked_rounds`; and one of the newest round."""

    def __init__(self) -> None:
        self._every = 1
        self._kept: dict[int, tuple[EvaluateRequest, EvaluateReply]] = {}
        self._newest: tuple[EvaluateRequest, EvaluateReply] | None = None

    def keep(self, asked: EvaluateRequest, answer: EvaluateReply) -> None:
        """Keep a question about values and its answer, where it is the first of a round to be kept."""
        round, newest = asked.round, self._newest[0].round if self._newest is not None else 0
        wanted = round % self._every == 0 and round not in self._kept
        if not asked.values or not (wanted or round > newest):
            return
        # a copy: the points may be a part of a far larger array
        kept = replace(asked, agents=asked.agents.copy(), points=asked.points.copy()), answer
        if round > newest:
            self._newest = kept
        if wanted:
            self._kept[round] = kept
        while len(self._kept) > LIMITS.reasked_rounds:
            self._every *= 2
            self._kept = {t: each for t, each in self._kept.items() if t % self._every == 0}

    def of(self, round: int) -> Iterator[tuple[EvaluateRequest, EvaluateReply]]:
        """Yield the question and answer of a round that are kept, if any."""
        if round in self._kept:
            yield self._kept[round]
        elif self._newest is not None and self._newest[0].round == round:
            yield self._newest
