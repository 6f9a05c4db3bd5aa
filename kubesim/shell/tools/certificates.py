"""openssl, as far as people look at certificates with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kubesim.shell.errors import FileError
from kubesim.shell.machine import Process, Tool

VERSION = "OpenSSL 3.0.15 3 Sep 2024 (Library: OpenSSL 3.0.15 3 Sep 2024)"
SHORT = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C",
         "localityName": "L", "stateOrProvinceName": "ST"}  # fmt: skip
VALUED = ("-in", "-out", "-checkend", "-inform", "-outform", "-nameopt", "-checkhost", "-ext")


async def openssl(process: Process) -> int:
    """Show a certificate, or the version."""
    words = process.argv[1:]
    if words[:1] == ["version"]:
        await process.write(VERSION + "\n")
        return 0
    if words[:1] != ["x509"]:
        shown = words[0] if words else "help"
        await process.error(f"Invalid command '{shown}'; type \"help\" for a list.\n")
        return 1
    return await _x509(process, words[1:])


async def _x509(process: Process, words: list[str]) -> int:
    given: dict[str, str] = {}
    asked: list[str] = []
    while words:
        word = words.pop(0)
        if word in VALUED:
            given[word] = words.pop(0) if words else ""
        else:
            asked.append(word.removeprefix("-"))
    try:
        data = process.view.read(given["-in"]) if "-in" in given else await _typed(process)
    except FileError as error:
        await process.error(
            f"Could not open file or uri for loading certificate from {given['-in']}\n{error.text}\n"
            "Unable to load certificate\n"
        )
        return 1
    try:
        found = x509.load_pem_x509_certificate(data)
    except ValueError:
        source = given.get("-in", "<stdin>")
        await process.error(f"Could not read certificate from {source}\nUnable to load certificate\n")
        return 1
    await process.write("".join(_part(found, word) for word in asked))
    if "-checkend" in given:
        ends = found.not_valid_after_utc
        late = ends <= process.machine.clock.now().astimezone(UTC) + timedelta(seconds=_whole(given["-checkend"]))
        await process.write(f"Certificate will {'' if late else 'not '}expire\n")
        return int(late)
    if "noout" not in asked:
        await process.write(found.public_bytes(serialization.Encoding.PEM).decode())
    return 0


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


async def _typed(process: Process) -> bytes:
    data = bytearray()
    while len(data) < 1 << 20 and (piece := await process.read(65_536, 0)):
        data += piece
    return bytes(data)


def _part(found: x509.Certificate, word: str) -> str:
    """Return what one flag asks of a certificate."""
    if word == "text":
        return _text(found)
    if word in ("subject", "issuer"):
        return f"{word}={_name(found.subject if word == 'subject' else found.issuer)}\n"
    begins, ends = (
        f"notBefore={_when(found.not_valid_before_utc)}\n",
        f"notAfter={_when(found.not_valid_after_utc)}\n",
    )
    if word in ("dates", "startdate", "enddate"):
        return {"dates": begins + ends, "startdate": begins, "enddate": ends}[word]
    if word == "serial":
        return f"serial={_serial(found).upper()}\n"
    if word == "fingerprint":
        return f"SHA1 Fingerprint={found.fingerprint(hashes.SHA1()).hex(':').upper()}\n"  # noqa: S303
    if word == "pubkey":
        return (
            found.public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            .decode()
        )
    return ""


def _serial(found: x509.Certificate) -> str:
    text = f"{found.serial_number:x}"
    return text if len(text) % 2 == 0 else f"0{text}"


def _when(moment: datetime) -> str:
    return f"{moment:%b} {moment.day:2d} {moment:%H:%M:%S %Y} GMT"


def _name(name: x509.Name) -> str:
    parts = []
    for each in name:
        kind = getattr(each.oid, "_name", "")
        parts.append(f"{SHORT.get(kind, kind)} = {each.value!s}")
    return ", ".join(parts)


def _key(found: x509.Certificate) -> str:
    key, space = found.public_key(), " " * 12
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        size = key.key_size
        modulus = numbers.n.to_bytes(size // 8 + 1, "big")
        rows = [modulus[at : at + 15].hex(":") for at in range(0, len(modulus), 15)]
        lines = (":\n" + space + "        ").join(rows)
        return (
            f"{space}Public Key Algorithm: rsaEncryption\n{space}    Public-Key: ({size} bit)\n{space}    Modulus:\n"
            f"{space}        {lines}\n{space}    Exponent: {numbers.e} ({numbers.e:#x})\n"
        )
    if isinstance(key, ec.EllipticCurvePublicKey):
        point = key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
        rows = [point[at : at + 15].hex(":") for at in range(0, len(point), 15)]
        lines = (":\n" + space + "        ").join(rows)
        name = {"secp256r1": "prime256v1"}.get(key.curve.name, key.curve.name)
        nist = {"prime256v1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}.get(name, "")
        return (
            f"{space}Public Key Algorithm: id-ecPublicKey\n{space}    Public-Key: ({key.key_size} bit)\n"
            f"{space}    pub:\n"
            f"{space}        {lines}\n{space}    ASN1 OID: {name}\n"
            + (f"{space}    NIST CURVE: {nist}\n" if nist else "")
        )
    return f"{space}Public Key Algorithm: ED25519\n"


def _extensions(found: x509.Certificate) -> str:
    out = ""
    for each in found.extensions:
        title, text = _extension(each.value)
        if title:
            out += f"            {title}: {'critical' if each.critical else ''}\n                {text}\n"
    return f"        X509v3 extensions:\n{out}" if out else ""


USAGES = (
    ("digital_signature", "Digital Signature"), ("content_commitment", "Non Repudiation"),
    ("key_encipherment", "Key Encipherment"), ("data_encipherment", "Data Encipherment"),
    ("key_agreement", "Key Agreement"), ("key_cert_sign", "Certificate Sign"), ("crl_sign", "CRL Sign"),
)  # fmt: skip
PURPOSES = {"serverAuth": "TLS Web Server Authentication", "clientAuth": "TLS Web Client Authentication"}


def _extension(value: x509.ExtensionType) -> tuple[str, str]:
    if isinstance(value, x509.KeyUsage):
        return "X509v3 Key Usage", ", ".join(title for key, title in USAGES if getattr(value, key))
    if isinstance(value, x509.ExtendedKeyUsage):
        names = [str(getattr(each, "_name", each.dotted_string)) for each in value]
        return "X509v3 Extended Key Usage", ", ".join(PURPOSES.get(name, name) for name in names)
    if isinstance(value, x509.BasicConstraints):
        depth = f", pathlen:{value.path_length}" if value.path_length is not None else ""
        return "X509v3 Basic Constraints", f"CA:{str(value.ca).upper()}{depth}"
    if isinstance(value, x509.SubjectKeyIdentifier):
        return "X509v3 Subject Key Identifier", value.digest.hex(":").upper()
    if isinstance(value, x509.AuthorityKeyIdentifier):
        return "X509v3 Authority Key Identifier", (value.key_identifier or b"").hex(":").upper()
    if isinstance(value, x509.SubjectAlternativeName):
        kinds = ((x509.DNSName, "DNS"), (x509.IPAddress, "IP Address"), (x509.UniformResourceIdentifier, "URI"))
        shown = [f"{title}:{each.value}" for each in value for kind, title in kinds if isinstance(each, kind)]
        return "X509v3 Subject Alternative Name", ", ".join(shown)
    return "", ""


def _text(found: x509.Certificate) -> str:
    number = found.serial_number
    short = (
        f" {number} ({number:#x})" if number < 1 << 63 else f"\n            {bytes.fromhex(_serial(found)).hex(':')}"
    )
    algorithm = getattr(found.signature_algorithm_oid, "_name", found.signature_algorithm_oid.dotted_string)
    signature = [found.signature[at : at + 18].hex(":") for at in range(0, len(found.signature), 18)]
    lines = ":\n        ".join(signature)
    return (
        f"Certificate:\n    Data:\n        Version: 3 (0x2)\n        Serial Number:{short}\n"
        f"        Signature Algorithm: {algorithm}\n        Issuer: {_name(found.issuer)}\n        Validity\n"
        f"            Not Before: {_when(found.not_valid_before_utc)}\n"
        f"            Not After : {_when(found.not_valid_after_utc)}\n        Subject: {_name(found.subject)}\n"
        f"        Subject Public Key Info:\n{_key(found)}{_extensions(found)}"
        f"    Signature Algorithm: {algorithm}\n    Signature Value:\n        {lines}\n"
    )


TOOLS: dict[str, Tool] = {"openssl": openssl}
