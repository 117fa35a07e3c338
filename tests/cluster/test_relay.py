"""The relay does what it is told, no more and no less, and the same again for the same seed."""

import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from tests.cluster.machines import CUT, PERFECT, Machine, Wires, eventually, network
from tests.cluster.relay import Faults, Link

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

STORM = Faults(delay=0.010, jitter=0.008, loss=0.2, duplication=0.3)
DATAGRAMS = 200


def sent(source: Machine, destination: Machine, wires: Wires, numbers: Sequence[int]) -> list[int]:
    """Send numbered datagrams all at once; return those that arrive, in order, once every copy is accounted for."""
    before = wires.statistics()[source.name, destination.name]
    with source.socket(socket.SOCK_DGRAM) as here, destination.socket(socket.SOCK_DGRAM) as there:
        # room for all of them before the first is read
        there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        for number in numbers:
            here.sendto(str(number).encode(), there.getsockname())

        def settled() -> bool:
            now = wires.statistics()[source.name, destination.name]
            arrived = now.delivered == now.packets - now.lost + now.duplicated
            return arrived and now.packets - before.packets == len(numbers)

        eventually(settled, lambda: str(wires.statistics()))
        copies = wires.statistics()[source.name, destination.name].delivered - before.delivered
        return [int(there.recv(100)) for _ in range(copies)]


def stormed(folder: Path, seed: int) -> set[int]:
    """Return which datagrams survive a storm of this seed."""
    with network(folder, "left", "right", seed=seed, faults=STORM) as both:
        return set(sent(both["left"], both["right"], both.wires, range(DATAGRAMS)))


def test_a_perfect_wire_delivers_every_packet_once_and_in_order(tmp_path: Path) -> None:
    with network(tmp_path, "left", "right") as both:
        assert sent(both["left"], both["right"], both.wires, range(DATAGRAMS)) == list(range(DATAGRAMS))
        total = both.wires.total()

    assert (total.packets, total.lost, total.duplicated, total.reordered) == (DATAGRAMS, 0, 0, 0)


def test_a_storm_loses_doubles_and_reorders_and_counts_what_it_does(tmp_path: Path) -> None:
    with network(tmp_path, "left", "right", faults=STORM) as both:
        arrived = sent(both["left"], both["right"], both.wires, range(DATAGRAMS))
        total = both.wires.total()

    late = [number for place, number in enumerate(arrived) if number < max(arrived[: place + 1])]
    assert total.lost == DATAGRAMS - len(set(arrived)) > 0
    assert total.duplicated == len(arrived) - len(set(arrived)) > 0
    assert total.reordered == len(late) > 0


def test_the_same_seed_loses_the_same_packets_and_another_seed_others(tmp_path: Path) -> None:
    survivors = stormed(tmp_path / "once", 7)

    assert stormed(tmp_path / "again", 7) == survivors
    assert stormed(tmp_path / "other", 8) != survivors


def test_a_link_is_cut_in_one_direction_while_others_work_and_heals(tmp_path: Path) -> None:
    with network(tmp_path, "left", "right", "third") as three:
        left, right, third, wires = three["left"], three["right"], three["third"], three.wires

        wires.set(CUT, left, right)

        assert sent(left, right, wires, range(5)) == []
        assert sent(right, left, wires, range(5)) == list(range(5))
        assert sent(left, third, wires, range(5)) == list(range(5))

        wires.set(PERFECT, left, right)

        assert sent(left, right, wires, range(5)) == list(range(5))


def test_the_fate_of_a_packet_does_not_depend_on_what_was_set_before_it() -> None:
    steady, changed = Link(7, "left", "right"), Link(7, "left", "right")
    steady.faults = STORM
    for _ in range(100):
        steady.send(1)
        changed.send(1)
    changed.faults = STORM

    assert [steady.send(1) for _ in range(100)] == [changed.send(1) for _ in range(100)]


def test_nothing_is_left_of_a_network_though_its_block_fails(tmp_path: Path) -> None:
    with suppress(ZeroDivisionError), network(tmp_path, "left", "right") as both:
        left = both["left"]
        sleeper = left.start("sleeper", "sleep", "1000")
        assert Path("/run/netns", left.namespace).exists()
        raise ZeroDivisionError

    assert not sleeper.alive
    assert not Path("/run/netns", left.namespace).exists()
