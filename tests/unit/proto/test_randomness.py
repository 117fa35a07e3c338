import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slaternet.numerics.randomness import block_length, locate, stream, streams

SEEDS = st.integers(0, 2**63 - 1)


@given(SEEDS, st.integers(0, 99), st.integers(0, 10**6))
def test_an_address_always_gives_the_same_numbers(seed: int, agent: int, block: int) -> None:
    first, second = (stream(seed, "direction", agent, block).random(8) for _ in range(2))

    assert first.tobytes() == second.tobytes()


def test_any_other_address_gives_other_numbers() -> None:
    addresses = [(1, "a", 0, 0), (2, "a", 0, 0), (1, "b", 0, 0), (1, "a", 1, 0), (1, "a", 0, 1)]

    assert len({stream(*address).random(4).tobytes() for address in addresses}) == len(addresses)


def test_the_generator_is_philox_with_seed_and_purpose_as_key_and_agent_and_block_as_counter() -> None:
    purpose = int.from_bytes(hashlib.sha256(b"edges").digest()[:8], "little")
    key, counter = np.array([7, purpose], dtype=np.uint64), np.array([0, 0, 3, 11], dtype=np.uint64)
    expected = np.random.Generator(np.random.Philox(key=key, counter=counter))

    assert stream(7, "edges", 3, 11).random(5).tobytes() == expected.random(5).tobytes()


@pytest.mark.parametrize(("numbers", "rounds"), [(1, 256), (16, 256), (17, 240), (66, 62), (4096, 1), (100_000, 1)])
def test_a_block_holds_about_4096_numbers_but_at_most_256_rounds(numbers: int, rounds: int) -> None:
    assert block_length(numbers) == rounds


@given(st.integers(1, 10**9), st.integers(1, 256))
def test_round_and_block_name_each_other(round: int, length: int) -> None:
    block, offset = locate(round, length)

    assert 0 <= offset < length
    assert block * length + offset + 1 == round


def test_a_generator_that_moves_gives_at_each_address_the_numbers_of_a_fresh_one() -> None:
    addresses = [(3, 0), (0, 5), (2**40, 2**50), (0, 0)]

    def drawn(generator: np.random.Generator) -> tuple[bytes, int]:  # half a word is left behind
        return generator.random(3).tobytes(), int(generator.integers(0, 9, 1, dtype=np.uint32)[0])

    moved = [drawn(generator) for generator in streams(7, "functions", addresses)]

    assert moved == [drawn(stream(7, "functions", *address)) for address in addresses]
