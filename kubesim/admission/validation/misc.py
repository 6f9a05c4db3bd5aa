"""The rules of the kinds that have only a few, where they are more than a line of the tables in ``rules/``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_network

from kubesim.admission.podsecurity import label_errors
from kubesim.admission.validation import metadata
from kubesim.admission.validation.bounds import amount_errors
from kubesim.admission.validation.forms import key_errors as config_key_errors
from kubesim.admission.validation.metadata import STANDARD_FINALIZERS, UNKNOWN_FINALIZER, dns_errors
from kubesim.admission.validation.rules import Place, check, check_of_missing, errors_of
from kubesim.api.addresses import CIDR_TEXT
from kubesim.api.selectors import key_errors, value_errors
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, required, unsupported
from kubesim.errors import Obj
from kubesim.schema.internal import internal

FROZEN = "field is immutable when `immutable` is set"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


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
        yield from (invalid_value(f"{field}[{key}]", key, why) for why in config_key_errors(key))
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
        yield from (invalid_value(f"{path}.key", key, why) for why in key_errors(key))
        yield from (
            invalid_value(f"{path}.value", taint["value"], why) for why in value_errors(taint.get("value", ""))
        )
        if not effect:
            yield required(f"{path}.effect")
        elif effect not in EFFECTS:
            yield unsupported(f"{path}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            repeated = duplicate(path, internal("Taint", taint))
            yield replace(repeated, detail=f"{repeated.detail}: taints must be unique by key and effect pair")
        seen.add((key, effect))


@check
def node_ranges(ranges: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """The ranges of a node's pods: one, or one of each IP family."""
    known = [_family(text) for text in ranges]
    for at, (text, family) in enumerate(zip(ranges, known, strict=True)):
        if not family:
            yield invalid_value(f"{where}[{at}]", text, CIDR_TEXT)
    if len(ranges) > 1 and all(known) and (len(ranges) > 2 or len({*known}) == 1):
        yield invalid_value(where, ranges, "may specify no more than one CIDR for each IP family")


def _family(text: str) -> int:
    """Return the IP family of a range; 0 for what is none."""
    try:
        return ip_network(text, strict=False).version if "/" in text else 0
    except ValueError:
        return 0


@check
def finalizers(names: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """The finalizers of a namespace."""
    for name in names:
        wrong = key_errors(name)
        yield from (invalid_value(where, name, why) for why in wrong)
        if "/" not in name and name not in STANDARD_FINALIZERS:
            yield invalid_value(where, name, UNKNOWN_FINALIZER)


@check_of_missing
def handler(value: str | None, where: str, place: Place) -> Iterator[FieldError]:
    """The handler of a runtime class is a label, and there."""
    yield from (invalid_value(where, value or "", why) for why in dns_errors(value or ""))
