"""The real kube-scheduler, kube-controller-manager and kwok at work on kubesim, in place of its own.

They send protobuf, as they do by default, and accept it before JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest
import yaml
from kubernetes import client, config

from kubesim.pki import CertificateAuthority
from kubesim.tests.live import session, trust_of

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


KUBELET = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: all}
spec: {logs: [{logsFile: LOG, follow: true}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterExec
metadata: {name: all}
spec: {execs: [{local: {workDir: FOLDER}}]}
"""
SPOKEN = (("stdin", "1"), ("stdout", "1"), ("stderr", "1"))
NODE = {"metadata": {"name": "far", "annotations": {"kwok.x-k8s.io/node": "fake"}}}
BOUND = {
    "metadata": {"name": "web"},
    "spec": {
        "nodeName": "far",
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "nginx"}],
    },
}


def kubelet(folder):
    """Return the options with which kwok answers as kubelets do, with the library that they have for it."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    (folder / "log").write_text("2026-01-01T00:00:00.000000000Z stdout F said before\n")
    text = KUBELET.replace("LOG", str(folder / "log")).replace("FOLDER", str(folder))
    (folder / "kwok.yaml").write_text(text)
    now = datetime.now(UTC)
    issued = CertificateAuthority.create(now).issue_server(["127.0.0.1"], now)
    (folder / "kwok.crt").write_bytes(issued.certificate)
    (folder / "kwok.key").write_bytes(issued.key)
    return (
        f"--config={folder / 'kwok.yaml'}",
        "--node-ip=127.0.0.1",
        f"--node-port={port}",
        f"--server-address=127.0.0.1:{port}",
        f"--tls-cert-file={folder / 'kwok.crt'}",
        f"--tls-private-key-file={folder / 'kwok.key'}",
    )


def test_the_kubelets_own_library_is_understood(tmp_path):
    """Where a kubelet is no program of ours: its logs, and its streams both ways."""
    kubeconfig = tmp_path / "kubeconfig"
    (tmp_path / "empty.yaml").write_text("nodes: []")
    serve = (sys.executable, "-m", "kubesim", "serve", "--kubeconfig", str(kubeconfig))
    with ExitStack() as stack:
        stack.enter_context(running(tmp_path, "kubesim", *serve, f"--cluster-file={tmp_path / 'empty.yaml'}"))
        eventually(lambda: ready(kubeconfig), "kubesim's start")
        api = config.new_client_from_config(str(kubeconfig))
        stack.callback(api.close)
        core = client.CoreV1Api(api)
        core.create_node(NODE)
        command = (str(found["kwok"]), f"--kubeconfig={kubeconfig}", "--manage-all-nodes=true", *kubelet(tmp_path))
        stack.enter_context(running(tmp_path, "kwok", *command))
        core.create_namespaced_pod("default", BOUND)
        eventually(lambda: core.read_namespaced_pod("web", "default").status.phase == "Running", "the pod's start")
        assert core.read_namespaced_pod_log("web", "default") == "said before\n"
        said = asyncio.run(
            entered(kubeconfig, "read line; echo got $line; echo wrong >&2; head -c 300000 /dev/zero | wc -c")
        )
        assert (said[1], said[2]) == (b"got this\n300000\n", b"wrong\n")
        assert json.loads(said[3])["status"] == "Success"


async def entered(kubeconfig, script):
    """Run a script in the pod, tell it a line, and return what came on each channel."""
    text = kubeconfig.read_text()
    document = yaml.safe_load(text)
    server, user = document["clusters"][0]["cluster"]["server"], document["users"][0]["user"]
    found = {}
    async with session(server, trust_of(text), user["token"]) as http:
        query = urlencode([*(("command", word) for word in ("sh", "-c", script)), *SPOKEN])
        path = f"/api/v1/namespaces/default/pods/web/exec?{query}"
        async with http.ws_connect(path, protocols=["v5.channel.k8s.io"]) as socket:
            await socket.send_bytes(b"\x00this\n")
            async for message in socket:
                found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found
