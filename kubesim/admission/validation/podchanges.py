"""Changes of pods: by an update, and in place (ephemeral containers)."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator

from kubesim.admission.validation.metadata import changed_errors
from kubesim.admission.validation.pods import pod_errors
from kubesim.admission.validation.rules import Place, errors_of
from kubesim.api.status import FieldError, forbidden_field, invalid_value, required
from kubesim.errors import Obj
from kubesim.schema.internal import internal

FREE_FIELDS = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
HIGHEST_DEADLINE = 2147483647
UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def metadata_again(old: Obj, new: Obj) -> list[FieldError]:
    """Return what is wrong with a pod's metadata, at which upstream looks once more than at others'."""
    return changed_errors(new["metadata"])


def update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return an error where a pod changed in what must stay."""
    before, after = old["spec"], new["spec"]
    errors: list[FieldError] = []
    for field in ("containers", "initContainers"):
        errors += _container_errors(before, after, field)
        if len(before.get(field, ())) != len(after.get(field, ())):
            return errors
    late = list(_deadline_errors(before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds")))
    errors += late
    if late and "activeDeadlineSeconds" in after:
        return errors
    errors += _toleration_errors(before, after)
    if before == after:
        return errors
    munged = _munged(before, after)
    if munged != before:
        errors.append(forbidden_field("spec", f"{UPDATE_TEXT}\n{difference('PodSpec', before, munged)}"))
    return errors


def _container_errors(before: Obj, after: Obj, field: str) -> Iterator[FieldError]:
    if len(before.get(field, ())) != len(after.get(field, ())):
        yield forbidden_field(f"spec.{field}", "pod updates may not add or remove containers")
        return
    for at, container in enumerate(after.get(field, ())):
        image, path = container.get("image", ""), f"spec.{field}[{at}].image"
        if not image:
            yield required(path)
        if image != image.strip():
            yield invalid_value(path, image, "must not have leading or trailing whitespace")


def _deadline_errors(before: int | None, after: int | None) -> Iterator[FieldError]:
    """A deadline comes sooner, or is set where there was none."""
    path = "spec.activeDeadlineSeconds"
    if after is None:
        if before is not None:
            yield invalid_value(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= after <= HIGHEST_DEADLINE:
        yield invalid_value(path, after, f"must be between 0 and {HIGHEST_DEADLINE}, inclusive")
    elif before is not None and after > before:
        yield invalid_value(path, after, "must be less than or equal to previous value")


def _toleration_errors(before: Obj, after: Obj) -> list[FieldError]:
    """Tolerations stay, but for their seconds; more may come, at which upstream looks again."""
    kept = [_lasting(entry) for entry in after.get("tolerations", ())]
    if any(_lasting(entry) not in kept for entry in before.get("tolerations", ())):
        why = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden_field("spec.tolerations", why)]
    entries = enumerate(after.get("tolerations", ()))
    found = (errors_of("types", "Toleration", Place(entry, f"spec.tolerations[{at}]")) for at, entry in entries)
    return [error for errors in found for error in errors]


def _lasting(toleration: Obj) -> Obj:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _munged(before: Obj, after: Obj) -> Obj:
    """Return the new PodSpec with the old value of everything that an update may change."""
    munged = {name: value for name, value in after.items() if name not in FREE_FIELDS}
    munged |= {name: before[name] for name in FREE_FIELDS if name in before}
    if before.get("terminationGracePeriodSeconds", 0) < 0 and after.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    for field in ("containers", "initContainers"):
        if field in after:
            pairs = zip(after[field], before[field], strict=True)
            munged[field] = [{**entry, "image": earlier.get("image", "")} for entry, earlier in pairs]
    return munged


def difference(name: str, before: Obj, after: Obj) -> str:
    """Return what changed as the API server shows it: a unified diff of both as it has them in memory."""
    old, new = (json.dumps(internal(name, each), indent=1, ensure_ascii=False) for each in (before, after))
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="")
    return "".join(f"{line}\n" for line in list(lines)[2:])


def ephemeral_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return an error for each ephemeral container that is gone or changed: they can only be added."""
    after = {entry["name"]: entry for entry in new["spec"].get("ephemeralContainers") or ()}
    errors = pod_errors(new)
    for entry in old["spec"].get("ephemeralContainers") or ():
        name = entry["name"]
        if name not in after:
            text = f'existing ephemeral containers "{name}" may not be removed\n'
            errors.append(forbidden_field("spec.ephemeralContainers", text))
        elif after[name] != entry:
            change = difference("EphemeralContainer", entry, after[name])
            text = f'existing ephemeral containers "{name}" may not be changed\n{change}'
            errors.append(forbidden_field("spec.ephemeralContainers", text))
    return errors
