"""Terraform's state, as its backend ``kubernetes`` keeps it: gzip in a Secret, read with limits."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]
MAX_STATE_BYTES = 4 * 1024 * 1024
MAX_RESOURCES = 1000
FORMAT = 4
MANAGED = "managed"


@dataclass(frozen=True, slots=True)
class TerraformState:
    """One version of a state: its number, and what it knows by address; nothing where there is no state."""

    serial: int = 0
    resources: tuple[Obj, ...] = field(default=())
    """Of managed resources alone, each with address, type, name, key and attributes."""

    def dump(self) -> Obj:
        """Return it as JSON."""
        return {"serial": self.serial, "resources": list(self.resources)}


def secret_name(root: str) -> str:
    """Return the name of the Secret that has the state of a root."""
    return f"tfstate-default-{root}"


def lease_name(root: str) -> str:
    """Return the name of the Lease that locks it."""
    return f"lock-{secret_name(root)}"


def read_state(secret: Obj) -> TerraformState:
    """Return the state in a Secret; an empty one where it holds none that can be read, since anybody may write it."""
    try:
        packed = base64.b64decode((secret.get("data") or {})["tfstate"])
        text = zlib.decompressobj(wbits=31).decompress(packed, MAX_STATE_BYTES)
        document = json.loads(text)
        if document["version"] != FORMAT:
            return TerraformState()
        return TerraformState(int(document["serial"]), tuple(_resources(document))[:MAX_RESOURCES])
    except (KeyError, TypeError, ValueError, AttributeError, zlib.error, binascii.Error, RecursionError):
        return TerraformState()


def _resources(document: Obj) -> Iterator[Obj]:
    for resource in document["resources"]:
        if resource.get("mode", MANAGED) != MANAGED:
            continue
        base = ".".join(filter(None, (resource.get("module", ""), resource["type"], resource["name"])))
        for instance in resource["instances"]:
            key = instance.get("index_key")
            yield {
                "address": base + ("" if key is None else f"[{json.dumps(key)}]"),
                "type": resource["type"],
                "name": resource["name"],
                "key": "" if key is None else str(key),
                "attributes": instance["attributes"],
            }
