"""The rules of webhooks, policies and kinds with few, where they are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace

from kubesim.admission.podsecurity import label_errors
from kubesim.admission.validation import metadata
from kubesim.admission.validation.checks import form_errors
from kubesim.admission.validation.metadata import STANDARD_FINALIZERS, UNKNOWN_FINALIZER
from kubesim.admission.validation.resources import amount_errors
from kubesim.admission.validation.rules import Place, check, errors_of
from kubesim.api import bodies
from kubesim.api.selectors import key_errors
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, required
from kubesim.auth.tokens import IN_SECRETS, OWNER
from kubesim.cel.program import CelError, compiled
from kubesim.errors import Obj
from kubesim.schema.internal import internal

FROZEN = "field is immutable when `immutable` is set"


@check
def amounts(quantities: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """Yield the errors in amounts of resources; the paths are written as upstream writes them."""
    for name, value in sorted(quantities.items()):
        yield from amount_errors(name, value, f"{where}.{name}")


@check
def security_labels(namespace: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The labels by which a namespace says what its pods may do; they are looked at where they are labels at all."""
    if not metadata.label_errors(namespace["metadata"].get("labels"), ""):
        yield from label_errors(namespace)


@check
def data(obj: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The keys of a ConfigMap or a Secret."""
    keys = [(field, key) for field in ("data", "binaryData") for key in obj.get(field, {})]
    for field, key in keys:
        yield from (invalid_value(f"{field}[{key}]", key, why) for why in form_errors("key", key))
    for key in obj.get("data", {}).keys() & obj.get("binaryData", {}).keys():
        yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")


def frozen_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return an error for each change of a ConfigMap or Secret that is marked immutable."""
    if not old.get("immutable"):
        return []
    fields = ("immutable", "data", "binaryData")
    return [forbidden_field(name, FROZEN) for name in fields if old.get(name) != new.get(name)]


def node_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A node keeps the range of its pods' addresses and what its cloud calls it; its rules are asked twice."""
    errors = errors_of("kinds", "nodes", Place(new))
    for field, path in (("podCIDR", "spec.podCIDRs"), ("providerID", "spec.providerID")):
        before, after = old["spec"].get(field), new["spec"].get(field)
        if before and before != after:
            errors.append(forbidden_field(path, f'node updates may not change {field} except from "" to valid'))
    return errors


@check
def taints(values: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """The taints of a node, each key and effect once; upstream takes them for metadata."""
    seen = set()
    for at, taint in enumerate(values):
        path, key, effect = f"metadata.taints[{at}]", taint.get("key", ""), taint.get("effect", "")
        yield from errors_of("types", "Taint", Place(taint, path))
        if (key, effect) in seen:
            repeated = duplicate(path, internal("Taint", taint))
            yield replace(repeated, detail=f"{repeated.detail}: taints must be unique by key and effect pair")
        seen.add((key, effect))


@check
def finalizers(names: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """The finalizers of a namespace."""
    for name in names:
        wrong = key_errors(name)
        yield from (invalid_value(where, name, why) for why in wrong)
        if "/" not in name and name not in STANDARD_FINALIZERS:
            yield invalid_value(where, name, UNKNOWN_FINALIZER)


@check
def at_least_the_minimum(most: int, where: str, place: Place) -> Iterator[FieldError]:
    """The bounds of an autoscaler make sense."""
    if most < place.value["spec"].get("minReplicas", 1):
        yield invalid_value(where, most, "must be greater than or equal to `minReplicas`")


@check
def cel(text: str, where: str, place: Place, missing: str) -> Iterator[FieldError]:
    """An expression that compiles."""
    if not text.strip():
        yield required(where, missing)
        return
    try:
        compiled(text)
    except CelError as error:
        yield invalid_value(where, text, f"compilation failed: {error}")


REDACTED = "<secret contents redacted>"


SSH, BASIC = "kubernetes.io/ssh-auth", "kubernetes.io/basic-auth"
DATA_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    BASIC: ("username", "password"),
    SSH: ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""The keys of the secrets of a type; those whose keys begin with a dot are JSON."""


@check
def typed(secret: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A secret of a known type has what that needs."""
    kind, data = secret.get("type", ""), secret.get("data", {})
    if kind == IN_SECRETS and not (secret["metadata"].get("annotations") or {}).get(OWNER):
        yield required(f"metadata.annotations[{OWNER}]")
    keys = DATA_KEYS.get(kind, ())
    missing = [key for key in keys if key not in data or (kind == SSH and not data[key])]
    if kind != BASIC or missing == [*keys]:
        yield from (required(f"data[{key}]") for key in missing)
    for key in keys:
        if key.startswith(".") and key in data and (why := bodies.object_error(base64.b64decode(data[key]))):
            yield invalid_value(f"data[{key}]", REDACTED, why)
