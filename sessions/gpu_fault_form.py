"""The form by which an interviewer injects a fault, and what it will do before it is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from faults.gpu_reads import GpuNode
from faults.xids import xids

LAYERS = (
    ("combined", "Everywhere: log, CUDA, metrics, node"),
    ("log", "Kernel log only: pods keep running"),
    ("cuda", "CUDA only"),
)
DURATIONS = (("60", "1 minute"), ("300", "5 minutes"), ("900", "15 minutes"), ("1800", "30 minutes"))
UNTIL_END = ("0", "Until taken back, or all faults end")
SEVERITIES = ("critical", "high", "medium", "low")
USUAL_XID = 79
GONE = {"invalid_choice": "The cluster no longer has this node, or no agent on it. Choose another one."}
Taken = Mapping[tuple[str, int], str]
"""The faults that there are already: node and GPU -> what it is, such as ``Xid 79``."""


class GpuFaultForm(forms.Form):
    """Node, GPU, Xid, layers and duration; the choices are those of the cluster as it is now."""

    node = forms.ChoiceField(label="Node", error_messages=GONE)
    gpu = forms.TypedChoiceField(label="GPU", coerce=int)
    xid = forms.TypedChoiceField(label="Xid", coerce=int)
    layers = forms.ChoiceField(label="Where it shows", choices=LAYERS)
    seconds = forms.TypedChoiceField(label="How long", choices=(UNTIL_END, *DURATIONS), coerce=int)

    def __init__(self, nodes: Sequence[GpuNode], data: Mapping[str, Any], taken: Taken) -> None:
        chosen = next((node for node in nodes if node.name == data.get("node")), nodes[0] if nodes else None)
        gpus = _gpu_choices(chosen, taken) if chosen else []
        well = next((number for number, label in gpus if number == label), "0")
        usual = {"node": chosen.name if chosen else "", "gpu": well, "xid": str(USUAL_XID), "layers": LAYERS[0][0]}
        usual["seconds"] = UNTIL_END[0]
        super().__init__({**usual, **{key: data[key] for key in usual if data.get(key)}})
        self.chosen = chosen
        self.choices("node", [(node.name, f"{node.name} ({node.allocatable} of {node.gpus} GPUs)") for node in nodes])
        self.choices("gpu", gpus)
        self.choices("xid", _xid_choices())

    def clean(self) -> dict[str, Any]:
        """Refuse layers in which nothing would be seen of the Xid."""
        found = {**(super().clean() or {}), **self.cleaned_data}
        xid = xids().get(found.get("xid", 0))
        if xid is not None and (refusal := xid.refusal(found.get("layers", ""))):
            self.add_error("layers", refusal)
        return found

    def choices(self, field: str, values: Sequence[Any]) -> None:
        """Set what can be chosen."""
        choice: Any = self.fields[field]
        choice.choices = values


def _gpu_choices(node: GpuNode, taken: Taken) -> list[tuple[str, str]]:
    """Return the GPUs of a node; beside its number stands the fault that one has already."""
    faults = ((str(index), taken.get((node.name, index))) for index in range(node.gpus))
    return [(number, f"{number}: has {fault}" if fault else number) for number, fault in faults]


def _xid_choices() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return all Xids by severity, the gravest first."""
    return [
        (
            severity.capitalize(),
            [(str(xid.code), f"{xid.code}: {xid.name}") for xid in xids().values() if xid.severity == severity],
        )
        for severity in SEVERITIES
    ]
