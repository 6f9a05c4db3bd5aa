"""What a write's options may say, as k8s.io/apimachinery/pkg/apis/meta/v1/validation has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kubesim.api.status import FieldError, forbidden_field, invalid, invalid_value, required, unsupported
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

GROUP = "meta.k8s.io"
NAMES = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
VALIDATIONS = ("", "Ignore", "Strict", "Warn")
POLICIES = ("Foreground", "Background", "Orphan")
MAX_MANAGER = 128


@dataclass(frozen=True, slots=True)
class Given:
    """The options of a write as the query has them; ``applies`` says that it is a server-side apply."""

    manager: str
    dry_run: Sequence[str]
    validation: str
    applies: bool = False
    forced: bool = False


def check_write(verb: str, given: Given) -> None:
    """Raise 422 with everything that is wrong with the options of a create, update or patch."""
    errors = []
    if given.applies and not given.manager:
        errors.append(required("fieldManager", "is required for apply patch"))
    if given.forced and not given.applies:
        errors.append(forbidden_field("force", "may not be specified for non-apply patch"))
    errors += _manager_errors(given.manager)
    errors += _dry_run_errors(given.dry_run)
    if given.validation not in VALIDATIONS:
        errors.append(unsupported("fieldValidation", given.validation, VALIDATIONS))
    _refuse(NAMES[verb], errors)


def check_delete(wanted: Obj) -> None:
    """Raise 422 with everything that is wrong with DeleteOptions."""
    errors, policy = [], wanted.get("propagationPolicy")
    if policy is not None and wanted.get("orphanDependents") is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid_value("propagationPolicy", policy, why))
    if policy is not None and policy not in POLICIES:
        errors.append(unsupported("propagationPolicy", policy, (*POLICIES, "nil")))
    errors += _dry_run_errors(wanted.get("dryRun") or ())
    _refuse("DeleteOptions", errors)


def _manager_errors(manager: str) -> list[FieldError]:
    errors = []
    if len(manager.encode()) > MAX_MANAGER:
        errors.append(
            FieldError("fieldManager", "FieldValueTooLong", f"Too long: may not be more than {MAX_MANAGER} bytes")
        )
    at = 0
    for mark in manager:
        if not mark.isprintable():
            why = f"invalid character U+{ord(mark):04X} (at position {at})"
            errors.append(invalid_value("fieldManager", manager, why))
        at += len(mark.encode(errors="surrogateescape"))
    return errors


def _dry_run_errors(values: Sequence[str]) -> list[FieldError]:
    return [unsupported("dryRun", list(values), ("All",))] if set(values) - {"All"} else []


def _refuse(name: str, errors: list[FieldError]) -> None:
    if errors:
        raise invalid(Kind(GROUP, "v1", name, ""), "", errors)
