"""A certificate authority for one test."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.now(UTC)


class Authority:
    """A certificate authority; *directory* is where the servers' files go."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Test authority")
        self._certificate = (
            _builder(name, name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def file(self) -> Path:
        """A file with its certificate, for whoever is to trust it."""
        file = self._directory / "authority.pem"
        file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        return file

    def client(self) -> ssl.SSLContext:
        """What trusts this authority and nobody else."""
        pem = self._certificate.public_bytes(serialization.Encoding.PEM).decode()
        return ssl.create_default_context(cadata=pem)

    def server(self, name: str, *, ended: timedelta = -timedelta(days=1)) -> ssl.SSLContext:
        """A server's context with a certificate for *name* that *ended* so long ago."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.issue(name, ended=ended))
        return context

    def issue(self, name: str, *, ended: timedelta = -timedelta(days=1)) -> Path:
        """A file with such a certificate, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        known_as: x509.GeneralName = x509.DNSName(name)
        if name[0].isdigit():
            known_as = x509.IPAddress(ip_address(name))
        certificate = (
            _builder(_name(name), self._certificate.subject, key, NOW - ended)
            .add_extension(x509.SubjectAlternativeName([known_as]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        file = self._directory / "server.pem"
        encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        file.write_bytes(
            key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
            + certificate.public_bytes(encoding)
        )
        return file


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    ends: datetime = NOW + timedelta(days=1),
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=30))
        .not_valid_after(ends)
    )
