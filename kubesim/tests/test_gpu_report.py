"""nvidia-smi: its report by section, its properties, and what it sets."""

from __future__ import annotations

import re
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
    board = Board("node-a", products()["H100"], 4, BOOT)
    board.allocate(OWNER, GPU, 1, BOOT)
    board.start(Task(4242, "/usr/bin/python3 <a&b>", OWNER, loads()["training"], BOOT))
    return board


def smi(board: Board, line: str, owner: str = "") -> tuple[str, int]:
    return cli.run(View(board, NOW, owner), cli.parse(line.split()))


def test_an_error_shows_in_every_page_alike(board):
    board.xid(2, 48, NOW)
    text, _ = smi(board, "-q -i 2")
    asked = (
        "ecc.errors.uncorrected.volatile.total,remapped_rows.uncorrectable,remapped_rows.pending,gpu_recovery_action"
    )
    assert smi(board, f"--query-gpu={asked} --format=csv,noheader -i 2")[0] == "1, 1, Yes, Reset\n"
    assert re.search(r"DRAM Uncorrectable +: 1\n", text)
    assert re.search(r"Pending +: Yes\n", text)
    assert re.search(r"GPU Recovery Action +: Reset\n", text)
    rows = "remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.histogram.high"
    out, _ = smi(board, f"--query-remapped-rows=gpu_bus_id,{rows} --format=csv -i 2")
    assert out.splitlines() == [f"gpu_bus_id, {rows.replace(',', ', ')}", "00000000:0A:00.0, 1, Yes, 1"]
    assert smi(board, "-r -i 2")[1] == 0
    assert smi(board, f"--query-gpu={asked} --format=csv,noheader -i 2")[0] == "0, 1, No, None\n"


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


@pytest.mark.parametrize(
    "word",
    [
        "-c",
        "-p",
        "-ac",
        "-rac",
        "-lmc",
        "-rmc",
        "-lgc",
        "-rgc",
        "-am",
        "-x",
        "--query-retired-pages",
        "--query-accounted-apps",
    ],
)
def test_a_setting_it_does_not_have_is_refused(word):
    with pytest.raises(cli.BadUsage, match="Invalid combination of input arguments"):
        cli.parse([word, "1"])


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("-pm 0", "Unable to set persistence mode for GPU 00000000:04:00.0: Insufficient Permissions"),
        ("-pl 300", "Failed to set power management limit for GPU 00000000:04:00.0: Insufficient Permissions"),
        ("-mig 1", "Unable to enable MIG Mode for GPU 00000000:04:00.0: Insufficient Permissions"),
    ],
)
def test_who_may_not_change_a_device_is_told_so(board, line, text):
    assert smi(board, line, OWNER) == (f"{text}\nTerminating early due to previous errors.\n", 4)


@pytest.mark.parametrize("line", ["-pl x", "-pm maybe"])
def test_what_is_no_value_changes_nothing(board, line):
    before = board.dump()
    assert smi(board, line)[1] == 2
    assert board.dump() == before


def test_devices_stay_whole_and_say_so(board):
    out, status = smi(board, "-mig 1 -i 0")
    assert out.startswith("Unable to enable MIG Mode for GPU 00000000:04:00.0: Not Supported\nTreating as warning")
    assert status == 0
    assert smi(board, "-mig 0 -i 0")[0] == "Disabled MIG Mode for GPU 00000000:04:00.0\nAll done.\n"
    for words in ("-lgip", "--list-gpu-instances", "-cgi 9 -C", "-dci"):
        assert smi(board, f"mig {words}") == ("No MIG-enabled devices found.\n", 6)
    query = "--query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader -i 0"
    assert smi(board, query)[0] == "Disabled, Disabled\n"
    assert smi(Board("n", products()["T4"], 1, BOOT), query)[0] == "[N/A], [N/A]\n"


def test_monitors_show_the_columns_that_were_asked_for(board):
    out, _ = smi(board, "dmon -s pm -i 0 -c 1")
    assert out.splitlines()[0] == "# gpu    pwr  gtemp  mtemp     fb   bar1   ccpm "
    assert out.splitlines()[2].startswith("    0 ")
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
