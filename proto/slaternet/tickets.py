"""Tickets: what a process presents to a server to show that the coordinator sent it."""

import hmac


def ticket(secret: bytes, holder: str, incarnation: int, server: str) -> bytes:
    """Return the 32 bytes with which this incarnation of `holder` opens streams at `server` and nowhere else.

    Who knows the secret can make it again, so it need not be kept; names hold no NUL, so no two triples agree.
    """
    return hmac.digest(secret, f"{holder}\0{incarnation}\0{server}".encode(), "sha256")
