"""The user guide of GPU fault injection on ``manage.py guide``: its code blocks and commands, in its order."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from conftest import ROOT, free_port, start_guide, wait_until

GUIDE = "gpu-fault-injection-guide.md"
SDK = ROOT / "faults" / "sdk"
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.S | re.M)
START_S, COMMAND_S = 120, 600
SCRAPES_S = 60
"""Of a cluster that is seconds old, Prometheus has not asked every node yet."""
TWO_GPUS = {("worker-node-0", "0"), ("worker-node-0", "1")}
NAMESPACE, WORKERS = "dynamo-oviya", "nvidia.com/dynamo-component-type=worker"
LIBRARY = "/cuda-fault/fake_cuda_xid79.so"
GRAPH = f"kubectl get dynamographdeployment vllm-v1-disagg-router -n {NAMESPACE} -o jsonpath='{{.spec}}'"
INJECTOR = f"""from helpers.cuda_fault_injection import CUDAFaultInjector
cuda_injector, deployment_name, namespace = CUDAFaultInjector(), "vllm-v1-disagg-router", "{NAMESPACE}"
"""
IN_SERVICE = """for i in $(seq 50); do
  node=$(kubectl get node worker-node-1 -o jsonpath='{.metadata.labels} {.spec}')
  grep -qE 'unschedulable|nvsentinel-state' <<< "$node" || exit 0; sleep 4
done; exit 1"""
"""NVSentinel, which may have read of an Xid on the node, has booted it and lets pods come again."""
SHORT_S = 0.1
"""For the guide's sleeps: our client waits for what they are for."""


@dataclass(frozen=True)
class Guide:
    """A running ``manage.py guide``."""

    process: subprocess.Popen
    kubeconfig: Path
    port: int
    log: Path
    sdk: Path
    """A copy of the SDK, as a reader has it: the guide changes it."""

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the guide's reader; ``python`` is the one that runs this test."""
        own = {"KUBECONFIG": str(self.kubeconfig), "API_URL": self.url, "PYTHONDONTWRITEBYTECODE": "1"}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**os.environ, **own, "PATH": path, "PYTHONWARNINGS": "ignore"}

    def run_python(self, code: str) -> str:
        """Run a block of the guide beside the SDK, as its reader would, with short sleeps."""
        code = code.replace("http://localhost:8080", self.url)
        shortened = f"import time\ntime.sleep = lambda s, sleep=time.sleep: sleep(min(s, {SHORT_S}))\n"
        return self._run([sys.executable, "-W", "ignore", "-c", shortened + code])

    @contextmanager
    def asleep(self, code: str) -> Iterator[None]:
        """Run a block as far as its longest sleep; then the test has its turn, and afterwards the block goes on."""
        code = code.replace("http://localhost:8080", self.url)
        waiting = (
            "import time\ntime.sleep = lambda s, sleep=time.sleep: input('asleep\\n') if s >= 60 else sleep(s)\n"
        )
        words = [sys.executable, "-W", "ignore", "-u", "-c", waiting + code]
        with subprocess.Popen(
            words, cwd=self.sdk, env=self.variables, stdin=PIPE, stdout=PIPE, stderr=STDOUT, text=True
        ) as process:
            printed: list[str] = []
            for line in iter(process.stdout.readline, "asleep\n"):
                printed.append(line)
                assert line, f"the block ended before it slept: {printed}"
            try:
                yield
            finally:
                rest, _ = process.communicate("\n", timeout=COMMAND_S)
        assert process.returncode == 0, rest

    def run_shell(self, command: str) -> str:
        """Run a command of the guide in the SDK's folder."""
        return self._run(["bash", "-c", command])

    def _run(self, words: list[str]) -> str:
        done = subprocess.run(
            words, cwd=self.sdk, env=self.variables, capture_output=True, text=True, timeout=COMMAND_S
        )
        assert done.returncode == 0, f"{words[-1]}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("guide"), free_port()
    process = start_guide(folder, port, START_S)
    sdk = shutil.copytree(SDK, folder / "sdk")
    yield Guide(process, folder / "kubeconfig", port, folder / "log", sdk)
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
    return f"for i in $(seq 30); do {command} && exit; sleep 2; done; exit 1"


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


def test_metrics_tell_of_gpus_workers_and_nodes(guide):
    def collect():
        return ask(guide, "GET", "/api/v1/metrics/collect?namespace=dynamo-oviya")[1]

    def are_scraped():
        return {(row["node"], row["gpu"]) for row in collect()["gpu_metrics"]} >= TWO_GPUS

    wait_until(are_scraped, guide.process, SCRAPES_S)
    metrics = collect()
    assert metrics["inference_metrics"]["workers"] == 3
    assert [row["gpus"] for row in sorted(metrics["node_health"], key=lambda row: row["node"])] == [0, 8, 8, 8]
    assert metrics["network_metrics"] == {"active_faults": 0, "targets": []}


def test_the_test_helpers_are_configured(guide, blocks):
    ((_, block),) = blocks["Test Helpers"]
    printed = guide.run_python(block + "\nprint(api_client.health_check()['status'], config['app_namespace'])")
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
    (_, practice), _ = blocks["Best Practices"]
    assert "79, GPU has fallen" in guide.run_shell(commands(practice)[0].replace("<pod>", f"$({pods})"))
    assert '"xid":79' in guide.run_shell(eventually(f"{monitor} | grep ':79'"))
    check, events, notes = [commands(text)[0] for _, text in blocks["NVSentinel Not Detecting XID"]]
    assert "79" in guide.run_shell(check)
    assert re.search(
        r"worker-node-2 +SysLogsXIDError +79 +RESTART_BM",
        guide.run_shell(eventually(f"{events} | grep worker-node-2")),
    )
    quarantined = guide.run_shell(eventually(notes.replace("<node-name>", "worker-node-2")))
    assert "quarantineHealthEvent" in quarantined
    ask(guide, "DELETE", f"/api/v1/faults/{fault['fault_id']}")


@pytest.mark.kubectl
def test_approach_2_lets_pods_crash_and_gives_everything_back(guide, blocks, kubectl):
    """With the commands by which the guide looks at the pods, while its block sleeps."""
    before = guide.run_shell(GRAPH)
    guide.run_shell(IN_SERVICE)
    ((_, block),) = blocks["Approach 2: CUDA Fault Injection Only (Realistic Crashes)"]
    with guide.asleep(block):
        guide.run_shell(f"kubectl config set-context --current --namespace {NAMESPACE}")
        crashed = eventually(f"kubectl get pods -n {NAMESPACE} -l {WORKERS} --no-headers | grep -E 'Error|CrashLoop'")
        name = guide.run_shell(crashed).split()[0]
        said = [guide.run_shell(eventually(placed(each, name))) for each in commands_about_pods(blocks)]
    assert_said(said)
    assert guide.run_shell(GRAPH) == before
    assert "cuda-fault" not in guide.run_shell(f"kubectl get configmaps,pods -n {NAMESPACE} -o yaml")


def commands_about_pods(blocks) -> list[str]:
    """Return the guide's commands about pods with CUDA faults, in its order."""
    _, (_, best) = blocks["Best Practices"]
    troubles = blocks["CUDA Faults Not Working"] + [*reversed(blocks["Pods Not Crashing"])]
    return [*commands(best), *(commands(text)[0] for _, text in troubles)]


def placed(command: str, pod: str) -> str:
    """Put names into a command's places; one that follows for ever is cut off."""
    if command.endswith(" -w"):
        command = f"timeout 3 {command} || [ $? = 124 ]"
    return command.replace("<pod-name>", pod).replace("<namespace>", NAMESPACE)


def assert_said(said: list[str]) -> None:
    watched, logged, compiled, preload, variables, folder, loaded, workers, deleted = said
    assert "vllmdecodeworker" in watched
    assert "CUDA" in logged
    assert "fake_cuda_xid79.so" in compiled
    assert preload == f"LD_PRELOAD={LIBRARY}\n"
    assert set(variables.splitlines()) >= {"CUDA_FAULT_INJECTION_ENABLED=1", "CUDA_XID_TYPE=79"}
    assert "fake_cuda_xid79.so" in folder
    assert LIBRARY in loaded
    assert len(re.findall("vllm(?:decode|prefill)worker", workers)) >= 3
    assert "deleted" in deleted


def test_approach_3_combines_both_and_leaves_nothing(guide, blocks):
    before = guide.run_shell(GRAPH)
    ((_, block),) = blocks["Approach 3: Combined XID + CUDA (Most Realistic)"]
    printed = guide.run_python(block)
    assert re.findall(r"^\[(./3)\]", printed, re.M) == ["1/3", "2/3", "3/3"]
    assert ask(guide, "GET", "/api/v1/faults?active_only=true")[1]["count"] == 0
    assert guide.run_shell(GRAPH) == before


@pytest.mark.kubectl
def test_options_and_clean_up_as_the_deep_dive_has_them(guide, blocks, kubectl):
    """The config map is deleted by hand in between, as the guide advises where it is stuck."""
    before = guide.run_shell(GRAPH)
    ((_, options),), ((_, cleanup),) = blocks["Configuration Options"], blocks["Cleanup"]
    (_, stuck), (_, again), _ = blocks["Cleanup Issues"]
    guide.run_python(f"{INJECTOR}cuda_injector.create_configmap_with_library(namespace)\n{options}")
    assert "cuda-fault-injection/original" in guide.run_shell(GRAPH.replace("{.spec}", "{.metadata}"))
    assert "deleted" in guide.run_shell(commands(stuck)[0].replace("<namespace>", NAMESPACE))
    guide.run_python(INJECTOR + cleanup)
    assert guide.run_shell(GRAPH) == before
    guide.run_python(INJECTOR + again)
    assert guide.run_shell(GRAPH) == before


@pytest.mark.skipif(shutil.which("make") is None or shutil.which("cc") is None, reason="needs cc and make")
def test_a_custom_error_is_added_and_built(guide, blocks):
    (_, row), (_, build) = blocks["Custom CUDA Error Codes"]
    source = guide.sdk / "cuda-fault-injection" / "fake_cuda_xid79.c"
    source.write_text(source.read_text().replace("\t/* xids: end */", f"{row}\t/* xids: end */"))
    assert "fake_cuda_xid79.so" in guide.run_shell(build)
    guide.run_python(
        f"{INJECTOR}cuda_injector.build_library()\ncuda_injector.create_configmap_with_library(namespace)"
    )
    source = r"jsonpath='{.data.fake_cuda_xid79\.c}'"
    stored = guide.run_shell(f"kubectl get configmap cuda-fault-injection-lib -n {NAMESPACE} -o {source}")
    assert row.splitlines()[-1] in stored
    guide.run_python(f"{INJECTOR}cuda_injector.cleanup_cuda_fault_injection(deployment_name, namespace)")


@pytest.mark.kubectl
def test_a_test_of_the_readers_own_runs_in_the_cluster(guide, blocks, sources, kubectl):
    """Its node has to be back in service: approach 3 has had NVSentinel boot it."""
    ((_, block),) = blocks["Create Your Own Test"]
    own = guide.sdk / "examples" / "my_gpu_test.py"
    own.write_text(block.replace("time.sleep(60)", f"time.sleep({SHORT_S})"))
    run = re.search(r"\*\*Run:\*\* `(.+)`", (sources / GUIDE).read_text(encoding="utf-8"))[1]
    guide.run_shell(IN_SERVICE)
    printed = guide.run_shell(run)
    assert re.findall("XID injected|CUDA faults injected|Test passed", printed) == [
        "XID injected",
        "CUDA faults injected",
        "Test passed",
    ]
    assert ask(guide, "GET", "/api/v1/faults?active_only=true")[1]["count"] == 0


@pytest.mark.torture
@pytest.mark.kubectl
@pytest.mark.parametrize("number", range(4))
def test_each_pre_built_test_passes_in_the_cluster(guide, blocks, kubectl, number):
    """Of the four, the first and the second wait for NVSentinel, for crashes and for the model for minutes."""
    ((_, block),) = blocks["Run Pre-Built Tests"]
    guide.run_shell(IN_SERVICE)
    assert "PASSED" in guide.run_shell(commands(block)[number])
    assert ask(guide, "GET", "/api/v1/faults?active_only=true")[1]["count"] == 0


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "is a folder"),
        ("contexts: [{name: production}, {name: guide}]", "exists: it is not of an earlier guide"),
        ("my notes", "exists: it is not of an earlier guide"),
    ],
)
def test_a_file_of_the_readers_own_is_neither_overwritten_nor_removed(tmp_path, text, said):
    file = tmp_path / "config" if text else tmp_path
    if text:
        file.write_text(text)
    command = [sys.executable, "-W", "ignore", str(ROOT / "manage.py"), "guide", "--kubeconfig", str(file)]
    done = subprocess.run([*command, "--port", str(free_port())], capture_output=True, text=True, timeout=COMMAND_S)
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    assert text is None or file.read_text() == text


def test_a_guide_that_is_killed_leaves_no_cluster_behind(tmp_path):
    command = [sys.executable, "-W", "ignore", str(ROOT / "manage.py"), "guide", "--kubeconfig", str(tmp_path / "k")]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([*command, "--port", str(free_port())], stdout=PIPE, text=True, env=env) as process:
        port = int(re.search(r"ready at https://127.0.0.1:(\d+)", process.stdout.readline())[1])
        process.kill()
        process.communicate(timeout=30)  # until nobody has its output any more
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


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
