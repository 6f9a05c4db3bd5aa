"""The agent of a real node lets programs fail through the CUDA fault library, under the same leases and deadlines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT
from faults.agent.cuda_control import CudaControl
from faults.tests.real_agents import RealAgent

BUILD = ROOT / "native" / "build"
pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("make")) or os.uname().sysname != "Linux",
    reason="needs Linux with cc and make: sudo apt install build-essential",
)
PROGRAM = """
import ctypes
cuda, place = ctypes.CDLL("libcuda.so.1"), (ctypes.c_uint64 * 4)()
cuda.cuInit(0), cuda.cuCtxCreate_v2(place, 0, 0)
while input():
    print(cuda.cuCtxSynchronize(), flush=True)
"""


@pytest.fixture(scope="module", autouse=True)
def built(tmp_path_factory):
    lock = tmp_path_factory.getbasetemp().parent / "native.lock"
    subprocess.run(["flock", lock, "make", "-s", "-j2", "-C", ROOT / "native", "all"], check=True)


@pytest.fixture
def agent(tmp_path):
    control = CudaControl(tmp_path / "control", BUILD / "faultctl")
    subprocess.run([control.faultctl, "--file", control.file, "init"], check=True)
    made = RealAgent(tmp_path, cuda=control)
    made.ask("POST", "/lease", {"holder": "run-1", "seconds": 600})
    yield made
    made.stop()


@pytest.fixture
def program(agent):
    """A program on the stub driver's first GPU, whose calls are asked for one by one."""
    env = {"LD_PRELOAD": f"{BUILD}/libcudafault.so", "LD_LIBRARY_PATH": str(BUILD), "PATH": os.defpath}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    argv = [sys.executable, "-IS", "-c", PROGRAM]
    with subprocess.Popen(argv, env=env | {"CUDA_FAULT_CONTROL": str(agent.cuda.file)}, **pipes) as process:

        def call() -> int:
            print("go", file=process.stdin, flush=True)
            return int(process.stdout.readline())

        yield call
        process.communicate("\n")


def inject(agent, **more):
    body = {"fault_id": "one", "lease": "run-1", "xid_type": 43, "gpu_id": 1, "layers": "combined", **more}
    return agent.ask("POST", "/inject", {"kind": "xid", **body})


def armed(agent):
    return agent.cuda.is_armed("one")


def test_a_combined_fault_is_in_the_log_and_in_programs(agent, program):
    assert program() == 0
    assert inject(agent, xid_type=43, gpu_id=0)[0] == 200
    assert any("): 43, " in line for line in agent.lines())
    assert armed(agent)
    assert program() == 0  # the stub's GPU has another address than the node's


def test_a_program_on_the_gpu_fails(agent, program, monkeypatch):
    assert program() == 0
    gpu = agent.faults.gpu(0)
    monkeypatch.setattr(agent.faults, "gpu", lambda index: type(gpu)(0, "0000:30:00", gpu.uuid))
    assert inject(agent, layers="cuda", gpu_id=0)[0] == 200
    assert program() == 719
    assert agent.lines() == []


def test_taking_it_back_disarms_it(agent):
    inject(agent)
    assert agent.ask("POST", "/recover", {"fault_id": "one"})[0] == 200
    assert not armed(agent)


def test_it_ends_with_its_lease(agent):
    inject(agent)
    agent.ask("POST", "/lease", {"holder": "run-1", "seconds": 0})
    assert not armed(agent)


def test_it_ends_at_its_deadline_though_the_agent_is_dead(agent):
    inject(agent, duration=1)
    found = subprocess.run(
        [agent.cuda.faultctl, "--file", agent.cuda.file, "show", "--json"], check=True, capture_output=True, text=True
    )
    assert '"for_ns": 1000000000' in found.stdout


def test_an_agent_that_died_before_it_wrote_finds_its_fault_again(agent):
    inject(agent, layers="cuda")
    state = agent.folder / "state" / "state.json"
    state.write_text(state.read_text().replace('"is_written": true', '"is_written": false'))
    agent.stop()
    agent.start()
    assert agent.ask("GET", "/faults")[1]["count"] == 1
    agent.ask("POST", "/recover", {"fault_id": "one"})
    assert not armed(agent)


def test_a_fault_that_did_not_happen_is_forgotten(agent):
    inject(agent, layers="cuda")
    agent.cuda.disarm("one")
    state = agent.folder / "state" / "state.json"
    state.write_text(state.read_text().replace('"is_written": true', '"is_written": false'))
    agent.stop()
    agent.start()
    assert agent.ask("GET", "/faults")[1]["count"] == 0


def test_what_the_library_refuses_leaves_nothing_behind(agent):
    for number in range(8):
        agent.cuda.arm(f"other-{number}", 43, agent.faults.gpu(0), 60)
    status, answer = inject(agent)
    assert (status, answer["code"]) == (503, "not_permitted")
    assert "disarm one" in answer["detail"]
    assert agent.ask("GET", "/faults")[1]["count"] == 0


def test_without_its_control_file_the_node_says_what_is_missing(agent):
    agent.cuda.file.unlink()
    status, answer = inject(agent)
    assert status == 422
    assert "faultctl init" in answer["detail"]
