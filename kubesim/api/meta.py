"""Object metadata: names, uids, times, generation, and what a request may not change."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from kubesim.api import status
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

SUFFIX_LENGTH = 5
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
MAX_GENERATED = 58
MAX_DIGITS = 20
"""Of a number of 64 bits."""
KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
    "name",
)


def rfc3339(moment: datetime) -> str:
    """Return a time as metav1.Time is written: UTC, whole seconds."""
    return moment.isoformat(timespec="seconds")[:19] + "Z"


def generated_name(prefix: str) -> str:
    """Return ``prefix`` and five random letters, cut as upstream cuts it."""
    return prefix[:MAX_GENERATED] + "".join(random.choices(SUFFIX_LETTERS, k=SUFFIX_LENGTH))


def prepare_new(kind: Kind, obj: Obj, namespace: str, now: datetime) -> None:
    """Give a new object its metadata. Raises 400 where the request's namespace and the object's differ."""
    metadata = obj.setdefault("metadata", {})
    check_namespace(kind, metadata, namespace)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated_name(metadata["generateName"])
    elif not metadata.get("name") and kind.resource == "limitranges":
        metadata["name"] = str(uuid.uuid4())
    for name in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(name, None)
    if not metadata.get("resourceVersion"):
        metadata.pop("resourceVersion", None)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = rfc3339(now)
    if kind.generation:
        metadata["generation"] = 1
    elif not metadata.get("generation"):
        metadata.pop("generation", None)


def check_unversioned(metadata: Obj) -> None:
    """Raise 400 for a new object with a version; a text that is no number of 64 bits, or zero, counts for none."""
    text = metadata.get("resourceVersion", "")
    digits = text.lstrip("0") if text.isascii() and text.isdecimal() else ""
    if 0 < len(digits) <= MAX_DIGITS and int(digits) < 1 << 64:
        raise status.bad_request("resourceVersion should not be set on objects to be created")


def check_namespace(kind: Kind, metadata: Obj, namespace: str) -> None:
    """Set the request's namespace. Raises 400 where the object names another."""
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.setdefault("namespace", namespace) != namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_named(obj: Any, name: str) -> None:
    """Raise 400 for what comes, or what a patch has left, without a name."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict) or not metadata.get("name"):
        why = "name must be provided"
        raise status.bad_request(f"the name of the object ({name} based on URL) was undeterminable: {why}")


def check_name(metadata: Obj, name: str) -> None:
    """Set the name of the path. Raises 400 where the object names another."""
    if (given := metadata.setdefault("name", name)) != name:
        raise status.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def carry_over(old: Obj, new: Obj) -> None:
    """Keep what no update may change: uid, times, generation, and the position of deletion."""
    before, after = old["metadata"], new["metadata"]
    for name in KEPT:
        if name in before:
            after[name] = before[name]
        else:
            after.pop(name, None)
    after.pop("selfLink", None)


def check_version(kind: Kind, old: Obj, new: Obj) -> None:
    """Raise 409 where the request was made for another version or another object of that name."""
    before, after = old["metadata"], new["metadata"]
    version, uid = after.get("resourceVersion"), after.get("uid")
    anything = not version or (version.isdecimal() and not int(version))  # 0 is no version
    if anything and not kind.unconditional_update:
        error = status.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise status.invalid(replace(kind, kind=kind.plural), before["name"], [error])
    if version and not version.isdecimal():
        raise status.bad_request(f"strconv.ParseUint: parsing {status.show(version)}: invalid syntax")
    if uid and uid != before["uid"]:
        raise status.conflict(kind, before["name"], _in_storage(kind, before, uid_mismatch(uid, before["uid"])))
    if not anything and version != before["resourceVersion"]:
        raise status.conflict(kind, before["name"])


def check_uid(kind: Kind, old: Obj, new: Obj) -> None:
    """Raise 422 for a patch that makes another object of it; upstream says so twice."""
    if (uid := new["metadata"].get("uid")) and uid != old["metadata"]["uid"]:
        error = status.invalid_value("metadata.uid", uid, "field is immutable")
        raise status.invalid(kind, old["metadata"]["name"], [error, error])


def check_preconditions(kind: Kind, obj: Obj, preconditions: Obj | None) -> None:
    """Raise 409 where an object is not the one that a delete means; the answer names its kind as if a resource."""
    metadata = obj["metadata"]
    wanted, named = preconditions or {}, replace(kind, plural=kind.kind)
    if (uid := wanted.get("uid")) and uid != metadata["uid"]:
        why = f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']})."
        detail = f"{why} The object might have been deleted and then recreated"
        raise status.conflict(named, metadata["name"], detail)
    if (version := wanted.get("resourceVersion")) and version != metadata["resourceVersion"]:
        why = "the ResourceVersion in the precondition ({}) does not match the ResourceVersion in record ({})."
        detail = why.format(version, metadata["resourceVersion"]) + " The object might have been modified"
        raise status.conflict(named, metadata["name"], detail)


def set_managers(new: Obj, claimed: Obj) -> None:
    """Give an object the managers of what its requester has made of it."""
    if new is claimed:
        return
    new["metadata"] = {name: value for name, value in new["metadata"].items() if name != "managedFields"}
    if managers := claimed["metadata"].get("managedFields"):
        new["metadata"]["managedFields"] = managers


def uid_mismatch(wanted: str, found: str) -> str:
    """Say that a request means an object that is gone."""
    return f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"


def _in_storage(kind: Kind, metadata: Obj, why: str) -> str:
    """Say it as the API server's storage does, which knows an object by its key."""
    table = kind.storage_key or kind.plural
    place = f"{kind.group}/{table}" if kind.custom is not None else table
    key = "/".join(filter(None, ("/registry", place, metadata.get("namespace"), metadata["name"])))
    return f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"


def ordered(obj: Obj) -> Obj:
    """Put kind, apiVersion and metadata first, as the API server writes them."""
    head: dict[str, Any] = {name: obj[name] for name in ("kind", "apiVersion", "metadata") if name in obj}
    return head | obj
