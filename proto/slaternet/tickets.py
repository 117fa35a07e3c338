"""What follows from the secret of a run, which only its coordinator knows: tickets, the spec's tag, a seed.

All three are HMAC-SHA-256 of different texts, so none tells anything of another, and none need be stored.
"""

import hmac

from slaternet.model import Agents


def ticket(secret: bytes, holder: str, incarnation: int, server: str) -> bytes:
    """Return the 32 bytes with which this incarnation of `holder` opens streams at `server` and nowhere else.

    A process presents it to prove that the coordinator admitted it. Names hold no NUL, so no two triples give the same
    text.
    """
    return hmac.digest(secret, f"{holder}\0{incarnation}\0{server}".encode(), "sha256")


def recall_ticket(key: bytes, host: str, round: int, agents: Agents) -> bytes:
    """Return the 32 bytes with which a host may read the journal of other hosts' agents before a round.

    `key` is the adversary's own ticket at the coordinator, which only these two know.
    """
    return hmac.digest(key, f"recall\0{host}\0{round}\0".encode() + agents.astype("<u4").tobytes(), "sha256")


def spec_tag(secret: bytes, digest: str) -> str:
    """Return the 64 hexadecimal digits by which a process knows the spec of its game again.

    The spec's plain digest would let a host try out what it does not know of the spec.
    """
    return hmac.digest(secret, f"spec {digest}".encode(), "sha256").hex()


def drawn_seed(secret: bytes) -> int:
    """Return the seed of the functions where the spec leaves it to the coordinator; the same after a restart."""
    return int.from_bytes(hmac.digest(secret, b"adversary.seed", "sha256")[:8], "little") >> 1
