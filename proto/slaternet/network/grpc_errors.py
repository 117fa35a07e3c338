"""Errors as gRPC statuses, and back: an error raised at one end of a call is raised again at the other."""

import re
from collections.abc import Iterable
from typing import NoReturn

import grpc
import grpc.aio
import structlog

from slaternet import errors
from slaternet.errors import BadSpec, Mismatch, OverBudget, RunFailed, SlaternetError, Unreachable
from slaternet.texts import cleaned

log = structlog.get_logger(__name__)

INTERNAL = "internal error"
"""The only text that a peer receives about our own faults."""

_ERROR_KEY = "slaternet-error"
_TYPED: dict[str, type[SlaternetError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, SlaternetError) and kind not in (SlaternetError, BadSpec, RunFailed)
}
# Statuses that gRPC itself sets.
_UNTYPED: dict[grpc.StatusCode, tuple[type[SlaternetError], str]] = {
    grpc.StatusCode.UNAVAILABLE: (Unreachable, "start the process there, or correct the address"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (Unreachable, "see whether it is stuck, or a firewall in between"),
    grpc.StatusCode.INTERNAL: (SlaternetError, "see its log"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (OverBudget, "send less"),
    grpc.StatusCode.UNIMPLEMENTED: (Mismatch, "give the address of the right service, of this version"),
}
# A message that is too large never succeeds; any other exhausted resource, such as free calls, may recover.
_TOO_LARGE = re.compile(r"larger than max|metadata size")
# Why a connection fails: a pattern in gRPC's text, the reason, the remedy.
_REASONS: tuple[tuple[str, str, str], ...] = (
    (r"errors resolving|[Dd]omain name not found", "its name cannot be resolved", "correct the name"),
    # an attempt that is given up may be reported as shut down or reset; both also match patterns of TLS below
    (r"(?i)timed out|timeout|shutdown|SO_ERROR\): .* reset", "timed out", "see whether a firewall is in between"),
    (r"oo many pending requests", "it has too many callers", "try later, and see who else calls it"),
    (r"Stream removed", "the connection broke off", "see its log, and whether it still runs"),
    (r"Hostname Verification", "its certificate is of another name", "correct the address"),
    (r"certificate has expired", "its certificate has expired", "make a new one with `slaternet certs`"),
    (r"WRONG_VERSION_NUMBER", "it does not speak TLS", "start it with --tls"),
    (r"[Tt]ls handshake failed|CERTIFICATE", "its certificate is not of our CA", "use certificates of one CA"),
    (r"Secure read failed", "it does not accept our certificate", "see its log, and use certificates of one CA"),
    (r"Socket closed", "it closed the connection", "see its log: one of us may want TLS, or another certificate"),
    (r"parsing HTTP/2", "it is no process of a game", "correct the address"),
    (r"onnection refused", "connection refused", "start the process there, or correct the address"),
    (r"unreachable|No route", "no route to it", "see whether the network is up"),
)


async def abort(context: "grpc.aio.ServicerContext[bytes, bytes]", error: SlaternetError) -> NoReturn:
    """End the call with the status of `error`; the text of an internal error goes only to our log."""
    code = grpc.StatusCode[error.status]
    typed = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _TYPED), "")
    details = cleaned(str(error))
    if code is grpc.StatusCode.INTERNAL:
        log.error("a call failed", error=str(error), kind=type(error).__name__)
        details = INTERNAL
    await context.abort(code, details, ((_ERROR_KEY, typed),) if typed else ())


def error_of(
    code: grpc.StatusCode, details: str | None, metadata: Iterable[tuple[str, str | bytes]] | None, address: str
) -> SlaternetError:
    """Return the error that a gRPC status represents."""
    for key, value in metadata or ():
        if key == _ERROR_KEY and value in _TYPED:
            return _TYPED[str(value)](cleaned(details or "") or INTERNAL)
    if code is grpc.StatusCode.INTERNAL and details != INTERNAL:
        code = grpc.StatusCode.UNKNOWN  # not a handler's fault but a broken stream
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and not _TOO_LARGE.search(details or ""):
        code = grpc.StatusCode.UNAVAILABLE
    kind, remedy = _UNTYPED.get(code, (Unreachable, "see its log"))
    late = code is grpc.StatusCode.DEADLINE_EXCEEDED
    reason = "timed out" if late else (details or code.name).rsplit(": ", 1)[-1].rstrip(".")
    if code is grpc.StatusCode.UNAVAILABLE:
        known = (each for each in _REASONS if re.search(each[0], details or ""))
        _, reason, remedy = next(known, ("", reason, remedy))
    return kind(f"{address} does not serve us ({cleaned(reason)}); {remedy}")
