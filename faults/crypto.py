"""Secrets at rest: encrypted with a key derived from the site's secret key."""

from __future__ import annotations

import base64

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from faults.errors import FaultError


def seal(text: str) -> str:
    """Encrypt a text for the database."""
    return _fernet().encrypt(text.encode()).decode("ascii")


def unseal(sealed: str) -> str:
    """Decrypt what ``seal`` made; FaultError where the site's secret key has changed since."""
    try:
        return _fernet().decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise FaultError("A stored secret cannot be read: SECRET_KEY is not the one it was stored with.") from None


def _fernet() -> Fernet:
    derive = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"faultline: cluster credentials")
    return Fernet(base64.urlsafe_b64encode(derive.derive(settings.SECRET_KEY.encode())))
