"""Mutated messages of every kind through the decoders: how many give a value, a part of one, a typed refusal.

python tests/malformed/corpus.py 1000000 --seed 1
"""

import argparse
import dataclasses
import multiprocessing
import os
import resource
import struct
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from tests.malformed.mutations import Mutator
from tests.malformed.samples import SAMPLES, Sample

from slaternet.errors import Malformed

CHUNK = 10_000
"""Messages that are made from one seed."""


@dataclasses.dataclass(frozen=True)
class Tally:
    """What became of mutated messages, by kind and outcome, and how far the memory of a process grew meanwhile."""

    outcomes: Counter[tuple[str, str]]
    peaks: tuple[int, ...]  # bytes of memory that a process had needed at most after each chunk

    @property
    def grown(self) -> int:
        """How many bytes more the last chunks took than the first, which pay for what everything costs once."""
        return max(self.peaks) - min(self.peaks)

    @property
    def totals(self) -> dict[str, int]:
        """How many messages came to each outcome: value, part or refused."""
        totals: Counter[str] = Counter()
        for (_, outcome), count in self.outcomes.items():
            totals[outcome] += count
        return dict(sorted(totals.items()))


def judge(messages: int, seed: int = 1, *, workers: int | None = None) -> Tally:
    """Take in that many mutated messages on that many processes; anything but a value or a refusal is raised."""
    sizes = [CHUNK] * (messages // CHUNK) + [messages % CHUNK] * (messages % CHUNK > 0)
    seeds = [f"{seed}/{number}" for number in range(len(sizes))]
    workers = workers or min(len(sizes), os.cpu_count() or 1)
    if workers == 1:
        tallies = [judge_chunk(each, size) for each, size in zip(seeds, sizes, strict=True)]
    else:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            tallies = list(pool.map(judge_chunk, seeds, sizes))
    outcomes: Counter[tuple[str, str]] = Counter()
    for tally in tallies:
        outcomes += tally.outcomes
    return Tally(outcomes, sum((tally.peaks for tally in tallies), ()))


def judge_chunk(seed: str, messages: int) -> Tally:
    """Take in the mutated messages of one seed."""
    mutator = Mutator(seed, [sample.data for sample in SAMPLES])
    outcomes: Counter[tuple[str, str]] = Counter()
    for number in range(messages):
        sample = SAMPLES[number % len(SAMPLES)]
        data = mutator.spoil(sample.data)
        try:
            outcome = outcome_of(sample, data)
        except Exception as error:
            error.add_note(f"message {number} of seed {seed!r}, a mutated {sample.kind.name}: {data[:4096]!r}")
            raise
        outcomes[sample.kind.name, outcome] += 1
    return Tally(outcomes, (1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,))


def outcome_of(sample: Sample, data: bytes) -> str:
    """Return what a fresh receiver makes of a message; what is a value stays the same when it is sent again."""
    decode = sample.kind.receiver()
    for earlier in sample.before:
        decode(earlier)
    try:
        value = decode(data)
    except Malformed:
        return "refused"
    if value is None:
        return "part"
    again = sample.kind.receiver()
    *_, back = [again(part) for part in sample.kind.encode(value)]
    if not same(value, back):
        raise AssertionError(f"{value} has become {back}")
    return "value"


def same(one: Any, other: Any) -> bool:
    """Say whether two decoded messages are the same to the bit, with the kinds of all their parts."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())
    if isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if dataclasses.is_dataclass(one):
        return all(same(getattr(one, each), getattr(other, each)) for each in one.__dataclass_fields__)
    return bool(one == other)


def main() -> None:
    """Print what became of so many messages."""
    parser = argparse.ArgumentParser(description="Send mutated messages of every kind through the decoders.")
    parser.add_argument("messages", type=int)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    tally = judge(arguments.messages, arguments.seed)
    print(*(f"{outcome} {count}" for outcome, count in tally.totals.items()), f"grown {tally.grown >> 10} KiB")


if __name__ == "__main__":
    main()
