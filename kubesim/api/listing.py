"""Lists at a resourceVersion and in pages: what the query may say, and the snapshot that it means.

A page continues the list of the moment in which its first page was read. That moment lives as long as the store's
history reaches back to it, and no longer than the API server's own compaction lets it (``LIFETIME``).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson

from kubesim.api.negotiate import parse_int
from kubesim.api.operations import Operations
from kubesim.api.status import TEXTS, bad_request
from kubesim.client import ObjectList
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind
from kubesim.store import key_of

TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - a version
LIFETIME = timedelta(minutes=10)
INCONSISTENT = -1
NUMBER = re.compile(r"\d{1,19}")
OLD_PAGE = TEXTS["old page"]
OLD_LIST = "The resourceVersion for the provided list is too old."


@dataclass(frozen=True, slots=True)
class Token:
    """Where a list goes on: after ``start`` (namespace, name), in the state of ``version`` (or the present one)."""

    version: int
    start: tuple[str, str]
    issued: float

    def text(self) -> str:
        """Return it as the client sends it back."""
        claims = {"v": TOKEN_VERSION, "rv": self.version, "start": "/".join(self.start) + "\0", "at": self.issued}
        return base64.urlsafe_b64encode(orjson.dumps(claims)).decode().rstrip("=")


def listed(ops: Operations, kind: Kind, namespace: str, query: Mapping[str, str]) -> tuple[ObjectList, Obj]:
    """Return a list and its metadata. Raises 400, 410, 422 or 504 for what the query says of version or page."""
    parse_int("timeoutSeconds", query.get("timeoutSeconds", ""))
    limit, token, version = _limit(query), _token(query), _snapshot(query)
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if token is not None:
        if query.get("resourceVersion", "") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        version = _checked(token, ops.clock.now())
    if query.get("resourceVersion") == "0":
        limit = 0
    _check_reached(ops, query.get("resourceVersion", ""))
    found = _read(ops, kind, namespace, labels, fields, version, token)
    items = found.items if token is None else [obj for obj in found.items if key_of(obj) > token.start]
    meta: Obj = {"resourceVersion": found.resource_version}
    if 0 < limit < len(items):
        last = key_of(items[limit - 1])
        meta["continue"] = Token(int(found.resource_version), last, ops.clock.now().timestamp()).text()
        if not labels and not fields:
            meta["remainingItemCount"] = len(items) - limit
        items = items[:limit]
    return ObjectList(items, found.resource_version), meta


def check_version(ops: Operations, text: str) -> None:
    """Check the resourceVersion of a GET: raises 400 for no number, 504 for one that is not reached yet."""
    check_number(text)
    _check_reached(ops, text)


def check_list_version(text: str) -> None:
    """Raise 400 for a resourceVersion of a list that is no number."""
    if text and not NUMBER.fullmatch(text):
        raise bad_request(f"invalid resource version: {_not_a_number(text)}")


def check_number(text: str) -> None:
    """Raise 400 (upstream: a 500 of these words) for a resourceVersion of a GET or watch that is no number."""
    if text and not NUMBER.fullmatch(text):
        raise bad_request(_not_a_number(text))


def _limit(query: Mapping[str, str]) -> int:
    return parse_int("limit", query.get("limit", "")) or 0


def _snapshot(query: Mapping[str, str]) -> int | None:
    """Return the version whose state is asked for, or None for the present one."""
    text, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if text and not NUMBER.fullmatch(text):
        raise bad_request("invalid resource version: " + _not_a_number(text))
    exact = match == "Exact" or (not match and _limit(query) > 0 and not query.get("continue"))
    return int(text) if exact and text not in ("", "0") else None


def _not_a_number(text: str) -> str:
    return f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'


def _check_reached(ops: Operations, text: str) -> None:
    """Raise 504 for a version that does not exist yet."""
    current = ops.store.resource_version
    if text and int(text) > current:
        message = f"Timeout: Too large resource version: {text}, current: {current}"
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        raise ApiError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})


def _read(
    ops: Operations, kind: Kind, namespace: str, labels: str, fields: str, version: int | None, token: Token | None
) -> ObjectList:
    """Return everything that is selected, in the state of ``version``. Raises 410 where that is forgotten."""
    try:
        return ops.list(kind, namespace, label_selector=labels, field_selector=fields, version=version)
    except ApiError as error:
        if error.reason != "Expired":
            raise
        raise (ApiError(410, "Expired", OLD_LIST) if token is None else _old(token)) from error


def _checked(token: Token, now: datetime) -> int | None:
    """Return the version of a token's list. Raises 410 for a token that is too old."""
    if token.version == INCONSISTENT:
        return None
    if now.timestamp() - token.issued > LIFETIME.total_seconds():
        raise _old(token)
    return token.version


def _old(token: Token) -> ApiError:
    """Return the 410 of a token whose moment is forgotten; it carries another that goes on in the present."""
    again = Token(INCONSISTENT, token.start, token.issued)
    return ApiError(410, "Expired", OLD_PAGE, metadata={"continue": again.text()})


def _token(query: Mapping[str, str]) -> Token | None:
    """Read the query's token; raises 400 for one that is not ours."""
    text = query.get("continue", "")
    if not text:
        return None
    if wrong := re.search(r"[^A-Za-z0-9_-]", text):  # upstream's tokens are not padded either
        raise _bad_token(f"illegal base64 data at input byte {wrong.start()}")
    if len(text) % 4 == 1:
        raise _bad_token(f"illegal base64 data at input byte {len(text) - 1}")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if raw[:1] not in (b"{", b"") and raw != b"null":
            raise _bad_token(f"invalid character {_go_rune(raw[0])} looking for beginning of value")
        claims = orjson.loads(raw) or {}
        if claims.get("v") != TOKEN_VERSION:
            raise _bad_token(f"server does not recognize this encoded version {claims.get('v', '')}")
        namespace, _, name = str(claims["start"]).removesuffix("\0").partition("/")
        version, issued = int(claims["rv"]), float(claims.get("at", 0))
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise _bad_token(str(error)) from error
    if version == 0:
        raise _bad_token(f"incorrect encoded start resourceVersion (version {TOKEN_VERSION})")
    return Token(version, (namespace, name), issued)


def _go_rune(byte: int) -> str:
    """Return a byte as Go quotes it."""
    return repr(chr(byte)) if 32 <= byte < 127 else f"'\\u{byte:04x}'"


def _bad_token(why: str) -> ApiError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
