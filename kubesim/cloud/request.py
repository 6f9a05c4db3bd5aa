"""One request to the cloud API, and what its services have in common."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubesim.auth.users import User
from kubesim.cloud.errors import NOT_SERVED, CloudError
from kubesim.errors import Obj

MAX_TEXT, MAX_ITEMS, MAX_DEPTH = 2048, 256, 12
NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class CloudRequest:
    """A request; ``path`` lies below the service's version and has no slash at its ends."""

    service: str
    method: str
    path: str
    query: Mapping[str, str]
    body: Obj
    user: User
    now: datetime

    def refused(self) -> CloudError:
        """Return the answer to what this API does not do."""
        return CloudError(501, NOT_SERVED.format(method=self.method, path=f"/{self.service}/v1/{self.path[:200]}"))


def number_of(text: str) -> str:
    """Return an identifier of 19 digits, always the same for a text."""
    return str(10**18 + int.from_bytes(hashlib.sha256(text.encode()).digest()[:7]) % 9**18)


def check_value(value: Any, field: str, depth: int = 0) -> None:
    """Raise CloudError for what is too deep, too long or too much."""
    if depth > MAX_DEPTH:
        raise invalid(field, "...", "The message is nested too deeply.")
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise invalid(field, f"{value[:50]}...", f"Must be at most {MAX_TEXT} characters in length.")
    if isinstance(value, dict | list):
        if len(value) > MAX_ITEMS:
            raise invalid(field, "...", f"Must have at most {MAX_ITEMS} entries.")
        for name, below in value.items() if isinstance(value, dict) else enumerate(value):
            check_value(below, f"{field}.{str(name)[:50]}", depth + 1)


def invalid(field: str, value: str, why: str) -> CloudError:
    """Return the refusal of a field's value."""
    return CloudError(400, f"Invalid value for field '{field}': '{value}'. {why}", reason="invalid")


TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,), "flag": (bool,), "number": (int, str), "list": (list,), "object": (dict,), "texts": (list,),
}  # fmt: skip
NO_FIELD = 'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
NO_TYPE = "Invalid value at '{name}' ({kind}), {value}"


def check_fields(body: Obj, known: Mapping[str, str]) -> Obj:
    """Return the fields of a message that are given; raises CloudError for one that is unknown or of another type."""
    for name, value in body.items():
        if name not in known:
            raise CloudError(400, NO_FIELD.format(name=name[:100]))
        kind = known[name]
        right = isinstance(value, TYPES[kind]) and (kind != "number" or not isinstance(value, bool))
        if kind == "texts" and right:
            right = all(isinstance(item, str) for item in value)
        if value is not None and not right:
            raise CloudError(400, NO_TYPE.format(name=name, kind=kind, value=repr(value)[:50]))
    check_value(body, "resource")
    return {name: value for name, value in body.items() if value is not None}
