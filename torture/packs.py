"""Test packs: a fault that patches nodes, another that patches the same field of the same node, and one that patches
cluster-scoped objects; and two with steps of every kind. They are the catalogue's first pack, injected otherwise."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
SKELETON = ROOT / "faults" / "catalog" / "architecture-mismatch"
Obj = dict[str, Any]


def write(folder: Path, node: str, *, clash: bool = True) -> None:
    """Write the packs for a cluster with this node into a folder.

    Unless they ``clash`` they can be in one interview: the second patches another field of the node.
    """
    of_node = {"apiVersion": "v1", "kind": "Node", "name": node}
    pool = "node.example.com/pool"
    spare = {"metadata": {"labels": {pool: "spare"}}, "spec": {"unschedulable": True}}
    wave = {"node.example.com/wave": "2"}
    burst = {"metadata": {"labels": wave | {pool: "burst"} if clash else wave}}  # the last one wins the pool
    roles = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "system:basic-user"}
    spaces = {"apiVersion": "v1", "kind": "Namespace", "name": "${namespace.workloads}"}
    labelled = {"metadata": {"labels": {"team.example.com/owner": "nobody"}}}
    _write(folder, "node-is-spare", [_patch(of_node, spare)])
    _write(folder, "node-bursts", [_patch(of_node, burst)])
    _write(folder, "roles-of-nobody", [_patch(roles, labelled), _patch(spaces, labelled)])


def write_kinds(folder: Path, node: str) -> None:
    """Write two packs that change entries of the same lists of a node, an account and a ClusterRole, and the same
    namespace; the second deletes an object that the first has patched, and the first calls a program of its own.
    A third has what can be made without them, and without waiting for a program."""
    of_node = {"apiVersion": "v1", "kind": "Node", "name": node}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "system:basic-user"}
    info = role | {"name": "system:public-info-viewer"}
    space = {"apiVersion": "v1", "kind": "Namespace", "name": "${namespace.workloads}"}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "namespace": "kube-public", "name": "default"}
    _write(
        folder,
        "kinds-first",
        [
            _patch(of_node, {"metadata": {"labels": {"node.example.com/first": "1"}}}),
            _operations(of_node, ("add", "/spec/taints", [_taint("first"), _taint("shared")])),
            _operations(role, ("add", "/rules/0/verbs/-", "delete"), ("add", "/rules/-", _rule("first"))),
            _patch(space, {"metadata": {"labels": {"team.example.com/owner": "first", "first": "1"}}}),
            _patch(account, {"imagePullSecrets": [{"name": "first"}]}, "strategic"),
            _patch(info, {"metadata": {"labels": {"team.example.com/owner": "first"}}}),
            {"kind": "manifest", "file": "manifests/program.yaml"},
            CALL,
        ],
        {"manifests/program.yaml": PROGRAM},
    )
    _write(
        folder,
        "kinds-second",
        [
            _patch(of_node, {"metadata": {"labels": {"node.example.com/second": "1"}}}),
            _operations(of_node, ("add", "/spec/taints/1", _taint("second")), ("remove", "/spec/taints/2")),
            _operations(role, ("add", "/rules/0", _rule("second")), ("add", "/rules/1/verbs/-", "patch")),
            _patch(space, {"metadata": {"labels": {"team.example.com/owner": "second", "second": "1"}}}),
            _patch(account, {"imagePullSecrets": [{"name": "second"}]}, "strategic"),
            {"kind": "delete", "target": info},
        ],
    )
    _write(
        folder,
        "kinds-alone",
        [
            _patch(of_node, {"metadata": {"labels": {"node.example.com/alone": "1"}}}),
            _operations(of_node, ("add", "/spec/taints", [_taint("alone")])),
            _operations(role, ("add", "/rules/0", _rule("alone"))),
            _patch(account, {"imagePullSecrets": [{"name": "alone"}]}, "strategic"),
            {"kind": "delete", "target": info},
        ],
    )


CALL: Obj = {
    "kind": "call",
    "target": {"kind": "Service", "namespace": "${namespace.workloads}", "name": "settings", "port": 80},
    "method": "PUT",
    "path": "/settings/slow",
    "body": {"seconds": 5},
    "undo": {"method": "DELETE", "path": "/settings/slow"},
    "read": {"path": "/settings/slow", "json": {"seconds": 5}},
}
PROGRAM = (Path(__file__).parent / "program.yaml").read_text(encoding="utf-8")
"""A pod that keeps what it is sent, and its Service."""


def _patch(target: Obj, patch: Obj, patch_type: str = "merge") -> Obj:
    return {"kind": "patch", "target": target, "type": patch_type, "patch": patch}


def _operations(target: Obj, *operations: tuple[Any, ...]) -> Obj:
    named = [dict(zip(("op", "path", "value"), operation, strict=False)) for operation in operations]
    return {"kind": "patch", "target": target, "type": "json", "patch": named}


def _taint(name: str) -> Obj:
    return {"key": f"node.example.com/{name}", "effect": "PreferNoSchedule"}


def _rule(name: str) -> Obj:
    return {"apiGroups": ["example.com"], "resources": [name], "verbs": ["get"]}


def write_node_faults(folder: Path, slug: str, node: str, steps: list[Obj], *, gpus: int) -> None:
    """Write a pack whose faults are those of a node, by its agent; the node then has so many GPUs to give."""
    of_node = f"nodes.filter(n, n.metadata.name == '{node}')[0].status.allocatable['nvidia.com/gpu']"
    symptom = {
        "title": f"Node {node} has {gpus} GPUs to give",
        "reads": {"nodes": {"apiVersion": "v1", "kind": "Node"}},
        "expr": f"{of_node} == '{gpus}'",
        "found": f"string({of_node}) + ' GPUs'",
    }
    _write(folder, slug, [{**step, "node": node} for step in steps], symptom=symptom)


def _write(
    folder: Path, slug: str, steps: list[Obj], files: Mapping[str, str] | None = None, symptom: Obj | None = None
) -> None:
    target = folder / slug
    shutil.copytree(SKELETON, target)
    shutil.rmtree(target / "manifests")  # nothing of it is injected
    for name, text in (files or {}).items():
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_text(text, encoding="utf-8")
    path = target / "scenario.yaml"
    pack = yaml.safe_load(path.read_text())
    pack["slug"], pack["title"] = slug, slug.replace("-", " ").capitalize()
    pack["requires"]["tiers"] = ["practice", "dedicated"]  # objects of the whole cluster are changed
    pack["existing"] = ["kube-public"]
    pack["inject"] = steps
    pack["requires"]["agent"] = symptom is not None
    pack["symptom"] = [symptom or _symptom(steps[0]["target"], steps[0]["patch"])]
    plain = json.loads(json.dumps(pack))  # no aliases
    path.write_text(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def _symptom(target: Obj, patch: Obj) -> Obj:
    label, value = next(iter(patch["metadata"]["labels"].items()))
    held = f"o.metadata.name == '{target['name']}' && has(o.metadata.labels) && '{label}' in o.metadata.labels"
    return {
        "title": f"{target['kind']} {target['name']} has the label",
        "reads": {"objects": {"apiVersion": target["apiVersion"], "kind": target["kind"]}},
        "expr": f"objects.exists(o, {held} && o.metadata.labels['{label}'] == '{value}')",
        "found": "string(size(objects)) + ' objects'",
    }
