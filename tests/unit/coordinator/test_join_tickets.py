"""Lives of one name take over from each other in the order in which they were heard alive."""

from itertools import count

import pytest

from slaternet_coordinator.shell.join_tickets import JoinTickets


def lives_of_a_game() -> JoinTickets:
    tickets = count(1)
    return JoinTickets(lambda: bytes([next(tickets)] * 32))


def test_a_ticket_shows_once_that_its_holder_lives() -> None:
    tickets = lives_of_a_game()
    ticket = tickets.challenge("agent-1")

    assert [tickets.redeem("agent-1", ticket) for _ in range(2)] == [True, False]


def test_only_the_newest_ticket_of_a_name_counts() -> None:
    tickets = lives_of_a_game()
    dead, living = tickets.challenge("agent-1"), tickets.challenge("agent-1")

    assert not tickets.redeem("agent-1", dead)
    assert tickets.redeem("agent-1", living)


@pytest.mark.parametrize("ticket", [b"", bytes(32)])
def test_whoever_was_not_challenged_shows_nothing(ticket: bytes) -> None:
    tickets = lives_of_a_game()
    others = tickets.challenge("agent-2")

    assert not tickets.redeem("agent-1", ticket)
    assert not tickets.redeem("agent-1", others)
