"""What payloads of the journal are made of; slaternet_adversary.journal.journal has their layout."""

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from slaternet.model import Agents, Array, Usage

COUNT = struct.Struct("<I")
LENGTH = struct.Struct("<H")
_USAGE = struct.Struct("<QQQQQd")


def name_bytes(name: str) -> bytes:
    """Return a name: its length and its bytes."""
    data = name.encode()
    return LENGTH.pack(len(data)) + data


def group_bytes(agents: Agents) -> bytes:
    """Return how many agents, and which."""
    return COUNT.pack(len(agents)) + agents.astype("<i8").tobytes()


def usage_bytes(incarnation: int, usage: Usage) -> bytes:
    """Return what an incarnation of a host has spent."""
    numbers = usage.frames, usage.bytes_sent, usage.bytes_received
    return _USAGE.pack(incarnation, usage.round, *numbers, usage.waited)


@dataclass(slots=True)
class PayloadReader:
    """What is left of a payload."""

    data: bytes
    at: int = 0

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Return the numbers of a layout, whole or not as it says."""
        self.at += layout.size
        return layout.unpack_from(self.data, self.at - layout.size)

    def name(self) -> str:
        """Return a name."""
        length = self.whole(LENGTH)
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def usage(self) -> tuple[int, Usage]:
        """Return an incarnation, and what it has spent."""
        incarnation, *numbers = self.numbers(_USAGE)
        return incarnation, Usage(*numbers)

    def agents(self, count: int) -> Agents:
        """Return so many agents."""
        self.at += 8 * count
        return np.frombuffer(self.data, "<i8", count, self.at - 8 * count).astype(np.intp)

    def array(self, *shape: int) -> Array:
        """Return an array of this shape."""
        count = math.prod(shape)
        self.at += 8 * count
        return np.frombuffer(self.data, "<f8", count, self.at - 8 * count).reshape(shape)

    def whole(self, layout: struct.Struct) -> int:
        """Return the only number of a layout."""
        (number,) = self.numbers(layout)
        return int(number)
