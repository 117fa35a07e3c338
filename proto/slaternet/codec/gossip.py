"""Messages between two hosts."""

from slaternet.codec import coded, wire
from slaternet.codec.parts import Assembly, split
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import CodedFrame, Frame, Gossip, Head, Heartbeat, Layout, Opening, ResendFrom
from slaternet.v1 import agent_pb2 as pb
from slaternet.v1 import common_pb2


def encode_gossip(head: Head, body: Gossip, *, layout: Layout | None = None, stated: bool = True) -> list[bytes]:
    """Return the messages that carry `body`: several where a frame travels in parts.

    A coded frame needs the game's `layout`; `stated` is False where its agents are those of the frame before.
    """
    about = common_pb2.Head(run=head.run, epoch=head.epoch, round=head.round, sender=head.sender)
    match body:
        case Frame(_, agents, rows):
            seats, data = agents.astype(wire.ID).tobytes(), rows.astype(wire.NUMBER, copy=False).tobytes()
            if len(data) > LIMITS.part_bytes:
                pieces = split(data)
                frames = [pb.Frame(agents=seats, rows=p, part=i, parts=len(pieces)) for i, p in enumerate(pieces)]
                return [wire.pack(pb.GossipMessage(head=about, frame=frame)) for frame in frames]
            message = pb.GossipMessage(head=about, frame=pb.Frame(agents=seats, rows=data))
        case CodedFrame():
            if layout is None:
                raise ValueError("a coded frame is encoded with the layout of the game's code")
            frame = coded.write_coded(body, layout, stated=stated)
            return [wire.pack(pb.GossipMessage(head=about, frame=each)) for each in _in_parts(frame)]
        case Opening():
            message = pb.GossipMessage(head=about, opening=wire.write_opening(body))
        case ResendFrom():
            message = pb.GossipMessage(head=about, wanted=pb.Wanted())
        case Heartbeat():
            message = pb.GossipMessage(head=about, heartbeat=common_pb2.Heartbeat())
    return [wire.pack(message)]


def _in_parts(frame: pb.Frame) -> list[pb.Frame]:
    """Return the frame, or its parts, each with all but the rows repeated."""
    pieces = split(frame.rows)
    if len(pieces) == 1:
        return [frame]
    frame.ClearField("rows")
    parts = []
    for part, piece in enumerate(pieces):
        parts.append(pb.Frame(rows=piece, part=part, parts=len(pieces)))
        parts[-1].MergeFrom(frame)
    return parts


class GossipDecoder:
    """Decodes one direction of one gossip stream: `width` numbers an agent, `seats` at the sender, `agents` in all.

    In a game with a gossip code `layout` says what coded rows consist of; without it they are refused.
    """

    def __init__(
        self,
        width: int,
        *,
        seats: int = LIMITS.agents,
        agents: int = LIMITS.agents,
        layout: Layout | None = None,
    ) -> None:
        self._width = width
        self._seats = wire.SeatReader(agents)
        self._layout = layout
        coded_bytes = 0 if layout is None else coded.largest_bytes(layout, seats)
        self._assembly = Assembly(max(8 * seats * width, coded_bytes))

    def decode(self, data: bytes) -> tuple[Head, Gossip] | None:
        """Return the head and body of a message; None where it is an unfinished part."""
        message, head = wire.parse(pb.GossipMessage, data)
        kind = message.WhichOneof("body")
        if kind == "frame":
            frame = message.frame
            if frame.code:
                body = self._coded(head, frame)
                return None if body is None else (head, body)
            agents = self._seats.read(frame.agents)
            shape, length = (head, frame.agents), 8 * agents.size * self._width
            payload = self._assembly.take(frame.rows, frame.part, frame.parts, shape, length)
            if payload is None:
                return None
            rows = wire.read_numbers(payload).reshape(agents.size, self._width)
            return head, Frame(head.round or wire.from_round_one(head), agents, rows)
        if kind == "heartbeat":
            return head, wire.HEARTBEAT
        self._assembly.check_idle()
        if kind == "opening":
            return head, wire.read_opening(message.opening)
        if kind == "wanted":
            return head, ResendFrom(wire.from_round_one(head))
        raise Malformed("a message on this stream is an opening, a wish, a heartbeat or a frame")

    def _coded(self, head: Head, frame: pb.Frame) -> CodedFrame | None:
        """Return a frame in the game's code; None where it is an unfinished part."""
        layout = self._layout
        if layout is None:
            raise Malformed("the game has no gossip code")
        agents = self._seats.read(frame.agents) if frame.agents else self._seats.again()
        length = coded.check_coded(frame, layout, agents.size)
        sent = coded.read_sent(frame.sent, agents.size, frame.count)
        shape = (head, frame.agents, frame.bits, frame.count, frame.sent)
        payload = self._assembly.take(frame.rows, frame.part, frame.parts, shape, length)
        if payload is None:
            return None
        symbols = coded.read_symbols(payload, layout, frame.count, frame.bits)
        return CodedFrame(wire.from_round_one(head), agents, symbols, sent)
