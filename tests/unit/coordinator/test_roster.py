import hmac
from dataclasses import replace

import numpy as np
import pytest

from slaternet.errors import Mismatch, Superseded, Unknown
from slaternet.limits import LIMITS, Limits
from slaternet.model import PROTOCOL, Description, Join, Opening, Role, Seating
from slaternet_coordinator.engine.game_state import GameState
from slaternet_coordinator.engine.roster import Roster
from slaternet_coordinator.engine.rules import Rules
from slaternet_coordinator.graphs.fixed import Complete

SECRET = bytes(range(32))
HOST = Join(Role.HOST, "localhost:1", 0, PROTOCOL, "print")
ADVERSARY = replace(HOST, role=Role.ADVERSARY, address="localhost:2")


def register(agents: int = 10, hosts: int | None = 2, *, reproducible: bool = True, limits: Limits = LIMITS) -> Roster:
    rules = Rules(
        agents=agents, hosts=hosts, rounds=None, fingerprint="print", spec="5" * 64, reproducible=reproducible
    )
    return Roster(rules, SECRET, limits)


def wanting(seats: int) -> Join:
    return replace(HOST, seats=seats)


def wanting_agents(*agents: int) -> Join:
    return replace(HOST, seats=len(agents), agents=np.array(agents, np.intp))


def come(game: Roster, name: str, join: Join) -> None:
    game.set_connected(game.admit(name, join), connected=True)


def ticket(holder: str, incarnation: int, server: str) -> bytes:
    return hmac.digest(SECRET, f"{holder}\0{incarnation}\0{server}".encode(), "sha256")


def test_a_challenge_stays_the_same_until_somebody_has_joined_and_is_nobody_elses() -> None:
    game = register()
    assert game.challenge("agent-1", b"") is None  # the name is free
    for name in ("agent-1", "agent-2"):
        game.admit(name, HOST)

    first, others = game.challenge("agent-1", b""), game.challenge("agent-2", b"")
    assert first is not None
    assert others is not None
    assert {
        game.challenge("agent-1", shown) for shown in (b"", bytes(32), others, ticket("agent-1", 1, "agent-2"))
    } == {first}
    assert game.challenge("agent-1", first) is None

    game.admit("agent-1", HOST)
    assert game.challenge("agent-1", first) not in (None, first)


def test_a_challenge_opens_no_stream() -> None:
    game = register()
    game.admit("agent-1", HOST)
    challenge = game.challenge("agent-1", b"")
    assert challenge is not None
    with pytest.raises(Unknown):
        game.identify("agent-1", Opening(1, challenge))


def test_a_host_that_asks_for_more_than_is_left_is_refused_and_one_that_finds_nothing_left_is_a_spare() -> None:
    game = register(hosts=None)

    game.admit("a", wanting(4))
    with pytest.raises(Mismatch, match="b asks for 7 seats, but with it 11 of 10 would be taken; ask for at most 6"):
        game.admit("b", wanting(7))
    game.admit("b", wanting(6))
    for name, wish in (("c", wanting(1)), ("d", HOST), ("e", wanting_agents(3, 4))):
        game.admit(name, wish)

    assert game.spares == {"c", "d", "e"}
    game.begin()
    assert [host.seats.tolist() for host in game.players] == [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]]
    assert game.spares == {"c", "d", "e"}


def test_agents_asked_for_by_their_ids_go_to_who_asked_and_the_others_in_ascending_order() -> None:
    game = register(hosts=4)
    for name, wish in (("a", wanting(3)), ("b", wanting_agents(1, 4, 8)), ("c", HOST), ("d", wanting_agents(0))):
        game.admit(name, wish)

    game.begin()

    seated = {host.name: host.seats.tolist() for host in game.players}
    assert seated == {"a": [2, 3, 5], "b": [1, 4, 8], "c": [6, 7, 9], "d": [0]}


def test_an_agent_that_two_hosts_ask_for_is_refused_to_the_second_by_the_name_of_the_first() -> None:
    game = register(hosts=None)
    game.admit("a", wanting_agents(0, 1, 2))

    with pytest.raises(Mismatch, match="b asks for agent 2, but a has asked for it already; give one of the two other"):
        game.admit("b", wanting_agents(2, 3))
    with pytest.raises(Mismatch, match="b asks for agent 10, but the agents of this game are 0 to 9; correct its --s"):
        game.admit("b", wanting_agents(3, 10))
    assert "b" not in game

    game.admit("a", wanting_agents(0, 1))  # it has thought better of it
    game.admit("b", wanting_agents(2, 3))


def test_a_host_that_is_lost_before_the_game_has_begun_keeps_no_seat_until_it_is_back() -> None:
    game = register(agents=4, hosts=2)
    first, second = (game.admit(name, HOST) for name in "ab")
    game.admit("c", HOST)
    assert game.spares == {"c"}

    game.set_connected(first, connected=True)
    game.set_connected(first, connected=False)
    assert game.spares == {"a"}
    game.set_connected(first, connected=True)
    assert game.spares == {"c"}
    game.set_connected(second, connected=False)
    assert game.spares == {"b"}

    game.begin()
    assert [(host.name, host.seats.tolist()) for host in game.players] == [("a", [0, 1]), ("c", [2, 3])]
    game.set_connected(second, connected=True)
    assert game.spares == {"b"}


def test_there_are_so_many_spares_and_no_more() -> None:
    game = register(agents=2, hosts=1, limits=replace(LIMITS, spares=2))
    for name in "abcd":
        game.admit(name, HOST)

    with pytest.raises(Mismatch, match="e is one host too many: 4 have joined; end some that have no seats"):
        game.admit("e", HOST)
    assert game.admit("d", HOST).incarnation == 2


@pytest.mark.parametrize(
    ("before", "seats", "sentence"),
    [
        ([], 11, "b asks for 11 seats, but with it 11 of 10 would be taken"),
        ([], 10, "with b asking for 10 seats, 0 of 10 agents are left for 1 hosts; every agent needs a host"),
        ([4], 5, "with b asking for 5 seats, 1 of 10 agents are left for 0 hosts"),
        ([0], 10, "0 of 10 agents are left for 1 hosts; every agent needs a host and every host an agent"),
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
    game.begin()

    assert [(host.name, len(host.seats)) for host in game.hosts] == [("a", 3), ("b", 7)]


@pytest.mark.parametrize(
    ("join", "sentence"),
    [
        (replace(HOST, protocol=PROTOCOL + 1), f"a speaks protocol {PROTOCOL + 1} and the coordinator protocol"),
        (
            replace(HOST, protocol=1),
            f"a speaks protocol 1 and the coordinator protocol {PROTOCOL}; install the same version",
        ),
        (
            replace(HOST, fingerprint="f" * 64),
            "a has numerics fingerprint ffffffffffffffff, the coordinator print; use",
        ),
        (
            replace(HOST, spec_tag="e" * 64),
            "a has begun a game of another spec than the coordinator's, or another run of the same; start it with "
            "--fresh, or with another --state",
        ),
    ],
)
def test_a_process_that_would_compute_otherwise_is_refused(join: Join, sentence: str) -> None:
    game = register()

    with pytest.raises(Mismatch, match=sentence):
        game.admit("a", join)

    assert list(game) == []


def test_who_has_begun_a_game_of_this_spec_or_none_at_all_is_welcome() -> None:
    game = register()

    tag = hmac.digest(SECRET, b"spec " + b"5" * 64, "sha256").hex()
    assert game.admit("a", replace(HOST, spec_tag=tag)).incarnation == 1
    assert game.admit("b", HOST).incarnation == 1


def test_other_arithmetic_is_welcome_where_the_spec_waives_reproducibility() -> None:
    game = register(reproducible=False)

    assert game.admit("a", replace(HOST, fingerprint="other")).incarnation == 1


def test_names_belong_to_one_role_and_a_game_has_one_adversary() -> None:
    game = register()
    game.admit("a", HOST)
    game.admit("eve", ADVERSARY)

    with pytest.raises(Mismatch, match="the name coordinator is taken by another role; choose another --name"):
        game.admit("coordinator", HOST)
    with pytest.raises(Mismatch, match="the name adversary is taken by another role"):
        game.admit("adversary", HOST)
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
    assert game.missing() == "2 agent hosts to connect"
    game.set_connected(game["a"], connected=True)
    assert game.missing() == "b to connect"
    game.set_connected(game["b"], connected=True)
    assert game.missing() == ""

    seats = register(hosts=None)
    seats.admit("eve", ADVERSARY)
    seats.description = Description(2)
    assert seats.missing() == "agent hosts for 10 of 10 seats"
    come(seats, "a", wanting(3))
    assert seats.missing() == "agent hosts for 7 of 10 seats"
    seats.mark_quiet(seats.arrivals)
    assert seats.missing() == "agent hosts for 7 of 10 seats"
    come(seats, "b", HOST)
    assert seats.missing() == "further agent hosts, until none has come for 15 s"
    seats.mark_quiet(seats.arrivals - 1)
    assert seats.missing()
    seats.mark_quiet(seats.arrivals)
    assert seats.missing() == ""
    come(seats, "c", wanting(2))
    assert seats.missing()  # somebody new has come
    come(seats, "d", wanting(5))
    assert seats.missing() == ""  # nothing is left to be shared


def test_an_adversary_that_is_lost_before_the_game_has_begun_is_missing_until_it_describes_its_plugin_again() -> None:
    game = register(hosts=1)
    come(game, "a", HOST)
    eve = game.admit("eve", ADVERSARY)
    game.description = Description(2)
    assert game.missing() == ""

    game.set_connected(eve, connected=False)
    assert game.missing() == "the adversary"
    game.set_connected(eve, connected=True)
    assert game.missing() == "the adversary's plugin"


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

    with pytest.raises(Superseded, match="another process has joined as a; give each a --name of its own"):
        game.identify("a", Opening(1, older))
    with pytest.raises(Unknown):
        game.identify("a", Opening(2, older))
    assert game.identify("a", Opening(2, game.ticket(newer))).address == "localhost:9"


def test_a_seating_names_the_others_with_tickets_for_both_directions() -> None:
    rules = Rules(agents=5, hosts=3, rounds=None, fingerprint="print")
    state = GameState(Complete(5, 1), rules, SECRET, LIMITS)
    game = state.roster
    eve = game.admit("eve", ADVERSARY)
    game.description = Description(2, code="c0de")
    for name in ("a", "b", "c"):
        game.admit(name, HOST)
    game.admit("b", HOST)
    game.begin()

    seating = state.seating(game["b"])
    assert isinstance(seating, Seating)
    assert seating.seats.tolist() == [2, 3]
    assert [(peer.name, peer.incarnation, peer.seats.tolist()) for peer in seating.peers] == [
        ("a", 1, [0, 1]),
        ("c", 1, [4]),
    ]
    assert seating.peers[0].present == ticket("b", 2, "a")
    assert seating.peers[0].accept == ticket("a", 1, "b")
    assert seating.description == Description(2)  # without the hash of the code
    assert seating.adversary is not None
    assert (seating.adversary.name, seating.adversary.address) == ("eve", "localhost:2")
    assert seating.adversary.present == ticket("b", 2, "eve")

    hers = state.seating(eve)
    assert isinstance(hers, Seating)
    assert (hers.seats.size, hers.adversary, hers.description) == (0, None, None)
    assert [peer.name for peer in hers.peers] == ["a", "b", "c"]
    assert hers.peers[1].accept == seating.adversary.present
