"""A practice cluster whose process dies is started again, and its host says so."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from faults import services
from faults.errors import ClusterError
from faults.models import Cluster
from faults.practice import Restarts, _place


def newest_process(folder: Path) -> int:
    """Return the process of the cluster that the host on this folder made last."""
    with_folder = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes().split(b"\0"):
                began = int((path.parent / "stat").read_text().rpartition(")")[2].split()[19])
                with_folder.append((began, int(path.parent.name)))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return max(with_folder)[1]  # not the highest number: those begin anew at some point


def test_a_restart_is_counted_and_the_kubeconfig_still_opens_the_cluster(cluster, kube, practice):
    assert services.restarts_of(cluster=cluster) == Restarts(0, ())
    os.kill(newest_process(practice.folder), signal.SIGKILL)
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
