"""Each Xid wherever a candidate meets it: kernel log, CUDA before and after, DCGM, and what heals it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from kubesim.gpu.access import Access
from kubesim.gpu.board import GPU, Board
from kubesim.gpu.cuda import CudaError
from kubesim.gpu.products import products
from kubesim.gpu.xids import CUDA_ERRORS
from kubesim.metrics import dcgm

BOOT = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
OWNER = "ml/train/main"
RESET, REBOOT = "0x1 (GPU Reset Required)", "0x2 (Node Reboot Required)"
FAULTS = {
    # code: (the driver's words, running process, new process, recovery action, err_msg)
    13: ("Graphics SM Warp Exception on", 719, 0, "", "Graphics Engine Exception"),
    31: ("MMU Fault: ENGINE GRAPHICS", 700, 0, "", "GPU memory page fault"),
    43: ("Ch 00000010", 719, 0, "", "GPU stopped processing"),
    48: ("DBE (double bit error) ECC Error", 214, 214, RESET, "Double Bit ECC Error"),
    62: ("32ce4e95 00010c2c", 719, 46, RESET, "Internal micro-controller halt"),
    74: ("NVLink: fatal error detected on link 2", 220, 46, RESET, "NVLINK Error"),
    79: ("GPU has fallen off the bus.", 719, 100, REBOOT, "GPU has fallen off the bus"),
    94: ("Contained: SM (0x1). RST: No, D-RST: No", 226, 0, "", "Contained ECC error"),
    95: ("Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No", 719, 46, RESET, "Uncontained ECC error"),
    109: ("errorString CTX SWITCH TIMEOUT", 719, 46, RESET, "Context Switch Timeout Error"),
    119: ("waiting for RPC response from GPU0 GSP!", 999, 999, REBOOT, "GSP RPC Timeout"),
    120: ("GSP task panic", 999, 999, REBOOT, "GSP Error"),
    140: ("An uncorrectable ECC error detected", 214, 214, RESET, "Unrecovered ECC Error"),
}


@pytest.fixture
def board():
    made = Board("node-a", products()["H100"], 8, BOOT)
    made.allocate(OWNER, GPU, 1, after(0))
    return made


def after(seconds):
    return BOOT + timedelta(seconds=3600 + seconds)


def process(board, seconds=0, pid=4242, owner=OWNER):
    return Access(board, owner).cuda({}, pid, "python", lambda: after(seconds))


def start(board, seconds, pid):
    """Return CUDA's error for a process that starts now and wants device 0; 0 where it gets it."""
    try:
        process(board, seconds, pid).open(0)
    except CudaError as error:
        return error.code
    return 0


@pytest.mark.parametrize("code", FAULTS)
def test_an_xid_shows_in_the_log_in_cuda_and_in_dcgm(board, code):
    words, running, new, action, message = FAULTS[code]
    victim = process(board)
    victim.work(0)
    board.xid(0, code, after(10))
    lines = [record.text for record in board.log.records(3600)]
    assert re.match(rf"NVRM: Xid \(PCI:0000:04:00\): {code}, .*{re.escape(words)}", lines[2])
    changed = [line for line in lines if "): 154, " in line]
    assert [line.partition(" to ")[2] for line in changed] == ([action] if action else [])
    assert victim.error == running
    assert start(board, 11, 4300) == new
    (told,) = [
        each for each in dcgm.exposed(board, after(12)) if each.family.name == dcgm.XID and each.labels["gpu"] == "0"
    ]
    assert (told.value, told.labels["err_code"], told.labels["err_msg"]) == (code, str(code), message)
    (series,) = [
        each for each in dcgm.series(board, dcgm.XID, after(12).timestamp(), after(12).timestamp())
        if each.labels["gpu"] == "0"
    ]  # fmt: skip
    assert series.value(after(12).timestamp()) == code


@pytest.mark.parametrize("code", [48, 64, 94])
def test_new_programs_fail_too_where_an_xid_shows_in_cuda_alone(board, code):
    *_, running, new, _, _ = FAULTS.get(code, ("", 0, 214, "", ""))
    board.xid(0, code, after(10), "cuda")
    assert start(board, 3600, 4300) == (new or running)
    assert not [record for record in board.log.records(3600) if "Xid" in record.text]


@pytest.mark.parametrize("code", [code for code, fault in FAULTS.items() if fault[2]])
def test_a_failed_device_stays_failed_until_it_is_reset_or_its_node_boots(board, code):
    process(board).open(0)
    board.xid(0, code, after(10))
    assert start(board, 3600, 4300) == FAULTS[code][2]
    assert start(board, 7200, 4301) == FAULTS[code][2]
    if FAULTS[code][3] == REBOOT:
        board.reboot(after(7300))
        board.allocate(OWNER, GPU, 1, after(7400))
    else:
        board.reset(0, after(7300))
    assert start(board, 7500, 4302) == 0


@pytest.mark.parametrize("code", [code for code, fault in FAULTS.items() if not fault[2]])
def test_an_error_of_one_program_leaves_the_device_to_the_next(board, code):
    process(board).open(0)
    board.xid(0, code, after(10))
    assert start(board, 11, 4300) == 0


def test_a_container_with_two_devices_goes_on_with_the_one_that_is_left():
    board = Board("node-a", products()["H100"], 8, BOOT)
    board.allocate(OWNER, GPU, 2, after(0))
    board.xid(0, 79, after(10))
    assert [each.device.index for each in process(board).devices()] == [1]


def test_a_firmware_that_does_not_answer_lets_a_new_process_wait(board):
    board.xid(0, 119, after(10))
    with pytest.raises(CudaError, match="unknown error") as caught:
        process(board).devices()
    assert caught.value.after_s == 45


def test_each_line_of_a_fault_has_its_own_time(board):
    process(board).open(0)
    board.xid(0, 79, after(10))
    moments = [record.seconds for record in board.log.records(3600)]
    assert len({f"{moment:.6f}" for moment in moments}) == len(moments) >= 10
    assert moments == sorted(moments)
    assert moments[-1] - moments[0] < 1


def test_a_contained_error_is_followed_by_nothing_that_contradicts_it(board):
    process(board).open(0)
    board.xid(0, 94, after(10))
    text = " ".join(record.text for record in board.log.records(3600))
    assert "Row Remapper" not in text
    assert "DBE" not in text
    device = board.devices[0]
    assert (device.state.remap.pending, device.state.ecc.uncorrected) == (False, (0, 0))


def test_the_first_cause_stays_in_dcgm_until_a_reset(board):
    board.xid(0, 48, after(10))
    assert board.devices[0].state.xid == 48
    board.reset(0, after(20))
    labels = [each.labels for each in dcgm.exposed(board, after(21)) if each.family.name == dcgm.XID]
    assert {(each["err_code"], each["err_msg"]) for each in labels} == {("0", "No Error")}


def test_the_labels_of_an_xid_stand_among_those_of_its_pod_in_alphabetical_order(board):
    board.xid(0, 48, after(10))
    told = next(each for each in dcgm.exposed(board, after(11)) if each.family.name == dcgm.XID)
    assert [*told.labels][-6:] == ["DCGM_FI_DRIVER_VERSION", "container", "err_code", "err_msg", "namespace", "pod"]


def test_two_clusters_have_other_gpus_though_their_nodes_have_the_same_names():
    one, other = (Board("node-a", products()["H100"], 8, BOOT, seed=seed) for seed in ("a", "b"))
    names = [device.uuid for board in (one, other) for device in board.devices]
    assert len({*names}) == 16
    assert all(
        re.fullmatch(r"GPU-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", n) for n in names
    )
    assert len({device.serial for board in (one, other) for device in board.devices}) == 16


def test_a_turing_gpu_retires_pages_where_others_remap_rows():
    lines = {}
    for product in ("T4", "A100"):
        board = Board("node-a", products()[product], 1, BOOT)
        board.xid(0, 48, after(10))
        lines[product] = " ".join(record.text for record in board.log.records(3600))
    assert re.search(r": 63, Dynamic Page Retirement: New page retired, reboot to activate \(0x\w{16}\)", lines["T4"])
    assert re.search(r": 63, Row Remapper: New row \(0x\w{16}\) marked for remapping", lines["A100"])
    assert "Row Remapper" not in lines["T4"]


def test_every_error_has_cudas_text():
    assert all(error in CUDA_ERRORS for fault in FAULTS.values() for error in fault[1:3] if error)
