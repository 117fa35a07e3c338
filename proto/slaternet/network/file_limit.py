"""How many connections a server accepts: every one is an open file, of which a process may have only so many."""

import sys
from contextlib import suppress

from slaternet.limits import LIMITS, Limits

if sys.platform != "win32":
    import resource


def raise_file_limit() -> None:
    """Let this process open all the files that its server may need, as far as the system's hard limit allows."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = LIMITS.files + LIMITS.connections + _known(LIMITS.hosts)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            reachable = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            with suppress(ValueError, OSError):  # macOS has a limit of its own below the hard one
                resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))


def connections_at_once(hosts: int, limits: Limits) -> int:
    """Return how many connections a server for that many hosts accepts at the same time.

    gRPC counts a connection from the moment it is accepted, before any handshake. So there is room for many that say
    nothing and are closed after `opening_seconds`, but never for so many that this process can open no files any more.
    """
    known = _known(hosts)
    if sys.platform == "win32":
        return known + limits.connections
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = limits.connections if soft == resource.RLIM_INFINITY else soft - limits.files - known
    return known + max(0, min(limits.connections, spare))


def _known(hosts: int) -> int:
    """Return how many connections that many hosts may have: each has three, and may be dialling anew."""
    return 4 * hosts + 16
