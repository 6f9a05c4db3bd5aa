"""Objects that stand in a revert's way, and the commands that help a person against them."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from faults.engine.fingerprint import namespaced_objects
from faults.engine.model import Obj, Target
from faults.engine.ports import ClusterPort
from faults.errors import NotFound

NO_FINALIZERS = """'{"metadata":{"finalizers":null}}'"""


@dataclass(frozen=True, slots=True)
class Stuck:
    """Something that could not be taken back, the reason, and the kubectl command that a person must run."""

    target: str
    reason: str
    command: str


def kubectl_name(target: Target) -> str:
    """Return kind, name and namespace as kubectl's command line takes them, in a shell.

    Names of roles and bindings may hold anything but a slash and a percent sign: also ``$(reboot)`` and ``--all``.
    """
    group, _, version = target.api_version.rpartition("/")
    custom = "." in group and not group.endswith(".k8s.io")
    kind = f"{target.kind.lower()}.{version}.{group}" if custom else target.kind.lower()
    between = "/" if target.name.startswith("-") else " "
    name = f"{kind}{between}{_word(target.name)}"
    return f"{name} -n {_word(target.namespace)}" if target.namespace else name


def _word(text: str) -> str:
    """Return a word for a shell. What would drive the terminal that it is pasted into becomes an escape of bash."""
    if text.isprintable():
        return shlex.quote(text)
    kept = (char if char.isprintable() and char not in "'\\" else f"\\U{ord(char):08x}" for char in text)
    return f"$'{''.join(kept)}'"


def obstacles(cluster: ClusterPort, target: Target, uid: str) -> Iterator[Stuck]:
    """Yield what keeps a deleted object from going: its own finalizers, or those of what its namespace holds."""
    for live in obstructing(cluster, target, uid):
        inside = Target.of(live) != target  # the namespace's end deletes it, if it has not done so yet
        yield _stuck(live, ends=inside or "deletionTimestamp" in live["metadata"])


def obstructing(cluster: ClusterPort, target: Target, uid: str) -> Iterator[Obj]:
    """Yield the objects that keep a deleted one from going: those that its namespace holds, or itself."""
    with contextlib.suppress(NotFound):
        live = cluster.get(target.api_version, target.kind, target.name, target.namespace)
        if live["metadata"]["uid"] == uid:
            inside = list(_inside(cluster, live)) if target.kind == "Namespace" else []
            yield from inside or [live]


def _inside(cluster: ClusterPort, namespace: Obj) -> Iterator[Obj]:
    held = namespaced_objects(cluster, namespace["metadata"]["name"])
    return (obj for obj in held if obj["metadata"].get("finalizers") or obj["kind"] == "Pod")


def _stuck(live: Obj, *, ends: bool) -> Stuck:
    target, finalizers = Target.of(live), live["metadata"].get("finalizers") or []
    if finalizers and ends:
        reason = f"is held by the finalizer {', '.join(finalizers)}"
        return Stuck(str(target), reason, f"kubectl patch {kubectl_name(target)} --type=merge -p {NO_FINALIZERS}")
    if target.kind == "Pod":
        reason = "does not end: nobody on its node answers"
        return Stuck(str(target), reason, f"kubectl delete {kubectl_name(target)} --force --grace-period=0")
    if target.kind == "Namespace":
        return Stuck(str(target), _why(live), f"kubectl describe {kubectl_name(target)}")
    return Stuck(str(target), "is still there", f"kubectl delete {kubectl_name(target)}")


def _why(namespace: Obj) -> str:
    """Return what the namespace controller says about a deletion that does not come to an end."""
    conditions = namespace.get("status", {}).get("conditions") or []
    told = [condition.get("message", "") for condition in conditions if condition.get("status") == "True"]
    return "is still being deleted" + (f": {' '.join(filter(None, told))}" if any(told) else "")
