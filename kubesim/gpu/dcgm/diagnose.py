"""``dcgmi diag``: tests of the devices by level; they fail where something is wrong, and need idle devices."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim import data
from kubesim.gpu.dcgm.call import wrapped
from kubesim.gpu.products import driver
from kubesim.gpu.readings import find
from kubesim.gpu.smi.view import Seen

_table = data.beside(__file__, "verdicts.yaml")
WARNING, FAILURE = "Warning", "Failure"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One incident: of which system, how bad, and in what words."""

    system: str
    verdict: str
    text: str


def troubles(item: Seen) -> list[Trouble]:
    """Return what is wrong with a device."""
    state, found = item.reading.state, list[Trouble]()
    for path, system, verdict, text in _table()["troubles"]:
        value = find(state, path)
        for each in sorted(value) if isinstance(value, frozenset) else [value] * bool(value):
            found.append(Trouble(system, verdict, text.format(gpu=item.number, value=each)))
    if state.xid in _table()["xids"]:
        system, verdict, text = _table()["xids"][state.xid]
        found.append(Trouble(system, verdict, text.format(gpu=item.number, value=state.xid)))
    return found


def systems() -> dict[str, str]:
    """Return the letters of ``health -s`` with the names of systems."""
    return dict(_table()["systems"])


def worst(found: list[Trouble]) -> str:
    """Return the verdict of several incidents together."""
    verdicts = {trouble.verdict for trouble in found}
    return FAILURE if FAILURE in verdicts else WARNING if verdicts else "Healthy"


VERSION = "4.4.1"
FAILED_STATUS, ISOLATED = 226, "The GPU is in use by another process; the test needs it for itself."
_RULE = "+---------------------------+------------------------------------------------+"
_HEAD = [
    _RULE,
    "| Diagnostic                | Result                                         |",
    _RULE.replace("-", "="),
]
_CATEGORIES = {
    "Deployment": "|-----  Deployment  --------+------------------------------------------------|",
    "Hardware": "+-----  Hardware  ----------+------------------------------------------------+",
    "Integration": "+-----  Integration  -------+------------------------------------------------+",
    "Stress": "+-----  Stress  ------------+------------------------------------------------+",
}
_METADATA = "|-----  Metadata  ----------+------------------------------------------------|"
TESTS = (
    ("Deployment", "software", 1), ("Hardware", "memory", 2), ("Hardware", "diagnostic", 3),
    ("Hardware", "nvbandwidth", 3), ("Hardware", "memtest", 4), ("Hardware", "pulse_test", 4),
    ("Integration", "pcie", 2), ("Stress", "memory_bandwidth", 3), ("Stress", "targeted_stress", 3),
    ("Stress", "targeted_power", 3),
)  # fmt: skip
"""Category, name, and the lowest level that runs it."""
LEVELS = {"1": 1, "short": 1, "2": 2, "medium": 2, "3": 3, "long": 3, "4": 4, "xlong": 4}


@dataclass(frozen=True, slots=True)
class Result:
    """How one test went on one device."""

    status: str
    text: str = ""


def run(seen: list[Seen], level: int) -> dict[tuple[str, str], dict[int, Result]]:
    """Return the results of the tests of a level: (category, test) -> device -> result."""
    return {
        (category, name): {item.number: _result(item, name) for item in seen}
        for category, name, least in TESTS
        if level >= least
    }


def _result(item: Seen, name: str) -> Result:
    found = troubles(item)
    mine = [trouble for trouble in found if _concerns(trouble, name)]
    if mine:
        return Result("Fail", " ".join(trouble.text for trouble in mine))
    if found and name != "software":
        return Result("Skip")
    return Result("Skip", ISOLATED) if item.device.tasks and name != "software" else Result("Pass")


def _concerns(trouble: Trouble, name: str) -> bool:
    """The software test looks at everything but links and heat, which others find."""
    where = {"NVLINK": ("pcie", "nvbandwidth"), "Thermal": ("diagnostic", "targeted_power", "targeted_stress")}
    return name in where.get(trouble.system, ("software",))


def page(seen: list[Seen], level: int, *, verbose: bool = False) -> tuple[str, int]:
    """Return the report and the exit status."""
    results = run(seen, level)
    ids = ", ".join(item.device.product.pci["device"][:4] for item in seen)
    lines = ["Successfully ran diagnostic for group.", *_HEAD, _METADATA, _line("DCGM Version", VERSION)]
    lines += [_line("Driver Version Detected", driver().version)]
    lines += [_line("GPU Device IDs Detected" if not n else "", text) for n, text in enumerate(wrapped(ids, 46))]
    before = ""
    for (category, name), each in results.items():
        lines += [_CATEGORIES[category]] if category != before else []
        before = category
        lines += _test(name, each, verbose=verbose)
    return "\n".join([*lines, _RULE]) + "\n", _status(results)


def _test(name: str, results: dict[int, Result], *, verbose: bool) -> list[str]:
    lines = [_line(name, overall(results))]
    for number, result in results.items():
        lines.append(_line("", f"GPU{number}: {result.status}"))
    for number, result in results.items():
        if result.text and (verbose or result.status == "Fail"):
            texts = wrapped(result.text, 46)
            lines += [_line(f"Warning: GPU{number}" if not row else "", text) for row, text in enumerate(texts)]
    return lines


def overall(results: dict[int, Result]) -> str:
    """Return the verdict of a test over all devices."""
    statuses = {result.status for result in results.values()}
    return next((status for status in ("Fail", "Pass", "Skip") if status in statuses), "Skip")


def _status(results: dict[tuple[str, str], dict[int, Result]]) -> int:
    return FAILED_STATUS if any(overall(each) == "Fail" for each in results.values()) else 0


def _line(name: str, text: str) -> str:
    return f"| {name:<25} | {text:<46} |"
