"""GPU devices: identity, readings that follow the work, allocation, Xid events, the kernel log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kubesim.gpu.board import GPU, Board, NoDevice, NoReset
from kubesim.gpu.devices import Task
from kubesim.gpu.products import loads, products
from kubesim.gpu.readings import read
from kubesim.gpu.xids import CUDA_ERRORS, dmesg, xids
from kubesim.shell.journals import kernel
from kubesim.shell.tools.journalctl import shown

BOOT = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
OWNER = "ml/train-0/main"


def after(seconds: float) -> datetime:
    return BOOT + timedelta(seconds=seconds)


@pytest.fixture
def died() -> list[tuple[int, int]]:
    return []


@pytest.fixture
def board(died) -> Board:
    return Board("node-a", products()["H100"], 8, BOOT, ended=lambda task, error: died.append((task.pid, error)))


def work(board: Board, load: str = "training", owner: str = OWNER, count: int = 1, pid: int = 4242) -> None:
    board.allocate(owner, GPU, count, BOOT)
    board.start(Task(pid, "/usr/bin/python3", owner, loads()[load], after(100)))


def test_the_same_node_has_the_same_devices_and_no_two_are_alike(board):
    again = Board("node-a", products()["H100"], 8, BOOT)
    assert [d.uuid for d in board.devices] == [d.uuid for d in again.devices]
    others = Board("node-b", products()["H100"], 8, BOOT)
    names = [d.uuid for d in board.devices + others.devices] + [d.serial for d in board.devices + others.devices]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", sorted(products()))
def test_every_product_idles_cold_and_works_hot_within_its_limits(name):
    product = products()[name]
    board = Board("n", product, len(product.bus), BOOT)
    idle = read(board.devices[0], after(60))
    work(board, "burn")
    busy = read(board.devices[0], after(700))
    assert idle.util == 0
    assert idle.power < product.power["limit"] * 0.2
    assert idle.performance == product.idle_state
    assert busy.util == 100
    assert product.power["limit"] * 0.9 < busy.power <= product.power["limit"] * 1.02
    assert busy.temperature > idle.temperature + 20
    assert busy.used + busy.free + busy.reserved <= product.memory
    assert busy.sm_clock <= product.clocks["most"][0] + 15


def test_memory_fills_and_heat_rises_with_time_and_both_go_again(board):
    work(board)
    device = board.devices[0]
    early, late = read(device, after(101)), read(device, after(400))
    assert early.used < late.used
    assert early.temperature < late.temperature
    board.release(OWNER, after(500))
    assert read(device, after(501)).used == 0
    assert read(device, after(501)).temperature > read(device, after(900)).temperature
    assert read(device, after(900)).energy_mj > read(device, after(501)).energy_mj > late.energy_mj


def test_a_hung_collective_looks_busy_and_stays_cool(board):
    work(board, "collective-hang")
    reading = read(board.devices[0], after(400))
    assert reading.util == 100
    assert reading.power < 170
    assert reading.nvlink == 0


def test_a_container_gets_the_devices_it_asked_for_once(board):
    first = board.allocate("ml/a/main", GPU, 4, BOOT)
    assert board.allocate("ml/a/main", GPU, 4, BOOT) == first
    assert {slot.device for slot in board.allocate("ml/b/main", GPU, 4, BOOT)} == {4, 5, 6, 7}
    with pytest.raises(NoDevice, match="Requested: 1, Available: 0, which is unexpected"):
        board.allocate("ml/c/main", GPU, 1, BOOT)
    board.release("ml/a/main", after(1))
    assert board.allocate("ml/c/main", GPU, 1, BOOT)
    assert board.environment("ml/c/main") == {"NVIDIA_VISIBLE_DEVICES": board.devices[0].uuid}


def test_time_slicing_spreads_before_it_shares():
    board = Board("n", products()["L4"], 2, BOOT, replicas=2)
    assert board.resources() == {GPU: 4}
    given = [board.allocate(f"ml/p{n}/main", GPU, 1, BOOT)[0].device for n in range(4)]
    assert given == [0, 1, 0, 1]


def test_a_gpu_that_falls_off_the_bus_takes_its_processes_and_says_so_in_the_drivers_order(board, died):
    work(board, count=2)
    board.xid(0, 79, after(200))
    texts = [record.text for record in board.log.records(150)]
    assert texts[0] == f"NVRM: GPU at PCI:0000:04:00: {board.devices[0].uuid}"
    assert texts[2] == "NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus."
    reboot = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    assert f"NVRM: Xid (PCI:0000:04:00): 154, {reboot}" in texts
    assert texts[-1].startswith("NVRM: Xid (PCI:0000:04:00): 45, pid=4242, name=/usr/bin/python3, ")
    assert died == [(4242, 719)]
    assert not board.devices[0].usable
    assert board.healthy() == {GPU: 7}
    assert board.resources() == {GPU: 8}


def test_only_a_reboot_brings_back_a_lost_gpu_and_the_log_begins_anew(board):
    board.xid(0, 79, after(10))
    with pytest.raises(NoReset, match="GPU is lost"):
        board.reset(0, after(20))
    board.reboot(after(100))
    assert board.healthy() == {GPU: 8}
    assert not any("Xid" in record.text for record in board.log.records())


def test_an_uncorrectable_error_waits_for_a_reset_and_is_counted_for_ever(board):
    board.xid(3, 48, after(10))
    device = board.devices[3]
    assert device.state.ecc.uncorrected == (1, 1)
    assert device.state.remap.pending
    assert board.healthy() == {GPU: 7}
    board.reset(3, after(20))
    assert device.state.ecc.uncorrected == (0, 1)
    assert not device.state.remap.pending
    assert device.state.remap.uncorrected == 1
    assert board.healthy() == {GPU: 8}


def test_a_contained_error_ends_one_process_and_leaves_the_device_in_service(board, died):
    work(board)
    board.start(Task(4243, "python", OWNER, loads()["small"], after(120)))
    board.xid(0, 94, after(200))
    assert died == [(4242, 226)]
    assert list(board.devices[0].tasks) == [4243]


@pytest.mark.parametrize("code", sorted(xids()))
def test_every_event_writes_the_drivers_form_and_ends_with_a_known_error(board, died, code):
    work(board)
    board.xid(0, code, after(200))
    texts = [record.text for record in board.log.records(150)]
    assert f"NVRM: Xid (PCI:0000:04:00): {code}, " in "\n".join(texts)
    assert all(text.startswith("NVRM: ") and "{" not in text for text in texts)
    assert all(error in CUDA_ERRORS for _, error in died)


def test_the_kernel_names_itself_only_in_what_it_wrote_itself(board):
    board.log.write_device(after(50), "<3>NVRM: NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus.\n<0>a\nb")
    board.xid(0, 79, after(60))
    written, one, two, *rest = board.log.records(40)
    assert (written.level, written.facility, one.level, one.facility, two.level) == (3, 1, 0, 1, 4)
    assert dmesg(board.log, written).startswith("[   50.000000] NVRM: NVRM: Xid")
    entries = [shown(entry, "node-a") for entry in kernel(board.log)]
    assert "node-a NVRM: NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus." in entries[-len(rest) - 3]
    assert entries[-1].startswith("Nov 02 08:01:00 node-a kernel: NVRM: ")
    assert dmesg(board.log, rest[-1], human=True, decode=True).startswith(
        "kern  :err   : [Mon Nov  2 08:01:00 2026] NVRM"
    )


def test_a_record_is_one_line_and_no_longer_than_the_kernels(board):
    board.log.write_device(after(50), "x" * 5000 + "\ny")
    long, short = board.log.records(40)
    assert len(long.text) == 976
    assert short.text == "y"
