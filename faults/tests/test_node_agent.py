"""The agent of real nodes: its lines in the kernel log, its refusals with their reasons, its memory after a crash."""

from __future__ import annotations

import json
import re
import socket
import threading
from dataclasses import replace

import pytest

from conftest import ROOT
from faults.agent import kernel_log
from faults.agent.driver_lines import known_xids, xid_lines
from faults.agent.gpus import Gpu, list_gpus
from faults.agent.http_server import MAX_BODY, MAX_CONNECTIONS, MAX_HEAD
from faults.agent.kernel_log import BURST, KernelLog
from faults.agent.refusals import Refusal
from faults.engine.node_agents import Agent
from faults.errors import NotOnRealNodes, Unanswered
from faults.tests.real_agents import BASE, MovedClock, RealAgent, uuid_of, write_gpus
from faults.xids import xids

GPU = Gpu(2, "0000:3b:00", uuid_of(2))
NVSENTINEL = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
DCGM = re.compile(r";NVRM: Xid \(PCI:([0-9a-fA-F:]+)\): (\d+)")


@pytest.fixture
def agent(tmp_path):
    made = RealAgent(tmp_path)
    made.ask("POST", "/lease", {"holder": "run-1", "seconds": 600})
    yield made
    made.stop()


def inject(agent, name="one", code=79, **more):
    body = {"fault_id": name, "lease": "run-1", "xid_type": code, "gpu_id": 2, "layers": "log", **more}
    return agent.ask("POST", "/inject", {"kind": "xid", **body})


def test_the_drivers_lines_are_written_in_order_with_the_gpus_own_address(agent):
    assert inject(agent)[0] == 200
    assert agent.lines() == [
        f"<3>NVRM: GPU at PCI:0000:3b:00: {uuid_of(2)}",
        "<3>NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "<3>NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
        "<3>NVRM: A GPU crash dump has been created. If possible, please run",
        "<3>NVRM: nvidia-bug-report.sh as root to collect this data before",
        "<3>NVRM: the NVIDIA kernel module is unloaded.",
        "<3>NVRM: Xid (PCI:0000:3b:00): 154, "
        "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    ]


def test_a_gpu_is_named_once_since_its_boot_and_never_where_the_driver_has_done_it(agent):
    agent.kmsg.write_text(f"NVRM: GPU at PCI:0000:3b:00: {uuid_of(2)}\nNVRM: GPU Board Serial Number: 1653\n")
    inject(agent)
    assert "<3>NVRM: GPU 0000:3b:00.0: GPU serial number is 1653." in agent.lines()
    agent.wait(1)
    inject(agent, "two", gpu_id=3)
    agent.restart()
    agent.wait(1)
    inject(agent, "three", gpu_id=3)
    named = [line for line in agent.lines() if "GPU at PCI" in line]
    assert [line.rpartition(" ")[2] for line in named] == [uuid_of(2), uuid_of(3)]


def test_an_older_gpu_retires_pages(tmp_path):
    (gpu, *_) = list_gpus(write_gpus(tmp_path, model="Tesla T4"))
    assert "Dynamic Page Retirement" in xid_lines(63, gpu, announce=False)[0][1]
    assert "Row Remapper" in xid_lines(63, replace(gpu, retires_pages=False), announce=False)[0][1]


@pytest.mark.parametrize(
    ("writer", "dmesg", "journald_finds", "dcgm_finds"),
    [
        ("driver", "NVRM: Xid", False, True),
        ("doubled", "NVRM: NVRM: Xid", True, False),
        ("kernel", "kernel: NVRM: Xid", True, False),
    ],
)
def test_each_writer_is_found_by_the_readers_that_it_is_for(agent, writer, dmesg, journald_finds, dcgm_finds):
    inject(agent, code=94, writer=writer)
    line = agent.lines()[1].removeprefix("<3>")
    assert line.startswith(f"{dmesg} (PCI:0000:3b:00): 94, Contained")
    message = re.sub(r"^[\w-]+: ", "", line)  # journald takes the first word for the identifier
    assert bool(NVSENTINEL.search(message)) is journald_finds
    assert bool(DCGM.search(f"3,1,1,-;{line}")) is dcgm_finds


def test_the_module_gets_the_bare_line_and_no_level(agent):
    agent.module = agent.kmsg  # what is written to the module's device is in the kernel's log
    agent.restart()
    assert inject(agent, code=94, writer="module")[0] == 200
    lines = agent.lines()
    assert [line.split(":")[0] for line in lines] == ["NVRM", "NVRM"]
    assert "94, Contained" in lines[1]
    agent.ask("POST", "/recover", {"fault_id": "one"})
    assert agent.lines()[-1].startswith("<6>nvsentinel-gpu-reset: ")


def test_without_the_module_its_writer_is_refused_with_what_to_do(agent):
    status, said = inject(agent, writer="module")
    assert (status, said["code"]) == (503, "not_permitted")
    assert "/dev/driver-log: the module is not loaded on this node; build and load it there" in said["detail"]
    assert agent.lines() == []
    assert agent.ask("GET", "/faults")[1]["count"] == 0
    assert inject(agent, writer="driver")[0] == 200


def test_the_kernel_module_takes_what_the_agent_writes_and_nothing_longer():
    source = (ROOT / "deploy/driver-log/driver_log.c").read_text(encoding="utf-8")
    assert f"#define MAX_LINE {kernel_log.MAX_RECORD}\n" in source
    assert f'.name = "{kernel_log.MODULE.name}",' in source
    prefix = re.search(r'#define PREFIX "(.+)"', source)[1]
    texts = [text for code in known_xids() for _, text in xid_lines(code, GPU, announce=True)]
    assert all(text.startswith(prefix) and text.isascii() and text.isprintable() for text in texts)


def test_every_xid_of_the_table_is_known_and_fits_what_the_kernel_takes_at_once():
    assert known_xids() == list(xids())
    for code in known_xids():
        lines = xid_lines(code, GPU, announce=True, serial="1653923026510")
        assert len(lines) <= BURST
        assert all(len(text.encode()) < kernel_log.MAX_RECORD and "{" not in text for _, text in lines)
        assert f"NVRM: Xid (PCI:0000:3b:00): {code}, " in "\n".join(text for _, text in lines)


def test_a_gpu_is_well_again_with_its_last_fault(agent):
    inject(agent)
    agent.wait(1)
    inject(agent, "two", code=48)
    agent.ask("POST", "/recover", {"fault_id": "one"})
    assert not [line for line in agent.lines() if "reset" in line and "executed" in line]
    agent.ask("POST", "/recover", {"fault_id": "two"})
    assert agent.lines()[-1] == f"<6>nvsentinel-gpu-reset: GPU reset executed: {uuid_of(2)}, success: true"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"kind": "service", "service": "kubelet"}, "nobody could ask it"),
        ({"kind": "driver", "part": "library", "version": "580.105.08"}, "cannot be put back for sure"),
        ({"kind": "pressure", "resource": "memory", "amount": "1Gi"}, "ends other pods"),
        ({"kind": "gpu", "effect": "overheat"}, "the hardware's own"),
        ({"kind": "xid", "xid_type": 79, "layers": "combined"}, "layers: log writes the kernel log"),
        ({"kind": "xid", "xid_type": 79, "layers": "cuda"}, "CUDA fault library"),
    ],
)
def test_what_only_a_simulated_node_can_do_is_refused_for_good_with_the_reason(agent, body, why):
    status, said = agent.ask("POST", "/inject", {"fault_id": "one", "lease": "run-1", **body})
    assert (status, said["code"]) == (422, "unsupported_on_real_nodes")
    assert why in said["detail"]
    assert isinstance(Agent("n", "ns", "p", 1)._error(status, said), NotOnRealNodes)
    assert agent.ask("POST", "/reboot", {})[1]["code"] == "unsupported_on_real_nodes"
    assert agent.lines() == []


def test_a_node_without_the_driver_has_no_gpu_to_fail(tmp_path):
    made = RealAgent(tmp_path, gpus=0)
    try:
        made.ask("POST", "/lease", {"holder": "run-1", "seconds": 600})
        assert inject(made, gpu_id=0)[1]["detail"].endswith("NVIDIA's driver is not loaded on this node")
    finally:
        made.stop()


def test_where_the_log_cannot_be_written_to_the_agent_says_why(agent):
    agent.stop()
    agent.kmsg.unlink()
    agent.start()
    status, said = inject(agent)
    assert (status, said["code"]) == (503, "not_permitted")
    assert said["detail"].startswith(f"{agent.kmsg} cannot be written to: it is missing in the container")
    assert agent.ask("GET", "/health")[1]["detail"] == said["detail"]
    assert not agent.kmsg.exists()
    assert isinstance(Agent("n", "ns", "p", 1)._error(status, said), Unanswered)


@pytest.mark.parametrize(
    ("number", "switch", "why"),
    [
        (1, "ratelimit", "needs securityContext.privileged"),
        (1, "off", "printk_devkmsg is off"),
        (13, "", "start the agent as root"),
    ],
)
def test_each_missing_permission_has_an_explanation(tmp_path, monkeypatch, number, switch, why):
    def refuse(*_):
        raise OSError(number, "refused")

    (tmp_path / "switch").write_text(switch)
    monkeypatch.setattr(kernel_log.os, "open", refuse)
    assert why in KernelLog(MovedClock(), tmp_path / "kmsg", tmp_path / "switch").refusal


def test_nothing_is_written_that_the_node_could_not_remember(agent):
    (agent.folder / "state").rename(agent.folder / "gone")
    status, said = inject(agent)
    assert (status, said["code"]) == (503, "not_permitted")
    assert "could be forgotten" in said["detail"]
    assert agent.lines() == []


def test_the_kernels_own_limit_is_kept_instead_of_losing_lines(tmp_path):
    (tmp_path / "kmsg").touch()
    clock = MovedClock()
    log = KernelLog(clock, tmp_path / "kmsg", tmp_path / "none")
    log._is_device = True  # a file takes any number
    log._in = -1
    log.write(3, [(0, f"line {number}") for number in range(BURST - 1)])
    with pytest.raises(Refusal, match="try again") as refused:
        log.write(3, [(0, "one"), (0, "two")])
    assert (refused.value.status, refused.value.retry_after) == (429, 5)
    clock.moved += 6
    log.write(3, [(0, "one"), (0, "two")])


def test_lines_that_do_not_get_into_the_log_are_no_fault(agent, monkeypatch):
    monkeypatch.setattr(KernelLog, "_send", lambda self, number, record: None)
    status, said = inject(agent)
    assert (status, agent.ask("GET", "/faults")[1]["count"]) == (503, 0)
    assert "did not get into the kernel log" in said["detail"]


@pytest.mark.parametrize("is_written", [True, False], ids=["after its lines", "before its lines"])
def test_a_fault_that_was_cut_short_by_a_crash_happens_once(agent, is_written):
    lines_before = agent.lines()
    inject(agent)
    agent.stop()
    path = agent.folder / "state" / "state.json"
    state = json.loads(path.read_text())
    state["faults"]["one"]["is_written"] = False  # as it was saved before the lines
    path.write_text(json.dumps(state))
    if not is_written:
        agent.kmsg.write_text("".join(lines_before))
    agent.start()
    assert agent.ask("GET", "/faults")[1]["count"] == int(is_written)
    agent.wait(1)
    assert inject(agent)[0] == 200
    assert len([line for line in agent.lines() if "): 79, " in line]) == 1


def test_a_fault_whose_end_came_while_the_agent_was_dead_ends_at_its_start(agent):
    inject(agent)
    agent.stop()
    agent.wait(700)
    agent.start()
    assert agent.ask("GET", "/faults")[1]["count"] == 0
    assert "GPU reset executed" in agent.lines()[-1]


def test_after_a_reboot_nothing_is_left(agent):
    inject(agent)
    agent.stop()
    agent.clock.boot_id = "another"
    agent.start()
    assert agent.ask("GET", "/faults")[1]["count"] == 0
    assert inject(agent)[0] == 403


def test_nothing_is_left_on_the_node_once_the_last_lease_is_over(agent):
    inject(agent)
    assert [path.name for path in (agent.folder / "state").iterdir()] == ["state.json"]
    agent.wait(700)
    assert agent.ask("GET", "/faults")[1]["count"] == 0
    assert list((agent.folder / "state").iterdir()) == []


def test_a_state_file_that_cannot_be_read_is_set_aside(agent):
    agent.stop()
    (agent.folder / "state" / "state.json").write_text("{")
    agent.start()
    assert agent.ask("GET", "/health")[0] == 200
    assert (agent.folder / "state" / "state.unreadable").read_text() == "{"


def test_who_does_not_know_the_path_finds_nothing(agent):
    for path in ("/", "/faults", BASE, f"{BASE}x/faults", "/k3f/faults"):
        assert answer(agent, f"GET {path} HTTP/1.1\r\n\r\n") == 404


def test_without_a_path_only_callers_on_loopback_are_answered(agent):
    agent.stop()
    agent.base = ""
    agent.start()
    assert agent.ask("GET", "/health")[0] == 200
    for source, status in (("127.0.0.1", 200), ("10.244.0.7", 404)):
        try:
            found = agent.api.respond("GET", "/health", b"", source)[0]
        except Refusal as refusal:
            found = refusal.status
        assert found == status


def answer(agent, *parts, closes=False):
    """Send bytes, and return the status of the answer; 0: the connection is closed without one."""
    with socket.create_connection(("127.0.0.1", agent.port), timeout=20) as connection:
        for part in parts:
            connection.sendall(part.encode())
        if closes:
            connection.shutdown(socket.SHUT_WR)
        return int((connection.recv(1 << 16) or b"- 0").split(b" ")[1])


POST = f"POST {BASE}/lease HTTP/1.1\r\n"
LEASE = '{"holder": "run-9", "seconds": 1}'


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (f"{POST}Content-Length: {MAX_BODY + 1}\r\n\r\n", 413),
        (f"{POST}Content-Length: 99999999999999999999\r\n\r\n", 413),
        (f"{POST}Content-Length: -1\r\n\r\n", 400),
        (f"{POST}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}", 400),
        (f"{POST}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{{}}", 400),
        (f"{POST}Transfer-Encoding: gzip\r\n\r\n", 400),
        (f"{POST}Transfer-Encoding: chunked\r\n\r\n{len(LEASE):x}\r\n{LEASE}\r\n0\r\n\r\n", 200),
        (f"{POST}Transfer-Encoding: chunked\r\n\r\nffff\r\n", 413),
        (f"{POST}Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (f"{POST}Transfer-Encoding: chunked\r\n\r\n" + "1\r\nx\r\n" * 70, 413),
        (f"{POST}Content-Length: 1\r\n\r\n\xff", 422),
        (f"{POST}Content-Length: 4000\r\n\r\n" + "[" * 4000, 422),
        (f"{POST}X: {'x' * MAX_HEAD}\r\n\r\n", 431),
        (f"{POST}no header\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
        (f"GET {BASE}/health HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (f"GET {BASE}/health?x=1 HTTP/1.1\r\n\r\n", 200),
    ],
)
def test_malformed_and_oversized_requests_are_refused(agent, request_text, status):
    assert answer(agent, request_text) == status


def test_slow_requests_are_cut_off_and_do_not_keep_others_out(agent, monkeypatch):
    monkeypatch.setattr("faults.agent.http_server.HEAD_S", 0.2)
    assert answer(agent, f"GET {BASE}/health HTTP/1.1\r\n") == 408
    monkeypatch.setattr("faults.agent.http_server.HEAD_S", 30.0)
    silent = [socket.create_connection(("127.0.0.1", agent.port)) for _ in range(MAX_CONNECTIONS + 5)]
    try:
        assert agent.ask("GET", "/health")[0] == 200
    finally:
        for connection in silent:
            connection.close()


def test_requests_at_the_same_time_have_one_effect(agent):
    statuses = []
    threads = [threading.Thread(target=lambda: statuses.append(inject(agent)[0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 8
    assert len([line for line in agent.lines() if "): 79, " in line]) == 1
