"""The user guide of GPU fault injection on ``manage.py guide``: its code blocks and commands, in its order."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import ROOT, free_port, wait_until

GUIDE = "gpu-fault-injection-guide.md"
SDK = ROOT / "faults" / "sdk"
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.S | re.M)
START_S, COMMAND_S = 120, 60
SHORT_S = 0.1
"""For the guide's sleeps: our client waits for what they are for."""


@dataclass(frozen=True)
class Guide:
    """A running ``manage.py guide``."""

    process: subprocess.Popen
    kubeconfig: Path
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def run_python(self, code: str) -> str:
        """Run a block of the guide beside the SDK, as its reader would, with short sleeps."""
        code = code.replace("http://localhost:8080", self.url)
        shortened = f"import time\ntime.sleep = lambda s, sleep=time.sleep: sleep(min(s, {SHORT_S}))\n"
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", shortened + code],
            cwd=SDK,
            env={
                **os.environ,
                "KUBECONFIG": str(self.kubeconfig),
                "API_URL": self.url,
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run_shell(self, command: str) -> str:
        """Run a command of the guide."""
        done = subprocess.run(
            ["bash", "-c", command],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("guide"), free_port()
    kubeconfig, log = folder / "kubeconfig", folder / "log"
    command = [sys.executable, "-W", "ignore", str(ROOT / "manage.py"), "guide"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--kubeconfig", str(kubeconfig), "--port", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(folder)},
        )
    wait_until(kubeconfig.exists, process, START_S)
    yield Guide(process, kubeconfig, port, log)
    if process.poll() is None:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def blocks(sources) -> dict[str, list[tuple[str, str]]]:
    """The guide's blocks of code by the heading above them: language and text."""
    found: dict[str, list[tuple[str, str]]] = {}
    text = (sources / GUIDE).read_text(encoding="utf-8")
    heading = ""
    for part in re.split(r"^(#{2,3} .*)$", text, flags=re.M):
        if re.match(r"#{2,3} ", part):
            heading = part.lstrip("# ")
        else:
            found[heading] = [(match[1], re.sub(r"^ +(?=\w)", "", match[2])) for match in BLOCK.finditer(part)]
    return found


@pytest.fixture(scope="module")
def kubectl():
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl in PATH")


def ask(guide, method, path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(guide.url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as exc:
        return exc.code, json.load(exc)


def eventually(command: str) -> str:
    """Return a command that is repeated while it fails: NVSentinel looks every 30 s."""
    return f"for i in $(seq 50); do {command} && exit; sleep 1; done; exit 1"


def commands(block: str) -> list[str]:
    """Return the commands of a block of the shell, without comments."""
    return [line for line in block.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.kubectl
def test_the_installation_check_finds_api_agents_and_nvsentinel(guide, blocks, kubectl):
    ((_, block),) = blocks["Installation Check"]
    api, agents, sentinel = [guide.run_shell(command) for command in commands(block)]
    assert re.search(r"fault-injection-api-\S+ +1/1 +Running", api)
    assert len(re.findall(r"gpu-fault-injector-\S+ +1/1 +Running", agents)) == 3
    assert "syslog-health-monitor" in sentinel


def test_the_test_helpers_are_configured(guide, blocks):
    ((_, block),) = blocks["Test Helpers"]
    client_alone = "\n".join(line for line in block.splitlines() if "cuda" not in line.lower())
    printed = guide.run_python(client_alone + "\nprint(api_client.health_check()['status'], config['app_namespace'])")
    assert printed == "healthy dynamo-oviya\n"


@pytest.mark.kubectl
def test_the_api_and_the_agents_tell_what_they_have_done(guide, blocks, kubectl):
    # Before any Xid for which NVSentinel boots a node: meanwhile neither agents nor logs of the node answer.
    _, fault = ask(guide, "POST", "/api/v1/faults/gpu/inject/xid-94", {"node_name": "worker-node-0"})
    assert ask(guide, "POST", "/api/v1/faults/gpu/inject/xid-94", {"node_name": "worker-node-0"})[0] == 409
    ask(guide, "DELETE", f"/api/v1/faults/{fault['fault_id']}")
    *_, (_, conflicts) = blocks["Cleanup Issues"]
    assert "409" in guide.run_shell(commands(conflicts)[0])
    (_, log), *_ = blocks["XID Not Appearing in Kernel Logs"]
    assert "POST /inject" in guide.run_shell(commands(log)[0])


def test_approach_1_injects_an_xid_and_deletes_it(guide, blocks):
    ((language, block), _) = blocks["Approach 1: XID Injection Only (Kernel Logs)"]
    assert language == "python"
    name = re.search(r"XID injected: (gpu_xid_79-[0-9a-f]{8})", guide.run_python(block))
    assert ask(guide, "GET", f"/api/v1/faults/{name[1]}")[1]["status"] == "recovered"


@pytest.mark.kubectl
def test_approach_1_is_verified_in_the_kernel_log_and_by_nvsentinel(guide, blocks, kubectl):
    _, (_, block) = blocks["Approach 1: XID Injection Only (Kernel Logs)"]
    log, monitor = commands(block)
    pods = "kubectl get pods -n gpu-operator -o wide | awk '/driver-daemonset.*worker-node-2/ {print $1}'"
    _, fault = ask(guide, "POST", "/api/v1/faults/gpu/inject/xid-79", {"node_name": "worker-node-2"})
    assert "79, GPU has fallen off the bus" in guide.run_shell(log.replace("<gpu-operator-pod>", f"$({pods})"))
    assert '"xid":79' in guide.run_shell(eventually(monitor))
    ask(guide, "DELETE", f"/api/v1/faults/{fault['fault_id']}")


def test_several_xids_are_tested_in_turn(guide, blocks):
    ((_, block),) = blocks["Testing Multiple XIDs"]
    client = (
        f"from fault_injection_client import FaultInjectionClient\nclient = FaultInjectionClient('{guide.url}')\n"
    )
    printed = guide.run_python(f"import time\n{client}{block}")
    assert re.findall(r"Testing XID (\d+)", printed) == ["79", "48", "94", "95", "43", "74"]
    assert ask(guide, "GET", "/api/v1/faults?active_only=true")[1]["count"] == 0


def test_every_gpu_node_is_tested(guide, blocks):
    ((_, block),) = blocks["Testing Across Multiple Nodes"]
    api = (
        f"from fault_injection_client import FaultInjectionClient\napi_client = FaultInjectionClient('{guide.url}')\n"
    )
    printed = guide.run_python(api + block)
    assert re.findall(r"Testing (\S+?)\.\.\.", printed) == ["worker-node-0", "worker-node-1", "worker-node-2"]


def test_the_network_guide_partitions_and_cleans_up(guide):
    blocks = [
        match[2] for match in BLOCK.finditer((SDK / "NETWORK_FAULT_GUIDE.md").read_text()) if match[1] == "python"
    ]
    one_block = "\n".join(blocks).replace("FaultInjectionClient()", f"FaultInjectionClient('{guide.url}')")
    guide.run_python(one_block)
    [fault, *_] = ask(guide, "GET", "/api/v1/faults")[1]["faults"]
    assert (fault["type"], fault["status"]) == ("network_frontend_worker", "recovered")
    assert fault["target"].startswith("dynamo-oviya/fault-injection-network-frontend-worker-")


def test_metrics_tell_of_gpus_workers_and_nodes(guide):
    _, metrics = ask(guide, "GET", "/api/v1/metrics/collect?namespace=dynamo-oviya")
    assert {(row["node"], row["gpu"]) for row in metrics["gpu_metrics"]} >= {
        ("worker-node-0", "0"),
        ("worker-node-0", "1"),
    }
    assert metrics["inference_metrics"]["workers"] == 3
    assert [row["gpus"] for row in sorted(metrics["node_health"], key=lambda row: row["node"])] == [0, 8, 8, 8]
    assert metrics["network_metrics"] == {"active_faults": 0, "targets": []}


def test_guide_mode_answers_this_machine_alone_and_no_page_of_another_site(guide):
    assert ask(guide, "GET", "/api/v1/faults", Origin="https://example.com")[1]["code"] == "other_origin"
    with urllib.request.urlopen(f"{guide.url}/health", timeout=30) as answer:
        assert json.load(answer)["service"] == "fault-injection-api"


@pytest.mark.parametrize("path", ["/", "/login/", "/admin/", "/api/sessions", "/join/x/"])
def test_guide_mode_has_nothing_of_the_interviews_site(guide, path):
    assert ask(guide, "GET", path)[1]["code"] == "no_such_route"


def test_a_second_guide_says_that_the_port_is_taken(guide, tmp_path):
    command = [sys.executable, "-W", "ignore", str(ROOT / "manage.py"), "guide", "--kubeconfig", str(tmp_path / "k")]
    done = subprocess.run([*command, "--port", str(guide.port)], capture_output=True, text=True, timeout=COMMAND_S)
    assert done.returncode == 1
    assert f"Port {guide.port} cannot be used" in done.stderr
    assert not (tmp_path / "k").exists()


def test_an_installation_cannot_be_put_into_guide_mode(tmp_path):
    variables = {**os.environ, "GUIDE_CLUSTER": "guide", "DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", str(ROOT / "manage.py"), "check"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=COMMAND_S)
    assert done.returncode == 1
    assert "unset GUIDE_CLUSTER" in done.stderr


def test_the_guide_ends_cleanly(guide):
    """The last of this file: it ends what the others use."""
    guide.process.send_signal(signal.SIGTERM)
    assert guide.process.wait(30) == 0
    assert not guide.kubeconfig.exists()
    assert not [*guide.kubeconfig.parent.glob("faultline-guide-*")]
    assert "Traceback" not in guide.log.read_text()
