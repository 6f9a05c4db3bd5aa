"""Guide mode on a control plane that is there already: its objects, for simulated nodes that have joined it.

API server, controllers and scheduler are real; only the nodes are simulated, and everything on them. Every object
carries a label, by which the next start knows what a killed one has left, and never touches anything else.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

from faults import clock, crypto, services
from faults.errors import ClusterError, FaultError, KubeconfigRefused, NotFound
from faults.guide.practice_cluster import LOOK_S, PATIENCE_S, NotReady, apply_settings, is_ready, read_table
from faults.jobs import holder_name
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.models import Cluster, InjectedFault

GROUP = "guide"
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "kubesim-nodes-guide"},
}
"""The group's cluster role, which ``kubesim nodes`` takes away last when its nodes leave."""
LABEL = "faultline.dev/guide"
CLUSTERS_OWN = ("coredns", "kube-proxy", "metrics-server")
"""Addons that a control plane has by itself or does without: no API server reaches a simulated metrics-server."""
FIRST = ("Namespace", "CustomResourceDefinition")
REMOVAL_S, LEAVING_S = 180.0, 90.0
EARLIER = "an earlier guide there to end; python -m kubesim nodes --group guide --remove takes its nodes away"
Obj = dict[str, Any]


def read_kubeconfig(path: Path, context: str) -> str:
    """Return a context of a kubeconfig as a file of its own, under the name of guide mode. Raises NotReady."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise NotReady("There is no kubectl in PATH.")
    if not path.is_file():
        raise NotReady(f"There is no file {path}.")
    words = [kubectl, "--kubeconfig", str(path), *(["--context", context] if context else [])]
    done = subprocess.run(  # noqa: S603
        [*words, "config", "view", "--flatten", "--minify", "-o", "json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotReady(f"{path} cannot be used: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    found["contexts"][0]["name"] = found["current-context"] = GROUP
    return yaml.safe_dump(found)


def make_cluster(text: str) -> tuple[Cluster, Kube]:
    """Return the row of a control plane and a client of it, where nobody else's nodes are. Raises NotReady."""
    try:
        kube = Kube(parse(text))
    except KubeconfigRefused as exc:
        raise NotReady(str(exc)) from exc
    ours = {node["metadata"]["name"] for node in _nodes(kube)}
    others = {node["metadata"]["name"] for node in kube.list("v1", "Node")} - ours
    if others:
        raise NotReady(
            f"The cluster has nodes of its own ({', '.join(sorted(others)[:3])}), which would run pods that only "
            "simulated nodes can run. Use a control plane without nodes, such as that of make testcluster."
        )
    require_free(kube)
    tier = Cluster.Tier.DEDICATED
    return Cluster.objects.create(name=GROUP, tier=tier, kubeconfig=crypto.seal(text)), kube


def await_earlier(kube: Kube, stopped: Callable[[float], bool]) -> None:
    """Wait until nobody runs the guide's nodes: they leave by themselves, or are unready once they are dead."""

    def has_ended() -> bool:
        left = _nodes(kube)
        is_dead = bool(left) and not any(map(is_ready, left))
        return is_dead or _found(kube, ROLE) is None

    _await(has_ended, EARLIER, LEAVING_S, stopped)


def write_nodes(file: Path) -> None:
    """Write the cluster file by which ``kubesim nodes`` makes the guide's nodes."""
    table = read_table()
    file.write_text(yaml.safe_dump({key: table[key] for key in ("nodes", "present")}), encoding="utf-8")


def install(kube: Kube, stopped: Callable[[float], bool]) -> None:
    """Create everything that the guide needs, instead of what a killed run has left. Raises NotReady."""
    remove(kube)
    for obj in objects():
        _await(partial(_is_created, kube, obj), _name_of(obj), PATIENCE_S, stopped)
    apply_settings(kube, read_table()["settings"])


def remove(kube: Kube) -> None:
    """Remove everything of the guide, and wait until it is gone. Raises NotReady where it does not go."""
    clusterwide = [obj for obj in objects() if "namespace" not in obj["metadata"]]
    _delete(kube, [obj for obj in clusterwide if obj["kind"] == "Namespace"])
    _delete(kube, [obj for obj in clusterwide if obj["kind"] != "Namespace"])  # what pods are allowed, after them


def _delete(kube: Kube, gone: list[Obj]) -> None:
    """Delete what is ours, and wait for all of it."""
    for obj in gone:
        if _is_ours(_found(kube, obj)):
            kube.delete(obj["apiVersion"], obj["kind"], obj["metadata"]["name"])
    for obj in gone:
        _await(partial(_is_gone, kube, obj), f"the end of {_name_of(obj)}", REMOVAL_S, _pause)


def recover_faults(cluster: Cluster) -> None:
    """End every fault that is there still: the cluster keeps notes of them."""
    for fault in InjectedFault.objects.filter(cluster=cluster, recovered_at__isnull=True):
        with suppress(FaultError, ClusterError):
            services.recover_fault(cluster=cluster, fault_id=fault.fault_id, holder=holder_name())


def objects() -> list[Obj]:
    """Return what is created, in its order: addons, namespaces, and the guide's own."""
    table = read_table()
    named = [{"metadata": {"name": name}} for name in table["namespaces"]]
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", **meta} for meta in named]
    found = [*_addons(table["addons"]), *namespaces, *table["manifests"]]
    for obj in found:
        obj["metadata"].setdefault("labels", {})[LABEL] = "true"
    return sorted(found, key=lambda obj: FIRST.index(obj["kind"]) if obj["kind"] in FIRST else len(FIRST))


def _addons(names: list[str]) -> Iterator[Obj]:
    for name in names:
        if name not in CLUSTERS_OWN:
            manifest = settings.BASE_DIR / "kubesim" / "addons" / f"{name}.yaml"
            yield from filter(None, yaml.safe_load_all(manifest.read_text(encoding="utf-8")))


def require_free(kube: Kube) -> None:
    """Raise NotReady where something that the guide would create is somebody else's."""
    for obj in objects():
        found = _found(kube, obj)
        if found is not None and not _is_ours(found):
            raise NotReady(f"The cluster has {_name_of(obj)} already, and not from an earlier guide.")


def _found(kube: Kube, obj: Obj) -> Obj | None:
    meta = obj["metadata"]
    try:
        return kube.get(obj["apiVersion"], obj["kind"], meta["name"], meta.get("namespace", ""))
    except NotFound:
        return None


def _is_ours(found: Obj | None) -> bool:
    return found is not None and LABEL in (found["metadata"].get("labels") or {})


def _is_gone(kube: Kube, obj: Obj) -> bool:
    return not _is_ours(_found(kube, obj))


def _is_created(kube: Kube, obj: Obj) -> bool:
    """Create an object; False while its kind is not served yet."""
    try:
        kube.create(obj)
    except NotFound:
        return False
    return True


def _pause(seconds: float) -> bool:
    """Wait where nobody can stop us: what is half removed would stay."""
    clock.RealClock().wait(seconds)
    return False


def _await(is_true: Callable[[], bool], what: str, seconds: float, stopped: Callable[[float], bool]) -> None:
    end = clock.now().timestamp() + seconds
    while not is_true():
        if clock.now().timestamp() > end:
            raise NotReady(f"Waited {seconds:.0f} s for {what}.")
        if stopped(LOOK_S):
            raise NotReady("Stopped before it was ready.")


def _name_of(obj: Obj) -> str:
    return f"{obj['kind']} {obj['metadata']['name']}"


def _nodes(kube: Kube) -> list[Obj]:
    return kube.list("v1", "Node", label_selector=f"kubesim.dev/group={GROUP}")
