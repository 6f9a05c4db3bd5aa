"""Validation with upstream's texts: every error of an object is collected and answered at once (422)."""

from __future__ import annotations

from collections.abc import Callable

from kubesim.admission.validation import (  # noqa: F401 - what is only imported brings words of the table
    checks,
    definitions,
    misc,
    networks,
    podchanges,
    pods,
    resources,
    storage,
    volumes,
    workloads,
)
from kubesim.admission.validation.metadata import (
    changed_errors,
    finalizer_errors,
    metadata_errors,
    new_finalizer_errors,
)
from kubesim.admission.validation.rules import Place, errors_of, rules_of
from kubesim.api import status
from kubesim.api.status import FieldError
from kubesim.errors import Obj
from kubesim.schema import facts
from kubesim.schema.internal import internal
from kubesim.schema.paths import dig
from kubesim.schema.registry import Kind

ROLES = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
TWICE = tuple(f"{name}.rbac.authorization.k8s.io" for name in ROLES)
"""Kinds of which a change is asked what a new object is asked, and then all of it again."""


def _again(resource: str) -> Callable[[Obj, Obj], list[FieldError]]:
    """Return what says of a change once more what the rules of its kind say."""
    return lambda old, new: errors_of("kinds", resource, Place(new))


CHANGED: dict[str, Callable[[Obj, Obj], list[FieldError]]] = {
    "pods": podchanges.update_errors,
    "statefulsets.apps": workloads.stateful_set_update_errors,
    "jobs.batch": workloads.job_update_errors,
    "nodes": misc.node_update_errors,
    "configmaps": misc.frozen_errors,
    "secrets": misc.frozen_errors,
    "persistentvolumeclaims": storage.claim_update_errors,
    "persistentvolumes": storage.volume_update_errors,
    "resourcequotas": resources.quota_update_errors,
    **{resource: _again(resource) for resource in TWICE},
}
"""What an update must fulfil beside the rules for new objects and the kind's immutable fields."""
CHANGED_FIRST: dict[str, Callable[[Obj, Obj], list[FieldError]]] = {
    "pods": podchanges.metadata_again,
    "services": networks.service_update_errors,
}
"""What is told before the rules for new objects."""
METADATA_LAST = ("poddisruptionbudgets.policy",)
"""Kinds whose own rules say nothing of metadata, which is looked at where those find nothing."""
ASKED_AGAIN = ("jobs.batch", "replicationcontrollers", *TWICE)
"""Kinds of which a change is asked all that a new object is asked, and then what a change is asked."""
FIXED_FIRST = ("ingressclasses.networking.k8s.io", "daemonsets.apps")
"""Kinds of which it is told before all else what may not change."""
UNCHANGED = {"endpoints": "subsets", "endpointslices.discovery.k8s.io": "endpoints"}
"""What may stay as it is, be it right or wrong."""
WRITTEN = ("labels", "annotations", "finalizers", "ownerReferences", "generation")
ASKED_TWICE = (
    *("cronjobs.batch", "poddisruptionbudgets.policy", "flowschemas.flowcontrol.apiserver.k8s.io"),
    *(
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
    ),
)
"""Kinds whose own rules for a status say nothing of metadata."""


def validate_new(kind: Kind, obj: Obj, served: Kind | None = None) -> None:
    """Raise 422 with everything that is wrong with a new object that was sent as ``served``."""
    errors = [*_content_errors(served or kind, kind, obj), *_custom_errors(kind, obj, None, [])]
    errors += errors_of("created", kind.resource, Place(obj))
    if not errors or kind.resource not in METADATA_LAST:
        errors = metadata_errors(kind, obj, served) + errors
    _raise(kind, obj, errors)


def validate_update(kind: Kind, old: Obj, new: Obj, served: Kind | None, told: list[str]) -> None:
    """Raise 422 with everything that is wrong with a change; into ``told`` goes what was wrong before."""
    changed, added = changed_errors(new["metadata"]), new_finalizer_errors(old, new)
    errors = [*changed, *added, *changed]  # upstream looks at all metadata again and again, and says it each time
    if kind.resource not in METADATA_LAST:
        errors += [*added, *metadata_errors(kind, new, served)]
    first = CHANGED_FIRST.get(kind.resource)
    errors += first(old, new) if first else ()
    errors += _changed_errors(served or kind, kind, old, new)
    errors += _custom_errors(kind, new, old, told)
    extra = CHANGED.get(kind.resource)
    if extra is not None:
        errors += extra(old, new)
    _raise(kind, new, errors)


def _changed_errors(served: Kind, kind: Kind, old: Obj, new: Obj) -> list[FieldError]:
    """Return what is wrong with the content of a change, and with that it changed."""
    fixed = immutable_errors(kind, old, new)
    content = _content_errors(served, kind, new)
    if kind.resource in ASKED_AGAIN:
        content += metadata_errors(kind, new, served)
    content += errors_of("changed", kind.resource, Place(new))
    same = UNCHANGED.get(kind.resource)
    if same is not None and old.get(same) == new.get(same):
        content = [error for error in content if not error.field.startswith(f"{same}[")]
    return fixed + content if kind.resource in FIXED_FIRST else content + fixed


def validate_status(kind: Kind, old: Obj, new: Obj, told: list[str]) -> None:
    """Raise 422 with everything that is wrong with a change of a status; ``told`` as above."""
    errors = (
        [] if _same_metadata(old, new) else _metadata_errors(kind, old, new, 1 + (kind.resource not in ASKED_TWICE))
    )
    errors += _custom_errors(kind, new, old, told)
    _raise(kind, new, errors)


def _metadata_errors(kind: Kind, old: Obj, new: Obj, more: int) -> list[FieldError]:
    """Return what is wrong with changed metadata: ``more`` times it is looked at again, and it is said again."""
    again = [*new_finalizer_errors(old, new), *changed_errors(new["metadata"])]
    return metadata_errors(kind, new) + again * more


def _same_metadata(old: Obj, new: Obj) -> bool:
    before, after = old["metadata"], new["metadata"]
    return all(before.get(name) == after.get(name) for name in WRITTEN)


def check_finalizers(kind: Kind, namespace: Obj) -> None:
    """Raise 422 for a namespace whose spec has finalizers that are none."""
    _raise(kind, namespace, finalizer_errors(namespace.get("spec", {}).get("finalizers"), "spec.finalizers"))


def immutable_errors(kind: Kind, old: Obj, new: Obj) -> list[FieldError]:
    """Return an error for each immutable field that changed."""
    errors = []
    for rule in kind.immutable:
        before, after = dig(old, rule.path), dig(new, rule.path)
        if before == after or workloads.may_change(kind, rule.path, before, after, old):
            continue
        path = ".".join(rule.path)
        if rule.forbidden:
            errors.append(status.forbidden_field(path, rule.text))
        else:
            shown = _zero(kind, rule.path) if after is None else internal(rule.type_name, after)
            errors.append(status.invalid_value(path, shown, rule.text))
    return errors


def _zero(kind: Kind, path: tuple[str, ...]) -> str | None:
    """Return what a field is where it is left out: an empty text, if Go holds it by no pointer."""
    shape = kind.shape
    for name in path[:-1]:
        field = shape.field(name) if shape else None
        shape = field.shape if field else None
    return "" if shape is not None and (shape.name, path[-1]) in facts.OMITTED | facts.WRITTEN else None


def _custom_errors(kind: Kind, new: Obj, old: Obj | None, told: list[str]) -> list[FieldError]:
    return [] if kind.custom is None else list(kind.custom.errors(new, old, told))


def _content_errors(served: Kind, kind: Kind, obj: Obj) -> list[FieldError]:
    """Return what the rules say, those of the version that is asked where it has its own."""
    asked = served if rules_of("kinds", served.resource) else kind
    return errors_of("kinds", asked.resource, Place(obj))


def _raise(kind: Kind, obj: Obj, errors: list[FieldError]) -> None:
    if errors:
        raise status.invalid(kind, obj["metadata"].get("name") or obj["metadata"].get("generateName", ""), errors)
