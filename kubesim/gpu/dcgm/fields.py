"""The fields that dcgmi can show: by number, with long and short name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kubesim.gpu.readings import Reading


@dataclass(frozen=True, slots=True)
class Field:
    """One field; ``group`` is that of the profiling counters it is measured with, empty for others."""

    name: str
    short: str
    get: Callable[[Reading], object]
    unit: str = ""
    group: str = ""


def _share(value: float) -> str:
    return f"{value:.3f}"


FIELDS: dict[int, Field] = {
    100: Field("sm_clock", "SMCLK", lambda r: r.sm_clock),
    101: Field("memory_clock", "MMCLK", lambda r: r.mem_clock),
    112: Field("current_clock_throttle_reasons", "DVCCTR", lambda r: int("gpu_idle" in r.throttle)),
    140: Field("memory_temperature", "MMTMP", lambda r: r.memory_temperature, "C"),
    150: Field("gpu_temperature", "TMPTR", lambda r: r.temperature, "C"),
    155: Field("power_usage", "POWER", lambda r: _share(r.power), "W"),
    156: Field("total_energy_consumption", "TOTEC", lambda r: r.energy_mj, "mJ"),
    190: Field("pstate", "PSTAT", lambda r: r.performance.removeprefix("P")),
    202: Field("pcie_replay_counter", "RPCTR", lambda r: r.state.replays),
    203: Field("gpu_utilization", "GPUTL", lambda r: r.util),
    204: Field("mem_copy_utilization", "MCUTL", lambda r: r.memory_util),
    230: Field("xid_errors", "XIDER", lambda r: r.state.xid),
    250: Field("fb_total", "FBTTL", lambda r: r.device.product.memory),
    251: Field("fb_free", "FBFRE", lambda r: r.free),
    252: Field("fb_used", "FBUSD", lambda r: r.used),
    310: Field("ecc_sbe_volatile_total", "ECVSB", lambda r: r.state.ecc.corrected[0]),
    311: Field("ecc_dbe_volatile_total", "ECVDB", lambda r: r.state.ecc.uncorrected[0]),
    312: Field("ecc_sbe_aggregate_total", "ECASB", lambda r: r.state.ecc.corrected[1]),
    313: Field("ecc_dbe_aggregate_total", "ECADB", lambda r: r.state.ecc.uncorrected[1]),
    393: Field("uncorrectable_remapped_rows", "URMPS", lambda r: r.state.remap.uncorrected),
    394: Field("correctable_remapped_rows", "CRMPS", lambda r: r.state.remap.corrected),
    395: Field("row_remap_failure", "RRF", lambda r: int(r.state.remap.failed)),
    396: Field("row_remap_pending", "RRP", lambda r: int(r.state.remap.pending)),
    1001: Field("gr_engine_active", "GRACT", lambda r: _share(r.sm_active), group="A.1"),
    1002: Field("sm_active", "SMACT", lambda r: _share(r.sm_active * 0.97), group="A.1"),
    1003: Field("sm_occupancy", "SMOCC", lambda r: _share(r.sm_active * 0.41), group="A.1"),
    1004: Field("tensor_active", "TENSO", lambda r: _share(r.tensor_active), group="A.1"),
    1005: Field("dram_active", "DRAMA", lambda r: _share(r.dram_active), group="A.1"),
    1006: Field("fp64_active", "FP64A", lambda r: _share(0.0), group="A.2"),
    1007: Field("fp32_active", "FP32A", lambda r: _share(r.sm_active * 0.12), group="A.2"),
    1008: Field("fp16_active", "FP16A", lambda r: _share(r.tensor_active * 0.2), group="A.2"),
    1009: Field("pcie_tx_bytes", "PCITX", lambda r: round(r.pcie_tx), group="B.0"),
    1010: Field("pcie_rx_bytes", "PCIRX", lambda r: round(r.pcie_rx), group="B.0"),
    1011: Field("nvlink_tx_bytes", "NVLTX", lambda r: round(r.nvlink), group="C.0"),
    1012: Field("nvlink_rx_bytes", "NVLRX", lambda r: round(r.nvlink), group="C.0"),
}
INTERNAL = {
    1: ("DCGM_INTERNAL_30SEC", (65, 79, 78, 77, 76, 60, 61, 1, 54, 52, 66)),
    2: ("DCGM_INTERNAL_HOURLY", (50, 51, 53, 56, 85, 80, 81, 82, 83)),
    3: ("DCGM_INTERNAL_JOB", (156, 155, 100, 101, 204, 203, 310, 311, 200, 201, 202, 230, 240, 241, 242, 243, 244)),
}
"""The field groups that the engine makes for itself."""
