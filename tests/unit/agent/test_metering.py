"""What a host counts: what it has spent, and for whom it was waited."""

import pytest

from slaternet.model import Usage
from slaternet.network.traffic import PREFIX, Traffic
from slaternet_agent.shell.metering import HostMeter


def sent(traffic: Traffic, data: bytes) -> None:
    """Count a message as a link does that sends it."""
    traffic.sent_messages += 1
    traffic.sent_bytes += len(data) + PREFIX


def received(traffic: Traffic, data: bytes) -> None:
    """Count a message as a link does that has received it."""
    traffic.received_messages += 1
    traffic.received_bytes += len(data) + PREFIX


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Host:
    """Plays rounds by the clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.gossip, self.reveal = Traffic(), Traffic()
        self.tally = HostMeter((self.gossip, self.reveal), self.clock)

    def ask(self, round: int, *, after: float, awaited: str) -> float:
        """Ask; return how long it has stood still before its questions so far."""
        self.clock.now += after
        self.tally.ask(round, awaited)
        sent(self.reveal, b"question")
        return self.tally.usage(round).waited

    def answer(self, *, after: float) -> None:
        self.clock.now += after
        received(self.reveal, b"answer")
        self.tally.answered("adversary")
        self.clock.now += 1000.0  # the update: nobody is waited for
        self.tally.idle()


def test_a_wait_is_charged_to_whoever_sent_the_last_thing_missing() -> None:
    host = Host()

    host.ask(1, after=50.0, awaited="agent-2")  # everybody starts
    host.answer(after=0.25)
    two = host.ask(2, after=3.0, awaited="agent-2")
    host.answer(after=0.5)
    three = host.ask(3, after=4.0, awaited="agent-3")
    host.answer(after=0.125)
    four = host.ask(4, after=0.0625, awaited="")  # all was there
    host.answer(after=2.0)
    five = host.ask(5, after=7.0, awaited="agent-2")

    assert host.tally.waited == {"agent-2": 10.0, "agent-3": 4.0, "adversary": 2.875}
    assert [two, three, four, five] == [3.0, 7.0, 7.0, 14.0]


def test_the_reveal_is_timed_from_question_to_answer() -> None:
    host = Host()

    for round, seconds in ((1, 0.25), (2, 0.0003), (3, 0.25)):
        host.ask(round, after=9.0, awaited="agent-2")
        host.answer(after=seconds)

    assert sum(host.tally.reveals.counts) == 3
    assert host.tally.reveals.sum == pytest.approx(0.5003)


def test_a_usage_is_all_that_was_sent_and_received() -> None:
    host = Host()
    question, answer = len(b"question") + PREFIX, len(b"answer") + PREFIX

    sent(host.gossip, b"frame of round 1")
    host.tally.frames_sent += 1
    host.tally.rows_sent += 3
    host.tally.gossip_bytes += 16 + PREFIX
    host.ask(1, after=1.0, awaited="agent-2")
    host.answer(after=1.0)
    sent(host.gossip, b"frame of round 2")
    sent(host.reveal, b"a heartbeat")
    host.tally.frames_sent += 1
    one = host.tally.usage(1)
    host.ask(2, after=0.0, awaited="")
    host.answer(after=1.0)
    received(host.gossip, b"frame sent again")
    two = host.tally.usage(2)

    assert one == Usage(1, 2, 2 * (16 + PREFIX) + question + 11 + PREFIX, answer, 0.0, 3, 16 + PREFIX)
    assert two == Usage(2, 2, one.bytes_sent + question, 2 * answer + 16 + PREFIX, 0.0, 3, 16 + PREFIX)
    assert two.bytes_sent == host.gossip.sent_bytes + host.reveal.sent_bytes
    assert two.bytes_received == host.gossip.received_bytes + host.reveal.received_bytes
