"""The table of Xids and what is generated from it: nobody edits a copy, and every layer says the same."""

import importlib.util
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from faults.agent.driver_lines import xid_lines
from faults.agent.gpus import Gpu
from kubesim.gpu.devices import Device
from kubesim.gpu.products import products
from kubesim.gpu.xids import KernelLog, strike

NATIVE = Path(__file__).resolve().parent.parent
ROOT = NATIVE.parent
_spec = importlib.util.spec_from_file_location("generate_xids", NATIVE / "generate_xids.py")
generate_xids = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate_xids)
GUIDE = {79: 100, 48: 214, 94: 214, 95: 999}
"""What the guide's table says, where CUDA's headers do not say otherwise."""
BY_HEADERS = {43: 719, 74: 220}


@pytest.fixture(scope="module")
def table():
    return generate_xids.read()


def test_what_is_committed_is_what_the_table_says(table):
    generated = generate_xids.generated(table)
    assert {"native/src/xids.def", "kubesim/gpu/xids.yaml", "faults/xids.json"} <= {str(path) for path in generated}
    stale = [str(path) for path, text in generated.items() if (ROOT / path).read_text(encoding="utf-8") != text]
    assert stale == [], "run: make xids"


def test_the_library_gives_the_guides_errors_but_where_the_headers_say_otherwise(table):
    assert {code: generate_xids.preload(table["xids"][code]) for code in (*GUIDE, *BY_HEADERS)} == GUIDE | BY_HEADERS


def test_nvsentinels_path_follows_from_nvidias_action(table):
    actions = {"RESTART_APP": "NONE", "IGNORE": "NONE", "RESET_GPU": "COMPONENT_RESET", "RESTART_BM": "RESTART_BM"}
    repairs = {"NONE": "none", "COMPONENT_RESET": "reset", "RESTART_BM": "reboot", "CONTACT_SUPPORT": "people"}
    for code, row in table["xids"].items():
        action = "COMPONENT_RESET" if code == 48 else actions.get(row["catalog"], "CONTACT_SUPPORT")
        path = {"action": action, "cordons": action != "NONE", "repair": repairs[action]}
        assert row["nvsentinel"] == path, code


def test_lines_are_in_the_order_of_their_times_and_have_known_places(table):
    for code, row in table["xids"].items():
        times = [after for after, _ in row["lines"]]
        assert times == sorted(set(times)), code
        assert times[0] == 0, code
        for _, text in row["lines"]:
            assert set(re.findall(r"\{(\w+)\}", text)) <= {"pci", "function", "gpu", "serial", "row"}, code


def test_a_row_without_sources_or_with_an_unknown_error_is_refused(table, monkeypatch, tmp_path):
    text = generate_xids.TABLE.read_text(encoding="utf-8")
    for wrong in (
        text.replace("sources: [catalog, driver, timing", "sources: [hearsay"),
        text.replace("new: 46", "new: 47"),
    ):
        file = tmp_path / "xids.yaml"
        file.write_text(wrong, encoding="utf-8")
        monkeypatch.setattr(generate_xids, "TABLE", file)
        with pytest.raises(ValueError, match="Xid"):
            generate_xids.read()


def test_the_faults_app_has_every_field_of_every_xid():
    found = json.loads((ROOT / "faults" / "xids.json").read_text(encoding="utf-8"))["xids"]
    assert {tuple(row) for row in found.values()} == {tuple(found["79"])}
    assert found["79"]["dcgm"] == {"err_code": 79, "err_msg": "GPU has fallen off the bus", "health": "failure"}


@pytest.mark.parametrize("is_announced", [False, True], ids=["its first Xid", "a later one"])
@pytest.mark.parametrize("product", products().values(), ids=products())
def test_the_agent_of_real_nodes_writes_what_the_simulated_driver_does(table, product, is_announced):
    booted = datetime(2026, 1, 1, tzinfo=UTC)
    for code, row in table["xids"].items():
        device = Device("node-1", 0, 8, product, booted)
        device.announced = is_announced
        log = KernelLog(booted)
        strike(device, log, code, booted, lambda task, error: None, layers="log")
        gpu = Gpu(device.index, device.bus, device.uuid, retires_pages=product.family == "turing")
        lines = xid_lines(code, gpu, announce=not is_announced, serial=str(device.serial))
        assert [_without_row(text) for _, text in lines] == [_without_row(each.text) for each in log.after(0)]
        assert bool(row.get("recovery")) == any("Xid" in text and "): 154, " in text for _, text in lines)


def _without_row(text):
    return re.sub(r"\b0x[0-9a-f]{16}\b", "ROW", text)
