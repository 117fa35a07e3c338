from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slaternet.spec.seat_request import SeatRequest
from slaternet_coordinator.engine.seat_allocation import SeatAllocation

SHARE = SeatRequest()


def ids(*agents: int) -> SeatRequest:
    return SeatRequest(len(agents), np.array(sorted(agents), np.intp))


def wish(number: int, agents: int) -> SeatRequest:
    """Return one of many wishes: a share, a count or certain ids; some cannot be granted."""
    kind, rest = number % 3, number // 3
    if kind == 0:
        return SHARE
    if kind == 1:
        return SeatRequest(1 + rest % (1 + agents // 2))
    return ids(*{(rest >> 2) % (agents + 1), agents - rest % (agents + 1)})


def offered(agents: int, hosts: int | None, asked: Sequence[SeatRequest]) -> SeatAllocation:
    seats = SeatAllocation(agents, hosts)
    for number, wish in enumerate(asked):
        seats.offer(f"host-{number}", wish)
    return seats


@given(
    agents=st.integers(1, 40),
    hosts=st.one_of(st.none(), st.integers(1, 6)),
    numbers=st.lists(st.integers(0, 500), min_size=1, max_size=12),
)
@settings(max_examples=100, deadline=None)
def test_every_agent_has_one_seat_everyone_what_he_asked_for_and_nobody_waits_without_a_sentence(
    agents: int, hosts: int | None, numbers: list[int]
) -> None:
    asked = {f"host-{place}": wish(number, agents) for place, number in enumerate(numbers)}
    seats = SeatAllocation(agents, hosts)
    for name, each in asked.items():
        full, objection = seats.full, seats.objection(name, each)
        seats.offer(name, each)
        assert full or objection or name in seats.seated or not each.count  # who shares may find nothing left
    if seats.missing():
        return

    given = seats.assigned()

    assert sorted(agent for own in given.values() for agent in own.tolist()) == list(range(agents))
    assert list(given) == seats.seated
    assert hosts is None or len(given) == hosts
    for name, own in given.items():
        assert own.tolist() == sorted(own.tolist()) != []
        assert asked[name].count in (0, own.size)
        assert not asked[name].agents.size or own.tolist() == asked[name].agents.tolist()
    shares = [own.size for name, own in given.items() if not asked[name].count]
    assert shares == sorted(shares, reverse=True)
    assert not shares or shares[0] - shares[-1] <= 1


def test_counts_and_shares_get_blocks_in_the_order_of_joining() -> None:
    given = offered(10, 4, [SHARE, SeatRequest(3), SHARE, SHARE]).assigned()

    assert [own.tolist() for own in given.values()] == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]


def test_where_too_few_agents_are_left_the_last_to_share_are_spares() -> None:
    seats = offered(4, None, [SHARE, SHARE, ids(0, 3), SHARE])

    assert seats.seated == ["host-0", "host-1", "host-2"]
    assert {name: own.tolist() for name, own in seats.assigned().items()} == {
        "host-0": [1],
        "host-1": [2],
        "host-2": [0, 3],
    }


def test_a_spare_takes_the_place_of_one_whose_wish_fits_no_more_only_where_its_own_fits() -> None:
    """Two of ten seats' hosts are to come: 4 and 6 were, 4 and 3 cannot be."""
    assert offered(10, 2, [SeatRequest(4), SeatRequest(3), SeatRequest(6)]).seated == ["host-0", "host-2"]
    assert offered(10, 2, [SeatRequest(4), SeatRequest(3)]).missing() == "1 of 2 agent hosts"
