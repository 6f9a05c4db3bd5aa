"""The rules of metadata: names, labels, annotations, owners."""

from __future__ import annotations

import re

from kubesim.api.selectors import SUBDOMAIN_RULE, key_errors, value_errors
from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, show
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
UNKNOWN_FINALIZER = "name is neither a standard finalizer name nor is it fully qualified"
NO_OWNERS = (("v1", "Event"),)
NOT_NEGATIVE = "must be greater than or equal to 0"
MAX_ANNOTATIONS = 256 * 1024
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_RULES = {
    "label": (re.compile(_LABEL), 63),
    "dns1035": (re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?"), 63),
    "subdomain": (re.compile(SUBDOMAIN), 253),
}
_TEXTS = {
    "label": "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
    "start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    "dns1035": "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')",
    "subdomain": SUBDOMAIN_RULE,
}


def metadata_errors(kind: Kind, obj: Obj, served: Kind | None = None) -> list[FieldError]:
    """Return what is wrong with an object's metadata; the version that it came in says of what form its name is."""
    asked = served or kind
    metadata = obj["metadata"]
    prefix = metadata.get("generateName")
    errors = [invalid_value("metadata.generateName", prefix, why) for why in _prefix_errors(asked, prefix)]
    if not metadata.get("name"):
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += [
            invalid_value("metadata.name", metadata["name"], why) for why in name_errors(asked, metadata["name"])
        ]
    if metadata.get("generation", 0) < 0:
        errors.append(invalid_value("metadata.generation", metadata["generation"], NOT_NEGATIVE))
    return (
        errors
        + changed_errors(metadata)
        + finalizer_errors(metadata.get("finalizers"), "metadata.finalizers", custom=kind.custom is not None)
    )


def changed_errors(metadata: Obj) -> list[FieldError]:
    """Return what is wrong with the parts of metadata that change."""
    errors = label_errors(metadata.get("labels"), "metadata.labels")
    errors += annotation_errors(metadata.get("annotations"), "metadata.annotations")
    return errors + owner_errors(metadata.get("ownerReferences"))


def _prefix_errors(kind: Kind, prefix: str | None) -> list[str]:
    """Return what keeps a prefix from beginning a name: it may end in a hyphen, for what is to follow."""
    return name_errors(kind, f"{prefix[:-1]}a" if prefix.endswith("-") else prefix) if prefix else []


def finalizer_errors(names: list[str] | None, path: str, *, custom: bool = False) -> list[FieldError]:
    """Return what is wrong with finalizers: each is a known one or has a domain (custom kinds' may lack it)."""
    errors = []
    for at, name in enumerate(names or ()):
        place = path if path.startswith("metadata") else f"{path}[{at}]"
        errors += [invalid_value(place, name, why) for why in key_errors(name)]
        if not custom and "/" not in name and name not in STANDARD_FINALIZERS:
            errors.append(invalid_value(f"{path}[{at}]", name, UNKNOWN_FINALIZER))
    if {"orphan", "foregroundDeletion"} <= {*(names or ())}:
        errors.append(invalid_value(path, names, "finalizer orphan and foregroundDeletion cannot be both set"))
    return errors


def new_finalizer_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return what is wrong with the finalizers of a change: what is being deleted gets no more of them."""
    fresh = set(new["metadata"].get("finalizers") or ()) - set(old["metadata"].get("finalizers") or ())
    if not old["metadata"].get("deletionTimestamp") or not fresh:
        return []
    shown = ", ".join(map(show, sorted(fresh)))
    why = "no new finalizers can be added if the object is being deleted, found new finalizers []string{%s}"
    return [forbidden_field("metadata.finalizers", why % shown)]


def name_errors(kind: Kind, name: str) -> list[str]:
    """Return what is wrong with an object's name."""
    if kind.names == "any":
        return []
    return path_errors(name) if kind.names == "path" else dns_errors(name, kind.names)


def dns_errors(name: str, rule: str = "label") -> list[str]:
    """Return what is wrong with a DNS name: a label, dns1035 or subdomain."""
    pattern, length = _RULES[rule]
    errors = [f"must be no more than {length} characters"] if len(name) > length else []
    if pattern.fullmatch(name):
        return errors
    dotted = rule == "label" and _RULES["subdomain"][0].fullmatch(name)
    return [*errors, "must not contain dots" if dotted else _TEXTS[rule]]


def path_errors(name: str) -> list[str]:
    """Return what keeps a name from being a segment of a path."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{mark}'" for mark in "/%" if mark in name]


def label_errors(labels: Obj | None, path: str) -> list[FieldError]:
    """Return what is wrong with labels."""
    errors = []
    for key, value in (labels or {}).items():
        errors += [invalid_value(path, key, why) for why in key_errors(key)]
        errors += [invalid_value(path, value, why) for why in value_errors(value)]
    return errors


def annotation_errors(annotations: Obj | None, path: str) -> list[FieldError]:
    """Return what is wrong with annotations."""
    errors = []
    for key in annotations or ():
        errors += [invalid_value(path, key, why) for why in key_errors(key.lower())]
    size = sum(len(key) + len(value) for key, value in (annotations or {}).items())
    if size > MAX_ANNOTATIONS:
        errors.append(
            FieldError(path, "FieldValueTooLong", f"Too long: may not be more than {MAX_ANNOTATIONS} bytes")
        )
    return errors


def owner_errors(references: list[Obj] | None) -> list[FieldError]:
    """Return what is wrong with ownerReferences: each names its owner whole, and one controls at most."""
    errors = []
    for reference in references or ():
        version = reference.get("apiVersion") or ""
        if not version or version.count("/") > 1:
            errors.append(invalid_value("metadata.ownerReferences.apiVersion", version, "version must not be empty"))
        for name in ("kind", "name", "uid"):
            if not reference.get(name):
                errors.append(invalid_value(f"metadata.ownerReferences.{name}", "", "must not be empty"))
        if (version, reference.get("kind")) in NO_OWNERS:
            why = f"/{version}, Kind={reference['kind']} is disallowed from being an owner"
            errors.append(invalid_value("metadata.ownerReferences", reference, why))
    controllers = [reference for reference in references or () if reference.get("controller")]
    if len(controllers) > 1:
        why = 'Only one reference can have Controller set to true. Found "true" in references for {} and {}'
        shown = [f"{entry.get('kind')}/{entry.get('name')}" for entry in controllers[:2]]
        errors.append(invalid_value("metadata.ownerReferences", references, why.format(*shown)))
    return errors
