"""What is wrong with a ValidatingAdmissionPolicy."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.api.status import FieldError, invalid_value, required
from kubesim.cel import CelError, compiled
from kubesim.errors import Obj

EMPTY = "validations or auditAnnotations must contain at least one item"


def policy_errors(policy: Obj) -> list[FieldError]:
    """Return what is wrong with a policy: what is missing, and expressions that are none."""
    spec = policy.get("spec") or {}
    found = [] if spec.get("matchConstraints") else [required("spec.matchConstraints")]
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        found.append(required("spec.validations", EMPTY))
        found.append(required("spec.auditAnnotations", EMPTY))
    for field in ("variables", "validations", "matchConditions"):
        for at, entry in enumerate(spec.get(field) or ()):
            found += _expression_errors(entry.get("expression", ""), f"spec.{field}[{at}].expression")
    return found


def _expression_errors(text: str, path: str) -> Iterator[FieldError]:
    if not text.strip():
        yield required(path, "expression is not specified")
        return
    try:
        compiled(text)
    except CelError as error:
        yield invalid_value(path, text, f"compilation failed: {error}")
