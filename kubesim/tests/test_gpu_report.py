"""nvidia-smi: its report as XML and by section, its properties, and what it sets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from kubesim.gpu.board import GPU, Board
from kubesim.gpu.devices import Task
from kubesim.gpu.products import loads, products
from kubesim.gpu.readings import read
from kubesim.gpu.smi import cli, query
from kubesim.gpu.smi.view import View

BOOT = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
NOW = BOOT + timedelta(seconds=600)
OWNER = "ml/train-0/main"
ELEMENTS = """
product_name product_brand product_architecture display_mode display_attached display_active persistence_mode
addressing_mode mig_mode mig_devices accounting_mode accounting_mode_buffer_size driver_model serial uuid pdi
minor_number vbios_version multigpu_board board_id board_part_number gpu_part_number gpu_fru_part_number
platformInfo inforom_version inforom_bbx_flush gpu_operation_mode c2c_mode gpu_virtualization_mode
gpu_recovery_action gsp_firmware_version ibmnpu pci fan_speed performance_state clocks_event_reasons
clocks_event_reasons_counters sparse_operation_mode fb_memory_usage bar1_memory_usage cc_protected_memory_usage
compute_mode utilization encoder_stats fbc_stats dram_encryption_mode ecc_mode ecc_errors retired_pages
remapped_rows temperature supported_gpu_target_temp gpu_power_readings gpu_memory_power_readings
module_power_readings power_smoothing power_profiles clocks applications_clocks default_applications_clocks
deferred_clocks max_clocks max_customer_boost_clocks clock_policy fabric supported_clocks processes
accounted_processes capabilities
"""
"""What a device has in nvsmi_device_v13.dtd, in the order in which a driver of branch 580 writes it."""


@pytest.fixture
def board() -> Board:
    board = Board("node-a", products()["H100"], 4, BOOT)
    board.allocate(OWNER, GPU, 1, BOOT)
    board.start(Task(4242, "/usr/bin/python3 <a&b>", OWNER, loads()["training"], BOOT))
    return board


def smi(board: Board, line: str, owner: str = "") -> tuple[str, int]:
    return cli.run(View(board, NOW, owner), cli.parse(line.split()))


def xml(board: Board, line: str = "-q -x") -> ElementTree.Element:
    return ElementTree.fromstring(smi(board, line)[0])


@pytest.mark.parametrize("name", sorted(products()))
def test_the_report_in_xml_has_the_elements_of_the_dtd_in_their_order(name):
    root = xml(Board("n", products()[name], 2, BOOT))
    assert [child.tag for child in root][:4] == ["timestamp", "driver_version", "cuda_version", "attached_gpus"]
    assert [[child.tag for child in gpu] for gpu in root.iter("gpu")] == [ELEMENTS.split()] * 2
    assert not [child.tag for child in root.iter() if child.tag != child.tag.strip() or " " in child.tag]


def test_the_report_in_xml_tells_what_the_text_tells(board):
    gpu = xml(board, "-x -q -i 0").find("gpu")
    assert gpu.get("id") == "00000000:04:00.0"
    assert gpu.findtext("pci/pci_device_id") == "233010DE"
    assert gpu.findtext("processes/process_info/process_name") == "/usr/bin/python3 <a&b>"
    assert gpu.findtext("gpu_power_readings/power_state") == "P0"
    assert gpu.findtext("supported_clocks/supported_mem_clock/value") == "2619 MHz"
    assert gpu.findtext("mig_devices").strip() == "None"


def test_an_error_shows_in_every_page_alike(board):
    board.xid(2, 48, NOW)
    gpu = xml(board, "-q -x -i 2").find("gpu")
    asked = (
        "ecc.errors.uncorrected.volatile.total,remapped_rows.uncorrectable,remapped_rows.pending,gpu_recovery_action"
    )
    assert smi(board, f"--query-gpu={asked} --format=csv,noheader -i 2")[0] == "1, 1, Yes, Reset\n"
    assert gpu.findtext("ecc_errors/volatile/dram_uncorrectable") == "1"
    assert gpu.findtext("remapped_rows/remapped_row_pending") == "Yes"
    assert gpu.findtext("gpu_recovery_action") == "Reset"
    rows = "remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.histogram.high"
    out, _ = smi(board, f"--query-remapped-rows=gpu_bus_id,{rows} --format=csv -i 2")
    assert out.splitlines() == [f"gpu_bus_id, {rows.replace(',', ', ')}", "00000000:0A:00.0, 1, Yes, 1"]
    assert smi(board, "-r -i 2")[1] == 0
    assert smi(board, f"--query-gpu={asked} --format=csv,noheader -i 2")[0] == "0, 1, No, None\n"


def test_a_cut_device_shows_its_instances_in_every_page(board):
    board.set_mig(3, True, BOOT)
    for profile in ("3g.40gb", "1g.10gb"):
        board.create_instance(3, profile, BOOT)
    gpu = xml(board, "-q -x -i 3").find("gpu")
    assert [item.findtext("gpu_instance_id") for item in gpu.iter("mig_device")] == ["2", "7"]
    assert gpu.findtext("mig_devices/mig_device/device_attributes/shared/multiprocessor_count") == "60"
    assert gpu.findtext("mig_devices/mig_device/bar1_memory_usage/total") == "24739 MiB"
    assert gpu.findtext("remapped_rows") == gpu.findtext("utilization/gpu_util") == "N/A"
    text, _ = smi(board, "-q -i 3")
    assert text.count("    MIG Device\n        Index ") == 2
    assert (
        "\n        Shared FB Memory Usage\n            Total                                      : 40448 MiB\n"
        in text
    )
    table, _ = smi(board, "-i 3")
    assert "|  3    2   0   0  |              26MiB / 40448MiB    | 60      0 |  3   0    3    0    3 |" in table
    assert "35MiB /  81559MiB" in table
    assert smi(board, "nvlink -s -i 3")[0].endswith("Nvlink queries are not supported for Devices in MIG mode\n")
    assert smi(board, "dmon -c 1 -i 3")[0].splitlines()[2].split()[4:10] == ["-"] * 6
    assert (
        smi(board, "--query-gpu=mig.mode.current,utilization.gpu --format=csv,noheader -i 3")[0] == "Enabled, [N/A]\n"
    )


def test_an_instance_takes_a_part_of_the_power(board):
    board.set_mig(2, True, BOOT)
    small = board.create_instance(2, "1g.10gb", BOOT)
    half = board.create_instance(2, "3g.40gb", BOOT)
    board.devices[2].start(Task(1, "python", OWNER, loads()["burn"], BOOT, small.id))
    one = read(board.devices[2], NOW).power
    board.devices[2].start(Task(2, "python", OWNER, loads()["burn"], BOOT, half.id))
    both = read(board.devices[2], NOW).power
    assert 200 < one < 300
    assert 550 < both < 680


def test_every_property_is_in_the_help_and_every_name_of_it_can_be_asked_for(board):
    for name, switch in query.switches().items():
        text, status = smi(board, f"--help-query-{name}")
        assert status == 0
        assert text.startswith(f'List of valid properties to query for the switch "--query-{name}=":\n\n')
        names = [word for field in switch.fields for word in (field.name, field.also) if word]
        assert all(f'"{word}"' in text for word in names)
        assert smi(board, f"--query-{name}={','.join(names)} --format=csv")[1] == 0


def test_a_property_has_the_heading_of_its_first_name(board):
    out, _ = smi(board, "--query-gpu=gpu_name,clocks_throttle_reasons.active,memory.used --format=csv,nounits -i 1")
    assert out.splitlines()[0] == "name, clocks_event_reasons.active, memory.used [MiB]"
    assert out.splitlines()[1] == "NVIDIA H100 80GB HBM3, 0x0000000000000001, 0"


def test_pages_are_retired_as_a_product_does_it(board):
    asked = "retired_pages.dbe,retired_pages.pending"
    assert smi(board, f"--query-gpu={asked} --format=csv,noheader -i 0")[0] == "[N/A], [N/A]\n"
    turing = Board("n", products()["T4"], 1, BOOT)
    turing.xid(0, 63, NOW)
    assert smi(turing, f"--query-gpu={asked} --format=csv,noheader")[0] == "1, Yes\n"


@pytest.mark.parametrize("which", ["2", "00000000:0A:00.0", "0000:0a:00.0", "0A:00.0", "uuid"])
def test_a_device_is_named_by_its_number_its_address_or_its_uuid(board, which):
    asked = board.devices[2].uuid if which == "uuid" else which
    assert smi(board, f"--query-gpu=index --format=csv,noheader -i {asked}")[0] == "2\n"


@pytest.mark.parametrize(
    "line", ["-q -i 9", "-i 9", "--query-gpu=index --format=csv -i nope", "dmon -c 1 -i 7", "-pm 1 -i 8"]
)
def test_a_device_that_is_not_there_is_not_found(board, line):
    assert smi(board, line) == ("No devices were found\n", 6)


def test_sections_tell_of_the_last_two_minutes(board):
    out, _ = smi(board, "-q -d POWER,UTILIZATION,CLOCK -i 0")
    assert "    Power Samples\n        Duration                                       : 118.00 sec\n" in out
    assert out.count("Utilization Samples") == 4
    assert "    SM Clock Samples\n        Duration                                       : Not Found\n" in out
    every = ",".join(
        ["SUPPORTED_CLOCKS", "ACCOUNTING", "VOLTAGE", "FBC_STATS", "GSP_FIRMWARE_VERSION", "POWER_SMOOTHING"]
    )
    assert smi(board, f"-q -d {every} -i 0")[1] == 0


def test_a_power_limit_is_set_and_kept(board):
    out, status = smi(board, "-pl 400 -i 0")
    assert (out, status) == (
        "Power limit for GPU 00000000:04:00.0 was set to 400.00 W from 700.00 W.\nAll done.\n",
        0,
    )
    row = smi(board, "--query-gpu=power.limit,clocks_event_reasons.sw_power_cap --format=csv,noheader -i 0")[0]
    assert row == "400.00 W, Active\n"
    assert float(smi(board, "--query-gpu=power.draw --format=csv,noheader,nounits -i 0")[0]) < 405
    out, status = smi(board, "-pl 800 -i 0")
    assert out == (
        "Provided power limit 800.00 W is not a valid power limit which should be between 200.00 W and 700.00 W for "
        "GPU 00000000:04:00.0\nTerminating early due to previous errors.\n"
    )
    assert status == 2
    kept = Board("node-a", products()["H100"], 4, BOOT)
    kept.restore(board.dump())
    assert kept.devices[0].power_limit == 400


def test_clocks_are_locked_and_let_go(board):
    assert smi(board, "-lgc 900,1200 -i 0")[0].startswith(
        'GPU clocks set to "(gpuClkMin 900, gpuClkMax 1200)" for GPU'
    )
    assert smi(board, "--query-gpu=clocks.sm --format=csv,noheader -i 0")[0] == "1200 MHz\n"
    assert smi(board, "-rgc -i 0") == ("All done.\n", 0)
    assert smi(board, "--query-gpu=clocks.sm --format=csv,noheader -i 0")[0] != "1200 MHz\n"
    smi(board, "-pm 0 -i 0")
    out, _ = smi(board, "-lgc 900 -i 0")
    assert "\nWarning: persistence mode is disabled on device 00000000:04:00.0. See" in out


@pytest.mark.parametrize(
    "word", ["-ac", "-rac", "-lmc", "-rmc", "-am", "--query-retired-pages", "--query-accounted-apps"]
)
def test_a_setting_it_does_not_have_is_refused(word):
    with pytest.raises(cli.BadUsage, match="Invalid combination of input arguments"):
        cli.parse([word, "1"])


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("-pm 0", "Unable to set persistence mode for GPU 00000000:04:00.0: Insufficient Permissions"),
        ("-pl 300", "Failed to set power management limit for GPU 00000000:04:00.0: Insufficient Permissions"),
        ("-lgc 900", "The current user does not have permission to change clocks for GPU 00000000:04:00.0."),
        ("-rgc", "The current user does not have permission to change clocks for GPU 00000000:04:00.0."),
        ("-mig 1", "Unable to enable MIG Mode for GPU 00000000:04:00.0: Insufficient Permissions"),
    ],
)
def test_who_may_not_change_a_device_is_told_so(board, line, text):
    assert smi(board, line, OWNER) == (f"{text}\nTerminating early due to previous errors.\n", 4)


@pytest.mark.parametrize("line", ["-pl x", "-lgc a,b", "-pm maybe", "-c 1"])
def test_what_is_no_value_changes_nothing(board, line):
    before = board.dump()
    assert smi(board, line)[1] == 2
    assert board.dump() == before


def test_a_used_ampere_waits_for_its_reset_with_mig(board):
    ampere = Board("n", products()["A100"], 1, BOOT)
    ampere.allocate(OWNER, GPU, 1, BOOT)
    ampere.start(Task(7, "python", OWNER, loads()["training"], BOOT))
    out, status = smi(ampere, "-mig 1")
    assert out.startswith(
        "Warning: MIG mode is in pending enable state for GPU 00000000:00:04.0:In use by another client\n"
        "00000000:00:04.0 is currently being used"
    )
    assert status == 0
    assert (
        smi(ampere, "--query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader")[0] == "Disabled, Enabled\n"
    )
    ampere.release(OWNER, NOW)
    assert smi(ampere, "-r")[1] == 0
    assert (
        smi(ampere, "--query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader")[0] == "Enabled, Enabled\n"
    )
    out, status = smi(board, "-mig 1 -i 0")
    assert out.startswith(
        "Unable to enable MIG Mode for GPU 00000000:04:00.0: In use by another client\nTerminating early"
    )
    assert status == 19
    assert smi(Board("n", products()["T4"], 1, BOOT), "-mig 1")[0].splitlines()[1:] == [
        "Treating as warning and moving on.", "All done.",
    ]  # fmt: skip


def test_monitors_show_the_columns_that_were_asked_for(board):
    out, _ = smi(board, "dmon -s pm -o DT -i 0 -c 1")
    assert out.splitlines()[0] == "#Date     Time      gpu    pwr  gtemp  mtemp     fb   bar1   ccpm "
    assert out.splitlines()[2].startswith(" 20261102 08:10:00    0 ")
    columns = "sm mem enc dec jpg ofa fb ccpm"
    out, _ = smi(board, "pmon -s um -c 1")
    assert out.splitlines()[0].split() == ["#", "gpu", "pid", "type", *columns.split(), "command"]
    assert out.splitlines()[2].split()[:3] == ["0", "4242", "C"]
    with pytest.raises(cli.BadUsage):
        cli.parse(["dmon", "-s", "z"])


def test_the_help_names_every_option():
    text, status = smi(Board("n", products()["L4"], 1, BOOT), "-h")
    assert status == 0
    known = cli.usage()
    assert all(f"--{name}" in text for name in [*known.flags, *known.valued])
    for name in ("topo", "nvlink", "mig", "dmon", "pmon"):
        out, status = smi(Board("n", products()["L4"], 1, BOOT), f"{name} -h")
        assert status == 0
        assert f"Usage: nvidia-smi {name} [options]" in out


def test_supported_clocks_stand_below_each_other(board):
    out, _ = smi(board, "-q -d SUPPORTED_CLOCKS -i 0")
    assert "        Memory                                         : 2619 MHz\n            Graphics   " in out


def test_an_error_of_an_instance_names_it(board):
    board.set_mig(2, True, BOOT)
    made = board.create_instance(2, "1g.10gb", BOOT)
    board.devices[2].start(Task(1, "python", OWNER, loads()["burn"], BOOT, made.id))
    board.xid(2, 31, NOW)
    assert any(f"Xid (PCI:0000:0a:00 GPU-I:{made.id:02}): 31, pid=1" in record.text for record in board.log.after(0))
