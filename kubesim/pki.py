"""kubesim's own certificate authority: a key, a self-signed certificate, and the server certificates it issues."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=3650)
SKEW = timedelta(days=1)  # a clock that is behind ours, or is set back by hours, must still accept the certificate


class PkiError(Exception):
    """A key or certificate on disk cannot be used; the message says which file and what to do."""


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def context(self, folder: Path, clients: bytes = b"") -> ssl.SSLContext:
        """Return a server context; Python's ssl reads files only, so the two lie in ``folder`` (0600).

        ``clients``: the authority (PEM) whose client certificates are accepted; nobody needs to have one.
        """
        path = folder / "server.pem"
        write_private(path, self.key + self.certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(path)
        if clients:
            context.load_verify_locations(cadata=clients.decode())
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


class CertificateAuthority:
    """Issues certificates for the addresses that clients use, and for those only."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, now: datetime) -> CertificateAuthority:
        """Make a new authority, valid for ten years from ``now``."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = name_of("kubernetes")
        others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
        unused = dict.fromkeys((*others, "encipher_only", "decipher_only"), False)
        usage = x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **unused)
        certificate = (
            _builder(name, key.public_key(), now)
            .issuer_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @classmethod
    def at(cls, folder: Path, now: datetime) -> CertificateAuthority:
        """Return the authority kept in ``folder`` (ca.crt, ca.key), making it on the first call."""
        if not (folder / "ca.key").exists():
            authority = cls.create(now)
            authority.save(folder)
            return authority
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> CertificateAuthority:
        """Read ca.key and ca.crt; raises PkiError when one is missing or damaged."""
        try:
            key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
            certificate = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise PkiError(
                f"{folder}: ca.key and ca.crt cannot be read ({error}); restore both or remove both"
            ) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise PkiError(
                f"{folder}/ca.key: an elliptic-curve key is expected; remove ca.key and ca.crt to make one"
            )
        return cls(key, certificate)

    def save(self, folder: Path) -> None:
        """Write ca.crt, and ca.key readable by the owner only."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ca.crt").write_bytes(self.pem)
        write_private(folder / "ca.key", _key_pem(self._key))

    @property
    def pem(self) -> bytes:
        """Return the certificate that clients put into their kubeconfig."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue_server(self, hosts: Sequence[str], now: datetime) -> IssuedCertificate:
        """Issue a certificate for exactly ``hosts`` (names or addresses)."""
        usage, names = ExtendedKeyUsageOID.SERVER_AUTH, [general_name(host) for host in hosts]
        return self.issue(name_of("kube-apiserver"), usage, names, now)

    def issue(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, names: Sequence[x509.GeneralName], now: datetime
    ) -> IssuedCertificate:
        """Issue a certificate with a key of its own; ``names`` are all that it is good for, where there are any."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, key.public_key(), now)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = self.sign(builder)
        return IssuedCertificate(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))

    def sign(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        """Finish a certificate in the making as our own."""
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        named = builder.issuer_name(self._certificate.subject).add_extension(identifier, critical=False)
        return named.sign(self._key, hashes.SHA256())


def name_of(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    """Return a subject: the user's name and groups, as the API server reads them from a client's certificate."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, never visible half-written."""
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _builder(subject: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime) -> x509.CertificateBuilder:
    """Return a certificate in the making, with what every one has."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
    )


def general_name(host: str) -> x509.GeneralName:
    """Return ``host`` as an address where it is one, else as a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as unencrypted PKCS 8."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
