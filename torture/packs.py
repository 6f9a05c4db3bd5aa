"""Test packs: a fault that patches nodes, another that patches the same field of the same node, and one that patches
cluster-scoped objects. They are the catalogue's first pack with another injection."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
SKELETON = ROOT / "faults" / "catalog" / "architecture-mismatch"
Obj = dict[str, Any]


def write(folder: Path, node: str) -> None:
    """Write the packs for a cluster with this node into a folder."""
    of_node = {"apiVersion": "v1", "kind": "Node", "name": node}
    pool = "node.example.com/pool"
    spare = {"metadata": {"labels": {pool: "spare"}}, "spec": {"unschedulable": True}}
    burst = {"metadata": {"labels": {"node.example.com/wave": "2", pool: "burst"}}}  # the last one wins the pool
    roles = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "system:basic-user"}
    spaces = {"apiVersion": "v1", "kind": "Namespace", "name": "kube-public"}
    labelled = {"metadata": {"labels": {"team.example.com/owner": "nobody"}}}
    _write(folder, "node-is-spare", [(of_node, spare)])
    _write(folder, "node-bursts", [(of_node, burst)])
    _write(folder, "roles-of-nobody", [(roles, labelled), (spaces, labelled)])


def _write(folder: Path, slug: str, patches: list[tuple[Obj, Obj]]) -> None:
    target = folder / slug
    shutil.copytree(SKELETON, target)
    shutil.rmtree(target / "manifests")  # nothing of it is injected
    path = target / "scenario.yaml"
    pack = yaml.safe_load(path.read_text())
    pack["slug"], pack["title"] = slug, slug.replace("-", " ").capitalize()
    pack["inject"] = [{"kind": "patch", "target": on, "patch": patch} for on, patch in patches]
    pack["symptom"] = [_symptom(*patches[0])]
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
