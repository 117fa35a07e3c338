"""Who asks for a name that is taken must show that it lives: what a process has said may come when it is long dead."""

import hmac
from collections.abc import Callable


class Lives:
    """Hands out one ticket a name, which is good for one request; only the newest counts.

    So lives of one name take over from each other in the order in which they were heard alive, and the request of one
    that has died on the way takes nothing from its successor.
    """

    def __init__(self, new_ticket: Callable[[], bytes]) -> None:
        self._new_ticket = new_ticket
        self._tickets: dict[str, bytes] = {}

    def shown(self, name: str, ticket: bytes) -> bool:
        """Whether a request comes from whoever was challenged last; it does so once."""
        expected = self._tickets.get(name)
        if expected is None or not hmac.compare_digest(ticket, expected):
            return False
        del self._tickets[name]
        return True

    def challenge(self, name: str) -> bytes:
        """Return the ticket with which a process shall ask again; an older one counts no more."""
        ticket = self._tickets[name] = self._new_ticket()
        return ticket
