"""Certificates of any kind, above all of those that `slaternet certs` would not make."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from slaternet.network.certificates import Credentials

DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Forger:
    """Whoever holds the key of a CA."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def holding(cls, folder: Path) -> "Forger":
        """Return one with the key in folder/ca."""
        key = load_pem_private_key((folder / "ca" / "key.pem").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(key, x509.load_pem_x509_certificate((folder / "ca" / "cert.pem").read_bytes()))

    @classmethod
    def posing_as(cls, other: "Forger", begins: dt.timedelta = -DAY, ends: dt.timedelta = DAY) -> "Forger":
        """Return one whose CA is called like another's and has another key."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(other.certificate.subject, other.certificate.subject, key, begins, ends)
        authority = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return cls(key, authority.sign(key, hashes.SHA256()))

    def credentials(
        self,
        name: str,
        *,
        role: str = "host",
        names: Sequence[x509.GeneralName] | None = None,
        begins: dt.timedelta = -DAY,
        ends: dt.timedelta = DAY,
        purposes: Sequence[x509.ObjectIdentifier] = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH),
    ) -> Credentials:
        """Return a certificate that begins and ends so long from now; the names are those that belong to it."""
        key = ec.generate_private_key(ec.SECP256R1())
        if names is None:
            names = [
                x509.DNSName(f"{name}.slaternet"),
                x509.UniformResourceIdentifier(f"spiffe://slaternet/{role}/{name}"),
            ]
        builder = _builder(_subject(name), self.certificate.subject, key, begins, ends)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return Credentials(name, role, self.authority, certificate.public_bytes(Encoding.PEM), pem)

    @property
    def authority(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)


def write(folder: Path, credentials: Credentials) -> None:
    """Write credentials where a process looks for them."""
    place = folder / credentials.name
    place.mkdir(parents=True, exist_ok=True)
    (place / "ca.pem").write_bytes(credentials.ca)
    (place / "key.pem").write_bytes(credentials.key)
    (place / "cert.pem").write_bytes(credentials.certificate)


def _subject(name: str) -> x509.Name:
    # a longer name than the standard allows is none that the library would write
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begins: dt.timedelta,
    ends: dt.timedelta,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
    )
