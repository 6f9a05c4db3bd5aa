"""The guide's four pre-built tests on a real control plane with simulated nodes: ``manage.py guide --on``.

Slow by nature: they wait for NVSentinel, for crashes, and for the model, as on a practice cluster.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import ROOT, free_port, start_guide, wait_until
from deploy.testcluster.testcluster import PROGRAMS
from torture.dump import compare, dump
from torture.real_cluster import BINARIES

SDK = ROOT / "faults" / "sdk"
EXAMPLES = (
    "test_xid79_nvsentinel_automated.py",
    "test_xid79_cuda_fault_refactored.py",
    "test_xid_94_ecc_error.py",
    "test_all_xid_errors.py",
)
"""In the guide's order: of the last one's Xids NVSentinel may read after its end, and cordon the node."""
START_S, EXAMPLE_S, SERVICE_S, END_S = 240, 1800, 600, 240
MAX_LOOKS = 60
NAMESPACE, GRAPH = "dynamo-oviya", "dynamographdeployment/vllm-v1-disagg-router"
PLACES = f"{BINARIES}{os.pathsep}{os.environ['PATH']}"
missing = [name for name in (*PROGRAMS, "kubectl") if shutil.which(name, path=PLACES) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.torture,
    pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not found in {BINARIES}; run: make testcluster"),
]


@dataclass(frozen=True)
class RealGuide:
    """``manage.py guide --on``, with the kubeconfig that it wrote."""

    process: subprocess.Popen[bytes]
    kubeconfig: Path
    url: str
    log: Path

    def kubectl(self, *words: str) -> str:
        """Return what kubectl prints."""
        command = ["kubectl", "--kubeconfig", str(self.kubeconfig), "--request-timeout=30s", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def active_faults(self) -> list[str]:
        """Return the faults that are not over, as the API of this machine's port tells them."""
        with urllib.request.urlopen(f"{self.url}/api/v1/faults?active_only=true", timeout=30) as answer:
            return [fault["id"] for fault in json.load(answer)["faults"]]

    def is_in_service(self) -> bool:
        """Tell whether NVSentinel has given every node back."""
        nodes = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        states = [node["metadata"]["labels"].get("dgxc.nvidia.com/nvsentinel-state") for node in nodes]
        return not any(states) and not any(node["spec"].get("unschedulable") for node in nodes)

    def workload(self) -> tuple[str, str]:
        """Return what somebody asked of the model's graph, and the ConfigMaps beside it."""
        graph = json.loads(self.kubectl("get", GRAPH, "-n", NAMESPACE, "-o", "json"))
        asked = json.dumps([graph["spec"], graph["metadata"].get("annotations")], sort_keys=True)
        return asked, self.kubectl("get", "configmaps", "-n", NAMESPACE, "-o", "name")


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a control plane without nodes."""
    folder = tmp_path_factory.mktemp("control-plane") / "cluster"
    program = [sys.executable, str(ROOT / "deploy" / "testcluster" / "testcluster.py")]
    try:
        up = [*program, "up", "--folder", str(folder), "--bin", str(BINARIES)]
        yield Path(subprocess.run(up, check=True, capture_output=True, text=True).stdout.strip())
    finally:
        subprocess.run([*program, "down", "--folder", str(folder)], check=True)


@pytest.fixture(scope="module")
def before(admin: Path) -> dict[str, str]:
    """Everything that the control plane has before the guide, once its controllers have made what is theirs."""
    last, picture = {}, dump(admin)
    for _ in range(MAX_LOOKS):
        if picture == last and "ServiceAccount default/default" in picture:
            return picture
        last, picture = picture, dump(admin)
    raise AssertionError("the controllers of the control plane did not start")


@pytest.fixture(scope="module")
def guide(admin: Path, before: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGuide]:
    folder, port = tmp_path_factory.mktemp("guide"), free_port()
    process = start_guide(folder, port, START_S, "--on", str(admin))
    yield RealGuide(process, folder / "kubeconfig", f"http://localhost:{port}", folder / "log")
    if process.poll() is None:
        process.terminate()
        process.wait(END_S)


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_pre_built_test_passes_on_a_real_control_plane(guide: RealGuide, example: str) -> None:
    wait_until(guide.is_in_service, guide.process, SERVICE_S)
    asked = guide.workload()
    done = subprocess.run(
        [sys.executable, "scripts/run_test_incluster.py", f"examples/{example}"],
        cwd=SDK,
        env={**os.environ, "KUBECONFIG": str(guide.kubeconfig), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=EXAMPLE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "PASSED"
    assert guide.active_faults() == []
    assert guide.workload() == asked
    assert "cuda-fault" not in guide.kubectl("get", "pods", "-n", NAMESPACE, "-o", "yaml")


def test_a_killed_guide_is_taken_over_and_nothing_of_it_stays(
    guide: RealGuide, admin: Path, before: dict[str, str], tmp_path: Path
) -> None:
    """The last of this file: it ends what the others use."""
    guide.process.send_signal(signal.SIGKILL)
    guide.process.wait()
    assert "namespace/dynamo-oviya" in guide.kubectl("get", "namespaces", "-o", "name")
    process = start_guide(tmp_path, free_port(), START_S, "--on", str(admin))
    process.send_signal(signal.SIGTERM)
    assert process.wait(END_S) == 0, (tmp_path / "log").read_text()
    assert compare(before, dump(admin)) == []
