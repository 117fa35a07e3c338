"""One-time tickets for joining under a taken name: a delayed Join of a dead process cannot displace its successor."""

import hmac
from collections.abc import Callable


class JoinTickets:
    """Issues tickets, each valid for one request; only the newest of a name is valid.

    So processes of one name take over from each other in the order in which they answered a challenge.
    """

    def __init__(self, new_ticket: Callable[[], bytes]) -> None:
        self._new_ticket = new_ticket
        self._tickets: dict[str, bytes] = {}

    def redeem(self, name: str, ticket: bytes) -> bool:
        """Use up the newest ticket of a name; return whether this is it."""
        expected = self._tickets.get(name)
        if expected is None or not hmac.compare_digest(ticket, expected):
            return False
        del self._tickets[name]
        return True

    def challenge(self, name: str) -> bytes:
        """Return a new ticket with which a process can ask again; an older one is no longer valid."""
        ticket = self._tickets[name] = self._new_ticket()
        return ticket
