"""``python -m torture.gpu_fault_page``: write docs/gpu-faults.md: what every Xid looks like on a practice cluster.

What differs from one run to the next (names of pods and nodes, UUIDs, process numbers, times of day) is left out or
named by a word, so that the same code writes the same page. ``--check`` compares, and changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from faults.xids import Xid, cuda_errors, recovery_action, xids
from torture.fault_scene import Seen, Spoken, show
from torture.installation import ROOT

PAGE = ROOT / "docs" / "gpu-faults.md"
ACTIONS = {
    "IGNORE": "nothing",
    "RESTART_APP": "start the program again",
    "RESET_GPU": "reset the GPU",
    "RESTART_BM": "boot the machine",
    "WORKFLOW_XID_48": "reset the GPU, unless an Xid 63 or 64 says otherwise (workflow for Xid 48)",
    "WORKFLOW_NVLINK_ERR": "look at both ends of the link (workflow for NVLink errors)",
}
REPAIRS = {"none": "nothing to repair", "reset": "a GPU reset", "reboot": "a reboot", "people": "left to people"}
NVML = {
    0: "answers",
    10: "`NVML_ERROR_TIMEOUT` (10), after waiting",
    15: "`NVML_ERROR_GPU_IS_LOST` (15)",
    16: "`NVML_ERROR_RESET_REQUIRED` (16)",
}
NOTES = {
    43: """The user guide of GPU fault injection gives `CUDA_ERROR_LAUNCH_TIMEOUT` (702) for this Xid. By CUDA's
headers 702 is for kernels that run longer than a limit, which GPUs without a display do not have; a process
whose kernel faulted gets 719. Faultline follows the headers.""",
    45: """NVSentinel leaves this Xid out by rule: it only tells of processes that another one has ended.""",
    74: """The user guide of GPU fault injection gives `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED` (217) for this Xid. By
CUDA's headers 217 is for devices that cannot reach each other at all; the error of a link that failed is 220.
Faultline follows the headers.""",
}
HEAD = """# What GPU faults look like

<!-- Written by `make gpu-faults-doc`; change torture/gpu_fault_page.py or native/xids.yaml instead. -->

Every Xid that Faultline can inject, as it shows on a practice cluster: on a node with eight H100 a pod trains on
GPU 0 when the Xid happens there. All of it follows from one table, `native/xids.yaml`, and was seen by running it.
The times are those after the injection, NVSentinel's in whole polls of 30 s. The layers are `combined`, all of
them; with `log` there are the lines of the kernel log alone, with `cuda` the errors of programs alone. On real nodes
the agent writes the kernel log, and makes programs fail where it is given the control file of
[the native library](../native/README.md).

Two entries of the user guide's table contradict CUDA's headers: see [Xid 43](#xid-43) and [Xid 74](#xid-74).
NVSentinel has no `healthevents` to get, as the guide has it: it keeps its events in a database.

The gauge `DCGM_FI_DEV_XID_ERRORS` has the *first* Xid since the GPU was reset, and goes back to 0 with a reset or a
reboot only.

| Xid | name | severity | running process | new process | node offers | NVIDIA's action | NVSentinel |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
WORDS = (
    (re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "GPU-<uuid>"),
    (re.compile(r"pid=\d+"), "pid=<pid>"),
    (re.compile(r"(serial number is|Serial Number:) \d+"), r"\1 <serial>"),
    (re.compile(r"gke-ml-prod-[a-z0-9-]+"), "<node>"),
    (re.compile(r"\(0x[0-9a-f]{16}\)"), "(<row>)"),
)
MIN_LATE_S = 10
POLL_S = 30
STAMP = re.compile(r"\[ *(\d+)\.(\d{6})\] ")


def page(found: Sequence[Seen]) -> str:
    """Return the page."""
    rows = "".join(_row(seen) for seen in found)
    return HEAD + rows + "".join(_section(seen) for seen in found)


def _row(seen: Seen) -> str:
    about = xids()[seen.xid]
    offers = next((new for key, _, new in seen.changed if key.startswith("allocatable")), "8")
    cells = [
        f"[{seen.xid}](#xid-{seen.xid})",
        about.name,
        about.severity,
        _number(_running(about)),
        _number(about.new),
    ]
    cells += [f"{offers} of 8", _action(about), _path(about)]
    return f"| {' | '.join(cells)} |\n"


def _section(seen: Seen) -> str:
    return "\n".join(_lines(seen, xids()[seen.xid]))


def _lines(seen: Seen, about: Xid) -> Iterator[str]:
    yield f'\n<a id="xid-{seen.xid}"></a>\n\n## Xid {seen.xid}: {about.name}\n'
    if seen.xid in NOTES:
        yield f"{NOTES[seen.xid]}\n"
    yield from _table(about)
    yield "\nKernel log, with the seconds after its first line:\n"
    yield _block(_relative(seen.log))
    yield f"`{seen.nvidia_smi.command}` in the driver's pod, {_status(seen.nvidia_smi)}:\n"
    yield _block(seen.nvidia_smi.text.splitlines())
    yield "The process that was running:\n"
    yield _block([re.sub(r"^INFO:root:step \d+ .*", "INFO:root:step ... (goes on)", seen.running)])
    yield f"A process that starts afterwards in the same container (`{seen.new.command}`), {_status(seen.new)}:\n"
    yield _block(_told(seen.new.text))
    yield "dcgm-exporter, and so Prometheus after its next scrape:\n"
    yield _block([_series(row["metric"], row["value"][1]) for row in seen.prometheus])
    yield f"The node: {_changed(seen)}.\n"
    yield from _sentinel(seen)


def _table(about: Xid) -> Iterator[str]:
    yield "| layer | what it says |\n| --- | --- |"
    yield f"| severity | {about.severity} |"
    yield f"| NVIDIA's recommended action | {about.catalog}: {_action(about)} |"
    yield f"| CUDA, running process | {_cuda(_running(about))} |"
    yield f"| CUDA, new process | {_cuda(about.new)} |"
    yield f"| processes that die | {about.victims} |"
    yield f"| NVML | {NVML[about.nvml]} |"
    yield f'| DCGM | `err_code` {about.err_code}, `err_msg` "{about.err_msg}"; health watches: {about.health} |'
    recovery = recovery_action(about.recovery) if about.recovery else "not told"
    yield f"| recovery action (Xid 154) | {recovery} |"
    yield f"| NVSentinel | {about.sentinel.action}: {_path(about)} |"


def _sentinel(seen: Seen) -> Iterator[str]:
    yield "NVSentinel:\n"
    yield "| stage | state | within |\n| --- | --- | --- |"
    for stage, seconds in seen.stages:
        yield f"| {stage.name} | {stage.state} | {'' if seconds is None else f'{_polls(seconds)} s'} |"
    yield f"\n{_worded(seen.verdict.text)}"
    yield f"Seven minutes after the injection the node offers {seen.offers} of 8 GPUs.\n"


def _polls(seconds: float) -> int:
    """Return the seconds of whole polls of NVSentinel, whose beginning is each installation's own."""
    return math.ceil(seconds / POLL_S) * POLL_S


def _running(about: Xid) -> int:
    """Return the error of a process that ran, unless it is another Xid that ends it."""
    return 0 if about.victims == "none" else about.running


def _action(about: Xid) -> str:
    return ACTIONS[about.catalog]


def _path(about: Xid) -> str:
    if not about.sentinel.cordons:
        return "an event, no cordon"
    return f"cordon and drain, {REPAIRS[about.sentinel.repair]}"


def _number(code: int) -> str:
    return str(code) if code else "goes on"


def _cuda(code: int) -> str:
    if not code:
        return "no error"
    names = cuda_errors()[code]
    driver = f", `{names['driver']}`" if names["driver"] else ""
    return f'{code} `{names["runtime"]}`{driver}: "{names["text"]}"'


def _changed(seen: Seen) -> str:
    return ", ".join(f"{key} {old} → {new}" for key, old, new in seen.changed) or "nothing has changed within 2 s"


def _told(text: str) -> list[str]:
    """Return the line that tells what is wrong, or the last one."""
    lines = [line for line in text.splitlines() if line]
    return [line for line in lines if "Error" in line][-1:] or lines[-1:]


def _status(spoken: Spoken) -> str:
    if spoken.status is None:
        return "no answer"
    late = f" after {spoken.seconds:.0f} s" if spoken.seconds >= MIN_LATE_S else ""
    return f"status {spoken.status}{late}"


def _series(labels: dict[str, str], value: str) -> str:
    shown = ("gpu", "pci_bus_id", "modelName", "namespace", "pod", "container", "err_code", "err_msg")
    told = ", ".join(f'{name}="{labels[name]}"' for name in shown if name in labels)
    return f"{labels['__name__']}{{{told}}} {value}"


def _relative(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines of the kernel log with the time since the first of them; microseconds are as chance has them."""
    found = [match for line in lines if (match := STAMP.match(line))]
    moments = [int(match[1]) * 1_000_000 + int(match[2]) for match in found]
    for match, at in zip(found, moments, strict=True):
        late = at - moments[0]
        yield f"+{late / 1_000_000:.3f} {match.string[match.end() :]}"


def _block(lines: Sequence[str] | Iterator[str]) -> str:
    text = "\n".join(_worded(line) for line in lines)
    return f"```\n{text or '(nothing)'}\n```\n"


def _worded(text: str) -> str:
    for pattern, word in WORDS:
        text = pattern.sub(word, text)
    return text.rstrip()


async def look(codes: Sequence[int]) -> list[Seen]:
    """Return what Xids look like, each on a cluster of its own."""
    return [await show(code) for code in codes]


def main() -> int:
    """Write the page, or compare it with what it has to be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    options = parser.parse_args()
    text = page(asyncio.run(look(sorted(xids()))))
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
    elif text != PAGE.read_text(encoding="utf-8"):
        print(f"error: {PAGE.relative_to(Path.cwd())} is not what would be written. Run: make gpu-faults-doc")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
