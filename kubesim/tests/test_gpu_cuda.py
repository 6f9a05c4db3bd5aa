"""The CUDA driver as a process of a container uses it: what it sees, what it may have, how it fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kubesim.gpu.access import Access
from kubesim.gpu.board import GPU, Board
from kubesim.gpu.cuda import Cuda, CudaError
from kubesim.gpu.products import products
from kubesim.gpu.readings import read

BOOT = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
NOW = BOOT + timedelta(hours=1)
OWNER = "ml/train/main"
GIB = 1 << 30


def board(product="H100", count=8, given=2):
    made = Board("node-a", products()[product], count, BOOT)
    if given:
        made.allocate(OWNER, GPU, given, NOW)
    return made


def process(made, environment=None, pid=4242, struck=lambda code: None, owner=OWNER) -> Cuda:
    return Access(made, owner).cuda(environment or {}, pid, "python", lambda: NOW, struck)


def code(call, *words):
    with pytest.raises(CudaError) as caught:
        call(*words)
    return caught.value.code


def test_a_process_sees_what_its_container_was_given():
    assert [each.device.index for each in process(board()).devices()] == [0, 1]


def test_a_container_without_a_grant_has_no_driver():
    assert code(process(board(given=0)).devices) == 35


@pytest.mark.parametrize(
    ("value", "seen"),
    [("0", [0]), ("1", [1]), ("1,0", [1, 0]), ("0,7,1", [0]), ("{uuid}", [1]), ("0, 1", [0, 1])],
)
def test_cuda_visible_devices_chooses_and_orders(value, seen):
    made = board()
    cuda = process(made, {"CUDA_VISIBLE_DEVICES": value.format(uuid=made.devices[1].uuid[:12])})
    assert [each.device.index for each in cuda.devices()] == seen


@pytest.mark.parametrize("value", ["", "-1", "none", "5", "0,0"])
def test_cuda_visible_devices_hides_everything(value):
    assert code(process(board(), {"CUDA_VISIBLE_DEVICES": value}).devices) == 100


def test_the_environment_decides_once():
    environment = {"CUDA_VISIBLE_DEVICES": "0"}
    cuda = process(board(), environment)
    environment["CUDA_VISIBLE_DEVICES"] = ""
    assert len(cuda.devices()) == 1


def test_memory_that_is_taken_is_seen_by_nvidia_smi_and_by_others():
    made = board("T4", 4, 1)
    cuda, other = process(made), process(made, pid=4300)
    free, total = other.memory(0)
    assert free == total == 14913 << 20
    cuda.allocate(0, 4 * GIB)
    assert other.memory(0)[0] == total - 4 * GIB - (520 << 20)
    assert read(made.devices[0], NOW).used == 4096 + 520
    cuda.free(0, 4 * GIB)
    cuda.close()
    assert other.memory(0) == (total, total)
    assert not made.devices[0].tasks


def test_more_than_is_free_is_out_of_memory():
    cuda = process(board("T4", 4, 1))
    assert code(cuda.allocate, 0, 32 * GIB) == 2
    cuda.allocate(0, 12 * GIB)
    assert code(cuda.allocate, 0, 4 * GIB) == 2


def test_work_is_seen_as_utilisation_until_it_rests():
    made = board()
    cuda = process(made)
    cuda.work(1)
    assert [read(device, NOW).util > 85 for device in made.devices[:2]] == [False, True]
    cuda.rest(1)
    assert read(made.devices[1], NOW).util < 5


def test_a_fault_strikes_the_process_and_stays_with_it():
    made, told = board(), []
    cuda = process(made, struck=told.append)
    cuda.work(0)
    made.xid(0, 48, NOW)
    assert told == [214]
    assert code(cuda.memory, 0) == 214
    assert not made.devices[0].tasks


def test_a_t4_is_slower_than_an_h100_and_neighbours_share_its_time():
    slow, fast = process(board("T4", 4, 1)), process(board())
    assert slow.flops(0, "fp16") < fast.flops(0, "fp16") / 10
    made = board()
    made.replicas = 2
    made.allocate("ml/other/main", GPU, 8, NOW)
    alone = process(made).flops(0)
    neighbour = next(name for name in made.given if name != OWNER)
    for ordinal in range(8):
        process(made, owner=neighbour, pid=5000 + ordinal).work(ordinal)
    assert process(made).flops(0) == alone / 2


@pytest.mark.parametrize(("broken", "number"), [("loaded", 100), ("library", 803), ("fabric", 802)])
def test_a_driver_that_cannot_be_used_says_why(broken, number):
    made = board()
    if broken == "loaded":
        made.unload(NOW, "nvidia")
    if broken == "library":
        made.library = "590.10"
    if broken == "fabric":
        made.set_fabric(NOW, configured=False)
    assert code(process(made).devices) == number


def test_many_allocations_of_one_moment_do_not_push_the_past_out():
    made = board()
    cuda = process(made)
    for _ in range(1000):
        cuda.allocate(0, 1 << 20)
    assert read(made.devices[0], NOW).used == 1520
    assert read(made.devices[0], BOOT + timedelta(minutes=1)).used == 0
    assert len(made.devices[0].states(BOOT, NOW)) < 10


def test_the_processes_on_a_device_are_told_with_what_they_hold():
    made = board()
    process(made).allocate(0, GIB)
    assert process(made, pid=4300).processes(0) == [(4242, (1024 + 520) << 20)]
