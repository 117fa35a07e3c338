"""A host's stream to the adversary: a question without answer is sent again on every new stream."""

from collections.abc import Callable

from slaternet import codec
from slaternet.model import Answer, Heartbeat, HistoryRequest, Opening, Peer, Question, RevealUp, Usage
from slaternet.network.reconnecting import ReconnectingStream
from slaternet.service.membership import Membership
from slaternet.storage.failpoints import failpoint

_REVEAL = "/slaternet.v1.Adversary/Reveal"


class RevealStream:
    """All messages to the adversary; `on_message` handles answers, and what the journal holds."""

    def __init__(
        self, membership: Membership, adversary: Peer, on_message: Callable[[Question | Answer], None]
    ) -> None:
        self._membership = membership
        self._adversary = adversary
        self.name = adversary.name
        self._on_message = on_message
        self._decoder = codec.RevealDownDecoder()
        self._history: Callable[[], HistoryRequest] | None = None
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
            environment=membership.environment,
        )

    def ask(self, question: Question) -> None:
        """Send a question, again on every new stream until it is answered."""
        self._asked = question.round
        self._unanswered = codec.encode_reveal_up(self._membership.head(question.round), question)
        failpoint("agent_before_query")
        for part in self._unanswered:
            self.line.send(part)

    def request_history(self, request: Callable[[], HistoryRequest] | None) -> None:
        """Ask for what the journal holds, on every new stream for what is still missing then; None: no more."""
        self._history = request
        self._resend()

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
        if self._history is not None:
            request = self._history()
            self.line.send(self._encode(request, request.round)[0])
        for part in self._unanswered or self._last_usage:
            self.line.send(part)

    def _encode(self, body: RevealUp, round: int = 0) -> list[bytes]:
        return codec.encode_reveal_up(self._membership.head(round), body)

    def _open(self) -> bytes:
        self._decoder = codec.RevealDownDecoder(self._membership.spec.run.dimension)
        return self._encode(Opening(self._membership.incarnation, self._adversary.present))[0]

    def _receive(self, data: bytes) -> None:
        message = self._decoder.decode(data)
        if message is None:
            return
        head, body = message
        self._membership.check(head, self.name)
        if isinstance(body, Answer):
            failpoint("agent_after_reply")
            if body.round == self._asked:
                self._unanswered = []
        if not isinstance(body, Heartbeat):
            self._on_message(body)
