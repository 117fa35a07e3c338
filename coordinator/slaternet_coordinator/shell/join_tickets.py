"""Tickets that show that a process lives: a Join may arrive when the process that sent it is dead."""

import hmac
from collections.abc import Callable


class JoinTickets:
    """Gives one ticket a name, which is good for one request; only the newest counts.

    So processes of one name take over from each other in the order in which they answered a challenge, and the delayed
    request of one that has died takes nothing from its successor.
    """

    def __init__(self, new_ticket: Callable[[], bytes]) -> None:
        self._new_ticket = new_ticket
        self._tickets: dict[str, bytes] = {}

    def shown(self, name: str, ticket: bytes) -> bool:
        """Whether a request holds the newest ticket of its name, which is then used up."""
        expected = self._tickets.get(name)
        if expected is None or not hmac.compare_digest(ticket, expected):
            return False
        del self._tickets[name]
        return True

    def challenge(self, name: str) -> bytes:
        """Return the ticket with which a process shall ask again; an older one counts no more."""
        ticket = self._tickets[name] = self._new_ticket()
        return ticket
