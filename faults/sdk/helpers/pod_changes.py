"""The changes to a pod template that bring the fault library into its containers, and their exact undoing.

``apply`` returns a record of what was there before; ``undo`` needs it, and leaves alone what others changed since.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import Any

CONFIG_MAP_NAME = "cuda-fault-injection-lib"
INIT_CONTAINER = "compile-cuda-fault-lib"
VOLUME, SOURCE_VOLUME = "cuda-fault-lib", "cuda-fault-lib-source"
SOURCE_FILE, LIBRARY_FILE = "fake_cuda_xid79.c", "fake_cuda_xid79.so"
FOLDER = "/cuda-fault"
LIBRARY = f"{FOLDER}/{LIBRARY_FILE}"
PRELOAD, ENABLED, XID_TYPE = "LD_PRELOAD", "CUDA_FAULT_INJECTION_ENABLED", "CUDA_XID_TYPE"
HOSTNAME = "kubernetes.io/hostname"
Obj = dict[str, Any]


@dataclass(frozen=True)
class CudaFault:
    """What a template's containers are to get; ``hostname`` pins their pods to a node."""

    xid: int
    hostname: str | None = None
    is_enabled: bool = True
    compiler_image: str = "gcc:latest"

    @property
    def variables(self) -> dict[str, str]:
        """The variables that the library reads."""
        return {ENABLED: "1" if self.is_enabled else "0", XID_TYPE: str(self.xid)}


@dataclass(frozen=True)
class Part:
    """A place in an object that describes pods: its pod spec, and which of the containers use the GPU.

    ``inherited`` are variables that the containers get from further up in the object.
    """

    pod: Obj
    containers: list[Obj]
    inherited: tuple[Obj, ...] = ()


def apply(part: Part, fault: CudaFault) -> Obj:
    """Change a part that has none of it; return the record of what was there before."""
    record = {
        "affinity": copy.deepcopy(part.pod.get("affinity")),
        "hostname": fault.hostname,
        "containers": {_name(container): _enter(container, fault, part.inherited) for container in part.containers},
    }
    part.pod.setdefault("volumes", []).extend(volumes())
    part.pod.setdefault("initContainers", []).append(init_container(fault.compiler_image))
    if fault.hostname is not None:
        part.pod["affinity"] = pinned(part.pod.get("affinity"), fault.hostname)
    return record


def undo(part: Part, record: Obj | None) -> None:
    """Take the changes back. Without a record everything of our names goes, and the affinity stays."""
    known = (record or {}).get("containers") or {}
    for container in [*part.containers, *(part.pod.get("containers") or [])]:
        _leave(container, known.get(_name(container)) or {})
    _without(part.pod, "volumes", {VOLUME, SOURCE_VOLUME})
    _without(part.pod, "initContainers", {INIT_CONTAINER})
    hostname = (record or {}).get("hostname")
    if record is not None and hostname is not None:
        _unpin(part.pod, record["affinity"], hostname)


def volumes() -> list[Obj]:
    """Return the volumes: where the source is, and where its library goes."""
    return [
        {"name": SOURCE_VOLUME, "configMap": {"name": CONFIG_MAP_NAME}},
        {"name": VOLUME, "emptyDir": {}},
    ]


def init_container(image: str) -> Obj:
    """Return the container that compiles the library for the node's own processor."""
    compiled = f"gcc -shared -fPIC -O2 -o /dest/{LIBRARY_FILE} /source/{SOURCE_FILE} -ldl"
    return {
        "name": INIT_CONTAINER,
        "image": image,
        "command": ["/bin/sh", "-c"],
        "args": [f"set -e\n{compiled}\nls -l /dest/{LIBRARY_FILE}"],
        "volumeMounts": [
            {"name": SOURCE_VOLUME, "mountPath": "/source", "readOnly": True},
            {"name": VOLUME, "mountPath": "/dest"},
        ],
    }


def carries(pod: Obj, fault: CudaFault) -> bool:
    """Return whether a pod has the library, with these settings."""
    wanted = fault.variables.items()
    for container in pod["spec"].get("containers") or []:
        values = {row["name"]: row.get("value", "") for row in container.get("env") or []}
        if LIBRARY in values.get(PRELOAD, "") and wanted <= values.items():
            return True
    return False


def is_clean(pod: Obj) -> bool:
    """Return whether a pod has nothing of the library."""
    names = {container["name"] for container in pod["spec"].get("initContainers") or []}
    variables = [row for each in pod["spec"].get("containers") or [] for row in each.get("env") or []]
    return INIT_CONTAINER not in names and not any(LIBRARY in row.get("value", "") for row in variables)


def pinned(affinity: Obj | None, hostname: str) -> Obj:
    """Return an affinity that asks for everything it asked for before, and for a node."""
    found: Obj = copy.deepcopy(affinity or {})
    required = found.setdefault("nodeAffinity", {}).setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.setdefault("nodeSelectorTerms", []) or [{}]
    for term in terms:
        term["matchExpressions"] = [*(term.get("matchExpressions") or []), _on(hostname)]
    required["nodeSelectorTerms"] = terms
    return found


def _on(hostname: str) -> Obj:
    return {"key": HOSTNAME, "operator": "In", "values": [hostname]}


def _unpin(pod: Obj, before: Obj | None, hostname: str) -> None:
    """Give a pod its affinity back; one that somebody has changed since loses our part of it alone."""
    now = pod.get("affinity")
    if now == pinned(before, hostname):
        now = before
    elif now:
        now = _without_pin(now, hostname)
    if now is None:
        pod.pop("affinity", None)
    else:
        pod["affinity"] = now


def _without_pin(affinity: Obj, hostname: str) -> Obj | None:
    node = affinity.get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    for term in terms:
        left = [row for row in term.get("matchExpressions") or [] if row != _on(hostname)]
        term.pop("matchExpressions", None)
        term.update({"matchExpressions": left} if left else {})
    required["nodeSelectorTerms"] = [term for term in terms if term]
    if not required["nodeSelectorTerms"]:
        node.pop("requiredDuringSchedulingIgnoredDuringExecution", None)
    if not node:
        affinity.pop("nodeAffinity", None)
    return affinity or None


def _name(container: Obj) -> str:
    return str(container.get("name") or "")


def _enter(container: Obj, fault: CudaFault, inherited: tuple[Obj, ...]) -> Obj:
    """Give a container the variables and the mount; return the variables that it had of these names."""
    rows = container.setdefault("env", [])
    before = {name: _row(rows, name) for name in (PRELOAD, *fault.variables)}
    theirs = (before[PRELOAD] or _row(list(inherited), PRELOAD) or {}).get("value")
    preload = f"{theirs}:{LIBRARY}" if theirs else LIBRARY
    for name, value in {PRELOAD: preload, **fault.variables}.items():
        _put(rows, {"name": name, "value": value})
    container.setdefault("volumeMounts", []).append({"name": VOLUME, "mountPath": FOLDER, "readOnly": True})
    return before


def _leave(container: Obj, before: Obj) -> None:
    """Give a container the variables back that it had; the list keeps its order, what others wrote stays."""
    rows = container.get("env") or []
    preload = (_row(rows, PRELOAD) or {}).get("value", "")
    if LIBRARY in preload:
        theirs = _without_library(preload)
        known = before.get(PRELOAD) or {}
        _restore(container, PRELOAD, known if theirs in ("", known.get("value")) else {"value": theirs})
        for name in (ENABLED, XID_TYPE):
            _restore(container, name, before.get(name) or {})
    _without(container, "volumeMounts", {VOLUME})


def _restore(container: Obj, name: str, row: Obj) -> None:
    if row:
        _put(container["env"], {"name": name, **row})
    else:
        _without(container, "env", {name})


def _without_library(value: str) -> str:
    """Return what others have in LD_PRELOAD beside our library."""
    return ":".join(part for part in re.split("[: ]", value) if part not in ("", LIBRARY))


def _row(rows: list[Obj], name: str) -> Obj | None:
    return next((copy.deepcopy(row) for row in rows if row["name"] == name), None)


def _put(rows: list[Obj], wanted: Obj) -> None:
    for at, row in enumerate(rows):
        if row["name"] == wanted["name"]:
            rows[at] = wanted
            return
    rows.append(wanted)


def _without(holder: Obj, key: str, names: set[str]) -> None:
    """Take rows out of a list by their names; an empty list goes with its last row."""
    rows = holder.get(key)
    if rows and any(row["name"] in names for row in rows):
        left = [row for row in rows if row["name"] not in names]
        holder.pop(key)
        holder.update({key: left} if left else {})
