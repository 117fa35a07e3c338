"""What secures the connections of a process, and who may speak for whom."""

from dataclasses import dataclass

from slaternet.errors import NotYours
from slaternet.tls import Caller, Credentials


@dataclass(frozen=True, slots=True)
class Plain:
    """Connections without TLS: on this machine, or `anywhere` where the operator has said so aloud."""

    anywhere: bool = False


LOOPBACK = Plain()

Security = Credentials | Plain


def vouch(caller: Caller | None, role: str, name: str) -> None:
    """Refuse a caller whose certificate is another's: a message never grants, and without TLS there is none to ask."""
    if caller is not None and caller != Caller(role, name):
        raise NotYours(f"the certificate is that of the {caller.role} {caller.name}, who cannot act as another")
