"""A practice cluster whose process dies is started again, and its host says so."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from faults import crypto, services
from faults.errors import ClusterError
from faults.models import Cluster
from faults.practice import Restarts, _place


def process_of(cluster: Cluster, folder: Path) -> int:
    """Return the process of a cluster; the host on this folder has others meanwhile, which are not ours."""
    controls = (folder / "sockets").resolve().glob("*.control")
    ours = next(path for path in controls if described(path)["kubeconfig"] == crypto.unseal(cluster.kubeconfig))
    *_, newest = sorted(processes_with(str(ours.with_suffix(".page"))))  # older is the front, which watches it
    return newest[1]


def described(control: Path) -> dict[str, str]:
    """Return what the process behind a socket tells its host."""
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(control))
        except OSError:  # a cluster of another test, which has just gone
            return {"kubeconfig": ""}
        asking.sendall(b'{"call": "describe", "arguments": []}\n')
        with asking.makefile() as answer:
            return json.loads(answer.readline() or "{}").get("answer", {"kubeconfig": ""})


def processes_with(page: str) -> Iterator[tuple[int, int]]:
    """Yield when each process began that has a page in its memory, and its number."""
    for path in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            if page in path.read_text():
                yield int((path.parent / "stat").read_text().rpartition(")")[2].split()[19]), int(path.parent.name)


def test_a_restart_is_counted_and_the_kubeconfig_still_opens_the_cluster(cluster, kube, practice):
    assert services.restarts_of(cluster=cluster) == Restarts(0, ())
    os.kill(process_of(cluster, practice.folder), signal.SIGKILL)
    eventually(lambda: services.restarts_of(cluster=cluster) == Restarts(1, ()))
    eventually(lambda: answers(kube))


def eventually(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def answers(kube) -> bool:
    try:
        return bool(kube.version())
    except ClusterError:
        return False


def test_clusters_that_others_run_tell_nothing():
    assert services.restarts_of(cluster=Cluster(name="real", tier=Cluster.Tier.DEDICATED)) is None


def test_an_object_is_named_as_kubectl_would_name_it():
    removed = {"at": "", "resource": "deployments.apps", "namespace": "ml", "name": "web"}
    assert _place(removed) == "deployments ml/web"
    assert _place(removed | {"resource": "nodes", "namespace": ""}) == "nodes web"
