"""A dedicated cluster for rehearsals: a real control plane, simulated GPU nodes of several kinds, and usual addons.

Nothing here needs Docker or root. What packs require of an existing cluster is in it: large and small GPUs,
a Prometheus with the exporters of GPUs, the MPI operator, and metrics-server, which is the real program.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from deploy.testcluster.testcluster import Testcluster
from faults import packs
from faults.errors import AlreadyExists, ClusterError, NotFound
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.toolbox import PRACTICE_IMAGE
from torture.ports import free_port

Obj = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
BINARIES = Path(os.environ.get("TESTCLUSTER_BIN", Path.home() / ".cache/faultline/testcluster-bin"))
ADDONS = ("gpu-operator", "monitoring", "mpi-operator", "prometheus-operator", "grafana")
START_S, END_S = 180.0, 60.0
METRICS_SERVER = "metrics-server"
ANY_HOST = "192.0.2.1"
"""An address to which nothing is sent: asked for the way to it, the system tells our own address."""


NODES = (
    {"name": "large", "count": 3, "gpus": 8, "product": "H100"},
    {"name": "small", "count": 2, "gpus": 4, "product": "T4"},
    {"name": "plain", "count": 1, "gpus": 0},
)


@contextmanager
def real_cluster(folder: Path, say: Callable[[str], object] = print) -> Iterator[Path]:
    """Yield a kubeconfig with everything inside it, of a cluster that is ready for rehearsals."""
    with ExitStack() as stack:
        control_plane = Testcluster(folder / "cluster", BINARIES)
        stack.callback(control_plane.down)
        admin = control_plane.up()
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(flattened(admin))
        kube = Kube(parse(kubeconfig.read_text()))
        stack.callback(kube.close)
        stack.enter_context(_joined(admin, folder))
        _until(lambda: _ready(kube) == sum(entry["count"] for entry in NODES), "the nodes to be ready")
        for addon in ADDONS:
            _install(kube, addon)
        stack.enter_context(_metrics(kube, admin, folder, say))
        _until(lambda: not _unready_pods(kube), "the addons' pods", lambda: ", ".join(_unready_pods(kube)))
        yield kubeconfig


def flattened(kubeconfig: Path) -> str:
    """Return a kubeconfig with the contents of the files that it names."""
    command = ["kubectl", "--kubeconfig", str(kubeconfig), "config", "view", "--flatten", "--minify"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def _joined(admin: Path, folder: Path) -> Iterator[None]:
    """Let the nodes be there as long as the block, with the images of all packs on their disks."""
    images = sorted({PRACTICE_IMAGE, *(image for pack in _packs() for image in pack.requires.images)})
    file = folder / "nodes.yaml"
    file.write_text(yaml.safe_dump({"nodes": list(NODES), "present": images}))
    words = ["--kubeconfig", str(admin), "--untainted", "--cluster-file", str(file)]
    words += ["--address", own_address()] if own_address() else []
    with _program([sys.executable, "-W", "ignore", "-m", "kubesim", "nodes", *words], folder / "nodes"):
        yield


def _packs() -> list[packs.Pack]:
    return [
        packs.parse(packs.load_folder(path.parent)).bind()
        for path in (ROOT / "faults" / "catalog").glob("*/scenario.yaml")
    ]


@contextmanager
def _program(command: Sequence[str], log: Path) -> Iterator[None]:
    with log.with_suffix(".log").open("wb") as said:
        process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(END_S)


def _install(kube: Kube, addon: str) -> None:
    """Create what an addon's manifest has; its pods run on the simulated nodes, which know what they do."""
    manifest = ROOT / "kubesim" / "addons" / f"{addon}.yaml"
    for obj in filter(None, yaml.safe_load_all(manifest.read_text(encoding="utf-8"))):
        _until(lambda obj=obj: _created(kube, obj), f"{obj['kind']} {obj['metadata']['name']} to be defined")


def _created(kube: Kube, obj: Obj) -> bool:
    """Create an object; False where its kind or namespace is not known yet."""
    try:
        kube.create(obj)
    except AlreadyExists:
        return True
    except NotFound:
        return False
    except ClusterError as error:
        if "no kind" in error.message or "could not find" in error.message:
            return False
        raise
    return True


@contextmanager
def _metrics(kube: Kube, admin: Path, folder: Path, say: Callable[[str], object]) -> Iterator[None]:
    """Run metrics-server beside the control plane, which reaches it through a service without a selector.

    No API server leads a service to a loopback address, so the machine needs another one.
    """
    address, program = own_address(), shutil.which(METRICS_SERVER, path=f"{BINARIES}{os.pathsep}{os.environ['PATH']}")
    if not program or not address:
        say("metrics-server is left out: it was not built, or this machine has no address but loopback")
        yield
        return
    port = free_port()
    given = [f"--{name}={admin}" for name in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")]
    kubelets = ["--kubelet-insecure-tls", "--kubelet-preferred-address-types=InternalIP"]
    words = [f"--bind-address={address}", f"--secure-port={port}", f"--cert-dir={folder / 'certs'}"]
    words += [*given, *kubelets, "--kubelet-use-node-status-port", "--metric-resolution=15s"]
    with _program([program, *words], folder / METRICS_SERVER):
        for obj in _metrics_objects(address, port):
            kube.create(obj)
        yield


def _metrics_objects(address: str, port: int) -> list[Obj]:
    meta = {"name": METRICS_SERVER, "namespace": "kube-system"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"ports": [{"name": "https", "port": 443}]},
    }
    api_service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": meta,
        },
    }
    slices = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**meta, "labels": {"kubernetes.io/service-name": METRICS_SERVER}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
    return [service, slices, api_service]


def own_address() -> str:
    """Return this machine's own IPv4 address; empty where it has none but loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((ANY_HOST, 9))
        except OSError:
            return ""
        found = str(probe.getsockname()[0])
    return "" if found.startswith("127.") else found


def _ready(kube: Kube) -> int:
    return sum(_is_ready(node) for node in kube.list("v1", "Node"))


def _unready_pods(kube: Kube) -> list[str]:
    return [pod["metadata"]["name"] for pod in kube.list("v1", "Pod") if not _is_ready(pod)]


def _is_ready(obj: Obj) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)


def _until(true: Callable[[], bool], what: str, found: Callable[[], str] = str) -> None:
    waited = threading.Event()
    for _ in range(int(START_S * 4)):
        if true():
            return
        waited.wait(0.25)
    raise AssertionError(f"waited {START_S:.0f} s for {what}: {found()}")
