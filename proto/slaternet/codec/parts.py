"""Payloads above the message limit travel in parts, one after the other on their stream.

A part repeats the head and the shape of its payload, so that every message can be checked by itself; the shape gives
the payload's length before the first byte is stored, and one above the largest that its stream may carry is refused
with the first part.
"""

from collections.abc import Hashable

from slaternet.errors import Malformed, OverBudget
from slaternet.limits import LIMITS

LARGEST = LIMITS.parts * LIMITS.part_bytes
"""Bytes of the largest payload that can be split."""


def split(payload: bytes) -> list[bytes]:
    """Return the payload in pieces of at most `LIMITS.part_bytes`; one piece where it fits."""
    size = LIMITS.part_bytes
    if len(payload) <= size:
        return [payload]
    if len(payload) > LARGEST:
        raise OverBudget(
            f"a payload of {len(payload)} bytes is above the {LARGEST} allowed; seat fewer agents on a host"
        )
    return [payload[start : start + size] for start in range(0, len(payload), size)]


class Assembly:
    """Joins parts; holds at most one unfinished payload, of at most `largest` bytes."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._shape: Hashable = None
        self._pieces: list[bytes] = []
        self._parts = 0
        self._held = 0

    def take(self, piece: bytes, part: int, parts: int, shape: Hashable, length: int) -> bytes | None:
        """Return the payload of `length` bytes after its last part, None before.

        `shape` is everything that must be the same in all parts of one payload.
        """
        if not self._pieces:
            if not parts:
                if part or len(piece) != length:
                    raise Malformed("shape and payload disagree")
                return piece
            if parts > min(LIMITS.parts, length) or length > LARGEST:
                raise Malformed("a payload has more parts than the protocol allows")
            if length > self._largest:
                raise OverBudget("a payload is larger than any that the game has on this stream")
            self._shape, self._parts, self._held = shape, parts, 0
        return self._add(piece, part, parts, shape, length)

    def _add(self, piece: bytes, part: int, parts: int, shape: Hashable, length: int) -> bytes | None:
        if part != len(self._pieces) or parts != self._parts or shape != self._shape:
            raise Malformed("parts of a payload must follow one another in order")
        self._held += len(piece)
        if not piece or self._held > length or (part == parts - 1) != (self._held == length):
            raise Malformed("shape and payload disagree")
        self._pieces.append(piece)
        if part < parts - 1:
            return None
        payload = b"".join(self._pieces)
        self._pieces = []
        return payload

    def check_idle(self) -> None:
        """Refuse a message of another kind in the middle of a payload."""
        if self._pieces:
            raise Malformed("parts of a payload must follow one another in order")
