"""Addresses HOST:PORT: their syntax, whether they are on loopback, and where others reach us."""

import asyncio
import ipaddress
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from slaternet.errors import BadSpec, Unreachable

_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[\w.-]+):([0-9]{1,5})")
_WILDCARDS = ("0.0.0.0", "[::]")


def check_address(address: str, *, what: str, free: bool = False) -> None:
    """Refuse a text that is no HOST:PORT; port 0 is allowed only with `free`; `what` names the option.

    gRPC would guess: it takes port 443 where there is none, 34463 for 99999, and ::1:7000 for an address alone.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or not (0 if free else 1) <= int(found[1]) <= 65535:
        raise BadSpec(
            f"{what} {address[:80]!r} is no HOST:PORT; write it like 10.0.0.1:7000 or [2001:db8::1]:7000, with a port "
            "up to 65535"
        )


def check_plaintext(address: str, *, insecure: bool, what: str) -> None:
    """Refuse an address off loopback without TLS, unless the user has set --insecure; `what` names the option.

    Any name but localhost is off loopback, and so is a wildcard, which listens on every interface.
    """
    if insecure or is_loopback(address):
        return
    raise BadSpec(
        f"{what} {address} is not on loopback, and without TLS anybody there could read and forge messages; add "
        "--tls DIR (`slaternet certs DIR` makes it), or --insecure where the network is yours alone"
    )


def is_loopback(address: str) -> bool:
    """Return whether HOST:PORT can be reached from this machine alone."""
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0]
    if host.lower() == "localhost":
        return True
    # IPv6 needs brackets: without them gRPC takes the port for the address's last group
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        return (ipaddress.IPv6Address(host[1:-1]) if bracketed else ipaddress.IPv4Address(host)).is_loopback
    except ValueError:
        return False


@contextmanager
def reserved(listen: str) -> Iterator[str]:
    """Reserve a port, a free one for port 0, until a server listens there; BadSpec where it is taken."""
    host, _, port = listen.rpartition(":")
    with ExitStack() as stack:
        try:
            family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
            held = stack.enter_context(socket.socket(family, kind))
            # Linux lets a server listen on a port that is bound like this and has no listener
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(address)
        except OSError:
            raise BadSpec(f"cannot listen on {listen}; choose a free port and an address of this machine") from None
        number = held.getsockname()[1]
        if sys.platform != "linux":
            held.close()
        yield f"{host}:{number}"


async def reachable(listening: str, coordinator: str) -> str:
    """Return the address to tell others: where a wildcard was listened on, the one that faces the coordinator."""
    host, _, port = listening.rpartition(":")
    if host not in _WILDCARDS:
        return listening
    there, _, number = coordinator.rpartition(":")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(there.strip("[]"), int(number), type=socket.SOCK_DGRAM)
        family, kind, _, _, address = found[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # a datagram socket sends nothing by connecting
            here = probe.getsockname()[0]
    except socket.gaierror:
        raise Unreachable(f"{coordinator} does not serve us (its name cannot be resolved); correct the name") from None
    except OSError as error:
        raise Unreachable(
            f"which address faces the coordinator {coordinator} cannot be found out ({error.strerror}); "
            "say with --advertise HOST:PORT where others reach this process"
        ) from None
    return f"[{here}]:{port}" if ":" in here else f"{here}:{port}"
