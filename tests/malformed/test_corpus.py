"""Mutated messages of every kind through the decoders: a value or a typed refusal, and nothing else."""

import tracemalloc
from random import Random

import pytest
from google.protobuf.descriptor import Descriptor
from tests.malformed.corpus import Tally, judge, judge_chunk, outcome_of
from tests.malformed.mutations import Mutator, assemble, dissect
from tests.malformed.samples import SAMPLES, Sample

from slaternet.v1 import adversary_pb2, agent_pb2, coordinator_pb2, plugin_pb2

FILES = (adversary_pb2, agent_pb2, coordinator_pb2, plugin_pb2)
GROWTH = 32 << 20
"""Bytes that a million messages may add to what the first ten thousand have needed."""


def travelling() -> dict[str, Descriptor]:
    """Return every message that a method of a service takes or gives."""
    methods = [
        method for file in FILES for service in file.DESCRIPTOR.services_by_name.values() for method in service.methods
    ]
    return {kind.name: kind for method in methods for kind in (method.input_type, method.output_type)}


def test_there_is_a_sample_of_every_message_and_of_every_body() -> None:
    kinds = travelling()
    assert {sample.kind.name for sample in SAMPLES} == set(kinds)

    bodies = {(kind.name, field.number) for kind in kinds.values() for oneof in kind.oneofs for field in oneof.fields}
    found = {(sample.kind.name, field.number) for sample in SAMPLES for field in dissect(sample.data)}
    assert bodies <= found


def test_every_sample_is_sound_and_is_put_together_as_it_was_taken_apart() -> None:
    for sample in SAMPLES:
        assert outcome_of(sample, sample.data) in ("value", "part")
        assert assemble(dissect(sample.data)) == sample.data


def test_the_same_seed_spoils_messages_in_the_same_way() -> None:
    stock = [sample.data for sample in SAMPLES]
    one, other, different = (Mutator(seed, stock) for seed in ("1", "1", "2"))
    spoilt = [one.spoil(data) for data in stock]
    assert spoilt == [other.spoil(data) for data in stock]
    assert spoilt != [different.spoil(data) for data in stock]


def check(tally: Tally, messages: int) -> None:
    totals = tally.totals
    assert sum(totals.values()) == messages
    # neither outcome is so rare that the other was hardly tried
    assert min(totals["value"], totals["refused"]) > messages / 4, totals
    for kind in travelling():
        assert min(tally.outcomes[kind, "value"], tally.outcomes[kind, "refused"]) > messages / 1000, kind


def test_mutated_messages_are_values_or_refused() -> None:
    check(judge(5_000, workers=1), 5_000)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_million_mutated_messages_are_values_or_refused_and_leave_no_memory_behind() -> None:
    tally = judge(1_000_000)
    check(tally, 1_000_000)
    assert tally.grown < GROWTH


def test_no_mutated_message_makes_a_receiver_allocate_more_than_was_sent() -> None:
    """An honest message may take some dozen times its bytes, as arrays and records; a lie gets no more."""
    mutator, choice = Mutator("memory", [sample.data for sample in SAMPLES]), Random(1)
    for _ in range(1_000):
        sample = choice.choice(SAMPLES)
        data = mutator.spoil(sample.data)
        # what threads of earlier tests allocate meanwhile counts as well, but not twice
        least = min(allocated(sample, data), allocated(sample, data))
        assert least < 40 * len(data) + (64 << 10), (sample.kind.name, data)


def allocated(sample: Sample, data: bytes) -> int:
    """Return how much memory a receiver takes for a message, in bytes."""
    tracemalloc.start()
    try:
        outcome_of(sample, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_decoder_that_fails_otherwise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slaternet.codec.wire.finite", lambda value: int(value) and value)
    with pytest.raises((ValueError, OverflowError)) as found:
        judge_chunk("1/0", 10_000)
    # the two kinds with numbers that are read one by one
    assert any(f"a mutated {kind}" in found.value.__notes__[0] for kind in ("ControlUp", "StatusReply"))
