"""The gossip streams of a host: one to every peer, opened by the one of the two with the smaller first seat.

Each side first sends from which round on it lacks frames, once: so a stream holds the frames of one such wish at most.
Only then do frames flow.
"""

from collections.abc import Callable

from slaternet import codec
from slaternet.errors import (
    BadSpec,
    Diverged,
    Malformed,
    NotSeated,
    NotYours,
    Refused,
    Replaced,
    SlaternetError,
    Superseded,
)
from slaternet.model import Accusation, CodedFrame, Frame, Heartbeat, Opening, Peer, ResendFrom, Seating
from slaternet.network.reconnecting import ReconnectingStream
from slaternet.network.stream import Stream
from slaternet.network.traffic import PREFIX
from slaternet.service.membership import Membership
from slaternet_agent.engine.events import FrameArrived, PeerWants
from slaternet_agent.engine.public_copies import PublicCopies

_GOSSIP = "/slaternet.v1.Agent/Gossip"


class GossipStreams:
    """The streams to all peers.

    `on_event` handles what they bring, `on_sent` counts the rows and bytes of a frame that is put on one, and `wanted`
    returns the first round lacked. `copies` is the rule of a game with a code.
    """

    def __init__(
        self,
        membership: Membership,
        seating: Seating,
        width: int,
        *,
        copies: PublicCopies | None = None,
        on_event: Callable[[FrameArrived | PeerWants], None],
        on_sent: Callable[[int, int], None],
        wanted: Callable[[], int],
    ) -> None:
        self._membership = membership
        self._width = width
        self._layout = None if copies is None else copies.code.layout
        self._remembers = copies is not None and copies.remembers
        self._on_event = on_event
        self._on_sent = on_sent
        self._wanted = wanted
        self._peers = seating.peers
        self.names = [peer.name for peer in seating.peers]
        self.frames_received = 0
        self._accepts = [0] * len(seating.peers)
        self._by_name = {peer.name: peer for peer in seating.peers}
        # the stream of a peer that has sent what it lacks; None: there is none yet
        self._senders: list[Stream | ReconnectingStream | None] = [None] * len(seating.peers)
        self._accepted: dict[str, Stream] = {}
        self._accused: set[tuple[str, str]] = set()
        self._closed = False
        self._frame: Frame | CodedFrame | None = None  # the newest frame that was sent, and its messages
        self._parts: list[bytes] = []
        self._size = 0, 0  # its rows, and the bytes of those messages
        self._stated = [b""] * len(seating.peers)  # the agents of the newest frame on the stream to a peer
        self._states = True  # whether the newest frame states its agents
        self._first = seating.seats[0]
        self.lines = [self._line(i, peer) for i, peer in enumerate(seating.peers) if self._first < peer.seats[0]]

    @property
    def open(self) -> int:
        """The number of peers that frames are sent to."""
        return sum(sender is not None for sender in self._senders)

    @property
    def reconnections(self) -> dict[str, int]:
        """How often there was a new stream after the first, by peer."""
        accepted = {name: max(times - 1, 0) for name, times in zip(self.names, self._accepts, strict=True)}
        return accepted | {line.server: line.reconnections for line in self.lines}

    def update(self, seating: Seating) -> None:
        """End the streams of earlier incarnations, and use the addresses of the new ones."""
        if [peer.name for peer in seating.peers] != self.names:
            raise Malformed("within an epoch hosts may restart, but not change seats")
        lines = {line.server: line for line in self.lines}
        before, self._peers = self._peers, seating.peers
        self._by_name = {peer.name: peer for peer in seating.peers}
        for old, new in zip(before, seating.peers, strict=True):
            if (old.incarnation, old.address) == (new.incarnation, new.address):
                continue
            if new.name in lines:
                lines[new.name].redirect(new.address)
            if (older := self._accepted.get(new.name)) is not None:
                older.end(Superseded("a newer incarnation of this host has joined"))

    def close(self) -> None:
        """End the streams that peers have opened: they open others in the new seating."""
        self._closed = True
        for link in self._accepted.values():
            link.end(NotSeated("there is a new seating"))

    def send(self, index: int, frame: Frame | CodedFrame, *, later: bool = False) -> None:
        """Send a frame to a peer; where there is no stream, the peer asks for it on the next one.

        One of many that a peer lacks is sent `later`, as fast as the peer takes them. Where rows are coded all are sent
        in this way: what a frame means may depend on those before it.
        """
        sender = self._senders[index]
        if sender is None:
            return
        if later or self._layout is not None:
            sender.send_later(lambda: self._encoded(index, frame), lacked=later)
        else:
            for part in self._encoded(index, frame):
                sender.send(part)

    def _encoded(self, index: int, frame: Frame | CodedFrame) -> list[bytes]:
        """Return the messages of a frame, without the agents where a receiver knows them from the frame before.

        It does where the code remembers: then no frame can be missing between the two.
        """
        states = True
        if self._remembers:
            before, self._stated[index] = self._stated[index], frame.agents.tobytes()
            states = isinstance(frame, Frame) or before != self._stated[index]
        if frame is not self._frame or states != self._states:  # several peers may get the same
            self._frame, self._states = frame, states
            self._parts = codec.encode_gossip(
                self._membership.head(frame.round), frame, layout=self._layout, stated=states
            )
            rows = len(frame.rows) if isinstance(frame, Frame) else len(frame.symbols.numbers)
            self._size = rows, sum(map(len, self._parts)) + PREFIX * len(self._parts)
        self._on_sent(*self._size)
        return self._parts

    def _decoder(self, peer: Peer) -> codec.GossipDecoder:
        return codec.GossipDecoder(self._width, seats=len(peer.seats), layout=self._layout)

    def _heartbeat(self) -> bytes:
        return codec.encode_gossip(self._membership.head(), Heartbeat())[0]

    def _line(self, index: int, peer: Peer) -> ReconnectingStream:
        """Return the stream that this host opens to a peer."""
        decoder = self._decoder(peer)

        def opening() -> bytes:
            nonlocal decoder
            decoder = self._decoder(peer)
            hello = Opening(self._membership.incarnation, self._peers[index].present, self._wanted())
            return codec.encode_gossip(self._membership.head(), hello)[0]

        def closed() -> None:
            self._senders[index] = None  # a frame that is dropped must not count as sent

        line = ReconnectingStream(
            peer.name,
            peer.address,
            _GOSSIP,
            security=self._membership.security,
            traffic=self._membership.meter.of(_GOSSIP),
            opening=opening,
            heartbeat=self._heartbeat,
            on_message=lambda data: self._receive(index, decoder, data, line),
            closed=closed,
            tolerated=lambda error: self._accuse(peer.name, error),
            environment=self._membership.environment,
        )
        return line

    def _accuse(self, name: str, error: SlaternetError) -> bool:
        """Report a peer that refuses our stream, once for each kind of refusal; whatever it says, we go on."""
        kind = type(error).__name__
        if isinstance(error, Refused | Diverged | BadSpec) and (name, kind) not in self._accused:
            self._accused.add((name, kind))
            self._membership.send(Accusation(name, f"{name} refuses its stream: {kind}: {error}"))
        return True

    async def accept(self, link: Stream) -> None:
        """Serve a stream that a peer opens."""
        data = await link.read()
        if self._closed:  # first of all: the sender may be seated only since, and unknown here
            raise NotSeated("there is a new seating")
        first = codec.GossipDecoder(self._width).decode(data) if data else None
        peer, opening = self._membership.identify(first, self._by_name, link.caller)
        decoder = self._decoder(peer)
        link.set_host(peer.name)
        if self._first < peer.seats[0]:
            raise NotYours("of two hosts the one with the smaller first seat opens their stream")
        name, index = peer.name, list(self._by_name).index(peer.name)
        if (older := self._accepted.get(name)) is not None:
            older.end(Replaced("a newer stream of this host has taken over"))
        self._accepted[name] = link
        self._accepts[index] += 1
        self._membership.peer_back(name)
        link.keep_alive(self._heartbeat)
        try:
            wanted = self._wanted()
            link.send(codec.encode_gossip(self._membership.head(wanted), ResendFrom(wanted))[0])
            self._senders[index], self._stated[index] = link, b""
            self._on_event(PeerWants(index, opening.round))
            while (data := await link.read()) is not None:
                self._receive(index, decoder, data, link)
        finally:
            if self._accepted.get(name) is link:
                del self._accepted[name]
                self._senders[index] = None
                if not self._closed:
                    self._membership.peer_lost(name)

    def _receive(
        self, index: int, decoder: codec.GossipDecoder, data: bytes, sender: Stream | ReconnectingStream
    ) -> None:
        message = decoder.decode(data)
        if message is None:
            return
        head, body = message
        self._membership.check(head, self._peers[index].name)
        match body:
            case Frame() | CodedFrame():
                self.frames_received += 1
                self._on_event(FrameArrived(index, body))
            case ResendFrom(round):
                if self._senders[index] is not None:  # the dialler's opening was its only one
                    raise Malformed("a side of a stream says once from which round on it lacks frames")
                self._senders[index], self._stated[index] = sender, b""
                self._on_event(PeerWants(index, round))
            case Opening():
                raise Malformed("a stream is opened once")
            case Heartbeat():
                pass
