"""Writes through a path below an object: status, scale, finalize, binding, eviction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubesim import admission
from kubesim.admission import webhooks
from kubesim.admission.requests import Request
from kubesim.api import deletion, meta, status
from kubesim.api.options import Options
from kubesim.api.selectors import format_struct
from kubesim.errors import Obj
from kubesim.schema.paths import dig
from kubesim.schema.registry import Kind, Scale
from kubesim.store import Stored

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

POSTED = {"binding": ("v1", "Binding"), "eviction": ("policy/v1", "Eviction")}
SCALE = Kind("autoscaling", "v1", "Scale", "scales", schema="V1Scale")
SUCCESS: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def restricted(kind: Kind, old: Obj, new: Obj, subresource: str) -> Obj:
    """Return ``new`` with only those parts changed that this path may change."""
    if subresource == "status" and kind.custom is not None:
        managers = {name: value for name, value in new["metadata"].items() if name == "managedFields"}
        return _with({**old, "metadata": {**old["metadata"], **managers}}, "status", new.get("status"))
    if subresource == "status":
        kept = {**old, "metadata": {**new["metadata"]}}
        for name in kind.kept_beside_status:
            _copy(old["metadata"], kept["metadata"], name)
        if kind.resource == "pods" and "qosClass" not in (new.get("status") or {}):
            new = _with(new, "status", {**(new.get("status") or {}), "qosClass": old["status"].get("qosClass")})
        return _with(kept, "status", new.get("status"))
    if subresource == "approval":
        conditions = new.get("status", {}).get("conditions")
        kept = {**old, "metadata": {**new["metadata"]}}
        return _with(kept, "status", _with(old["status"], "conditions", conditions))
    if subresource == "finalize":
        spec = {**old.get("spec", {}), "finalizers": new.get("spec", {}).get("finalizers")}
        return {**old, "metadata": dict(old["metadata"]), "spec": {k: v for k, v in spec.items() if v}}
    if subresource == "ephemeralcontainers":
        spec = {**old["spec"], "ephemeralContainers": new.get("spec", {}).get("ephemeralContainers")}
        return {**old, "metadata": dict(old["metadata"]), "spec": {k: v for k, v in spec.items() if v is not None}}
    return _with(new, "status", old.get("status")) if kind.has_status else new


def _with(obj: Obj, name: str, value: Any) -> Obj:
    rest = {key: item for key, item in obj.items() if key != name}
    return rest if value is None else rest | {name: value}


def _copy(source: Obj, target: Obj, name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def scale_of(kind: Kind, obj: Obj) -> Obj:
    """Return the autoscaling/v1 Scale of an object. Raises 404 where its kind does not scale."""
    scale = _scale(kind)
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    shown = {"replicas": dig(obj, scale.status) or 0}
    selector = dig(obj, scale.selector) if scale.selector else format_struct(_selector(obj))
    if selector:
        shown["selector"] = selector
    replicas = dig(obj, scale.spec)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: obj["metadata"][name] for name in names if name in obj["metadata"]},
        "spec": {} if not replicas else {"replicas": replicas},
        "status": shown,
    }


def _selector(obj: Obj) -> Obj | None:
    """Return an object's selector; that of a ReplicationController is only labels."""
    found: Obj | None = obj.get("spec", {}).get("selector")
    return {"matchLabels": found} if found and obj["kind"] == "ReplicationController" else found


def replace_scale(ops: Operations, kind: Kind, namespace: str, name: str, scale: Obj, options: Options) -> Obj:
    """Set the replicas of an object to those of a Scale and return its new Scale."""
    paths = _scale(kind)
    old = ops.current(kind, namespace, name)
    if old is None:
        raise status.not_found(kind, name)
    scale = admission.decode(SCALE, scale, options)
    meta.check_name(scale["metadata"], name)
    replicas = scale["spec"].get("replicas", 0)
    if replicas < 0 and kind.custom is None:
        error = status.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise status.invalid(SCALE, name, [error])
    given = {key: scale["metadata"][key] for key in ("resourceVersion", "uid") if scale["metadata"].get(key)}
    new = {**_set(old, paths.spec, replicas), "metadata": old["metadata"] | given}
    options.through = "scale"
    return scale_of(kind, ops.save(kind, old, new, "", options))


def scaled(kind: Kind, scale: Obj) -> Obj:
    """Return the part of an object that a Scale speaks of."""
    named = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": scale["metadata"].get("name")}}
    replicas = scale["spec"].get("replicas")
    return named if replicas is None else _set(named, _scale(kind).spec, replicas)


def _set(obj: Obj, path: tuple[str, ...], value: Any) -> Obj:
    """Return a copy of an object with another value at a path."""
    name, *rest = path
    return {**obj, name: _set(obj.get(name) or {}, tuple(rest), value) if rest else value}


def _scale(kind: Kind) -> Scale:
    if kind.scale is None:
        raise status.no_resource()
    return kind.scale


def post(
    ops: Operations, kind: Kind, namespace: str, name: str, subresource: str, body: Obj, options: Options
) -> Obj:
    """Answer a POST to ``binding`` or ``eviction``; other subresources are served elsewhere (404 here)."""
    target = ops.store.get(kind, namespace, name)
    if target is not None and subresource in POSTED:
        posted = {"kind": POSTED[subresource][1], "apiVersion": POSTED[subresource][0], **body}
        asked = Request(ops, kind, kind, None, target, subresource, options, posted=posted)
        admission.of_connection(asked)
    match subresource:
        case "binding":
            return bind(ops, kind, namespace, name, body, options)
        case "eviction":
            return deletion.evict(ops, kind, namespace, name, body, options)
        case _:
            raise status.no_resource()


def bind(ops: Operations, kind: Kind, namespace: str, name: str, body: Obj, options: Options) -> Obj:
    """Assign a pod to a node. Raises 409 where it has one already or is being deleted."""
    pod = ops.store.get(kind, namespace, name)
    if pod is None:
        raise status.not_found(kind, name)
    body = admission.decode_body("Binding", body)
    target = body.get("target") or {}
    node = target.get("name", "")
    if target.get("kind") not in (None, "", "Node"):
        raise status.bad_request(status.unsupported("target.kind", target["kind"], ("Node", "<empty>")).text())
    if not node:
        raise status.bad_request(status.required("target.name").text())
    meta.check_version(kind, pod, {"metadata": {"resourceVersion": "0", "uid": (body["metadata"] or {}).get("uid")}})
    if pod["metadata"].get("deletionTimestamp"):
        raise _binding_conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if bound := pod["spec"].get("nodeName"):
        raise _binding_conflict(name, f'pod {name} is already assigned to node "{bound}"')
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    scheduled["lastTransitionTime"] = meta.rfc3339(ops.clock.now())
    others = [c for c in pod.get("status", {}).get("conditions", ()) if c["type"] != "PodScheduled"]
    new = {
        **pod,
        "metadata": dict(pod["metadata"]),
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**pod.get("status", {}), "conditions": [*others, scheduled]},
    }
    if not options.dry_run:
        ops.store.update(kind, meta.ordered(new))
    return {**SUCCESS, "code": 201}


def _binding_conflict(name: str, why: str) -> Exception:
    binding = Kind("", "v1", "Pod", "pods/binding")
    return status.conflict(binding, name, why)


def of_change(
    ops: Operations, kind: Kind, old: Stored, new: Obj, subresource: str, options: Options
) -> tuple[Obj, Obj | None]:
    """Return a changed object, of which only what its path may change has changed, as webhooks leave it.

    Where they have changed it, what it was before comes second: what they change belongs to no manager.
    """
    own = restricted(kind, old, new, subresource)
    if options.talk is None or webhooks.none(ops):
        return own, None
    before = dict(own)
    request = Request.of(ops, kind, old, new, subresource, options)
    changed = webhooks.mutate(request, admission.reworker(ops, kind, options), lambda: False)
    return restricted(kind, old, new, subresource), before if changed else None
