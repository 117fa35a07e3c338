"""The stream of a host to the adversary: a question without answer is asked again whenever there is a new one."""

from collections.abc import Callable

from slaternet import codec
from slaternet.model import Answer, Heartbeat, HistoryRequest, Opening, Peer, Question, RevealUp, Usage
from slaternet.network.reconnecting import ReconnectingStream
from slaternet.service.membership import Membership
from slaternet.storage.failpoints import failpoint

_REVEAL = "/slaternet.v1.Adversary/Reveal"


class RevealStream:
    """Everything that this host says to the adversary; `hear` takes the answers, and what is recalled."""

    def __init__(self, membership: Membership, adversary: Peer, hear: Callable[[Question | Answer], None]) -> None:
        self._membership = membership
        self._adversary = adversary
        self.name = adversary.name
        """Who answers."""
        self._hear = hear
        self._decoder = self._new_decoder()
        self._wish: Callable[[], HistoryRequest] | None = None
        self._unanswered: list[bytes] = []
        self._last_words: list[bytes] = []
        self.line = ReconnectingStream(
            adversary.name,
            adversary.address,
            _REVEAL,
            security=membership.security,
            traffic=membership.meter.of(_REVEAL),
            opening=self._open,
            heartbeat=lambda: self._encode(Heartbeat())[0],
            hear=self._take,
            opened=self._say_again,
            environment=membership.environment,
        )

    def ask(self, question: Question) -> None:
        """Ask, until it is said that the answer has come."""
        self._unanswered = codec.encode_reveal_up(self._membership.head(question.round), question)
        failpoint("agent_before_query")
        for part in self._unanswered:
            self.line.send(part)

    def recall(self, wish: Callable[[], HistoryRequest]) -> None:
        """Ask for what stands in the journal, on every new stream for what is then still lacking."""
        self._wish = wish
        self._say_again()

    def recalled(self) -> None:
        """Ask no more for what stands in the journal."""
        self._wish = None

    def answered(self) -> None:
        """Ask no more."""
        self._unanswered = []

    def tell(self, usage: Usage, *, last: bool = False) -> None:
        """Say what the host has spent; where all is played, also on every stream to come."""
        words = self._encode(usage, usage.round)
        if last:
            self._last_words, self._unanswered = words, []
        self.line.send(words[0])

    def update(self, adversary: Peer) -> None:
        """Take down where the adversary is, which may have come back."""
        before, self._adversary = self._adversary, adversary
        if (before.incarnation, before.address) != (adversary.incarnation, adversary.address):
            self.line.redirect(adversary.address)

    def _say_again(self) -> None:
        if self._wish is not None:
            wish = self._wish()
            self.line.send(self._encode(wish, wish.round)[0])
        for part in self._unanswered or self._last_words:
            self.line.send(part)

    def _encode(self, body: RevealUp, round: int = 0) -> list[bytes]:
        return codec.encode_reveal_up(self._membership.head(round), body)

    def _new_decoder(self) -> codec.RevealDownDecoder:
        return codec.RevealDownDecoder(self._membership.spec.run.dimension)

    def _open(self) -> bytes:
        self._decoder = self._new_decoder()
        return self._encode(Opening(self._membership.incarnation, self._adversary.present))[0]

    def _take(self, data: bytes) -> None:
        message = self._decoder.decode(data)
        if message is None:
            return
        head, body = message
        self._membership.check(head, self.name)
        if isinstance(body, Answer):
            failpoint("agent_after_reply")
        if isinstance(body, Question | Answer):
            self._hear(body)
