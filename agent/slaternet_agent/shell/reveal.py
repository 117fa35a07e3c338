"""A host's stream to the adversary: a question without answer is sent again on every new stream."""

from collections.abc import Callable
from typing import Protocol

from slaternet import codec
from slaternet.errors import SlaternetError
from slaternet.model import Answer, Heartbeat, HistoryRequest, Opening, Peer, Question, RevealUp, Usage
from slaternet.network.reconnecting import ReconnectingStream
from slaternet.service.membership import Membership
from slaternet.storage.failpoints import failpoint

_REVEAL = "/slaternet.v1.Adversary/Reveal"


class Recall(Protocol):
    """A use of the adversary's journal."""

    @property
    def request(self) -> HistoryRequest:
        """What is still missing."""

    @property
    def complete(self) -> bool:
        """Whether nothing is."""

    def apply(self, message: Question | Answer) -> None:
        """Take a question of the journal, or the answer that follows it."""


class RevealStream:
    """All messages to the adversary; `on_answer` handles answers, `on_recalled` what the journal holds."""

    def __init__(
        self,
        membership: Membership,
        adversary: Peer,
        on_answer: Callable[[Answer], None],
        on_recalled: Callable[[Question | Answer], None],
        tolerated: Callable[[SlaternetError], bool],
        *,
        seats: int,
        constraints: int,
    ) -> None:
        self._membership = membership
        self._adversary = adversary
        self.name = adversary.name
        self._on_answer = on_answer
        self._on_recalled = on_recalled
        dimension, asked = membership.spec.run.dimension, membership.spec.question
        assert asked is not None  # of a resolved spec, and the coordinator plays no other
        gradients = asked.loss_gradient, asked.constraint_gradient
        self._largest = max(
            codec.question_bytes(seats, dimension, asked.points, anchored=any(gradients), memo=asked.memo),
            codec.answer_bytes(seats, asked.points, constraints, gradients, dimension),
        )
        self._decoder = codec.RevealDownDecoder()
        self._recalled = False  # whether the next answer belongs to a question of the journal
        self._recall: Recall | None = None
        self._asked = 0  # the round of the newest question
        self._unanswered: list[bytes] = []  # that question, until it is answered
        self._last_usage: list[bytes] = []
        self.line = ReconnectingStream(
            adversary.name,
            adversary.address,
            _REVEAL,
            security=membership.security,
            traffic=membership.meter.of(_REVEAL),
            opening=self._open,
            heartbeat=lambda: self._encode(Heartbeat())[0],
            on_message=self._receive,
            opened=self._resend,
            tolerated=tolerated,
            environment=membership.environment,
        )

    def ask(self, question: Question) -> None:
        """Send a question, again on every new stream until it is answered."""
        self._asked = question.round
        self._unanswered = codec.encode_reveal_up(self._membership.head(question.round), question)
        failpoint("agent_before_query")
        for part in self._unanswered:
            self.line.send(part)

    def withdraw(self) -> None:
        """Do not repeat the question that was refused."""
        self._unanswered = []

    def recall(self, recall: Recall | None) -> None:
        """Ask for what the journal holds, on every new stream for what is still missing then; None: no more."""
        if recall is not self._recall:
            self._recall = recall
            self._request_recall()

    def _request_recall(self) -> None:
        if self._recall is not None:
            request = self._recall.request
            self.line.send(self._encode(request, request.round)[0])

    def report_usage(self, usage: Usage, *, last: bool = False) -> None:
        """Report what the host has spent; the last report is repeated on every new stream."""
        message = self._encode(usage, usage.round)
        if last:
            self._last_usage, self._unanswered = message, []
        self.line.send(message[0])

    def update(self, adversary: Peer) -> None:
        """Use the adversary's address, which may have been restarted elsewhere."""
        before, self._adversary = self._adversary, adversary
        if (before.incarnation, before.address) != (adversary.incarnation, adversary.address):
            self.line.redirect(adversary.address)

    def _resend(self) -> None:
        self._request_recall()
        for part in self._unanswered or self._last_usage:
            self.line.send(part)

    def _encode(self, body: RevealUp, round: int = 0) -> list[bytes]:
        return codec.encode_reveal_up(self._membership.head(round), body)

    def _open(self) -> bytes:
        self._decoder = codec.RevealDownDecoder(self._membership.spec.run.dimension, largest=self._largest)
        self._recalled = False
        return self._encode(Opening(self._membership.incarnation, self._adversary.present))[0]

    def _receive(self, data: bytes) -> None:
        message = self._decoder.decode(data)
        if message is None:
            return
        head, body = message
        self._membership.check(head, self.name)
        match body:
            case Question():
                self._recalled = True
                self._on_recalled(body)
            case Answer() if self._recalled:
                self._recalled = False
                self._on_recalled(body)
            case Answer():
                failpoint("agent_after_reply")
                if body.round == self._asked:
                    self._unanswered = []
                self._on_answer(body)
