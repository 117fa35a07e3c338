"""Randomness with an address: (seed, purpose, agent, block of rounds).

Counter-based (Philox), so that any process can draw any address without having drawn those before it, and a restart
draws the same numbers again. Building a generator costs about 20 microseconds, more than the numbers of one round:
one generator therefore serves a block of rounds, whose length follows from the run spec alone.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator

import numpy as np

_NUMBERS_PER_BLOCK = 4096
_LONGEST_BLOCK = 256


def stream(seed: int, purpose: str, agent: int = 0, block: int = 0) -> np.random.Generator:
    """Return a fresh generator for one address; different addresses give independent numbers.

    Numbers of a single round and no agent, such as the edges of a graph, have agent 0 and the round as their block.
    """
    key = np.array([seed, _purpose_key(purpose)], dtype=np.uint64)
    # The two low words count the numbers drawn: 2^128 of them lie between an address and the next.
    counter = np.array([0, 0, agent, block], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def streams(seed: int, purpose: str, addresses: Iterable[tuple[int, int]]) -> Iterator[np.random.Generator]:
    """Yield the generators of several agents and blocks one after the other, each valid until the next is asked for.

    One generator moves from address to address, which takes a tenth of the time of building as many.
    """
    moved = stream(seed, purpose)
    at = moved.bit_generator.state
    for address in addresses:
        at["state"]["counter"][2:] = address
        moved.bit_generator.state = at
        yield moved


def block_length(numbers: int) -> int:
    """Return how many rounds share a generator when each round draws `numbers` numbers per agent."""
    return max(1, min(_NUMBERS_PER_BLOCK // numbers, _LONGEST_BLOCK))


def locate(round: int, length: int) -> tuple[int, int]:
    """Return the block that holds `round` (1, 2, 3, ...) and its offset there, for blocks of `length` rounds."""
    return divmod(round - 1, length)


@functools.cache
def _purpose_key(purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
