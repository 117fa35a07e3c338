"""The gossip streams of a host: one to every peer, opened by whichever of the two has the smaller first seat.

Whoever opens says from which round on it lacks frames; whoever accepts answers the same. Only then do frames flow.
"""

from collections.abc import Callable

from slaternet import codec
from slaternet.errors import Malformed, NotYours, Replaced
from slaternet.lines import Line
from slaternet.link import Link
from slaternet.membership import Membership
from slaternet.model import Frame, Heartbeat, Opening, Peer, Seating, Wanted
from slaternet_agent.engine import FrameArrived, PeerWants

_GOSSIP = "/slaternet.v1.Agent/Gossip"


class Peers:
    """Everyone this host gossips with."""

    def __init__(
        self,
        membership: Membership,
        seating: Seating,
        width: int,
        *,
        hear: Callable[[FrameArrived | PeerWants], None],
        wanted: Callable[[], int],
    ) -> None:
        self._membership = membership
        self._width = width
        self._hear = hear
        self._wanted = wanted
        self._peers = seating.peers
        self._by_name = {peer.name: peer for peer in seating.peers}
        # how to send to a peer whose wishes are known; None: no stream, or not yet
        self._senders: list[Callable[[bytes], None] | None] = [None] * len(seating.peers)
        self._accepted: dict[str, Link] = {}
        self._first = seating.seats[0]
        self.lines = [self._line(i, peer) for i, peer in enumerate(seating.peers) if self._first < peer.seats[0]]

    def send(self, index: int, frame: Frame) -> int:
        """Send a frame to a peer and return the bytes handed to gRPC; without a stream, none until they are wanted."""
        sender = self._senders[index]
        if sender is None:
            return 0
        parts = codec.encode_gossip(self._membership.head(frame.round), frame)
        for part in parts:
            sender(part)
        return sum(map(len, parts))

    def _heartbeat(self) -> bytes:
        return codec.encode_gossip(self._membership.head(), Heartbeat())[0]

    def _line(self, index: int, peer: Peer) -> Line:
        """Return the stream that this host opens to a peer."""
        decoder = codec.GossipDecoder(self._width)

        def opening() -> bytes:
            nonlocal decoder
            decoder = codec.GossipDecoder(self._width)
            self._senders[index] = None
            hello = Opening(self._membership.incarnation, peer.present, self._wanted())
            return codec.encode_gossip(self._membership.head(), hello)[0]

        line = Line(
            peer.name,
            peer.address,
            _GOSSIP,
            opening=opening,
            heartbeat=self._heartbeat,
            hear=lambda data: self._take(index, decoder, data, line.send),
        )
        return line

    async def accept(self, link: Link) -> None:
        """Serve a stream that a peer opens."""
        decoder = codec.GossipDecoder(self._width)
        data = await link.read()
        peer, opening = self._membership.identify(decoder.decode(data) if data else None, self._by_name)
        link.host = peer.name
        if self._first < peer.seats[0]:
            raise NotYours("of two hosts the one with the smaller first seat opens their stream")
        name, index = peer.name, list(self._by_name).index(peer.name)
        if (older := self._accepted.get(name)) is not None:
            older.end(Replaced("a newer stream of this host has taken over"))
        self._accepted[name] = link
        link.keep_alive(self._heartbeat)
        try:
            wanted = self._wanted()
            link.send(codec.encode_gossip(self._membership.head(wanted), Wanted(wanted))[0])
            self._senders[index] = link.send
            self._hear(PeerWants(index, opening.round))
            while (data := await link.read()) is not None:
                self._take(index, decoder, data, link.send)
        finally:
            if self._accepted.get(name) is link:
                del self._accepted[name]
                self._senders[index] = None

    def _take(self, index: int, decoder: codec.GossipDecoder, data: bytes, sender: Callable[[bytes], None]) -> None:
        message = decoder.decode(data)
        if message is None:
            return
        head, body = message
        self._membership.check(head, self._peers[index].name)
        match body:
            case Frame():
                self._hear(FrameArrived(index, body))
            case Wanted(round):
                self._senders[index] = sender
                self._hear(PeerWants(index, round))
            case Opening():
                raise Malformed("a stream is opened once")
            case Heartbeat():
                pass
