"""A certificate authority and the certificates of a game's processes; `slaternet.network.certificates` reads them."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from slaternet.codec import wire
from slaternet.errors import BadSpec, Malformed
from slaternet.network import certificates as tls
from slaternet.network.certificates import CA, Caller, CertificateRole

ALWAYS = tuple(
    Caller(office, office.value)
    for office in (CertificateRole.COORDINATOR, CertificateRole.ADVERSARY, CertificateRole.OPERATOR)
)
"""The processes and users that every game has besides its hosts; each has the name of its role."""

Track = Callable[[Sequence[Caller]], Iterable[Caller]]

_CA_DAYS = 3650
_EARLIER = timedelta(hours=1)  # the clocks of a game's machines differ


def make(folder: Path, names: Sequence[str], days: int, track: Track = iter) -> list[str]:
    """Make the CA and the certificates that are missing in `folder`; return the names of the folders made.

    They are for coordinator, adversary, operator and the named hosts, valid for `days` from now. Existing ones are
    kept; BadSpec, one sentence, before anything is made where one cannot be used or a name cannot be a host's. `track`
    may show progress.
    """
    wanted = [*ALWAYS, *(_host(name) for name in dict.fromkeys(names))]
    folder.mkdir(parents=True, exist_ok=True)
    made = [CA] if _lacks_authority(folder) else []
    if made:
        _write(folder / CA, _new_authority(days))
    authority = _authority(folder / CA)
    kept = {each.name for each in wanted if _exists(folder / each.name)}
    missing = [each for each in wanted if each.name not in kept]
    _check_kept(folder, sorted(kept), authority)
    if missing:
        _check_days(folder / CA, authority, days)
    for each in track(missing):
        _write(folder / each.name, _issued(authority, each, days))
        made.append(each.name)
    return made


def _host(name: str) -> Caller:
    try:
        wire.name(name)
    except Malformed as error:
        raise BadSpec(f"{name!r} cannot be a host's name: {error}; choose another, for example agent-1") from None
    if name in tls.RESERVED:
        raise BadSpec(f"{name} cannot be a host's name, because it means something else here; choose another")
    return Caller(CertificateRole.HOST, name)


def _exists(folder: Path) -> bool:
    """Return whether the folder holds something; an empty one may be filled."""
    return folder.is_dir() and any(folder.iterdir())


def _lacks_authority(folder: Path) -> bool:
    # in this order: another process that makes certificates writes its CA first
    orphan = next(folder.glob("*/ca.pem"), None)
    if _exists(folder / CA):
        return False
    if orphan is not None:
        raise BadSpec(
            f"{orphan.parent} is there but not its CA, {folder / CA}, and a new CA would not know it; run this where "
            "that CA is kept, or name another DIR"
        )
    return True


def _check_kept(folder: Path, names: Sequence[str], authority: "Authority") -> None:
    """Refuse to keep certificates that no process can use."""
    flaws = {name: flaw for name in names if (flaw := _flaw(folder, name, authority))}
    if flaws:
        first, *others = flaws
        more = f" (it is the same with {', '.join(others)}, or worse)" if others else ""
        raise BadSpec(flaws[first] + more)


def _flaw(folder: Path, name: str, authority: "Authority") -> str:
    """Return why a certificate is unusable, and the remedy; empty where it is usable."""
    remedy = f"delete {folder / name} and run `slaternet certs` again"
    missing = [file for file in tls.FILES if not (folder / name / file).exists()]
    if missing:
        return f"{folder / name} lacks {' and '.join(missing)}; {remedy}"
    try:
        known = tls.read(folder, name).ca
    except BadSpec as error:
        return str(error)
    return "" if known == authority.pem else f"{folder / name} was made by another CA than {folder / CA}; {remedy}"


def _check_days(folder: Path, authority: "Authority", days: int) -> None:
    """Refuse certificates that would outlive their CA: they expire with it."""
    left = (authority.certificate.not_valid_after_utc - datetime.now(UTC)).days
    if left < 1:
        raise BadSpec(f"the CA in {folder} has expired; delete {folder.parent} and make all certificates anew")
    if days > left:
        raise BadSpec(f"the CA in {folder} is valid for {left} days more; say --days {left}, or name another DIR")


@dataclass(frozen=True, slots=True)
class Authority:
    """The CA of a folder."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        """The certificate in PEM."""
        return self.certificate.public_bytes(Encoding.PEM)


def _authority(folder: Path) -> Authority:
    try:
        certificate = x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes())
        key = load_pem_private_key((folder / "key.pem").read_bytes(), password=None)
        if isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == certificate.public_key():
            return Authority(certificate, key)
    except (FileNotFoundError, ValueError, TypeError, UnsupportedAlgorithm):
        pass
    raise BadSpec(
        f"{folder} does not hold the certificate and the key of a CA; put back cert.pem and key.pem as `slaternet "
        "certs` made them, or name another DIR"
    )


def _new_authority(days: int) -> dict[str, bytes]:
    """Return the files of a new CA; it is valid for years longer than the certificates of its first day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject("slaternet CA")
    usages = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    unused = dict.fromkeys((*usages, "crl_sign", "encipher_only", "decipher_only"), False)
    certificate = (
        _builder(name, name, key, days + _CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(key_cert_sign=True, **unused), critical=True)
        .sign(key, hashes.SHA256())
    )
    return {"key.pem": _pem(key), "cert.pem": certificate.public_bytes(Encoding.PEM)}


def _issued(authority: Authority, caller: Caller, days: int) -> dict[str, bytes]:
    """Return the files of a new certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    hosts = dict.fromkeys((tls.identity_of(caller.name), tls.identity_of(caller.role)))  # equal for a service
    names = [*map(x509.DNSName, hosts), x509.UniformResourceIdentifier(tls.uri_of(caller))]
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if caller.role != CertificateRole.OPERATOR:  # an operator must not be able to pose as a server
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    certificate = (
        _builder(_subject(caller.name), authority.certificate.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return {"ca.pem": authority.pem, "key.pem": _pem(key), "cert.pem": certificate.public_bytes(Encoding.PEM)}


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write a folder of files so that it appears with all of them or not at all: a service may be waiting for it.

    Where another process was faster, its folder stays.
    """
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))  # only the owner may enter it
    try:
        for name, data in contents.items():
            descriptor = os.open(draft / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
        try:
            draft.rename(folder)
        except OSError:
            if not _exists(folder):
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
