"""``dcgmi``: discovery, health, dmon, diag and the other pages people ask it for."""

from __future__ import annotations

from collections.abc import Callable

from kubesim.gpu.products import driver
from kubesim.gpu.readings import Reading
from kubesim.gpu.smi.query import chosen
from kubesim.gpu.smi.view import Seen, View

RULE = "+--------+---------------------------------------------------------------------+"
FIELDS: dict[int, tuple[str, Callable[[Reading], object]]] = {
    100: ("SMCLK", lambda r: r.sm_clock),
    101: ("MMCLK", lambda r: r.mem_clock),
    140: ("MMTMP", lambda r: r.memory_temperature),
    150: ("TMPTR", lambda r: r.temperature),
    155: ("POWER", lambda r: f"{r.power:.3f}"),
    156: ("TOTEC", lambda r: r.energy_mj),
    202: ("PCIRX", lambda r: r.state.replays),
    203: ("GPUTL", lambda r: r.util),
    204: ("MCUTL", lambda r: r.memory_util),
    230: ("XIDER", lambda r: r.state.xid),
    250: ("FBTTL", lambda r: r.device.product.memory),
    251: ("FBFRE", lambda r: r.free),
    252: ("FBUSD", lambda r: r.used),
    310: ("ECVSB", lambda r: r.state.ecc.corrected[0]),
    311: ("ECVDB", lambda r: r.state.ecc.uncorrected[0]),
    312: ("ECASB", lambda r: r.state.ecc.corrected[1]),
    313: ("ECADB", lambda r: r.state.ecc.uncorrected[1]),
    1001: ("GRACT", lambda r: f"{r.sm_active:.3f}"),
    1002: ("SMACT", lambda r: f"{r.sm_active * 0.97:.3f}"),
    1004: ("TENSO", lambda r: f"{r.tensor_active:.3f}"),
    1005: ("DRAMA", lambda r: f"{r.dram_active:.3f}"),
    1009: ("PCITX", lambda r: round(r.pcie_tx)),
    1010: ("PCIRX", lambda r: round(r.pcie_rx)),
}
_HELP = "Usage: dcgmi [discovery -l | health -c | dmon -e <fields> | diag -r <1-4> | nvlink -s | --version]\n"


def run(view: View, argv: list[str]) -> tuple[str, int]:
    """Return what an invocation prints and its exit status."""
    page = _PAGES.get(argv[0]) if argv else None
    return page(view, argv[1:]) if page else (_HELP, 1)


def discovery(view: View, argv: list[str]) -> tuple[str, int]:
    """List the devices and what they are called."""
    seen = view.present()
    lines = [f"{len(seen)} GPU(s) found.", RULE, f"| GPU ID | {'Device Information':<67} |", RULE]
    for item in seen:
        device = item.device
        for head, text in (
            (str(item.number), f"Name: {device.product.name}"),
            ("", f"PCI Bus ID: {device.pci_address}"),
            ("", f"Device UUID: {device.uuid}"),
        ):
            lines.append(f"| {head:<6} | {text:<67} |")
        lines.append(RULE)
    return "\n".join(lines) + "\n", 0


def troubles(item: Seen) -> list[tuple[str, str, str]]:
    """Return what DCGM's health watches say of a device: (system, verdict, sentence)."""
    state, found = item.reading.state, list[tuple[str, str, str]]()
    if state.trouble.lost or state.trouble.stalled:
        found.append(
            (
                "All",
                "Failure",
                f"GPU {item.number} is not responding. Drain the GPU and reset it, or reboot the node.",
            )
        )
    if state.ecc.uncorrected[0]:
        text = f"Detected {state.ecc.uncorrected[0]} volatile double-bit ECC error(s) in GPU {item.number}."
        found.append(("Memory", "Failure", text + " Drain the GPU and reset it or reboot the node."))
    if state.remap.pending:
        text = f"GPU {item.number} had uncorrectable memory errors and row remappings are pending."
        found.append(("Memory", "Warning", text + " Reset the GPU or reboot the node."))
    if state.remap.failed:
        found.append(
            ("Memory", "Failure", f"GPU {item.number} had uncorrectable memory errors and row remapping failed.")
        )
    if state.trouble.links_down:
        links = ", ".join(str(link) for link in sorted(state.trouble.links_down))
        found.append(("NVLink", "Failure", f"GPU {item.number}'s NvLink link {links} is currently down."))
    if state.trouble.hot:
        text = f"Detected thermal violation on GPU {item.number}: the clocks were lowered by the hardware."
        found.append(("Thermal", "Warning", text))
    if state.xid in (48, 74, 79, 95, 119, 120, 140):
        found.append(("All", "Failure", f"Detected XID {state.xid} for GPU {item.number}."))
    return found


def health(view: View, argv: list[str]) -> tuple[str, int]:
    """Show what the health watches say."""
    if "-c" not in argv and "--check" not in argv:
        return "Health monitor systems set successfully.\n", 0
    rule = "+---------------------------+----------------------------------------------------------+"
    found = [(item, trouble) for item in view.all() for trouble in troubles(item)]
    verdicts = {verdict for _, (_, verdict, _) in found}
    overall = "Failure" if "Failure" in verdicts else "Warning" if verdicts else "Healthy"
    lines = [rule, f"| {'Health Monitor Report':<84} |", "+" + "=" * 27 + "+" + "=" * 58 + "+"]
    lines.append(f"| {'Overall Health':<25} | {overall:<56} |")
    for item, (system, verdict, text) in found:
        lines += [f"| {'GPU':<25} | {'':<56} |", f"| -> {item.number:<22} | {verdict:<56} |"]
        lines += [
            f"|    -> {system:<19} | {text[start : start + 56]:<56} |"
            if not start
            else f"| {'':<25} | {text[start : start + 56]:<56} |"
            for start in range(0, len(text), 56)
        ]
    return "\n".join([*lines, rule]) + "\n", 0


def dmon(view: View, argv: list[str]) -> tuple[str, int]:
    """Show fields by number, a line for each device."""
    words = dict(zip(argv, [*argv[1:], ""], strict=True))
    wanted = words.get("-e", words.get("--field-id", ""))
    numbers = [int(word) for word in wanted.split(",") if word.isdecimal()]
    if not numbers or any(number not in FIELDS for number in numbers):
        return "Error: Invalid field ids. Return: Bad parameter passed to function.\n", 1
    only = [words[key] for key in ("-i", "--gpu-id") if words.get(key)]
    heads = "".join(f"{FIELDS[number][0]:>14}" for number in numbers)
    lines = [f"#Entity{heads}", "ID"]
    for item in chosen(view, only):
        lines.append(
            f"GPU {item.number:<3}" + "".join(f"{FIELDS[number][1](item.reading)!s:>14}" for number in numbers)
        )
    return "\n".join(lines) + "\n", 0


def diag(view: View, argv: list[str]) -> tuple[str, int]:
    """Run the diagnostics: they fail where the health watches do."""
    rule = "+---------------------------+------------------------------------------------+"
    bad = {item.number: troubles(item)[0][2] for item in view.all() if troubles(item)}
    busy = [item.number for item in view.present() if item.device.tasks]
    tests = ["Denylist", "NVML Library", "CUDA Main Library", "Permissions and OS Blocks", "Persistence Mode",
             "Environment Variables", "Page Retirement/Row Remap", "Graphics Processes", "Inforom"]  # fmt: skip
    lines = ["Successfully ran diagnostic for group.", rule, f"| {'Diagnostic':<25} | {'Result':<46} |", rule]
    lines += [
        f"| {'DCGM Version':<25} | {'4.4.1':<46} |",
        f"| {'Driver Version Detected':<25} | {driver().version:<46} |",
    ]
    for test in tests:
        failed = bool(bad) and test == "Page Retirement/Row Remap"
        lines.append(f"| {test:<25} | {'Fail' if failed else 'Pass':<46} |")
    for number, text in bad.items():
        lines.append(f"| {f'Error: GPU {number}':<25} | {text[:46]:<46} |")
    level = next((word for word in argv if word.isdecimal()), "1")
    if int(level) > 1:
        state = "Skip" if busy else "Fail" if bad else "Pass"
        lines += [
            f"| {test:<25} | {state + ' - All' if state == 'Pass' else state:<46} |"
            for test in ("PCIe", "GPU Memory")
        ]
    return "\n".join([*lines, rule]) + "\n", 226 if bad else 0


def version(view: View, argv: list[str]) -> tuple[str, int]:
    """Show the version."""
    return "dcgmi  version: 4.4.1\n", 0


def nvlink(view: View, argv: list[str]) -> tuple[str, int]:
    """Show which links are up."""
    lines = ["+----------------------+", "|  NvLink Link Status  |", "+----------------------+", "GPUs:"]
    for item in view.present():
        down = item.device.trouble.links_down
        states = " ".join("D" if number in down else "U" for number in range(item.device.product.nvlinks))
        lines += [f"    gpuId {item.number}:", f"        {states}"]
    return "\n".join([*lines, "", "Key: Up=U, Down=D, Disabled=X, Not Supported=_"]) + "\n", 0


_PAGES = {
    "discovery": discovery,
    "health": health,
    "dmon": dmon,
    "diag": diag,
    "--version": version,
    "-v": version,
    "nvlink": nvlink,
}
