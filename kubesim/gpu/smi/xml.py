"""``nvidia-smi -q -x``: the report as XML, its elements as nvsmi_device_v13.dtd has them (``elements.yaml``)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

from kubesim import data
from kubesim.gpu.smi import report
from kubesim.gpu.smi.report import Tree
from kubesim.gpu.smi.view import Seen, View, chosen

_FILE = Path(__file__).with_name("elements.yaml")
_BEGIN = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>'
_ALSO = {"Temperature": "SUPPORTED_GPU_TARGET_TEMP", "Fabric": "SUPPORTED_CLOCKS"}
"""What follows a part of the report in XML only."""


def page(view: View, only: Iterable[str] = ()) -> str:
    """Return the document. Raises query.NoDevices."""
    lines = [_BEGIN, *_elements(report.head(view), "", 1)]
    for seen in chosen(view, only):
        lines += [f'\t<gpu id="{seen.device.pci_address}">', *_elements(_whole(view, seen), "", 2), "\t</gpu>"]
    return "\n".join([*lines, "</nvidia_smi_log>"]) + "\n"


def _whole(view: View, seen: Seen) -> Tree:
    tree: Tree = []
    for label, value in report.report(view, seen):
        tree.append((label, value))
        if label in _ALSO:
            tree += report.section(view, seen, _ALSO[label])
    return tree


def _elements(tree: Tree, parent: str, depth: int) -> list[str]:
    lines, tabs = list[str](), "\t" * depth
    for label, value in tree:
        if label.endswith(">") and not label.startswith("<"):
            continue
        name = element(parent, label)
        if not isinstance(value, str):
            lines += [f"{tabs}<{name}>", *_elements(value, label, depth + 1), f"{tabs}</{name}>"]
        elif value.startswith("\n"):
            lines += [f"{tabs}<{name}>", f"{tabs}\t{value[1:]}", f"{tabs}</{name}>"]
        else:
            text = value.removeprefix("0x") if parent == "PCI" else value
            lines.append(f"{tabs}<{name}>{escape(text)}</{name}>")
    return lines


def element(parent: str, label: str) -> str:
    """Return the name of the element for a label that stands below ``parent``."""
    if label.startswith("<"):
        return label.strip("<>")
    names = _names()
    own = label.lower().replace(" ", "_").replace("-", "_")
    return names.get(f"{parent}/{label}") or names.get(label) or own


@cache
def _names() -> dict[str, str]:
    return dict(data.read(_FILE))
