"""A pack whose faults are those of nodes, for tests: the catalogue's first one, injected otherwise."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import yaml

SKELETON = Path(__file__).resolve().parents[1] / "catalog" / "architecture-mismatch"
SLUG = "node-breaks"
ALLOCATABLE = "nodes.filter(n, n.metadata.name == '${cluster.node}')[0].status.allocatable['nvidia.com/gpu']"


def write(folder: Path, *steps: dict, gpus: int) -> None:
    """Write the pack; its symptom is that the node has so many GPUs to give."""
    target = folder / SLUG
    shutil.copytree(SKELETON, target)
    shutil.rmtree(target / "manifests")
    path = target / "scenario.yaml"
    pack = yaml.safe_load(path.read_text(encoding="utf-8"))
    pack |= {"slug": SLUG, "title": "A node breaks", "inject": list(steps)}
    pack["requires"] = {"tiers": ["practice"], "agent": True, "pools": [{"name": "training", "count": 1, "gpus": 8}]}
    pack["cluster-values"] = {"node": {"pool": "training"}}
    reads = {"nodes": {"apiVersion": "v1", "kind": "Node"}}
    shown = {"title": "The node has fewer GPUs", "reads": reads, "expr": f"{ALLOCATABLE} == '{gpus}'"}
    pack["symptom"] = [{**shown, "found": f"string({ALLOCATABLE}) + ' GPUs'"}]
    path.write_text(yaml.safe_dump(json.loads(json.dumps(pack)), sort_keys=False), encoding="utf-8")
