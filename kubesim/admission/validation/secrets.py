"""What the types of secrets ask for."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator

from kubesim.admission.validation.rules import Place, check
from kubesim.api import gojson
from kubesim.api.status import FieldError, invalid_value, required
from kubesim.auth.tokens import IN_SECRETS, OWNER
from kubesim.errors import Obj

REDACTED = "<secret contents redacted>"


@check
def typed(secret: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A secret of a known type has what that needs."""
    ask = TYPES.get(secret.get("type", ""))
    return ask(secret) if ask is not None else iter(())


def _token(secret: Obj) -> Iterator[FieldError]:
    if not (secret["metadata"].get("annotations") or {}).get(OWNER):
        yield required(f"metadata.annotations[{OWNER}]")


def _json(key: str) -> Callable[[Obj], Iterator[FieldError]]:
    def ask(secret: Obj) -> Iterator[FieldError]:
        text = secret.get("data", {}).get(key)
        if text is None:
            yield required(f"data[{key}]")
        elif why := gojson.object_error(base64.b64decode(text)):
            yield invalid_value(f"data[{key}]", REDACTED, why)

    return ask


def _keys(*keys: str, one: bool = False) -> Callable[[Obj], Iterator[FieldError]]:
    def ask(secret: Obj) -> Iterator[FieldError]:
        missing = [key for key in keys if key not in secret.get("data", {})]
        if missing and not (one and len(missing) < len(keys)):
            yield from (required(f"data[{key}]") for key in missing)

    return ask


def _filled(key: str) -> Callable[[Obj], Iterator[FieldError]]:
    def ask(secret: Obj) -> Iterator[FieldError]:
        if not secret.get("data", {}).get(key):
            yield required(f"data[{key}]")

    return ask


TYPES: dict[str, Callable[[Obj], Iterator[FieldError]]] = {
    IN_SECRETS: _token,
    "kubernetes.io/dockercfg": _json(".dockercfg"),
    "kubernetes.io/dockerconfigjson": _json(".dockerconfigjson"),
    "kubernetes.io/basic-auth": _keys("username", "password", one=True),
    "kubernetes.io/ssh-auth": _filled("ssh-privatekey"),
    "kubernetes.io/tls": _keys("tls.crt", "tls.key"),
}
