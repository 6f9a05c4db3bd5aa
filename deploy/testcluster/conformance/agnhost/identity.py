"""``agnhost test-service-account-issuer-discovery``: checks a mounted token with what its issuer publishes."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from kubesim.shell.errors import REASONS, FileError, NetworkError
from kubesim.shell.machine import Process
from kubesim.times import nano

CONFIGURATION = "/.well-known/openid-configuration"


class Unproved(Exception):
    """The token is not proved to be its issuer's."""


async def issuer_discovery(process: Process, given: dict[str, str]) -> int:
    """Check the token at ``--token-path`` for ``--audience``."""
    path = given.get("token-path", "")
    try:
        token = process.view.read(path).decode("ascii", "replace")
    except FileError:
        return await _log(process, f"open {path}: no such file or directory", 1)
    await _log(process, "OK: Got token")
    await _log(process, "validating with in-cluster discovery")
    try:
        await _validate(process, token, given.get("audience", ""))
    except Unproved as error:
        return await _log(process, f"failed to validate with in-cluster discovery: {error}", 1)
    return 0


async def _log(process: Process, text: str, status: int = 0) -> int:
    stamp = nano(process.machine.clock.now())[:19].replace("-", "/").replace("T", " ")
    await process.error(f"{stamp} {text}\n")
    return status


async def _validate(process: Process, token: str, audience: str) -> None:
    """Find the issuer's keys and check the token with them. Raises Unproved."""
    try:
        head, body, signature = token.split(".")
        header, claims = orjson.loads(_bytes(head)), orjson.loads(_bytes(body))
        issuer = str(claims["iss"])
    except (ValueError, KeyError, TypeError) as error:
        raise Unproved(f"oidc: malformed jwt: {error}") from error
    await _log(process, f"OK: got issuer {issuer}")
    configuration = await _document(process, issuer.rstrip("/") + CONFIGURATION)
    if configuration.get("issuer") != issuer:
        found = configuration.get("issuer")
        raise Unproved(
            f'oidc: issuer did not match the issuer returned by provider, expected "{issuer}" got "{found}"'
        )
    await _log(process, f"OK: Constructed OIDC provider for issuer {issuer}")
    keys = await _document(process, str(configuration.get("jwks_uri", "")))
    if not any(_signed(key, header, f"{head}.{body}".encode(), signature) for key in keys.get("keys") or ()):
        raise Unproved("failed to verify signature: failed to verify id token signature")
    if audience not in claims.get("aud", ()):
        raise Unproved(f'oidc: expected audience "{audience}" got {claims.get("aud")}')
    await _log(process, "OK: Validated signature on JWT")
    await _log(process, "OK: Got valid claims from token!")


async def _document(process: Process, url: str) -> dict[str, Any]:
    """Fetch a JSON document with the pod's own credentials. Raises Unproved."""
    try:
        own = process.view.read("/var/run/secrets/kubernetes.io/serviceaccount/token").decode().strip()
        network = process.machine.network
        if network is None:
            raise NetworkError("unreachable")
        status, _, body = await network.http("GET", url, {"authorization": f"Bearer {own}"}, b"")
        document = orjson.loads(body)
    except NetworkError as error:
        raise Unproved(f'Get "{url}": {REASONS[error.kind]}') from error
    except (FileError, orjson.JSONDecodeError) as error:
        raise Unproved(f'Get "{url}": {error}') from error
    if status != 200 or not isinstance(document, dict):
        raise Unproved(f"{status}: {body.decode('utf-8', 'replace')}")
    return document


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _signed(key: dict[str, Any], header: dict[str, Any], signed: bytes, signature: str) -> bool:
    """Tell whether a published key has signed this."""
    try:
        x, y = (int.from_bytes(_bytes(str(key[name])), "big") for name in ("x", "y"))
        raw = _bytes(signature)
        public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
        half = len(raw) // 2
        parts = int.from_bytes(raw[:half], "big"), int.from_bytes(raw[half:], "big")
        public.verify(encode_dss_signature(*parts), signed, ec.ECDSA(hashes.SHA256()))
    except (KeyError, ValueError, binascii.Error, InvalidSignature):
        return False
    return bool(key.get("kid") == header.get("kid"))
