"""nvidia-smi: its pages as people know them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kubesim.gpu.board import GPU, Board
from kubesim.gpu.devices import Task
from kubesim.gpu.products import loads, products
from kubesim.gpu.smi import cli, query
from kubesim.gpu.smi.view import View

BOOT = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
NOW = BOOT + timedelta(seconds=600)
OWNER = "ml/train-0/main"


@pytest.fixture
def board() -> Board:
    board = Board("node-a", products()["H100"], 8, BOOT)
    board.allocate(OWNER, GPU, 2, BOOT)
    board.start(Task(4242, "/usr/bin/python3", OWNER, loads()["training"], BOOT))
    return board


def smi(board: Board, line: str, owner: str = "") -> tuple[str, int]:
    return cli.run(View(board, NOW, owner), cli.parse(line.split()))


@pytest.mark.parametrize("name", sorted(products()))
def test_every_line_of_the_table_is_as_wide_as_its_frame(name):
    product = products()[name]
    board = Board("n", product, len(product.bus), BOOT)
    board.allocate(OWNER, GPU, 1, BOOT)
    board.start(
        Task(4242, "/opt/conda/envs/training/bin/python3.11-with-a-long-name", OWNER, loads()["training"], BOOT)
    )
    lines = [line for line in smi(board, "")[0].splitlines()[1:] if line]
    assert {len(line) for line in lines} == {91}


def test_the_table_shows_what_runs_where(board):
    out, status = smi(board, "")
    rows = [line for line in out.splitlines() if "MiB /  81559MiB" in line]
    assert status == 0
    assert len(rows) == 8
    assert "70140MiB /  81559MiB" in rows[0]
    assert "      0MiB /  81559MiB" in rows[2]
    assert "|    0   N/A  N/A            4242      C   /usr/bin/python3                      70140MiB |" in out


def test_a_container_sees_its_own_devices_and_no_processes(board):
    out, _ = smi(board, "", OWNER)
    assert out.count("81559MiB") == 2
    assert "No running processes found" in out
    assert smi(board, "-L", OWNER)[0].splitlines() == [
        f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: {board.devices[n].uuid})" for n in (0, 1)
    ]
    assert smi(board, "", "ml/other/main") == ("No devices were found\n", 6)


def test_fields_come_as_comma_separated_values(board):
    out, _ = smi(board, "--query-gpu=index,name,utilization.gpu,memory.used,clocks.sm --format=csv -i 0,2")
    assert out.splitlines()[0] == "index, name, utilization.gpu [%], memory.used [MiB], clocks.current.sm [MHz]"
    assert out.splitlines()[2] == "2, NVIDIA H100 80GB HBM3, 0 %, 0 MiB, 345 MHz"
    plain, _ = smi(board, "--query-gpu=memory.total,power.limit --format=csv,noheader,nounits --id=0")
    assert plain == "81559, 700.00\n"


def test_every_field_has_a_value_in_every_state(board):
    board.xid(3, 48, NOW)
    fields = [field.name for field in query.switches()["gpu"].fields]
    names = ",".join(fields)
    out, status = smi(board, f"--query-gpu={names} --format=csv,noheader")
    assert status == 0
    assert len(out.splitlines()) == 8
    assert all(len(line.split(", ")) == len(fields) for line in out.splitlines())


def test_processes_can_be_asked_for(board):
    out, _ = smi(board, "--query-compute-apps=pid,name,used_memory --format=csv,noheader -i 0")
    assert out == "4242, /usr/bin/python3, 70140 MiB\n"


@pytest.mark.parametrize(
    ("line", "text", "status"),
    [
        ("--query-gpu=index,foo --format=csv", 'Field "foo" is not a valid field to query.', 2),
        ("--query-compute-apps=foo --format=csv", 'Field "foo" is not a valid field to query.', 2),
        ("-q -d FOO", "Display type is not recognized: FOO", 2),
    ],
)
def test_an_unknown_field_or_section_is_named(board, line, text, status):
    out, code = smi(board, line)
    assert (out.strip(), code) == (text, status)


@pytest.mark.parametrize("line", ["--query-gpu=index", "--frobnicate", "-i", "--loop=abc", "dmon -c x"])
def test_a_wrong_command_line_is_refused(line):
    with pytest.raises(cli.BadUsage):
        cli.parse(line.split())


def test_a_section_of_the_report_can_be_asked_for(board):
    out, _ = smi(board, "-q -d ECC,ROW_REMAPPER -i 0")
    assert "DRAM Uncorrectable" in out
    assert "Remapped Rows" in out
    assert "Product Name" not in out
    whole, _ = smi(board, "-q")
    assert whole.count("Product Name") == 8
    report, _, processes = whole.replace(": \n", ": -\n").partition("    Processes\n")
    assert {line.index(" : ") for line in report.splitlines() if " : " in line} == {54}
    assert processes.splitlines()[0].index(" : ") == 41


def test_temperatures_and_pages_are_told_as_each_generation_does():
    for name, limit, retired in (("T4", "GPU Shutdown Temp ", "0"), ("H100", "GPU Shutdown T.Limit Temp ", "N/A")):
        board = Board("n", products()[name], 1, BOOT)
        out, _ = smi(board, "-q -d TEMPERATURE,PAGE_RETIREMENT,ROW_REMAPPER")
        assert limit in out
        assert f"Single Bit ECC                                 : {retired}\n" in out
    board.repair(0, BOOT)
    board.xid(0, 64, NOW)
    out, _ = smi(board, "-q -d ECC,ROW_REMAPPER")
    assert "Remapping Failure Occurred                     : Yes" in out
    assert "Max                                        : 2559 bank(s)" in out
    assert "None                                       : 1 bank(s)" in out


def test_links_tell_their_errors(board):
    out, _ = smi(board, "nvlink -e -i 3")
    assert out.splitlines()[:3] == [
        f"GPU 3: NVIDIA H100 80GB HBM3 (UUID: {board.devices[3].uuid})",
        "\t Link 0: Replay Errors: 0",
        "\t Link 0: Recovery Errors: 0",
    ]
    assert smi(board, "nvlink")[1] == 2


def test_a_lost_gpu_is_all_that_nvidia_smi_talks_of(board):
    board.xid(1, 79, NOW)
    out, status = smi(board, "")
    assert out == "Unable to determine the device handle for GPU1: 0000:05:00.0: Unknown Error\n"
    assert status == 255
    assert len(smi(board, "-L")[0].splitlines()) == 8
    assert smi(board, "--query-gpu=index --format=csv,noheader -i 0") == ("0\n", 0)
    assert smi(board, "--query-gpu=index --format=csv,noheader -i 1") == (out, 255)


def test_a_broken_link_shows_in_the_matrix_and_the_list(board):
    assert smi(board, "topo -m")[0].splitlines()[1].startswith("GPU0\t X \tNV18")
    board.xid(0, 74, NOW)
    assert smi(board, "topo -m")[0].splitlines()[1].startswith("GPU0\t X \tNV17")
    assert "\t Link 2: <inactive>" in smi(board, "nvlink -s")[0]


def test_gpus_without_nvlink_meet_across_the_bus():
    board = Board("n", products()["L4"], 8, BOOT)
    row = smi(board, "topo -m")[0].splitlines()[1].split("\t")
    assert row[1:9] == [" X ", "PHB", "PHB", "PHB", "SYS", "SYS", "SYS", "SYS"]


def test_a_container_may_change_nothing(board):
    for line in ("-mig 1", "-pm 0", "-r"):
        assert smi(board, line, OWNER)[1] == 4


def test_a_device_is_reset_when_nothing_uses_it(board):
    out, status = smi(board, "-r -i 0")
    assert status == 255
    assert out.startswith(
        "The following GPUs could not be reset:\n  GPU 00000000:04:00.0: In use by another client\n\n1 device"
    )
    board.xid(5, 95, NOW)
    assert smi(board, "--query-gpu=gpu_recovery_action --format=csv,noheader -i 5")[0] == "Reset\n"
    assert smi(board, "-r -i 5")[0] == "GPU 00000000:85:00.0 was successfully reset.\nAll done.\n"
    assert smi(board, "--query-gpu=gpu_recovery_action --format=csv,noheader -i 5")[0] == "None\n"


def test_devices_and_processes_can_be_followed(board):
    assert len(smi(board, "dmon -c 1")[0].splitlines()) == 10
    assert "4242" in smi(board, "pmon -c 1")[0]
    assert cli.parse(["dmon", "-c", "3"]).passes == 3
    assert cli.parse(["-l", "2"]).loop_s == 2
