"""What the strategies and admission plugins set on new volumes, claims, certificate requests, nodes and ingresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kubesim.admission import services
from kubesim.api import meta
from kubesim.api.options import Options
from kubesim.errors import Obj
from kubesim.schema.paths import is_true

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

PROTECTION = {
    "persistentvolumes": "kubernetes.io/pv-protection",
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "volumeattributesclasses.storage.k8s.io": "kubernetes.io/vac-protection",
}
"""The finalizers that keep a volume as long as somebody uses it."""
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
OLD_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
DEFAULT_STORAGE = "storageclass.kubernetes.io/is-default-class"
DEFAULT_INGRESS = "ingressclass.kubernetes.io/is-default-class"


def complete(ops: Operations, resource: str, new: Obj, options: Options) -> None:
    """Complete a new object in place."""
    if finalizer := PROTECTION.get(resource):
        kept = new["metadata"].get("finalizers", [])
        new["metadata"]["finalizers"] = kept if finalizer in kept else [*kept, finalizer]
    step = STEPS.get(resource)
    if step is not None:
        step(ops, new, options)


def daemonset(ops: Operations, new: Obj, options: Options) -> None:
    """A daemon set counts its templates in an annotation that outlived its field."""
    new["metadata"]["annotations"] = {**new["metadata"].get("annotations", {}), TEMPLATE_GENERATION: "1"}


def update(ops: Operations, resource: str, old: Obj, new: Obj, options: Options) -> None:
    """Complete a changed object in place."""
    if resource == "services":
        services.update(ops, old, new, options)
    if resource == "persistentvolumeclaims":
        data_sources(old["spec"], new["spec"])
    if resource == "daemonsets.apps":
        count = int((old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0"))
        count += old["spec"]["template"] != new["spec"]["template"]
        notes = new["metadata"].get("annotations") or {}
        new["metadata"]["annotations"] = {**notes, TEMPLATE_GENERATION: str(count)}
    if resource == "certificatesigningrequests.certificates.k8s.io":
        new["spec"] = old["spec"]


def volume(ops: Operations, new: Obj, options: Options) -> None:
    """A volume says since when it is in its phase."""
    new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": meta.rfc3339(ops.clock.now())}


def claim(ops: Operations, new: Obj, options: Options) -> None:
    """A claim that names no class at all gets the default one."""
    data_sources({}, new["spec"])
    if "storageClassName" not in new["spec"]:
        default = _default_class(ops, "storageclasses.storage.k8s.io", DEFAULT_STORAGE)
        if default:
            new["spec"]["storageClassName"] = default


def data_sources(before: Obj, spec: Obj) -> None:
    """The two ways to name what a volume is made from say the same; the old one knows claims and snapshots only.

    What is in another namespace is left out, because its gate is off. A claim that has a source already keeps it.
    """
    if "dataSourceRef" not in before and (spec.get("dataSourceRef") or {}).get("namespace"):
        del spec["dataSourceRef"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    old = "dataSource" in before or "dataSourceRef" in before
    if reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {name: value for name, value in reference.items() if name != "namespace"}
    elif reference is None and source is not None:
        if old or (source.get("apiGroup") or "", source.get("kind", "")) in OLD_SOURCES:
            spec["dataSourceRef"] = dict(source)
        else:
            del spec["dataSource"]


def ingress(ops: Operations, new: Obj, options: Options) -> None:
    """An ingress that names no class gets the default one."""
    annotations = new["metadata"].get("annotations", {})
    if "ingressClassName" not in new["spec"] and "kubernetes.io/ingress.class" not in annotations:
        default = _default_class(ops, "ingressclasses.networking.k8s.io", DEFAULT_INGRESS)
        if default:
            new["spec"]["ingressClassName"] = default


def _default_class(ops: Operations, resource: str, mark: str) -> str:
    """Return the default class; of several the newest."""
    found = [
        obj["metadata"]
        for obj in ops.store.list(ops.registry.by_resource(resource))
        if obj["metadata"].get("annotations", {}).get(mark) == "true"
    ]
    newest = max(found, key=lambda metadata: metadata["creationTimestamp"], default=None)
    return str(newest["name"]) if newest else ""


def certificate_request(ops: Operations, new: Obj, options: Options) -> None:
    """A certificate request says who made it, whatever it says itself."""
    spec, user = new["spec"], options.requester
    for name in ("username", "uid", "groups", "extra"):
        spec.pop(name, None)
    info = user.info() if user is not None else {"username": options.user}
    spec |= {name: value for name, value in info.items() if value}


def stamp_conditions(ops: Operations, old: Obj, new: Obj) -> None:
    """A condition says when it came."""
    now = meta.rfc3339(ops.clock.now())
    for condition in new.get("status", {}).get("conditions", ()):
        condition.setdefault("lastUpdateTime", now)
        condition.setdefault("lastTransitionTime", now)


def node(ops: Operations, new: Obj, options: Options) -> None:
    """A node is tainted until it is ready, and can allot all that it has."""
    found = new.setdefault("status", {})
    if found.get("capacity"):
        found.setdefault("allocatable", dict(found["capacity"]))
    if is_true(new, "Ready"):
        return
    taints = new["spec"].get("taints", [])
    if not any(taint.get("key") == NOT_READY["key"] and taint.get("effect") == "NoSchedule" for taint in taints):
        new["spec"]["taints"] = [*taints, dict(NOT_READY)]


def definition(ops: Operations, new: Obj, options: Options) -> None:
    """A definition knows from the first moment in which version its objects are stored."""
    versions = (new.get("spec") or {}).get("versions") or ()
    stored = [version.get("name", "") for version in versions if version.get("storage")]
    nobody = {"plural": "", "kind": ""}
    new["status"] = {
        "conditions": None,
        "acceptedNames": nobody,
        "storedVersions": list(dict.fromkeys(stored)) or None,
    }


STEPS: dict[str, Callable[[Operations, Obj, Options], None]] = {
    "persistentvolumes": volume,
    "persistentvolumeclaims": claim,
    "ingresses.networking.k8s.io": ingress,
    "services": services.create,
    "certificatesigningrequests.certificates.k8s.io": certificate_request,
    "nodes": node,
    "daemonsets.apps": daemonset,
    "customresourcedefinitions.apiextensions.k8s.io": definition,
}
