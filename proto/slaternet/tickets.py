"""Tickets: a process presents one to a server to prove that the coordinator admitted it."""

import hmac


def ticket(secret: bytes, holder: str, incarnation: int, server: str) -> bytes:
    """Return the 32 bytes with which this incarnation of `holder` opens streams at `server` and nowhere else.

    It is computed from the secret, so it need not be stored; names hold no NUL, so no two triples give the same text.
    """
    return hmac.digest(secret, f"{holder}\0{incarnation}\0{server}".encode(), "sha256")
