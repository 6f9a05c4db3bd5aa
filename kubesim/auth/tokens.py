"""Service account tokens: JSON Web Tokens (RFC 7515 to 7519, ES256) in the shape that kube-apiserver issues."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from kubesim.errors import Obj

ISSUER = "https://kubernetes.default.svc.cluster.local"
LEGACY, LEGACY_PREFIX = "kubernetes/serviceaccount", "kubernetes.io/serviceaccount/"
"""Who issued the token in a secret, and how its claims begin."""
IN_SECRETS, OWNER = "kubernetes.io/service-account-token", "kubernetes.io/service-account.name"
"""The type of secrets that such a token lies in, and the annotation that names its account."""
ALGORITHM = "ES256"
BINDABLE = ("pod", "secret", "node")
MOUNTED_S, EXTENDED_S = 3607, 365 * 24 * 3600
"""The lifetime that admission asks for a pod's own token, and that the API server gives it."""
KNOWN_TOKENS = 1024  # how many checked signatures are remembered: each costs a fifth of a millisecond
COORDINATE = 32  # bytes of one P-256 number in a signature (RFC 7518, 3.4)


class InvalidToken(Exception):
    """The bearer token is not one of ours, has expired, or its account is gone."""


class Expired(InvalidToken):
    """The bearer token was one of ours."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says."""

    namespace: str
    name: str
    uid: str
    token_id: str
    expires: datetime
    audiences: tuple[str, ...]
    bound: dict[str, tuple[str, str]]
    """Name and uid of the pod, secret and node that the token ends with, by ``pod``, ``secret`` and ``node``."""
    legacy: bool = False
    """Whether it lies in a secret, and ends when it does no longer."""


class TokenSigner:
    """Signs and checks the tokens of one cluster."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, issuer: str = ISSUER) -> None:
        self._key = key
        self.issuer = issuer
        self._public = key.public_key()
        spki = serialization.PublicFormat.SubjectPublicKeyInfo
        public = self._public.public_bytes(serialization.Encoding.DER, spki)
        self.key_id = _base64(hashlib.sha256(public).digest())
        self._signed_claims = lru_cache(KNOWN_TOKENS)(self._checked_claims)

    @classmethod
    def create(cls, issuer: str = ISSUER) -> TokenSigner:
        """Return a signer with a fresh key."""
        return cls(ec.generate_private_key(ec.SECP256R1()), issuer)

    @classmethod
    def from_pem(cls, pem: bytes, issuer: str = ISSUER) -> TokenSigner:
        """Return the signer whose key is ``pem``; raises ValueError when that is no P-256 key."""
        key = serialization.load_pem_private_key(pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the token key is not an elliptic-curve key")
        return cls(key, issuer)

    @property
    def key(self) -> ec.EllipticCurvePrivateKey:
        """The cluster's private key."""
        return self._key

    def pem(self) -> bytes:
        """Return the private key, for the snapshot."""
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def key_set(self) -> Obj:
        """Return the JSON Web Key Set (RFC 7517) with which others check the tokens."""
        numbers = self._public.public_numbers()
        point = {
            name: _base64(value.to_bytes(COORDINATE, "big")) for name, value in (("x", numbers.x), ("y", numbers.y))
        }
        return {"keys": [{"use": "sig", "kty": "EC", "kid": self.key_id, "alg": ALGORITHM, "crv": "P-256", **point}]}

    def issue(self, account: Obj, audiences: list[str], seconds: int, now: datetime, *bound: Obj) -> str:
        """Return a token for a ServiceAccount object, valid for ``seconds`` while all of ``bound`` are there.

        These are references to a pod, secret or node: kind, name and uid.
        """
        meta = account["metadata"]
        private: Obj = {"namespace": meta["namespace"], "serviceaccount": {"name": meta["name"], "uid": meta["uid"]}}
        for found in bound:
            private[found["kind"].lower()] = {"name": found["name"], "uid": found.get("uid", "")}
        if (
            seconds == MOUNTED_S
            and audiences in ([], [self.issuer])
            and any(found["kind"] == "Pod" for found in bound)
        ):
            private["warnafter"] = int((now + timedelta(seconds=seconds)).timestamp())
            seconds = EXTENDED_S  # as upstream, for programs that read the file once
        claims = {
            "aud": audiences or [self.issuer],
            "exp": int((now + timedelta(seconds=seconds)).timestamp()),
            "iat": int(now.timestamp()),
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": int(now.timestamp()),
            "sub": f"system:serviceaccount:{meta['namespace']}:{meta['name']}",
        }
        return self._signed(claims)

    def issue_legacy(self, account: Obj, secret: str) -> str:
        """Return a token for a ServiceAccount object that is good while it lies in the secret of this name."""
        meta = account["metadata"]
        private = {
            "namespace": meta["namespace"],
            "secret.name": secret,
            "service-account.name": meta["name"],
            "service-account.uid": meta["uid"],
        }
        subject = f"system:serviceaccount:{meta['namespace']}:{meta['name']}"
        claims = {f"{LEGACY_PREFIX}{name}": value for name, value in private.items()}
        return self._signed({"iss": LEGACY, **claims, "sub": subject})

    def static_token(self, user: str) -> str:
        """Return a token that is no ServiceAccount's: known by comparison, and in a form that names the issuer."""
        claims = {"iss": self.issuer, "sub": user}
        return f"{_encode({'alg': ALGORITHM, 'kid': self.key_id})}.{_encode(claims)}.{secrets.token_urlsafe(48)}"

    def _signed(self, claims: Obj) -> str:
        signed = f"{_encode({'alg': ALGORITHM, 'kid': self.key_id})}.{_encode(claims)}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(COORDINATE, "big") + s.to_bytes(COORDINATE, "big")
        return f"{signed}.{_base64(signature)}"

    @staticmethod
    def expiry(now: datetime, seconds: int) -> datetime:
        """Return when a token issued at ``now`` ends."""
        return now + timedelta(seconds=seconds)

    def verify(self, token: str, now: datetime) -> Claims:
        """Return the claims of a token of ours that is valid at ``now``; raises InvalidToken otherwise."""
        claims = self._signed_claims(token)
        try:
            if claims.get("iss") == LEGACY:
                return _legacy(claims, self.issuer, now)
            account = claims["kubernetes.io"]["serviceaccount"]
            expires = datetime.fromtimestamp(claims["exp"], tz=now.tzinfo)
            found = Claims(
                claims["kubernetes.io"]["namespace"],
                account["name"],
                account["uid"],
                claims["jti"],
                expires,
                tuple(claims["aud"]),
                {
                    name: (entry["name"], entry["uid"])
                    for name in BINDABLE
                    if (entry := claims["kubernetes.io"].get(name))
                },
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidToken("the token's claims are incomplete") from error
        if now >= expires:
            raise Expired("service account token has expired")
        return found

    def _checked_claims(self, token: str) -> Obj:
        """Return the payload of a token whose signature is ours."""
        try:
            signed, _, signature = token.rpartition(".")
            raw = _unbase64(signature)
            r, s = int.from_bytes(raw[:COORDINATE], "big"), int.from_bytes(raw[COORDINATE:], "big")
            self._public.verify(encode_dss_signature(r, s), signed.encode(), ec.ECDSA(hashes.SHA256()))
            claims = orjson.loads(_unbase64(signed.split(".")[1]))
        except (InvalidSignature, ValueError, IndexError, binascii.Error) as error:
            raise InvalidToken("invalid bearer token") from error
        if not isinstance(claims, dict):
            raise InvalidToken("invalid bearer token")
        return claims


def _legacy(claims: Obj, audience: str, now: datetime) -> Claims:
    """Return what a token in a secret says: it is for the API server, and has no end of its own."""
    namespace, secret, name, uid = (
        claims[f"{LEGACY_PREFIX}{field}"]
        for field in ("namespace", "secret.name", "service-account.name", "service-account.uid")
    )
    forever = datetime.max.replace(tzinfo=now.tzinfo)
    return Claims(namespace, name, uid, "", forever, (audience,), {"secret": (secret, "")}, legacy=True)


def _encode(value: Obj) -> str:
    """Return JSON as base64url."""
    return _base64(orjson.dumps(value))


def _base64(value: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _unbase64(value: str) -> bytes:
    """Return what ``_base64`` was given."""
    return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
