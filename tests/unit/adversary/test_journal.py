"""The entries of the adversary's journal are on disk what their layout says, and come back to the bit."""

import struct
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.simulation.disk import SimDisk

from slaternet.errors import Diverged
from slaternet.limits import LIMITS
from slaternet.model import Question, StopAt, Usage, ValueAndGradient, Values
from slaternet.storage.record_file import SealedRecord
from slaternet_adversary.engine.events import Asked, Commit, Used
from slaternet_adversary.journal.entries import Entry, Purchase, SeatingEntry, decode, encode
from slaternet_adversary.journal.journal import AdversaryJournal, read
from slaternet_adversary.scoring import Scored

K, S, P, M = 2, 3, 4, 5
AGENTS = np.array([1, 6])
SCORED = Scored(9, 0.1, 0.2, 0.3, -0.0, 1e-300)
USED = Used("agent-1", 2, Usage(64, 3, 2**63, 7, 0.125, 11, 2**62))


def purchase(points: int, loss: bool, constraint: bool) -> Purchase:
    """Return a purchase in which no two numbers are the same."""
    rng = np.random.default_rng(points)
    anchor = rng.standard_normal((K, P)) if loss or constraint else None
    question = Question(
        12,
        AGENTS,
        rng.standard_normal((K, P)),
        rng.standard_normal((K, points, P)),
        anchor,
        loss,
        constraint,
    )
    values = Values(
        rng.standard_normal((K, points)),
        rng.standard_normal((K, points, M)),
        ValueAndGradient(rng.standard_normal(K), rng.standard_normal((K, P))) if loss else None,
        # not contiguous, as a plugin may return it
        ValueAndGradient(rng.standard_normal((M, K)).T, rng.standard_normal((P, M, K)).T) if constraint else None,
    )
    return Purchase(Asked("agent-ü", question, 17.25), values)


def again(entry: Entry) -> Entry:
    return decode(SealedRecord(*written(entry)))


def written(entry: Entry) -> tuple[int, int, bytes]:
    kind, round, payload = encode(entry)
    return kind, round, b"".join(payload)


def bits(entry: Purchase) -> list[object]:
    """Return all that a purchase says, arrays with their shape."""
    asked, values = entry.asked, entry.values
    tangents = [each for each in (values.loss, values.constraint) if each is not None]
    question = asked.question
    arrays = [question.agents, question.x, question.points, values.f, values.g]
    arrays += [each for each in (question.anchor, question.memo) if each is not None]
    arrays += [array for each in tangents for array in (each.value, each.gradient)]
    flags = question.loss_gradient, question.constraint_gradient, values.loss is None, values.constraint is None
    told = asked.host, asked.at, question.round, *flags
    return [*told, *((array.shape, array.tobytes()) for array in arrays)]


@pytest.mark.parametrize("gradients", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("points", [0, 1, S])
def test_a_purchase_comes_back_to_the_bit(points: int, gradients: tuple[bool, bool]) -> None:
    entry = purchase(points, *gradients)

    back = again(entry)

    assert isinstance(back, Purchase)
    assert bits(back) == bits(entry)


@pytest.mark.parametrize("gradients", [(False, False), (True, True)])
def test_a_purchase_with_a_memo_comes_back_to_the_bit_and_says_how_wide_it_is(gradients: tuple[bool, bool]) -> None:
    plain = purchase(2, *gradients)
    memo = np.arange(5.0 * K).reshape(K, 5)
    entry = replace(plain, asked=replace(plain.asked, question=replace(plain.asked.question, memo=memo)))

    back = again(entry)

    assert isinstance(back, Purchase)
    assert back.asked.question.memo is not None
    assert bits(back) == bits(entry)
    without, with_memo = written(plain)[2], written(entry)[2]
    flags = struct.calcsize("<IIII")
    assert with_memo[flags] == without[flags] + 8
    head = struct.calcsize("<IIIIBd")
    assert with_memo[head : head + 4] == struct.pack("<I", 5)
    assert with_memo[head + 4 :] == without[head:] + memo.tobytes()


@pytest.mark.parametrize(
    "entry",
    [
        Commit(7, ("0f" * 32, "f0" * 32, "00" * 32)),
        SCORED,
        USED,
        StopAt(2**40),
    ],
)
def test_what_else_is_told_comes_back_as_it_was(entry: Entry) -> None:
    assert again(entry) == entry


def test_a_seating_comes_back_with_hosts_in_their_order() -> None:
    back = again(SeatingEntry((("b", np.array([2, 0])), ("agent-ü", np.array([1])), ("c", np.array([], np.intp)))))

    assert isinstance(back, SeatingEntry)
    assert [(name, agents.tolist()) for name, agents in back.hosts] == [("b", [2, 0]), ("agent-ü", [1]), ("c", [])]


def test_the_layout_is_the_one_that_is_written_down() -> None:
    entry = purchase(1, loss=True, constraint=False)
    question, values = entry.asked.question, entry.values
    assert question.anchor is not None
    assert values.loss is not None

    name = "agent-ü".encode()
    expected = struct.pack("<IIIIBd", K, 1, P, M, 1, 17.25)
    expected += struct.pack("<H", len(name)) + name + struct.pack("<2q", *AGENTS)
    for array in (question.x, question.points, values.f, values.g, question.anchor, *(values.loss.value,)):
        expected += array.astype("<f8").tobytes()
    expected += values.loss.gradient.astype("<f8").tobytes()
    assert written(entry) == (3, 12, expected)
    alike = replace(question, x=question.points[:, 0], x_is_first_point=True)
    shorter = written(replace(entry, asked=replace(entry.asked, question=alike)))
    begin = len(struct.pack("<IIIIBd", K, 1, P, M, 5, 17.25) + struct.pack("<H", len(name)) + name) + 8 * len(AGENTS)
    assert shorter[2][begin:] == expected[begin + 8 * K * P :]
    assert written(SCORED) == (4, 9, struct.pack("<5d", 0.1, 0.2, 0.3, -0.0, 1e-300))
    numbers = struct.pack("<5Qd2Q", 2, 64, 3, 2**63, 7, 0.125, 11, 2**62)
    assert written(USED) == (5, 64, numbers + struct.pack("<H", 7) + b"agent-1")
    assert written(StopAt(5)) == (6, 5, b"")


def test_an_entry_of_no_known_kind_is_damage() -> None:
    with pytest.raises(Diverged, match="an entry of kind 77, which is none"):
        decode(SealedRecord(77, 1, b""))


def test_whoever_checks_a_journal_reads_what_was_appended() -> None:
    disk, folder = SimDisk(), Path("/run")
    journal = AdversaryJournal.open(folder, "id", disk=disk)
    entries: list[Entry] = [SCORED, replace(SCORED, round=10), StopAt(10)]
    for entry in entries:
        journal.append(entry)

    assert list(read(folder, disk=disk)) == entries


@pytest.mark.parametrize("seed", range(10))
def test_a_loss_of_power_takes_nothing_from_which_a_checkpoint_of_all_follows(seed: int) -> None:
    disk, folder, sample = SimDisk(), Path("run"), purchase(1, loss=False, constraint=False)
    hosts, rounds = {"a": np.array([0, 1]), "b": np.array([2, 3])}, range(1, 2 * LIMITS.checkpoint_every - 1)
    journal = AdversaryJournal.open(folder, "id", disk=disk)
    journal.append(SeatingEntry(tuple(hosts.items())))
    synced = 0
    for round in rounds:
        if round == LIMITS.checkpoint_every // 2:  # another life goes on counting
            journal.close()
            journal = AdversaryJournal.open(folder, "id", disk=disk, again=True)
            synced = len(list(journal.replay()))
        for name, own in hosts.items():
            asked = Asked(name, replace(sample.asked.question, round=round, agents=own))
            journal.append(Purchase(asked, sample.values))
    disk.crash(Random(seed))

    left = list(AdversaryJournal.open(folder, "id", disk=disk, again=True).replay())

    assert synced < 1 + 2 * LIMITS.checkpoint_every <= len(left)
    bought = [(each.asked.question.round, each.asked.host) for each in left if isinstance(each, Purchase)]
    assert bought == [(round, name) for round in rounds for name in hosts][: len(bought)]
