"""Messages between two hosts."""

from slaternet.codec.parts import Assembly, split
from slaternet.codec.wire import (
    HEARTBEAT,
    ID,
    NUMBER,
    SeatReader,
    from_round_one,
    pack,
    parse,
    read_head,
    read_numbers,
    read_opening,
    write_opening,
)
from slaternet.errors import Malformed
from slaternet.limits import LIMITS
from slaternet.model import Frame, Gossip, Head, Heartbeat, Opening, ResendFrom
from slaternet.v1 import agent_pb2 as pb
from slaternet.v1 import common_pb2


def encode_gossip(head: Head, body: Gossip) -> list[bytes]:
    """Return the messages that carry `body`; a large frame is split into several."""
    about = common_pb2.Head(run=head.run, epoch=head.epoch, round=head.round, sender=head.sender)
    match body:
        case Frame(_, agents, rows):
            seats, data = agents.astype(ID).tobytes(), rows.astype(NUMBER, copy=False).tobytes()
            if len(data) > LIMITS.part_bytes:
                return _parts(about, seats, split(data))
            message = pb.GossipMessage(head=about, frame=pb.Frame(agents=seats, rows=data))
        case Opening():
            message = pb.GossipMessage(head=about, opening=write_opening(body))
        case ResendFrom():
            message = pb.GossipMessage(head=about, wanted=pb.Wanted())
        case Heartbeat():
            message = pb.GossipMessage(head=about, heartbeat=common_pb2.Heartbeat())
    return [pack(message)]


def _parts(about: common_pb2.Head, agents: bytes, pieces: list[bytes]) -> list[bytes]:
    count = len(pieces)
    frames = [pb.Frame(agents=agents, rows=piece, part=part, parts=count) for part, piece in enumerate(pieces)]
    return [pack(pb.GossipMessage(head=about, frame=frame)) for frame in frames]


class GossipDecoder:
    """Decodes one direction of one gossip stream; an agent has `width` numbers, the game `agents` agents."""

    def __init__(self, width: int, *, agents: int = LIMITS.agents) -> None:
        self._width = width
        self._seats = SeatReader(agents)
        self._assembly = Assembly()

    def decode(self, data: bytes) -> tuple[Head, Gossip] | None:
        """Return one message; None where it is a part and others follow."""
        message = parse(pb.GossipMessage, data)
        head = read_head(message.head)
        kind = message.WhichOneof("body")
        if kind == "frame":
            return self._frame(head, message.frame)
        if kind == "heartbeat":
            return head, HEARTBEAT
        self._assembly.check_idle()
        if kind == "opening":
            return head, read_opening(message.opening)
        if kind == "wanted":
            return head, ResendFrom(from_round_one(head))
        raise Malformed("a message on this stream is an opening, a wish, a heartbeat or a frame")

    def _frame(self, head: Head, message: pb.Frame) -> tuple[Head, Gossip] | None:
        seats, piece = message.agents, message.rows
        agents = self._seats.read(seats)
        length = 8 * agents.size * self._width
        payload = self._assembly.take(piece, message.part, message.parts, (head, seats), length)
        if payload is None:
            return None
        rows = read_numbers(payload).reshape(agents.size, self._width)
        return head, Frame(head.round or from_round_one(head), agents, rows)
