"""Pod Security admission: the labels of a namespace decide what its pods may do (enforce) and what is told (warn)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from kubesim.admission.podsecurity_checks import Violation, violations
from kubesim.admission.prepare import TEMPLATES
from kubesim.api import status
from kubesim.api.options import Options
from kubesim.api.status import FieldError, invalid_value
from kubesim.errors import Obj
from kubesim.schema.paths import dig
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

Mode = Literal["enforce", "audit", "warn"]
PREFIX = "pod-security.kubernetes.io/"
MODES: tuple[Mode, ...] = ("enforce", "audit", "warn")
LEVELS = ("privileged", "baseline", "restricted")
VERSION = re.compile(r"v1\.(\d{1,4})")
NEWEST = 10_000


def check(ops: Operations, kind: Kind, old: Obj | None, new: Obj, subresource: str, options: Options) -> None:
    """Refuse a pod (403) and warn of pods and templates as the labels of their namespace say."""
    if kind.resource == "namespaces":
        _check_namespace(ops, old, new, options)
        return
    path = () if kind.resource == "pods" else TEMPLATES.get(kind.resource)
    if path is None or subresource not in ("", "ephemeralcontainers"):
        return
    labels = _labels(ops, new["metadata"].get("namespace", ""))
    if not labels or (old is not None and dig(old, (*path, "spec")) == dig(new, (*path, "spec"))):
        return
    pod: Obj = dig(new, path) or {}
    spec = pod.get("spec") or {}
    forbidden = [] if path else _found(labels, "enforce", pod, spec)
    if forbidden:
        text = f'violates PodSecurity "{_shown(labels, "enforce")}": {_text(forbidden)}'
        raise status.forbidden(kind, new["metadata"].get("name", ""), text)
    mode: Mode = "warn" if f"{PREFIX}warn" in labels else "enforce"
    told = _found(labels, mode, pod, spec)
    if told:
        options.warnings.append(f'would violate PodSecurity "{_shown(labels, mode)}": {_text(told)}')


def label_errors(namespace: Obj) -> Iterator[FieldError]:
    """Yield an error for each label of ours that names no level or no version."""
    labels = namespace["metadata"].get("labels") or {}
    for mode in MODES:
        level, version = labels.get(PREFIX + mode), labels.get(f"{PREFIX}{mode}-version")
        if level is not None and level not in LEVELS:
            why = f"must be one of {', '.join(LEVELS)}"
            yield invalid_value(f"metadata.labels[{PREFIX}{mode}]", level, why)
        if version is not None and version != "latest" and not VERSION.fullmatch(version):
            yield invalid_value(f"metadata.labels[{PREFIX}{mode}-version]", version, 'must be "latest" or "v1.x"')


def _labels(ops: Operations, namespace: str) -> dict[str, str]:
    found: Obj = ops.store.get(ops.registry.by_resource("namespaces"), "", namespace) or {"metadata": {}}
    return {key: value for key, value in (found["metadata"].get("labels") or {}).items() if key.startswith(PREFIX)}


def _found(labels: dict[str, str], mode: Mode, pod: Obj, spec: Obj) -> list[Violation]:
    version = VERSION.fullmatch(labels.get(f"{PREFIX}{mode}-version", "latest"))
    level = labels.get(PREFIX + mode, "privileged")
    return violations(level, int(version[1]) if version else NEWEST, pod, spec)


def _shown(labels: dict[str, str], mode: Mode) -> str:
    return f"{labels[PREFIX + mode]}:{labels.get(f'{PREFIX}{mode}-version', 'latest')}"


def _text(found: list[Violation]) -> str:
    return ", ".join(f"{what} ({where})" for what, where in found)


def _check_namespace(ops: Operations, old: Obj | None, new: Obj, options: Options) -> None:
    """Warn of the pods that a stricter level would not let in."""
    labels = new["metadata"].get("labels") or {}
    before = ((old or {}).get("metadata", {}).get("labels")) or {}
    names = (f"{PREFIX}enforce", f"{PREFIX}enforce-version")
    if old is None or all(labels.get(name) == before.get(name) for name in names):
        return
    pods = ops.store.list(ops.registry.by_resource("pods"), new["metadata"]["name"])
    by_text: dict[str, list[str]] = {}
    for pod in pods:
        if found := _found(labels, "enforce", pod, pod["spec"]):
            by_text.setdefault(", ".join(what for what, _ in found), []).append(pod["metadata"]["name"])
    if by_text:
        name, shown = new["metadata"]["name"], _shown(labels, "enforce")
        options.warnings.append(
            f'existing pods in namespace "{name}" violate the new PodSecurity enforce level "{shown}"'
        )
    options.warnings += sorted(f"{_who(sorted(pod_names))}: {text}" for text, pod_names in by_text.items())


def _who(names: list[str]) -> str:
    others = len(names) - 1
    return names[0] if not others else f"{names[0]} (and {others} other pod{'s' if others > 1 else ''})"
