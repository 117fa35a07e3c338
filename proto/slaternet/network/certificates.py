"""Certificates: read and checked when a process starts, and the caller that a certificate names.

A certificate names an identity, never an address, so that a process may run anywhere and move:

    DNS   NAME.slaternet                   verified by a client that dials NAME, at any address
    DNS   ROLE.slaternet
    URI   spiffe://slaternet/ROLE/NAME     the only source of a caller's role and name at a server

`slaternet certs` makes them. Every command imports this module, so grpc and cryptography, 40 ms each, are imported when
they are used.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from slaternet.errors import BadSpec, NotYours, Unknown
from slaternet.limits import LIMITS

if TYPE_CHECKING:
    import grpc
    from cryptography.x509 import Certificate

_log = structlog.get_logger()


class CertificateRole(StrEnum):
    """The roles that certificates grant; host and adversary are named as in `slaternet.model.Role`."""

    COORDINATOR = "coordinator"
    ADVERSARY = "adversary"
    HOST = "host"
    OPERATOR = "operator"


CA = "ca"
"""The folder of the CA, beside the folders of the identities."""

RESERVED = frozenset((*CertificateRole, CA))
"""Names that no host may have, because they belong to other processes or to the CA."""

FILES = ("ca.pem", "cert.pem", "key.pem")
"""The files in the folder of an identity."""

_LOOK_SECONDS = 0.5

_URI = re.compile(rf"spiffe://slaternet/({'|'.join(CertificateRole)})/([a-z0-9][a-z0-9-]{{0,{LIMITS.name_bytes - 1}}})")


# Callers


@dataclass(frozen=True, slots=True)
class Caller:
    """The process that a certificate names."""

    role: str  # a CertificateRole; as a string it can be compared with slaternet.model.Role
    name: str


def identity_of(name: str) -> str:
    """Return the DNS name in the certificate of the process `name`; grpc's target name override."""
    return f"{name}.slaternet"


def uri_of(caller: Caller) -> str:
    """Return the URI by which a certificate names a process."""
    return f"spiffe://slaternet/{caller.role}/{caller.name}"


def caller_of(auth_context: Mapping[str, Iterable[bytes]]) -> Caller | None:
    """Return the caller in a server's `context.auth_context()`; None where it has no certificate.

    Only URIs of the certificate's SAN count. Its subject is free text, and `x509_subject_alternative_name` mixes all
    kinds of names, so that a DNS name could look like a URI.
    """
    if not any(auth_context.get("x509_pem_cert", ())):
        return None
    caller = _named([uri.decode(errors="replace") for uri in auth_context.get("peer_uri", ())])
    if caller is None:
        raise Unknown(
            "the caller's certificate names no process, or several, by a URI spiffe://slaternet/ROLE/NAME; "
            "make it with `slaternet certs`"
        )
    return caller


def _named(uris: Sequence[str]) -> Caller | None:
    """Return the one process that the URIs of a certificate name."""
    found = _URI.fullmatch(uris[0]) if len(uris) == 1 else None
    return None if found is None else Caller(CertificateRole(found[1]), found[2])


# Credentials


@dataclass(frozen=True, slots=True)
class Credentials:
    """The certificate and key of a process, and the CA with which it verifies others."""

    name: str
    role: str
    ca: bytes = field(repr=False)  # PEM, as are the following
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)

    def server(self) -> "grpc.ServerCredentials":
        """Return credentials of a server that requires a certificate of the same CA from every caller."""
        import grpc

        return grpc.ssl_server_credentials([(self.key, self.certificate)], self.ca, require_client_auth=True)

    def channel(self) -> "grpc.ChannelCredentials":
        """Return credentials of a client that requires a certificate of the same CA from the server."""
        import grpc

        return grpc.ssl_channel_credentials(self.ca, self.key, self.certificate)


async def load(folder: Path, name: str) -> Credentials:
    """Wait until the files of `name` are there, with one line in the log; return its credentials as `read` does."""
    missing = _missing(folder / name)
    if missing:
        _log.warning(
            "waiting for certificates",
            missing=", ".join(map(str, missing)),
            remedy=f"make them with `slaternet certs` and copy the folder {name} to {folder}",
        )
    while _missing(folder / name):  # noqa: ASYNC110 - a file that is copied here sets no event
        await asyncio.sleep(_LOOK_SECONDS)
    return read(folder, name)


def read(folder: Path, name: str) -> Credentials:
    """Return the credentials in folder/NAME/{ca,cert,key}.pem.

    BadSpec, one sentence, where a file is missing or unreadable, the certificate is not valid now, not issued by that
    CA or not NAME's, or the key is another's: a handshake would fail later, with a worse message.
    """
    if missing := _missing(folder / name):
        raise BadSpec(
            f"missing: {', '.join(map(str, missing))}; make certificates with `slaternet certs` and copy the folder "
            f"{name} to {folder}"
        )
    ca, certificate, key = (_contents(folder / name / file) for file in FILES)
    try:
        caller = _checked(ca, certificate, key, name)
    except _Flaw as flaw:
        raise BadSpec(
            f"{folder / name / flaw.file} {flaw.what}; delete the folder {name} where the CA is kept, run `slaternet "
            f"certs` there and copy it to {folder / name}"
        ) from None
    return Credentials(caller.name, caller.role, ca, certificate, key)


def operator_of(folder: Path) -> str:
    """Return the identity with which to query a game: operator, or else the first one in `folder`."""
    with suppress(FileNotFoundError, NotADirectoryError):
        found = sorted(
            each.name for each in folder.iterdir() if each.is_dir() and each.name != CA and each.name[0] != "."
        )
        if found:
            return CertificateRole.OPERATOR if CertificateRole.OPERATOR in found else found[0]
    raise BadSpec(f"--tls {folder} holds no identity; copy the folder operator there from where `slaternet certs` ran")


def _missing(folder: Path) -> list[Path]:
    """Return the files that do not exist or are empty, hence about to be written."""
    return [folder / file for file in FILES if not _contents(folder / file)]


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise BadSpec(
            f"{path} cannot be read: {error.strerror}; make it a file that the user of this process may read"
        ) from None


# Checks


class _Flaw(Exception):
    """A fault in one of the three files."""

    def __init__(self, file: str, what: str) -> None:
        super().__init__(what)
        self.file = file
        self.what = what


def _checked(ca: bytes, certificate: bytes, key: bytes, name: str) -> Caller:
    """Return the process that the certificate names, after all other checks."""
    authorities = _certificates("ca.pem", ca)
    own = _certificates("cert.pem", certificate)[0]
    _check_key(own, key)
    issuer = _issuer(own, authorities)
    _check_dates("cert.pem", own)
    _check_dates("ca.pem", issuer)
    return _check_name(own, name)


def _certificates(file: str, pem: bytes) -> "list[Certificate]":
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(pem)
    except (ValueError, x509.InvalidVersion):
        raise _Flaw(file, "is no certificate in PEM") from None


def _check_key(own: "Certificate", pem: bytes) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it asks for a password
        raise _Flaw("key.pem", "is no unencrypted private key in PEM") from None
    try:
        belongs = key.public_key() == own.public_key()
    except (ValueError, UnsupportedAlgorithm):  # that of the certificate is of a kind unknown here
        belongs = False
    if not belongs:
        raise _Flaw("key.pem", "does not belong to the certificate in cert.pem")


def _issuer(own: "Certificate", authorities: "list[Certificate]") -> "Certificate":
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    for authority in authorities:
        with suppress(ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            own.verify_directly_issued_by(authority)
            return authority
    raise _Flaw("cert.pem", "was issued by another CA than the one in ca.pem")


def _check_dates(file: str, certificate: "Certificate") -> None:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    now = datetime.now(UTC)
    if begins <= now <= ends:
        return
    verdict = "has expired" if now > ends else "is not valid yet (or the clock here is wrong)"
    raise _Flaw(file, f"{verdict}: it is valid from {_moment(begins)} to {_moment(ends)}, and now it is {_moment(now)}")


def _moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _check_name(own: "Certificate", name: str) -> Caller:
    from cryptography import x509

    try:
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        names = x509.SubjectAlternativeName([])
    uris, hosts = names.get_values_for_type(x509.UniformResourceIdentifier), names.get_values_for_type(x509.DNSName)
    caller = _named(uris)
    if caller is None or caller.name != name or identity_of(name) not in hosts:
        held = ", ".join((*hosts, *uris)) or "nobody"
        raise _Flaw("cert.pem", f"is for {held}, not for {identity_of(name)} and spiffe://slaternet/ROLE/{name}")
    return caller


@dataclass(frozen=True, slots=True)
class Plain:
    """Connections without TLS: on this machine, or `anywhere` where the operator has set --insecure."""

    anywhere: bool = False


LOOPBACK = Plain()

Security = Credentials | Plain


def require_certificate(caller: Caller | None, role: str, name: str) -> None:
    """Refuse a caller whose certificate names another process; without TLS `caller` is None and is accepted."""
    if caller is not None and caller != Caller(role, name):
        raise NotYours(f"the certificate is that of the {caller.role} {caller.name}, who cannot act as another")
