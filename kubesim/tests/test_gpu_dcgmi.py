"""dcgmi: what it says of healthy and of broken devices, and what its host engine keeps in mind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kubesim.gpu.access import Access
from kubesim.gpu.board import GPU, Board
from kubesim.gpu.dcgm import cli
from kubesim.gpu.devices import Task
from kubesim.gpu.products import loads, products
from kubesim.shell.machine import Stdio
from kubesim.tests.containers import Sink, run
from kubesim.tests.installed import install
from kubesim.tests.world import container, pod, world

BOOT = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)


@pytest.fixture
def board() -> Board:
    return Board("node-a", products()["H100"], 4, BOOT)


def ask(board: Board, line: str, seconds: float = 0) -> tuple[str, int]:
    view = Access(board, "", privileged=True).view(BOOT + timedelta(seconds=seconds))
    return cli.run(view, line.split())


def joined(out: str) -> str:
    """Return the right half of a table as one text."""
    return " ".join(" ".join(line.split("|")[2].strip() for line in out.splitlines() if line.count("|") > 2).split())


def test_it_lists_the_devices(board):
    out, status = ask(board, "discovery -l")
    assert (out.splitlines()[0], status) == ("4 GPUs found.", 0)
    assert {len(line) for line in out.splitlines()[1:18]} == {81}
    assert "0 NvSwitches found.\n+-----------+\n| Switch ID |" in out


def test_health_is_told_when_it_is_watched(board):
    assert ask(board, "health -c") == ("Error: Health watches not enabled. Please enable watches. \n", 253)
    assert ask(board, "health -s a") == ("Health monitor systems set successfully.\n", 0)
    assert "| Overall Health            | Healthy " in ask(board, "health -c")[0]
    assert "| Memory          | On " in ask(board, "health -f")[0]
    ask(board, "health -s t")
    board.xid(0, 48, BOOT)
    assert "Healthy" in ask(board, "health -c")[0]
    assert ask(board, "health -s z")[1] == 255


@pytest.mark.parametrize(
    ("code", "text"),
    [(48, "volatile double-bit ECC"), (63, "row remappings are pending"), (64, "row remapping failed"),
     (74, "link 2 is currently down"), (79, "has fallen off the bus"), (119, "NODE_REBOOT"), (95, "Detected XID 95")],
)  # fmt: skip
def test_its_watches_see_what_an_event_has_done(board, code, text):
    ask(board, "health -s a")
    assert ask(board, "diag -r 2")[1] == 0
    board.xid(1, code, BOOT)
    out, _ = ask(board, "health -c")
    assert text in joined(out)
    assert {len(line) for line in out.splitlines()} == {88}
    out, status = ask(board, "diag -r 2")
    assert status == 226
    assert text in joined(out)
    board.reset(1, BOOT) if code != 79 else board.repair(1, BOOT)
    healthy = code != 64  # a row that could not be remapped stays so
    assert ("Healthy" in ask(board, "health -c")[0]) == healthy


def test_the_diagnostic_has_more_tests_at_a_higher_level(board):
    rows = [
        [line.split("|")[1].strip() for line in ask(board, f"diag -r {level}")[0].splitlines() if line.endswith(" |")]
        for level in (1, 2, 3, 4)
    ]
    counts = [
        sum(name in each for name in ("software", "memory", "pcie", "targeted_power", "memtest")) for each in rows
    ]
    assert counts == [1, 3, 4, 5]
    assert ask(board, "diag -r 9")[1] == 255
    assert ask(board, "diag -r 2 -j")[1] == 1


def test_a_diagnostic_skips_devices_that_are_in_use(board):
    board.allocate("ml/a/main", GPU, 1, BOOT)
    board.start(Task(7, "python", "ml/a/main", loads()["training"], BOOT))
    out, status = ask(board, "diag -r 2")
    assert status == 0
    assert "|                           | GPU0: Skip" in out


def test_a_group_that_there_is_not_is_refused(board):
    assert ask(board, "health -g 7 -c")[1] == 251


def test_it_tells_which_links_are_up(board):
    board.xid(0, 74, BOOT)
    assert "        U U D U" in ask(board, "nvlink -s")[0]


def test_fields_are_shown_by_number(board):
    out, _ = ask(board, "dmon -e 150,203,252 -i 0")
    assert out.splitlines()[0].split() == ["#Entity", "TMPTR", "GPUTL", "FBUSD"]
    assert out.splitlines()[2].split() == ["GPU", "0", "29", "0", "0"]
    assert ask(board, "dmon -e 99999")[1] == 255
    assert ask(board, "dmon -e abc")[0] == "Error: Expected numerical fieldId. Got 'abc' instead.\n"
    assert ask(board, "dmon -e 150 -i 9")[1] == 255
    assert "gpu_utilization" in ask(board, "dmon -l")[0]
    numbers = ask(board, "dmon -e 155,190,203,1002,1010", 9)[0].splitlines()[2].split()[2:]
    assert numbers == ["69.990", "0", "0", "0.000", "0"]
    assert cli.pace(["dmon", "-e", "150", "-c", "3", "-d", "500"]) == (0.5, 3)
    assert cli.pace(["discovery", "-l"]) == (0.0, 1)


async def test_it_is_at_hand_on_the_node_and_beside_the_exporter():
    async with world(count=1) as w:
        await install(w, "gpu-operator")
        await w.tick(20)
        found = await w.items("pods", "gpu-operator")
        exporter = next(item for item in found if "dcgm-exporter" in item["metadata"]["name"])
        sink, command = Sink(), ("dcgmi", "dmon", "-e", "150", "-i", "0", "-c", "1")
        status = await w.kubelets.containers.exec(exporter, "nvidia-dcgm-exporter", command)(Stdio(None, sink, sink))
        assert (status, len(sink.data.splitlines())) == (0, 3)
        root = {"name": "host", "hostPath": {"path": "/"}}
        agent = container("debian:12", "sleep", "3600", volumeMounts=[{"name": "host", "mountPath": "/host"}])
        await w.create("pods", pod("agent", {**agent, "securityContext": {"privileged": True}}, volumes=[root]))
        await w.tick(10)
        _, out, _ = await run(w, "agent", "chroot", "/host", "dcgmi", "discovery", "-l")
        assert out.startswith("8 GPUs found.\n")


def test_an_engine_that_is_not_there_is_not_reached(board):
    out, status = ask(board, "--host 10.0.0.9 discovery -l")
    assert out.startswith("Error: unable to establish a connection to the specified host: 10.0.0.9\n")
    assert status == 235
    assert ask(board, "--host localhost discovery -l")[1] == 0
    board.update_driver("580.105.08", BOOT)
    assert ask(board, "discovery -l")[1] == 235


def test_what_it_does_not_know_is_answered_with_its_usage(board):
    for name in ("frobnicate", "stats", "policy", "config", "fieldgroup", "modules", "profile"):
        assert ask(board, f"{name} -l") == ("ERROR: Invalid subsystem.\n\n" + cli.USAGE, 1)
    assert ask(board, "")[0].startswith("Usage: dcgmi")
    assert ask(board, "--help")[1] == 0
    for line in ("nvlink", "health", "topo -g x", "group -c"):
        assert ask(board, line)[1] > 0


def test_only_who_was_given_devices_has_the_driver(board):
    assert not Access(board, "ml/a/main").has_driver
    board.allocate("ml/a/main", GPU, 1, BOOT)
    assert Access(board, "ml/a/main").has_driver
    assert Access(board, "ml/a/main").log is None
    assert Access(board, "x/y/z", privileged=True).log is board.log
