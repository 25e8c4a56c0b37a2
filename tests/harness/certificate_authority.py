"""A certificate authority of the test's own, for receivers that speak TLS on loopback."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)


class Authority:
    """Issues certificates for names and addresses, and can be trusted or not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = generate_private_key(SECP256R1())
        self._name = _named("the test's authority")
        made = _builder(self._name, self._name, self._key, _DAY)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        made = made.add_extension(_key_usage(signs=True), critical=True)
        self._certificate = made.sign(self._key, SHA256())
        self.file = folder / "authority.pem"
        self.file.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def trust(self) -> ssl.SSLContext:
        """A client's context that trusts this authority alone."""
        return ssl.create_default_context(cafile=str(self.file))

    def server(self, *names: str, lifetime: timedelta = _DAY) -> tuple[ssl.SSLContext, list[str | None]]:
        """A server's context with a certificate for these names or addresses, and the names it is asked for."""
        key = generate_private_key(SECP256R1())
        made = _builder(_named(names[0]), self._name, key, lifetime)
        made = made.add_extension(
            x509.SubjectAlternativeName([_general(name) for name in names]), critical=False
        )
        certificate = made.sign(self._key, SHA256())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file = self._folder / f"server-{certificate.serial_number:x}.pem"
        file.write_bytes(private + certificate.public_bytes(Encoding.PEM))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file)
        asked: list[str | None] = []
        context.sni_callback = lambda _socket, name, _context: asked.append(name)
        return context, asked


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    ends = datetime.now(UTC) + lifetime
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(ends, datetime.now(UTC)) - _DAY)
        .not_valid_after(ends)
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
