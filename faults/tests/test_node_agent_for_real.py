"""The agent as its image has it: one file, run with the standard library alone, on this machine's kernel log."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import zipapp
from pathlib import Path

import pytest
import yaml

from conftest import ROOT, stop, wait_until
from faults.agent.kernel_log import DEVICE
from faults.agent.privileges import NOBODY
from faults.tests.real_agents import BASE, uuid_of, write_gpus

IS_ROOT = os.geteuid() == 0
HAS_GPUS = Path("/proc/driver/nvidia").exists()
"""A machine whose monitors might believe what is written: its log is left alone."""
DEAD_MAN_S = 20


def may_write_kernel_log() -> bool:
    try:
        os.close(os.open(DEVICE, os.O_WRONLY))
    except OSError:
        return False
    return IS_ROOT and not HAS_GPUS


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The file that the Dockerfile makes, of the files that it copies."""
    source = tmp_path_factory.mktemp("source") / "faults"
    dockerfile = (ROOT / "deploy/node-agent.Dockerfile").read_text(encoding="utf-8")
    assert "COPY faults/__init__.py faults/xids.json /source/faults/" in dockerfile
    shutil.copytree(ROOT / "faults/agent", source / "agent", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "xids.json"):
        shutil.copy(ROOT / "faults" / name, source)
    (entry,) = re.findall(r"--main (\S+)", dockerfile)
    folder = Path(tempfile.mkdtemp(prefix="node-agent-"))  # that the user nobody may read
    folder.chmod(0o755)
    zipapp.create_archive(source.parent, folder / "node-agent", main=entry, compressed=True)
    yield folder / "node-agent"
    shutil.rmtree(folder)


class Node:
    """The folders of a node, and the agent that runs there."""

    def __init__(self, program, folder, kmsg):
        self.program, self.kmsg = program, kmsg
        self.state = folder / "state"
        write_gpus(folder / "gpus", 2)
        self.arguments = [
            f"--base-path={BASE}",
            f"--state={self.state}",
            f"--kmsg={kmsg}",
            f"--gpus={folder / 'gpus'}",
        ]

    def start(self, *more):
        command = [sys.executable, "-IS", self.program, *self.arguments, "--listen=127.0.0.1", "--port=0", *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={})
        line = self.process.stdout.readline()
        assert "listening" in line, line
        self.port = int(re.search(r":(\d+)\"", line)[1])

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, f"{BASE}{path}", json.dumps(body) if body else None)
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found

    def inject(self, seconds=600, **more):
        assert self.ask("POST", "/lease", {"holder": "run-1", "seconds": seconds})[0] == 200
        body = {"fault_id": "one", "lease": "run-1", "xid_type": 79, "layers": "log"} | more
        assert self.ask("POST", "/inject-xid", body)[0] == 200

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def make_node(program):
    made, folders = [], []

    def make(kmsg=None):
        folder = Path(tempfile.mkdtemp(prefix="node-"))
        folder.chmod(0o755)
        folders.append(folder)
        (folder / "kmsg").touch(mode=0o644)
        if not IS_ROOT:
            (folder / "state").mkdir()
        made.append(Node(program, folder, kmsg or folder / "kmsg"))
        made[-1].start()
        return made[-1]

    yield make
    for node in made:
        stop(node.process)
        node.process.stdout.close()
    for folder in folders:
        shutil.rmtree(folder)


def test_it_is_nobody_without_any_capability_once_it_listens(make_node):
    if not IS_ROOT:
        pytest.skip("needs root: only root has something to give up")
    node = make_node()
    node.inject()
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{node.process.pid}/status").read_text().splitlines()
        if ":\t" in line
    )
    assert status["Uid"].split() == [str(NOBODY)] * 4
    assert status["Gid"].split() == [str(NOBODY)] * 4
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert (status["NoNewPrivs"], status["Groups"].strip()) == ("1", "")
    assert (node.state.stat().st_mode & 0o777, (node.state / "state.json").stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_fault_ends_with_its_lease_though_nobody_asks_any_more(make_node):
    node = make_node()
    node.inject(seconds=1)
    before = time.monotonic()
    wait_until(lambda: "GPU reset executed" in node.kmsg.read_text(), node.process)
    assert time.monotonic() - before < DEAD_MAN_S


def test_a_killed_agent_goes_on_where_it_was(make_node):
    node = make_node()
    node.inject()
    node.kill()
    node.start()
    assert [fault["fault_id"] for fault in node.ask("GET", "/faults")[1]["faults"]] == ["one"]
    node.ask("POST", "/lease", {"holder": "run-1", "seconds": 1})
    node.kill()
    node.start()
    wait_until(lambda: "GPU reset executed" in node.kmsg.read_text(), node.process)
    assert node.kmsg.read_text().count("): 79, ") == 1


def test_a_stop_ends_it_at_once_and_leaves_its_faults(make_node):
    node = make_node()
    node.inject()
    node.process.terminate()
    assert node.process.wait(timeout=5) == 0
    node.process.stdout.close()
    node.start()
    assert node.ask("GET", "/faults")[1]["count"] == 1


def test_an_agent_that_is_asked_to_tells_of_every_change_and_never_its_path(make_node):
    node = make_node()
    node.kill()
    node.start("--log-requests")
    node.inject()
    assert node.ask("POST", "/recover", {"fault_id": "none"})[0] == 404
    assert node.ask("GET", "")[0] == 404
    told = [node.process.stdout.readline() for _ in range(4)]
    assert "POST lease 200" in told[0]
    assert "POST inject-xid 200" in told[1]
    assert "POST recover 404: Fault none not found" in told[2]
    assert BASE.strip("/") not in "".join(told)


@pytest.mark.skipif(not may_write_kernel_log(), reason="needs root, /dev/kmsg, and a machine without NVIDIA's driver")
def test_the_kernel_log_of_this_machine_has_the_lines_of_the_driver(make_node):
    """The GPU's UUID is of this test, so that the lines are told from those of other runs."""
    node = make_node(DEVICE)
    mine, address = f"GPU-{uuid.uuid4()}", f"0000:{os.getpid() % 255:02x}:{uuid.uuid4().int % 31:02x}.0"
    gpus = node.state.parent / "gpus"
    shutil.rmtree(gpus)
    shutil.copytree(write_gpus(gpus.parent / "one", 1) / "0000:1b:00.0", gpus / address)
    information = (gpus / address / "information").read_text().replace(uuid_of(0), mine)
    (gpus / address / "information").write_text(information)
    node.inject()
    bus = address.removesuffix(".0")
    lines = [line for line in kernel_lines() if mine in line or f"(PCI:{bus}):" in line]
    assert [line.partition(";")[2] for line in lines[-3:]] == [
        f"NVRM: GPU at PCI:{bus}: {mine}",
        f"NVRM: Xid (PCI:{bus}): 79, GPU has fallen off the bus.",
        f"NVRM: Xid (PCI:{bus}): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    ]
    first, second, third = (int(line.split(",")[2]) for line in lines[-3:])
    assert second - first >= 44
    assert third - second >= 1370 - 44
    assert {int(line.split(",")[0]) for line in lines[-3:]} == {1 << 3 | 3}  # facility user, level err
    assert node.ask("POST", "/recover", {"fault_id": "one"})[0] == 200
    assert any(f"GPU reset executed: {mine}, success: true" in line for line in kernel_lines())


def kernel_lines():
    number, found = os.open(DEVICE, os.O_RDONLY | os.O_NONBLOCK), []
    try:
        while True:
            found.append(os.read(number, 8192).decode().partition("\n")[0])
    except BlockingIOError:
        return found
    finally:
        os.close(number)


def test_the_manifest_gives_the_agent_what_it_needs_and_nothing_else():
    _, daemon_set = yaml.safe_load_all((ROOT / "deploy/node-agent.yaml").read_text(encoding="utf-8"))
    pod = daemon_set["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & pod.keys()
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    assert [volume["hostPath"]["path"] for volume in pod["volumes"]] == ["/dev/kmsg", "/var/lib/node-agent"]
    assert "command" not in container
