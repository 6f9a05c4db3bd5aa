"""The rules of ValidatingAdmissionPolicies that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.admission.validation.rules import Place, check
from kubesim.api.selectors import key_errors
from kubesim.api.status import FieldError, duplicate, invalid_value, required
from kubesim.cel.program import CelError, compiled
from kubesim.errors import Obj


@check
def audit_annotations(entries: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """What a policy writes into the audit log: each key once, good together with the policy's name."""
    policy = place.value["metadata"].get("name", "")
    keys: set[str] = set()
    for at, entry in enumerate(entries):
        path, key = f"{where}[{at}]", entry.get("key") or ""
        whole = f"{policy}/{key}"
        if policy:
            yield from (invalid_value(f"{path}.key", whole, why) for why in key_errors(whole))
        else:
            yield invalid_value(f"{path}.key", key, "requires metadata.name be non-empty")
        text = entry.get("valueExpression", "")
        yield from cel(text, f"{path}.valueExpression", place, "valueExpression is not specified")
        if key in keys:
            yield duplicate(f"{path}.key", key)
        keys.add(key)


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
