"""Messages between two hosts."""

from slaternet.codec import wire
from slaternet.codec.parts import Assembly, split
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import Frame, Gossip, Head, Heartbeat, Opening, ResendFrom
from slaternet.v1 import agent_pb2 as pb
from slaternet.v1 import common_pb2


def encode_gossip(head: Head, body: Gossip) -> list[bytes]:
    """Return the messages that carry `body`: several where a frame travels in parts."""
    about = common_pb2.Head(run=head.run, epoch=head.epoch, round=head.round, sender=head.sender)
    match body:
        case Frame(_, agents, rows):
            seats, data = agents.astype(wire.ID).tobytes(), rows.astype(wire.NUMBER, copy=False).tobytes()
            if len(data) > LIMITS.part_bytes:
                pieces = split(data)
                frames = [pb.Frame(agents=seats, rows=p, part=i, parts=len(pieces)) for i, p in enumerate(pieces)]
                return [wire.pack(pb.GossipMessage(head=about, frame=frame)) for frame in frames]
            message = pb.GossipMessage(head=about, frame=pb.Frame(agents=seats, rows=data))
        case Opening():
            message = pb.GossipMessage(head=about, opening=wire.write_opening(body))
        case ResendFrom():
            message = pb.GossipMessage(head=about, wanted=pb.Wanted())
        case Heartbeat():
            message = pb.GossipMessage(head=about, heartbeat=common_pb2.Heartbeat())
    return [wire.pack(message)]


class GossipDecoder:
    """Decodes one direction of one gossip stream: `width` numbers an agent, `seats` at the sender, `agents` in all."""

    def __init__(self, width: int, *, seats: int = LIMITS.agents, agents: int = LIMITS.agents) -> None:
        self._width = width
        self._seats = wire.SeatReader(agents)
        self._assembly = Assembly(8 * seats * width)

    def decode(self, data: bytes) -> tuple[Head, Gossip] | None:
        """Return the head and body of a message; None where it is an unfinished part."""
        message, head = wire.parse(pb.GossipMessage, data)
        kind = message.WhichOneof("body")
        if kind == "frame":
            frame = message.frame
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
