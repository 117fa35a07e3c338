"""Some of the answers that a plugin has given, to be asked for again when it is played again."""

from collections.abc import Iterator
from dataclasses import replace

from slaternet.codec.plugin import EvaluateReply, EvaluateRequest
from slaternet.limits import LIMITS

_Asked = tuple[EvaluateRequest, EvaluateReply]


class KeptAnswers:
    """All answers of one of every so many rounds, at most `reasked_rounds`, and those of the newest round.

    They are those about values and gradients: what agents were told. Of large rounds fewer are kept.
    """

    def __init__(self) -> None:
        self._every = 1
        self._kept: dict[int, list[_Asked]] = {}
        self._bytes = 0
        self._newest: list[_Asked] = []
        self._newest_bytes = 0
        self._round = 0

    def keep(self, asked: EvaluateRequest, answer: EvaluateReply) -> None:
        """Keep a question and its answer, where the round is one to be kept."""
        if asked.quadratic or asked.linear:
            return  # what scores are made of, and no agent is told
        if asked.round > self._round:
            self._newest, self._newest_bytes, self._round = [], 0, asked.round
        if asked.round == self._round and self._newest_bytes <= LIMITS.plugin_message_bytes:
            self._newest.append((asked, answer))
            self._newest_bytes += asked.points.nbytes
        if asked.round % self._every == 0:
            # a copy: the points may be a part of a far larger array
            copied = replace(asked, agents=asked.agents.copy(), points=asked.points.copy())
            self._kept.setdefault(asked.round, []).append((copied, answer))
            self._bytes += asked.points.nbytes
            while len(self._kept) > LIMITS.reasked_rounds or self._bytes > LIMITS.plugin_message_bytes:
                self._thin_out()

    def _thin_out(self) -> None:
        self._every *= 2
        self._kept = {t: some for t, some in self._kept.items() if t % self._every == 0}
        self._bytes = sum(asked.points.nbytes for some in self._kept.values() for asked, _ in some)

    def of(self, round: int) -> Iterator[_Asked]:
        """Yield the questions of a round and their answers that are kept, if any."""
        yield from self._newest if round == self._round else self._kept.get(round, ())
