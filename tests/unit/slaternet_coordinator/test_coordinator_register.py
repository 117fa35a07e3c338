import hmac
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slaternet.errors import Mismatch, Superseded, Unknown
from slaternet.model import PROTOCOL, Description, Join, Opening, Role
from slaternet_coordinator.register import Register

SECRET = bytes(range(32))
HOST = Join(Role.HOST, "localhost:1", 0, PROTOCOL, "print")
ADVERSARY = replace(HOST, role=Role.ADVERSARY, address="localhost:2")


def register(agents: int = 10, hosts: int | None = 2, *, reproducible: bool = True) -> Register:
    return Register(agents, hosts=hosts, secret=SECRET, fingerprint="print", reproducible=reproducible)


def wanting(seats: int) -> Join:
    return replace(HOST, seats=seats)


def ticket(holder: str, incarnation: int, server: str) -> bytes:
    return hmac.digest(SECRET, f"{holder}\0{incarnation}\0{server}".encode(), "sha256")


@given(agents=st.integers(1, 60), hosts=st.integers(1, 12), asked=st.lists(st.integers(0, 9), max_size=12))
@settings(max_examples=120, deadline=None)
def test_seats_are_blocks_in_the_order_of_joining_as_asked_and_else_even(
    agents: int, hosts: int, asked: list[int]
) -> None:
    asked = [*asked, *[0] * hosts][:hosts]
    left, sharing = agents - sum(asked), asked.count(0)
    assume(left >= sharing and (sharing or not left))
    game = register(agents, hosts)
    for index, seats in enumerate(asked):
        game.admit(f"host-{index}", wanting(seats))

    game.share()

    seated = [host.seats.tolist() for host in game.hosts]
    assert [agent for seats in seated for agent in seats] == list(range(agents))
    assert all(len(seats) == wish for seats, wish in zip(seated, asked, strict=True) if wish)
    shares = [len(seats) for seats, wish in zip(seated, asked, strict=True) if not wish]
    assert shares == sorted(shares, reverse=True)
    assert not shares or (shares[0] - shares[-1] <= 1 and shares[-1] >= 1)


def test_without_a_number_of_hosts_every_host_says_how_many_it_seats() -> None:
    game = register(hosts=None)

    with pytest.raises(Mismatch, match=r"say how many agents a seats \(--seats K\), or start the coordinator with"):
        game.admit("a", HOST)
    game.admit("a", wanting(4))
    with pytest.raises(Mismatch, match="b asks for 7 seats, but with it 11 of 10 would be taken"):
        game.admit("b", wanting(7))
    game.admit("b", wanting(6))
    with pytest.raises(Mismatch, match="c asks for 1 seats, but with it 11 of 10 would be taken"):
        game.admit("c", wanting(1))

    game.share()
    assert [host.seats.tolist() for host in game.hosts] == [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]]


@pytest.mark.parametrize(
    ("before", "seats", "sentence"),
    [
        ([], 11, "b asks for 11 seats, but with it 11 of 10 would be taken"),
        ([], 10, "with b asking for 10 seats, 0 of 10 agents are left for 1 hosts; every agent needs a host"),
        ([4], 5, "with b asking for 5 seats, 1 of 10 agents are left for 0 hosts"),
        ([0], 10, "0 of 10 agents are left for 1 hosts; every agent needs a host and every host an agent"),
        ([0, 0], 0, "b is one host too many: the coordinator was started with --hosts 2"),
        ([4, 6], 0, "b is one host too many"),
    ],
)
def test_a_host_that_leaves_an_agent_or_a_host_without_the_other_is_refused(
    before: list[int], seats: int, sentence: str
) -> None:
    game = register()
    for index, wish in enumerate(before):
        game.admit(f"before-{index}", wanting(wish))

    with pytest.raises(Mismatch, match=sentence):
        game.admit("b", wanting(seats))

    assert "b" not in game


def test_a_host_that_comes_again_may_ask_for_other_seats_and_keeps_its_place() -> None:
    game = register()
    game.admit("a", wanting(8))
    game.admit("b", HOST)

    game.admit("a", wanting(3))
    game.share()

    assert [(host.name, len(host.seats)) for host in game.hosts] == [("a", 3), ("b", 7)]


@pytest.mark.parametrize(
    ("join", "sentence"),
    [
        (replace(HOST, protocol=PROTOCOL + 1), f"a speaks protocol {PROTOCOL + 1} and the coordinator protocol"),
        (
            replace(HOST, fingerprint="f" * 64),
            "a has numerics fingerprint ffffffffffffffff, the coordinator print; use",
        ),
    ],
)
def test_a_process_that_would_compute_otherwise_is_refused(join: Join, sentence: str) -> None:
    game = register()

    with pytest.raises(Mismatch, match=sentence):
        game.admit("a", join)

    assert list(game) == []


def test_other_arithmetic_is_welcome_where_the_spec_waives_reproducibility() -> None:
    game = register(reproducible=False)

    assert game.admit("a", replace(HOST, fingerprint="other")).incarnation == 1


def test_names_belong_to_one_role_and_a_game_has_one_adversary() -> None:
    game = register()
    game.admit("a", HOST)
    game.admit("eve", ADVERSARY)

    with pytest.raises(Mismatch, match="the name coordinator is taken by another role; choose another --name"):
        game.admit("coordinator", HOST)
    with pytest.raises(Mismatch, match="the name a is taken by another role"):
        game.admit("a", ADVERSARY)
    with pytest.raises(Mismatch, match="the name eve is taken by another role"):
        game.admit("eve", HOST)
    with pytest.raises(Mismatch, match="the game has its adversary already; stop one of the two"):
        game.admit("mallory", ADVERSARY)
    assert game.admit("eve", ADVERSARY).incarnation == 2


def test_who_is_missing_is_said_until_all_are_there() -> None:
    game = register()
    assert game.missing() == "the adversary"
    game.admit("eve", ADVERSARY)
    assert game.missing() == "the adversary's plugin"
    game.description = Description(2)
    assert game.missing() == "2 of 2 agent hosts"
    game.admit("a", HOST)
    assert game.missing() == "1 of 2 agent hosts"
    game.admit("b", HOST)
    assert game.missing() == ""

    seats = register(hosts=None)
    seats.admit("eve", ADVERSARY)
    seats.description = Description(2)
    assert seats.missing() == "agent hosts for 10 of 10 seats"
    seats.admit("a", wanting(10))
    assert seats.missing() == ""


def test_a_ticket_opens_one_server_to_one_incarnation() -> None:
    game = register()
    first = game.admit("a", HOST)
    game.admit("b", HOST)
    mine = game.ticket(first)

    assert mine == ticket("a", 1, "coordinator")
    assert game.identify("a", Opening(1, mine)) is first
    for name, opening in (
        ("b", Opening(1, mine)),
        ("a", Opening(1, game.ticket(first, "b"))),
        ("a", Opening(1, bytes(32))),
        ("a", Opening(1, b"")),
    ):
        with pytest.raises(Unknown, match="the ticket is not for this server"):
            game.identify(name, opening)
    with pytest.raises(Unknown, match="must join"):
        game.identify("stranger", Opening(1, mine))


def test_a_new_incarnation_shuts_out_the_older() -> None:
    game = register()
    older = game.ticket(game.admit("a", HOST))
    newer = game.admit("a", replace(HOST, address="localhost:9"))

    with pytest.raises(Superseded, match="a newer incarnation of a has joined"):
        game.identify("a", Opening(1, older))
    with pytest.raises(Unknown):
        game.identify("a", Opening(2, older))
    assert game.identify("a", Opening(2, game.ticket(newer))).address == "localhost:9"


def test_a_seating_names_the_others_with_tickets_for_both_directions() -> None:
    game = register(agents=5, hosts=3)
    eve = game.admit("eve", ADVERSARY)
    game.description = Description(2, code="c0de")
    for name in ("a", "b", "c"):
        game.admit(name, HOST)
    game.admit("b", HOST)
    game.share()

    seating = game.seating(game["b"])
    assert seating.seats.tolist() == [2, 3]
    assert [(peer.name, peer.incarnation, peer.seats.tolist()) for peer in seating.peers] == [
        ("a", 1, [0, 1]),
        ("c", 1, [4]),
    ]
    assert seating.peers[0].present == ticket("b", 2, "a")
    assert seating.peers[0].accept == ticket("a", 1, "b")
    assert seating.description == Description(2, code="c0de")
    assert seating.adversary is not None
    assert (seating.adversary.name, seating.adversary.address) == ("eve", "localhost:2")
    assert seating.adversary.present == ticket("b", 2, "eve")

    hers = game.seating(eve)
    assert (hers.seats.size, hers.adversary, hers.description) == (0, None, None)
    assert [peer.name for peer in hers.peers] == ["a", "b", "c"]
    assert hers.peers[1].accept == seating.adversary.present
