"""The faults under which real programs are recorded, and how each shows that it has arrived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fault:
    """A fault: its settings for faultctl, and the text by which a program tells of it.

    ``running``: it comes while programs run; else before they start. ``size``: the MiB that they allocate.
    ``only``: the one program that it concerns. ``words``: the text of a program that says it in words of its own.
    """

    title: str
    settings: tuple[str, ...]
    tells: str
    running: bool = True
    size: int = 64
    only: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    def heading(self) -> str:
        """Return the heading and the command."""
        when = "while the programs run" if self.running else "before the programs start"
        command = f"`faultctl arm {' '.join(self.settings)}`, {when}." if self.settings else "Nothing is armed."
        return f"## {self.title}\n\n{command}\n"

    def is_told(self, said: str, program: str) -> bool:
        """Return whether a program's output shows the fault."""
        return self.words.get(program, self.tells) in said


NO_GPUS = {"PyTorch": "No CUDA GPUs are available", "NCCL": "0 ranks"}
FAULTS = (
    Fault("No fault", (), "step 4: ok"),
    Fault("Xid 79, a running program", ("xid=79",), "unspecified launch failure"),
    Fault("Xid 79, a new program", ("xid=79",), "no CUDA-capable device is detected", running=False, words=NO_GPUS),
    Fault("Xid 48, a running program", ("xid=48",), "uncorrectable ECC error encountered"),
    Fault(
        "Xid 94, a running program", ("xid=94",), "Invalid access of peer GPU memory over nvlink or a hardware error"
    ),
    Fault("Xid 95, a new program", ("xid=95",), "busy or unavailable", running=False),
    Fault("Xid 31, a running program", ("xid=31",), "an illegal memory access was encountered"),
    Fault("Xid 43, a running program", ("xid=43",), "unspecified launch failure"),
    Fault("Xid 74, a running program", ("xid=74",), "uncorrectable NVLink error"),
    Fault("Xid 119, a running program: it hangs, and then fails", ("xid=119", "hang=2s"), "unknown error"),
    Fault("The fabric manager is down", ("new=802", "refuse"), "system not yet initialized", running=False),
    Fault("Driver and library differ", ("new=803", "refuse"), "unsupported display driver", running=False),
    Fault("A slow GPU", ("latency=300ms",), "step 4: ok"),
    Fault(
        "A GPU of 16 GiB",
        ("memory=16GiB",),
        "out of memory",
        running=False,
        size=17 << 10,
        words={"NCCL": "step 4: ok"},
    ),
    Fault("An error of NCCL", ("nccl=6",), "remote", only="NCCL"),
    Fault("NCCL hangs", ("nccl-hang",), "imeout", only="NCCL"),
)
