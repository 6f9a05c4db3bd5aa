"""Terraform's state, as its backend ``kubernetes`` keeps it: gzip in a Secret, read with limits."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from faults.untrusted_json import load_json

Obj = dict[str, Any]
MAX_PACKED = 1536 * 1024
"""Characters in the Secret: what an API server takes as one object."""
MAX_STATE_BYTES = 1024 * 1024
MAX_RESOURCES = 1000
MAX_WORD = 200
"""Of an address' parts, in characters."""
FORMAT = 4
MANAGED = "managed"
_VERSIONS = {"resource_version", "generation", "etag", "fingerprint"}
"""Attributes that an API counts up with every change, also with those that others make."""


@dataclass(frozen=True, slots=True)
class TerraformState:
    """One version of a state: its number, and what it knows by address; nothing where there is no state."""

    serial: int = 0
    resources: tuple[Obj, ...] = field(default=())
    """Of managed resources alone, each with address, type, name, key and attributes."""
    lineage: str = ""
    """Name of the line of states in which the number counts: who deletes a state begins another."""

    def dump(self) -> Obj:
        """Return it as JSON."""
        return {"serial": self.serial, "resources": list(self.resources)}


def differs(before: Obj, after: Obj) -> bool:
    """Return whether the attributes of a resource say something else, in what its code or a person can change.

    Providers write null where they create a resource, and an empty value where they read it again.
    """
    return bool(_without_noise(before) != _without_noise(after))


def _without_noise(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_noise(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: _without_noise(each) for name, each in value.items() if name not in _VERSIONS}
    return {name: each for name, each in kept.items() if each}


def secret_name(root: str) -> str:
    """Return the name of the Secret that has the state of a root."""
    return f"tfstate-default-{root}"


def lease_name(root: str) -> str:
    """Return the name of the Lease that locks it."""
    return f"lock-{secret_name(root)}"


def read_state(secret: Obj) -> TerraformState:
    """Return the state in a Secret; an empty one where it holds none that can be read, since anybody may write it.

    Nothing is unpacked beyond the limit, so that a bomb costs no more than a state.
    """
    try:
        packed = (secret.get("data") or {})["tfstate"]
        if len(packed) > MAX_PACKED:
            return TerraformState()
        text = zlib.decompressobj(wbits=31).decompress(base64.b64decode(packed), MAX_STATE_BYTES)
        document = load_json(text)
        if document["version"] != FORMAT:
            return TerraformState()
        resources = tuple(islice(_resources(document), MAX_RESOURCES))
        return TerraformState(_serial(document), resources, _word(document.get("lineage", "")))
    except (KeyError, TypeError, ValueError, AttributeError, zlib.error, binascii.Error):
        return TerraformState()


def _serial(document: Obj) -> int:
    serial = document["serial"]
    if type(serial) is not int or serial < 0:
        raise ValueError("a serial is a whole number")
    return serial


def _word(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_WORD:
        raise ValueError("no part of an address")
    return value


def _attributes(instance: Obj) -> Obj:
    found: Any = instance["attributes"]
    if not isinstance(found, dict):
        raise ValueError("attributes have names")
    return found


def _resources(document: Obj) -> Iterator[Obj]:
    for resource in document["resources"]:
        if resource.get("mode", MANAGED) != MANAGED:
            continue
        kind, name = _word(resource["type"]), _word(resource["name"])
        base = ".".join(filter(None, (_word(resource.get("module", "")), kind, name)))
        for instance in resource["instances"]:
            key = instance.get("index_key")
            text = "" if key is None else str(key) if type(key) is int else _word(key)
            yield {
                "address": base + ("" if key is None else f"[{json.dumps(key)}]"),
                "type": kind,
                "name": name,
                "key": text,
                "attributes": _attributes(instance),
            }
