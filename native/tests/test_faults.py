"""What an armed fault does to a program: when it comes, to which GPU, how long it lasts, and what remains."""

import json
import select
import time
from pathlib import Path

import pytest

from native.tests.native_library import NATIVE, needs_compiler, out

pytestmark = needs_compiler
XIDS = json.loads((NATIVE.parent / "faults" / "xids.json").read_text(encoding="utf-8"))["xids"]
TOTAL_GLOBAL_MEM = 288 // 8
"""Offsets of the bytes in cudaDeviceProp: after name, UUID, LUID and its mask (driver_types.h)."""
DBE_VOL_TOTAL = 4
"""NVML_FI_DEV_ECC_DBE_VOL_TOTAL (nvml.h): the field by which DCGM reads uncorrectable ECC errors."""
RUNNING = {code: row["cuda"]["running"] for code, row in XIDS.items() if row["cuda"]["running"]}
NEW = {code: row["cuda"]["new"] for code, row in XIDS.items() if row["cuda"]["new"]}


def synchronized(program):
    return program.driver("cuCtxSynchronize")


@pytest.mark.parametrize("xid", sorted(RUNNING, key=int))
def test_each_xid_gives_a_running_program_its_error(control, program, xid):
    program.context()
    control.arm(f"xid={xid}")
    assert synchronized(program) == RUNNING[xid]
    assert program.driver("cuMemAlloc_v2", out(), 1024)[0] == RUNNING[xid]


@pytest.mark.parametrize("xid", sorted(NEW, key=int))
def test_each_xid_gives_a_new_program_what_a_new_program_gets(control, program, xid):
    control.arm(f"xid={xid}")
    if NEW[xid] == 100:  # there is no device to be found
        assert program.driver("cuInit", 0) == 100
    else:
        assert program.driver("cuInit", 0) == 0
        assert program.driver("cuDevicePrimaryCtxRetain", out(), 0)[0] == NEW[xid]


@pytest.mark.parametrize("xid", sorted(RUNNING.keys() - NEW.keys(), key=int))
def test_an_xid_of_one_program_leaves_later_ones_alone(control, program, xid):
    control.arm(f"xid={xid}")
    assert synchronized(program.context()) == 0


def test_a_context_that_failed_stays_dead_when_the_fault_is_over(control, program, start):
    program.context()
    control.arm("xid=79")
    assert synchronized(program) == 719
    control.disarm()
    assert synchronized(program) == 719
    with start() as later:
        assert synchronized(later.context()) == 0


def test_a_program_that_runs_on_another_gpu_is_new_to_the_one_that_failed(control, program):
    program.context(0)
    control.arm("xid=46", "gpu=GPU-00000000-0000-0000-0000-000000000003")
    assert synchronized(program) == 0
    assert program.driver("cuCtxCreate_v2", out(), 0, 3)[0] == NEW["46"]
    control.disarm()
    assert program.driver("cuCtxCreate_v2", out(), 0, 3)[0] == 0


def test_an_error_that_is_not_sticky_ends_with_the_fault(control, program):
    program.context()
    number = control.arm("error=2")
    assert synchronized(program) == 2
    control.disarm(number)
    assert synchronized(program) == 0


def test_a_fault_is_noticed_only_by_those_who_use_the_gpu_it_is_on(control, start):
    with start() as on_three, start() as on_four:
        on_three.context(3), on_four.context(4)
        control.arm("xid=43", "gpu=GPU-00000000-0000-0000-0000-000000000003")
        assert (synchronized(on_three), synchronized(on_four)) == (719, 0)


@pytest.mark.parametrize("gpu", ["GPU-00000000-0000-0000-0000-000000000005", "0000:35:00", "00000000:35:00.0"])
def test_a_gpu_is_known_by_its_uuid_and_its_address_however_a_program_numbers_it(control, start, gpu):
    with start(CUDA_VISIBLE_DEVICES="5,2") as program:
        program.context(0)
        control.arm("error=719", f"gpu={gpu}")
        assert synchronized(program) == 719
    with start(CUDA_VISIBLE_DEVICES="5,2") as program:
        assert synchronized(program.context(1)) == 0


def test_a_gpus_number_is_that_of_nvidia_smi(control, start, node):
    control.arm("xid=94", "gpu=5", "after=0s")
    with start(node, CUDA_VISIBLE_DEVICES="5,2") as program:
        program.context(0)
        control.disarm()
        control.arm("error=719", "gpu=5")
        assert synchronized(program) == 719
        control.disarm()
        control.arm("error=719", "gpu=2")
        assert synchronized(program) == 0


def names(program):
    """The UUIDs of the devices that the program sees, by their last digit."""
    assert program.driver("cuInit", 0) == 0
    count = program.driver("cuDeviceGetCount", out())[1]
    return [program.driver("cuDeviceGetUuid", out(2), device)[1][1] >> 56 for device in range(count)]


def test_a_new_program_does_not_find_a_gpu_that_fell_off_the_bus(control, start, node):
    control.arm("xid=79", "gpu=3")
    with start(node) as program:
        assert names(program) == [0, 1, 2, 4, 5, 6, 7]
    with start(node, CUDA_VISIBLE_DEVICES="6,3,1") as program:
        assert names(program) == [6, 1]
    with start(node, CUDA_VISIBLE_DEVICES="3") as program:
        assert program.driver("cuInit", 0) == 100


def test_hide_alone_hides_a_gpu_from_new_programs(control, start, node):
    control.arm("hide", "gpu=0000:33:00")
    with start(node) as program:
        assert names(program) == [0, 1, 2, 4, 5, 6, 7]
    with start(node, CUDA_VISIBLE_DEVICES="3") as program:
        assert program.driver("cuInit", 0) == 100
    with start() as program:  # where the node's GPUs are not listed it has no contexts
        assert program.driver("cuInit", 0) == 0
        assert program.driver("cuDevicePrimaryCtxRetain", out(), 3)[0] == 100


def test_devices_by_other_names_than_a_gpus_stay_in_the_list(control, start, node):
    control.arm("xid=79", "gpu=3")
    mig = "MIG-GPU-00000000-0000-0000-0000-000000000002/1/0"
    with start(node, CUDA_VISIBLE_DEVICES=f"{mig},3,1") as program:
        assert len(names(program)) == 2


def test_the_runtime_agrees_that_a_gpu_is_missing(control, start, node, runtime):
    control.arm("xid=79", "gpu=3")
    with start(node) as program:
        assert program.call(runtime, "cudaGetDeviceCount", out()) == [0, 7]
        assert program.call(runtime, "cudaSetDevice", 6) == 0
        assert program.call(runtime, "cudaMalloc", out(), 1024)[0] == 0


@pytest.mark.parametrize(
    ("settings", "error"), [(["new=802", "refuse"], 802), (["new=803", "refuse", "nvml=18"], 803)]
)
def test_a_node_whose_fabric_or_driver_is_not_right_refuses_new_programs(
    control, program, start, settings, error, runtime
):
    program.context()
    control.arm(*settings)
    assert synchronized(program) == 0
    with start() as later:
        assert later.call(runtime, "cudaGetDeviceCount", out())[0] == error
        assert later.driver("cuInit", 0) == error
        assert later.nvml("nvmlInit_v2") == (18 if error == 803 else 0)


def test_a_fault_begins_after_so_many_calls_of_each_program(control, program):
    program.context()
    control.arm("error=719", "after-calls=3")
    assert [synchronized(program) for _ in range(5)] == [0, 0, 0, 719, 719]


def test_calls_within_a_call_of_the_runtime_are_not_counted(control, program, runtime):
    assert program.call(runtime, "cudaMalloc", out(), 1024)[0] == 0
    control.arm("error=719", "after-calls=3")
    results = [program.call(runtime, "cudaMemset", 1024 << 8, 0, 16) for _ in range(5)]
    assert results == [0, 0, 0, 719, 719]


def test_a_fault_begins_after_a_time_and_is_over_after_another(control, program):
    program.context()
    control.arm("error=719", "after=300ms", "for=900ms")
    began = time.monotonic()
    seen = []
    while time.monotonic() - began < 1.2:
        seen.append((round(time.monotonic() - began, 2), synchronized(program)))
    at = [when for when, result in seen if result == 719]
    assert 0.25 <= at[0] <= 0.6
    assert seen[-1][1] == 0
    assert control.armed() == []


def test_chance_is_the_same_for_everybody_with_the_same_seed(control, start):
    control.arm("error=719", "chance=0.3", "seed=7")
    found = []
    for _ in range(2):
        with start() as program:
            program.context()
            found.append([program.driver("cuStreamSynchronize", 0) for _ in range(100)])
    assert found[0] == found[1]
    assert 15 < found[0].count(719) < 45


def test_a_call_hangs_and_then_fails(control, program):
    program.context()
    control.arm("xid=119", "hang=300ms")
    began = time.monotonic()
    assert synchronized(program) == 999
    assert 0.3 <= time.monotonic() - began < 2


def test_a_hanging_call_goes_on_when_the_fault_is_disarmed(control, program):
    program.context()
    control.arm("nccl-hang")
    program.process.stdin.write('["libcuda.so.1", "cuStreamSynchronize", [0]]\n')
    program.process.stdin.flush()
    control.disarm()
    assert json.loads(program.process.stdout.readline()) == 0


def test_a_call_that_hangs_goes_on_unharmed_when_the_fault_is_disarmed(control, program):
    program.context()
    control.arm("xid=119", "hang=10m")
    program.process.stdin.write('["libcuda.so.1", "cuStreamSynchronize", [0]]\n')
    program.process.stdin.flush()
    assert select.select([program.process.stdout], [], [], 0.3)[0] == []
    control.disarm()
    assert json.loads(program.process.stdout.readline()) == 0
    assert synchronized(program) == 0


def test_a_slow_gpu_takes_longer_without_using_the_processor(control, program):
    program.context()
    control.arm("latency=20ms")
    used = sum(map(int, Path(f"/proc/{program.process.pid}/stat").read_text().split()[13:15]))
    began = time.monotonic()
    for _ in range(10):
        assert synchronized(program) == 0
    assert time.monotonic() - began >= 0.2
    assert (
        sum(map(int, Path(f"/proc/{program.process.pid}/stat").read_text().split()[13:15])) - used <= 5
    )  # ticks of 10 ms


def test_a_smaller_gpu_is_as_small_for_everybody(control, program, runtime):
    control.arm("memory=16GiB")
    program.context()
    gib = 1 << 30
    assert program.driver("cuDeviceTotalMem_v2", out(), 0) == [0, 16 * gib]
    assert program.driver("cuMemGetInfo_v2", out(), out()) == [0, 16 * gib, 16 * gib]
    assert program.driver("cuMemAlloc_v2", out(), 10 * gib)[0] == 0
    assert program.driver("cuMemGetInfo_v2", out(), out()) == [0, 6 * gib, 16 * gib]
    assert program.driver("cuMemAlloc_v2", out(), 7 * gib)[0] == 2
    assert program.driver("cuMemCreate", out(), 7 * gib, out(8), 0)[0] == 2
    assert program.call(runtime, "cudaMalloc", out(), 7 * gib)[0] == 2
    assert program.call(runtime, "cudaGetLastError") == 2
    assert program.call(runtime, "cudaGetLastError") == 0
    assert program.call(runtime, "cudaMemGetInfo", out(), out()) == [0, 6 * gib, 16 * gib]
    properties = "cudaGetDeviceProperties_v2" if runtime.endswith("12") else "cudaGetDeviceProperties"
    assert program.call(runtime, properties, out(256), 0)[1][TOTAL_GLOBAL_MEM] == 16 * gib
    device = program.nvml("nvmlDeviceGetHandleByIndex_v2", 0, out())[1]
    assert program.nvml("nvmlDeviceGetMemoryInfo", device, out(3))[1][:2] == [16 * gib, 15 * gib]


def test_a_running_program_is_told_of_a_memory_cap_as_well(control, program, runtime):
    properties = "cudaGetDeviceProperties_v2" if runtime.endswith("12") else "cudaGetDeviceProperties"
    assert program.call(runtime, properties, out(256), 0)[1][TOTAL_GLOBAL_MEM] == 80 << 30
    control.arm("memory=16GiB", "gpu=GPU-00000000-0000-0000-0000-000000000001")
    sizes = [program.call(runtime, properties, out(256), device)[1][TOTAL_GLOBAL_MEM] >> 30 for device in (0, 1)]
    assert sizes == [80, 16]


def test_the_runtime_tells_of_a_launch_whose_result_nobody_read(control, program, runtime):
    assert program.call(runtime, "cudaMalloc", out(), 1024)[0] == 0
    control.arm("xid=43")
    assert program.call(runtime, "cudaLaunchKernelExC", out(16), 0, 0) == [719, [0] * 16]
    assert program.call(runtime, "cudaPeekAtLastError") == 719
    control.disarm()
    assert [program.call(runtime, "cudaGetLastError") for _ in range(3)] == [719] * 3  # of a dead context
    assert program.call(runtime, "cudaDeviceSynchronize") == 719


def test_an_error_that_leaves_the_context_alive_is_the_last_one_once(control, program, runtime):
    assert program.call(runtime, "cudaMalloc", out(), 1024)[0] == 0
    control.arm("error=719")
    assert program.call(runtime, "cudaLaunchKernelExC", out(16), 0, 0)[0] == 719
    assert program.call(runtime, "cudaPeekAtLastError") == 719
    assert [program.call(runtime, "cudaGetLastError") for _ in range(2)] == [719, 0]


def test_without_a_driver_the_runtime_says_what_the_fault_says(control, start, runtime, tmp_path):
    with start(LD_LIBRARY_PATH=str(tmp_path)) as healthy:
        assert healthy.call(runtime, "cudaGetDeviceCount", out())[0] == 35
    control.arm("xid=79")
    with start(LD_LIBRARY_PATH=str(tmp_path)) as program:
        assert program.call(runtime, "cudaGetDeviceCount", out())[0] == 100
        assert program.call(runtime, "cudaMalloc", out(), 1)[0] == 100


def test_nvml_agrees_about_a_lost_gpu_and_no_other(control, program):
    assert program.nvml("nvmlInit_v2") == 0
    device, other = (program.nvml("nvmlDeviceGetHandleByIndex_v2", number, out())[1] for number in (3, 4))
    control.arm("xid=79", "gpu=3")
    assert program.nvml("nvmlDeviceGetTemperature", device, 0, out())[0] == 15
    assert program.nvml("nvmlDeviceGetTemperature", other, 0, out())[0] == 0
    assert program.nvml("nvmlDeviceGetHandleByIndex_v2", 3, out())[0] == 15
    assert program.nvml("nvmlDeviceGetHandleByUUID", "GPU-00000000-0000-0000-0000-000000000003", out())[0] == 15
    assert program.nvml("nvmlDeviceGetCount_v2", out()) == [0, 8]  # until the driver is loaded anew


def test_a_gpu_that_is_only_missing_is_missing_in_nvml_too(control, program):
    control.arm("hide", "gpu=0000:33:00")
    assert program.nvml("nvmlDeviceGetCount_v2", out()) == [0, 7]
    device = program.nvml("nvmlDeviceGetHandleByIndex_v2", 3, out())[1]
    assert program.nvml("nvmlDeviceGetIndex", device, out()) == [0, 4]
    assert program.nvml("nvmlDeviceGetHandleByUUID", "GPU-00000000-0000-0000-0000-000000000003", out())[0] == 6


def test_nvml_counts_ecc_errors_and_tells_of_the_xid_once(control, program):
    device = program.nvml("nvmlDeviceGetHandleByIndex_v2", 3, out())[1]
    assert program.nvml("nvmlDeviceRegisterEvents", device, 8, 77) == 0
    assert program.nvml("nvmlEventSetWait_v2", 77, out(4), 10)[0] == 10
    control.arm("xid=94", "gpu=3", "ecc=1")
    result, event = program.nvml("nvmlEventSetWait_v2", 77, out(4), 5000)
    assert (result, event[:3]) == (0, [device, 8, 94])
    assert program.nvml("nvmlEventSetWait_v2", 77, out(4), 10)[0] == 10
    assert program.nvml("nvmlDeviceGetTotalEccErrors", device, 1, 0, out()) == [0, 1]
    assert program.nvml("nvmlDeviceGetTotalEccErrors", device, 0, 0, out()) == [0, 0]
    assert program.nvml("nvmlDeviceGetMemoryErrorCounter", device, 1, 0, 2, out()) == [0, 1]
    assert program.nvml("nvmlDeviceGetMemoryErrorCounter", device, 1, 0, 3, out()) == [0, 0]
    field = program.nvml("nvmlDeviceGetFieldValues", device, 1, {"words": [DBE_VOL_TOTAL, 0, 0, 0, 0]})[1]
    assert field == [DBE_VOL_TOTAL, 0, 0, 0, 1]


def test_every_gpu_of_a_set_has_its_event_and_none_of_what_was_before(control, program):
    devices = [program.nvml("nvmlDeviceGetHandleByIndex_v2", number, out())[1] for number in range(8)]
    control.arm("xid=63")
    for device in devices:
        assert program.nvml("nvmlDeviceRegisterEvents", device, 8, 77) == 0
    assert program.nvml("nvmlEventSetWait_v2", 77, out(4), 10)[0] == 10
    control.arm("xid=94")
    events = [program.nvml("nvmlEventSetWait_v2", 77, out(4), 5000)[1] for _ in devices]
    assert {(event[0], event[2]) for event in events} == {(device, 94) for device in devices}
    assert program.nvml("nvmlEventSetWait_v2", 77, out(4), 10)[0] == 10


def test_a_set_that_was_freed_gives_its_place_to_another(control, program):
    device = program.nvml("nvmlDeviceGetHandleByIndex_v2", 3, out())[1]
    for event_set in range(1, 100):
        assert program.nvml("nvmlDeviceRegisterEvents", device, 8, event_set) == 0
        assert program.nvml("nvmlEventSetFree", event_set) == 0
    assert program.nvml("nvmlDeviceRegisterEvents", device, 8, 100) == 0
    control.arm("xid=94")
    assert program.nvml("nvmlEventSetWait_v2", 100, out(4), 5000)[1][2] == 94


def test_nvml_hangs_as_cuda_does(control, program):
    device = program.nvml("nvmlDeviceGetHandleByIndex_v2", 3, out())[1]
    control.arm("xid=119", "hang=300ms")
    began = time.monotonic()
    assert program.nvml("nvmlDeviceGetTemperature", device, 0, out())[0] == 10
    assert 0.3 <= time.monotonic() - began < 2


def test_nccl_learns_of_a_failed_rank_later(control, program):
    program.context()
    assert program.nccl("ncclCommGetAsyncError", 1, out()) == [0, 0]
    control.arm("nccl=6")
    assert program.nccl("ncclCommGetAsyncError", 1, out()) == [0, 6]
    assert program.nccl("ncclAllReduce", 0, 0, 1, 0, 0, 0, 0) == 6


def test_a_collective_that_hangs_is_seen_by_those_who_ask_its_stream(control, program):
    program.context()
    control.arm("nccl-hang")
    assert program.nccl("ncclAllReduce", 0, 0, 1, 0, 0, 0, 0) == 0
    assert [program.driver("cuStreamQuery", 0), program.driver("cuEventQuery", 0)] == [600, 600]
    control.disarm()
    assert program.driver("cuStreamQuery", 0) == 0


def test_a_group_of_collectives_that_hangs_is_over_for_nccl(control, program):
    program.context()
    control.arm("nccl-hang")
    before = program.nccl("stub_nccl_count")
    assert [program.nccl("ncclAllReduce", 0, 0, 1, 0, 0, 0, 0), program.nccl("ncclGroupEnd")] == [0, 0]
    assert program.nccl("stub_nccl_count") == before + 1  # the end, without what was in it
    control.arm("nccl=6")
    assert program.nccl("ncclGroupEnd") == 6
    assert program.nccl("stub_nccl_count") == before + 2


def test_no_communicator_is_made_while_nccl_hangs(control, program):
    program.context()
    assert program.nccl("ncclCommInitAll", out(), 1, 0) == [0, 0]
    control.arm("nccl-hang")
    program.process.stdin.write('["libnccl.so.2", "ncclCommInitAll", [{"out": 1}, 1, 0]]\n')
    program.process.stdin.flush()
    assert select.select([program.process.stdout], [], [], 0.3)[0] == []
    control.disarm()
    assert json.loads(program.process.stdout.readline()) == [0, 0]


@pytest.mark.parametrize(
    ("xid", "error"), [("79", 100), ("48", 214), ("94", 214), ("95", 999), ("43", 719), ("74", 220)]
)
def test_the_guides_variables_make_every_call_fail(start, xid, error):
    with start(CUDA_FAULT_INJECTION_ENABLED="1", CUDA_XID_TYPE=xid) as program:
        assert program.driver("cuInit", 0) == error
        assert program.driver("cuDeviceGetCount", out())[0] == error
        assert program.driver("cuMemAlloc_v2", out(), 1)[0] == error


@pytest.mark.parametrize(
    ("enabled", "xid"),
    [
        ("0", "79"),
        ("yes", "79"),
        ("11", "79"),
        ("", "79"),
        *(("1", wrong) for wrong in ("", "7", "790", "079", "79 ", "-79", "x" * 5000)),
    ],
)
def test_other_values_of_the_guides_variables_mean_no_fault(start, enabled, xid):
    with start(CUDA_FAULT_INJECTION_ENABLED=enabled, CUDA_XID_TYPE=xid) as program:
        assert synchronized(program.context()) == 0
