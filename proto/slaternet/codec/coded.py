"""Frames in a gossip code: what they hold follows from the game's layout and their heads, which are checked first."""

import numpy as np
from numpy.typing import NDArray

from slaternet.codec import wire
from slaternet.errors import Malformed
from slaternet.model import CodedFrame, Layout, Symbols
from slaternet.numerics.bits import pack, packed_bytes, unpack, width_of
from slaternet.v1 import agent_pb2 as pb

SCALE = np.dtype("<f4")
_MOST_BITS = 64


def payload_bytes(layout: Layout, count: int, bits: int) -> int:
    """Return how many bytes so many rows take where a number has `bits` bits."""
    return SCALE.itemsize * layout.scales * count + packed_bytes(layout.numbers * count, bits)


def largest_bytes(layout: Layout, seats: int) -> int:
    """Return the bytes of the largest coded frame of a host with so many seats."""
    return payload_bytes(layout, seats, layout.bits or _MOST_BITS)


def write_coded(frame: CodedFrame, layout: Layout, *, stated: bool) -> pb.Frame:
    """Return the frame, with all of its rows; without its agents unless they are `stated`.

    ValueError where the symbols are not those of the layout, which is the fault of the code.
    """
    scales, numbers = frame.symbols.scales, frame.symbols.numbers
    count = len(scales)
    if scales.shape != (count, layout.scales) or numbers.shape != (count, layout.numbers):
        raise ValueError("the symbols have another shape than the layout of the code says")
    if not np.isfinite(scales).all():
        raise ValueError("a row has a scale that is not finite")
    bits = width_of(numbers) if not layout.bits else layout.bits * (numbers.size > 0)
    return pb.Frame(
        agents=wire.write_ids(frame.agents) if stated else b"",
        rows=scales.astype(SCALE, copy=False).tobytes() + pack(numbers, bits),
        code=layout.code,
        bits=bits,
        count=count,
        sent=b"" if frame.sent is None else np.packbits(frame.sent, bitorder="little").tobytes(),
    )


def check_coded(frame: pb.Frame, layout: Layout, agents: int) -> int:
    """Return the length of the payload that the fields of a frame announce; Malformed where no sender writes them."""
    if frame.code != layout.code:
        raise Malformed("a frame is in another gossip code than the game's")
    count, bits = frame.count, frame.bits
    if count > agents or (not frame.sent and count != agents):
        raise Malformed("a frame has another number of rows than its agents have")
    numbers = layout.numbers * count
    fixed = layout.bits if numbers else 0
    if bits > _MOST_BITS or (bits != fixed and (layout.bits or not numbers)):
        raise Malformed("a frame's numbers have another width than the gossip code's")
    return payload_bytes(layout, count, bits)


def read_sent(data: bytes, agents: int, count: int) -> NDArray[np.bool_] | None:
    """Return whose rows are sent, (agents,); None for all."""
    if not data:
        return None
    try:
        sent = unpack(data, agents, 1).astype(np.bool_)
    except ValueError:
        raise Malformed("a frame says with one bit for each agent whose rows it has") from None
    if np.count_nonzero(sent) != count:
        raise Malformed("a frame has another number of rows than it says are sent")
    return sent


def read_symbols(payload: bytes, layout: Layout, count: int, bits: int) -> Symbols:
    """Return the rows in a payload that is as long as `check_coded` says."""
    edge = SCALE.itemsize * layout.scales * count
    scales = np.frombuffer(payload, SCALE, layout.scales * count).astype(np.float32, copy=False)
    if not np.isfinite(scales).all():
        raise Malformed("numbers must be finite")
    try:
        numbers = unpack(payload[edge:], layout.numbers * count, bits)
    except ValueError:
        raise Malformed("the last byte of a frame is filled with zeros") from None
    if not layout.bits and width_of(numbers) != bits:
        raise Malformed("a frame's numbers have as many bits as the largest of them needs")
    return Symbols(scales.reshape(count, layout.scales), numbers.reshape(count, layout.numbers))
