"""The real kube-scheduler, kube-controller-manager and kwok at work on kubesim, in place of its own.

They send protobuf, as they do by default, and accept it before JSON.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml
from kubernetes import client, config

BINARIES = Path(os.environ.get("TESTCLUSTER_BIN", Path.home() / ".cache/faultline/testcluster-bin"))
PROGRAMS = ("kube-scheduler", "kube-controller-manager", "kwok")
SECONDS = 60
LABELS = {"app": "web"}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]},
        },
    },
}
found = {name: shutil.which(name, path=f"{BINARIES}{os.pathsep}{os.environ['PATH']}") for name in PROGRAMS}
missing = [name for name, path in found.items() if path is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.torture,
    pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not found in {BINARIES}; run: make testcluster"),
]


@contextmanager
def running(folder: Path, name: str, *command: str) -> Iterator[None]:
    """Run a program while the block lasts; what it says goes to NAME.log."""
    with (folder / f"{name}.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(10)


def eventually(check, what):
    """Wait until ``check`` answers."""
    end, pause = time.monotonic() + SECONDS, threading.Event()
    while time.monotonic() < end:
        if found := check():
            return found
        pause.wait(0.2)
    raise AssertionError(f"{what} did not happen within {SECONDS} s")


def ready(kubeconfig: Path) -> bool:
    return kubeconfig.exists() and bool(yaml.safe_load(kubeconfig.read_text()))


def test_the_real_scheduler_and_controllers_do_their_work(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    serve = (sys.executable, "-m", "kubesim", "serve", "--kubeconfig", str(kubeconfig))
    common = (f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=true")
    with ExitStack() as stack:
        stack.enter_context(running(tmp_path, "kubesim", *serve, "--without", ",".join(("scheduler", "controllers"))))
        eventually(lambda: ready(kubeconfig), "kubesim's start")
        stack.enter_context(running(tmp_path, PROGRAMS[0], str(found[PROGRAMS[0]]), *common))
        manager = (str(found[PROGRAMS[1]]), *common, "--use-service-account-credentials=true")
        stack.enter_context(running(tmp_path, PROGRAMS[1], *manager))
        api = config.new_client_from_config(str(kubeconfig))
        stack.callback(api.close)
        apps, core = client.AppsV1Api(api), client.CoreV1Api(api)
        apps.create_namespaced_deployment("default", DEPLOYMENT)

        def available():
            return apps.read_namespaced_deployment_status("web", "default").status.available_replicas == 2

        eventually(available, "the deployment's roll-out")
        assert all(pod.spec.node_name for pod in core.list_namespaced_pod("default").items)
        core.create_namespace({"metadata": {"name": "brief"}})
        core.delete_namespace("brief")
        eventually(
            lambda: "brief" not in [space.metadata.name for space in core.list_namespace().items],
            "the namespace's end",
        )


def test_kwok_runs_the_pods_of_nodes_without_kubelets(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    serve = (sys.executable, "-m", "kubesim", "serve", "--kubeconfig", str(kubeconfig), "--nodes", "2")
    with ExitStack() as stack:
        stack.enter_context(running(tmp_path, "kubesim", *serve, "--without", "kubelets"))
        eventually(lambda: ready(kubeconfig), "kubesim's start")
        api = config.new_client_from_config(str(kubeconfig))
        stack.callback(api.close)
        apps, core = client.AppsV1Api(api), client.CoreV1Api(api)
        apps.create_namespaced_deployment("default", DEPLOYMENT)
        command = (str(found["kwok"]), f"--kubeconfig={kubeconfig}", "--manage-all-nodes=true")
        stack.enter_context(running(tmp_path, "kwok", *command))

        def available():
            return apps.read_namespaced_deployment_status("web", "default").status.available_replicas == 2

        eventually(available, "the deployment's roll-out")
        assert {pod.status.phase for pod in core.list_namespaced_pod("default").items} == {"Running"}
        core.delete_namespaced_pod(core.list_namespaced_pod("default").items[0].metadata.name, "default")
        eventually(available, "the deployment's recovery")
