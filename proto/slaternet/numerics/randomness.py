"""Randomness with an address: (seed, purpose, agent, block of rounds).

Counter-based (Philox), so that any process can draw any address without having drawn those before it, and a restart
draws the same numbers again. Building a generator costs more than the numbers of one round:
one generator therefore serves a block of rounds, whose length follows from the run spec alone.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike, NDArray

_NUMBERS_PER_BLOCK = 4096
_LONGEST_BLOCK = 256


def stream(seed: int, purpose: str, agent: int = 0, block: int = 0) -> np.random.Generator:
    """Return a fresh generator for one address; different addresses give independent numbers.

    Numbers of a single round and no agent, such as the edges of a graph, have agent 0 and the round as their block.
    """
    # The two low words count the numbers drawn: 2^128 of them lie between an address and the next.
    counter = np.array([0, 0, agent, block], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(_key(seed, purpose), counter=counter))  # type: ignore[arg-type]


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


class _Key(ISeedSequence):
    """A key that Philox takes as it is; given as `key=`, it costs a seed that numpy first draws from the system."""

    def __init__(self, seed: int, purpose: str) -> None:
        of_purpose = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
        self._words = np.array([seed, of_purpose], dtype=np.uint64)

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint32) -> NDArray[np.uint64]:
        """Return the key: Philox asks for two words of 64 bits."""
        del n_words, dtype
        return self._words


_key = functools.lru_cache(maxsize=1024)(_Key)
