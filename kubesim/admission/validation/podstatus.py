"""What may be written as a pod's status: what has ended stays so, and everything has its form."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Any

from kubesim.admission.validation.checks import first_places
from kubesim.admission.validation.metadata import dns_errors
from kubesim.api.addresses import ADDRESS_TEXT, parsed
from kubesim.api.selectors import key_errors
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value
from kubesim.errors import Obj

KNOWN_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
NUMBER = "must be a non-negative integer"
ENDED = "may not be transitioned to non-terminated state"
CONTAINERS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
HIGHEST_ID = 2147483647
MIRROR, APPARMOR = "kubernetes.io/config.mirror", "container.apparmor.security.beta.kubernetes.io/"


def errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return what is wrong with a new status of a pod."""
    before, after, spec = old.get("status") or {}, new.get("status") or {}, new["spec"]
    found = annotation_errors(old, new)
    found += _condition_errors(after.get("conditions") or ())
    found += _nomination_errors(before, after)
    if after.get("observedGeneration", 0) < 0:
        found.append(invalid_value("status.observedGeneration", after["observedGeneration"], NUMBER))
    if before.get("qosClass") and after.get("qosClass") != before["qosClass"]:
        found.append(invalid_value("status.qosClass", after.get("qosClass", ""), "field is immutable"))
    for field in CONTAINERS:
        found += _ended_errors(before.get(field), after.get(field), field, spec)
    if "resourceClaimStatuses" in after:
        found += _claim_errors(after["resourceClaimStatuses"], spec)
    found += _address_errors(before, after)
    for field in CONTAINERS:
        for at, entry in enumerate(after.get(field) or ()):
            if "user" in entry:
                found += _user_errors((entry["user"] or {}).get("linux") or {}, f"status.{field}[{at}].user.linux")
    return found


def annotation_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return an error for each annotation of the node's that has changed, or is of no node."""
    notes = new["metadata"].get("annotations") or {}
    if notes == (old["metadata"].get("annotations") or {}):
        return []
    found = changed_annotation_errors(old, new)
    if notes.get(MIRROR) and not new["spec"].get("nodeName"):
        why = "must set spec.nodeName if mirror pod annotation is set"
        found.append(invalid_value(f"metadata.annotations[{MIRROR}]", notes[MIRROR], why))
    return found


def changed_annotation_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return an error for each annotation of the node's that has changed."""
    before, after = (obj["metadata"].get("annotations") or {} for obj in (old, new))
    if before == after:
        return []
    found = []
    for key in sorted({*before, *after}):
        what = (
            "AppArmor annotations" if key.startswith(APPARMOR) else "mirror pod annotation" if key == MIRROR else ""
        )
        if what and before.get(key) != after.get(key):
            why = f"may not {'remove or update' if key in before else 'add'} {what}"
            found.append(forbidden_field(f"metadata.annotations[{key}]", why))
    return found


def _condition_errors(conditions: Iterable[Obj]) -> Iterator[FieldError]:
    for at, condition in enumerate(conditions):
        kind, seen = condition.get("type", ""), condition.get("observedGeneration")
        if seen is not None and seen < 0:
            yield invalid_value(f"status.conditions[{at}].observedGeneration", seen, NUMBER)
        if kind not in KNOWN_CONDITIONS:
            yield from (invalid_value(f"status.conditions[{at}].Type", kind, why) for why in key_errors(kind))


def _nomination_errors(before: Obj, after: Obj) -> Iterator[FieldError]:
    """A pod that has no node yet may be told which one it will get."""
    name = after.get("nominatedNodeName")
    if not name or name == before.get("nominatedNodeName"):
        return
    yield from (invalid_value("status.nominatedNodeName", name, why) for why in dns_errors(name, "subdomain"))


def _ended_errors(before: Any, after: Any, field: str, spec: Obj) -> Iterator[FieldError]:
    """A container that has ended, and is not to be started again, does not run again."""
    policy = spec.get("restartPolicy")
    if not before or (policy == "Always" and field != "ephemeralContainerStatuses"):
        return
    running = {entry.get("name") for entry in after or () if "terminated" not in (entry.get("state") or {})}
    for at, entry in enumerate(before):
        ended = (entry.get("state") or {}).get("terminated")
        if ended is None or entry.get("name") not in running:
            continue
        again = policy == "OnFailure" and ended.get("exitCode") and field != "ephemeralContainerStatuses"
        if not again and not (field == "initContainerStatuses" and _is_sidecar(entry.get("name"), spec)):
            yield forbidden_field(f"status.{field}[{at}].state", ENDED)


def _is_sidecar(name: Any, spec: Obj) -> bool:
    return any(
        entry["name"] == name and entry.get("restartPolicy") == "Always" for entry in spec.get("initContainers") or ()
    )


def _claim_errors(statuses: list[Obj], spec: Obj) -> Iterator[FieldError]:
    """The claims for which a pod was given objects are its own."""
    names = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    first = first_places(entry.get("name", "") for entry in statuses)
    for at, entry in enumerate(statuses):
        path, name, given = (
            f"status.resourceClaimStatuses[{at}].name",
            entry.get("name", ""),
            entry.get("resourceClaimName"),
        )
        if name not in names:
            yield invalid_value(path, name, "must match the name of an entry in `spec.resourceClaims`")
        if first[name] < at:
            yield duplicate(path, name)
        if given is not None:
            yield from (invalid_value(path, given, why) for why in dns_errors(given, "subdomain"))


def _address_errors(before: Obj, after: Obj) -> Iterator[FieldError]:
    """A pod and its node have one address, or one of each family."""
    first = (after.get("hostIPs") or [{}])[0].get("ip", "")
    for field in ("podIPs", "hostIPs"):
        entries = after.get(field) or []
        if entries == before.get(field):
            continue
        if field == "hostIPs" and entries and first != after.get("hostIP", ""):
            yield invalid_value("status.hostIPs[0].ip", first, "must be equal to `hostIP`")
        texts = [entry.get("ip", "") for entry in entries]
        wrong = [at for at, text in enumerate(texts) if parsed(text) is None]
        yield from (invalid_value(f"status.{field}[{at}]", texts[at], ADDRESS_TEXT) for at in wrong)
        if len(texts) > 1:
            yield from _family_errors(texts, wrong, f"status.{field}")


def _family_errors(texts: list[str], wrong: list[int], path: str) -> Iterator[FieldError]:
    if wrong:
        why = f"failed to check for dual stack with error:invalid IP[{wrong[0]}]: {texts[wrong[0]]}"
        yield FieldError(path, "InternalError", f"Internal error: {why}")
    families = [] if wrong else [ipaddress.ip_address(text).version for text in texts]
    if sorted(families) != [4, 6]:
        shown = [{"IP": text} for text in texts]
        yield invalid_value(path, shown, "may specify no more than one IP for each IP family")


def _user_errors(user: Obj, path: str) -> Iterator[FieldError]:
    groups = enumerate(user.get("supplementalGroups") or ())
    ids = {"uid": user.get("uid"), "gid": user.get("gid")} | {
        f"supplementalGroups[{at}]": each for at, each in groups
    }
    for name, value in ids.items():
        if value is not None and not 0 <= value <= HIGHEST_ID:
            yield invalid_value(f"{path}.{name}", value, f"must be between 0 and {HIGHEST_ID}, inclusive")
