"""How a program dies of its GPUs: an error of CUDA, or memory that does not suffice, as PyTorch tells of it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

from kubesim import data
from kubesim.gpu.xids import CUDA_ERRORS
from kubesim.kubelet.images import Image
from kubesim.kubelet.programs import Exit, Line, Output, Program

KILLED_CODE = 1
BEGUN_S = 1.6
"""When a program has read its libraries and first asks for a device."""
MEMORY_AT_S = 7.5
"""When a program that wants too much has loaded so much that nothing is left."""
MIB_PER_GIB = 1024
TRIED_GIB, FREE_GIB, LOST_GIB, OVERHEAD_GIB, RESERVED_GIB = 2.0, 1.06, 0.01, 1.02, 0.5
FIRST_WITH_SHORT_NAME = {"nvcr.io/nvidia/pytorch": (24, 9), "docker.io/pytorch/pytorch": (2, 5)}
"""The releases since which PyTorch says torch.OutOfMemoryError; older ones say torch.cuda.OutOfMemoryError."""


def cuda(error: int) -> str:
    """Return what is printed for an error of CUDA."""
    return _texts()["cuda"].format(error=CUDA_ERRORS[error])


def first_call(error: int) -> str:
    """Return what is printed where already the first call of CUDA fails."""
    return _texts()["first"].format(error=CUDA_ERRORS[error], number=error)


def memory(image: Image, total_mib: int, others_mib: int, behaviour: str) -> str:
    """Return what is printed where a device's memory does not suffice; ``others_mib`` is held by other processes."""
    total, others = total_mib / MIB_PER_GIB, others_mib / MIB_PER_GIB
    free = min(FREE_GIB, max(total - others, 0.0) / 4)
    used = max(total - others - free - LOST_GIB, 0.0)
    text = f"Process 1234 has {others:.2f} GiB memory in use. " if others_mib else ""
    key = "memory-serving" if behaviour == "inference" else "memory"
    return _texts()[key].format(
        kind="torch.OutOfMemoryError" if _is_new(image) else "torch.cuda.OutOfMemoryError",
        tried=TRIED_GIB,
        total=total,
        free=free,
        used=used,
        allocated=max(used - OVERHEAD_GIB - RESERVED_GIB, 0.0),
        others=text,
    )


def _is_new(image: Image) -> bool:
    first = FIRST_WITH_SHORT_NAME.get(image.reference.repository)
    match = re.match(r"(\d+)\.(\d+)", image.reference.tag)
    return first is None or match is None or (int(match[1]), int(match[2])) >= first


def cut(program: Program, at: float, text: str, code: int = KILLED_CODE, reason: str = "") -> Program:
    """Return a program that goes on until ``at`` seconds and then dies with a text on standard error.

    One that has ended before that ends as it did.
    """
    own = program.ending
    if own is not None and own.at <= at:
        return program
    last: list[Output] = [Line(at, line, "stderr") for line in text.splitlines()]

    def run(horizon: float, limit: int) -> list[Output]:
        before = [out for out in program.run(min(horizon, at), limit) if isinstance(out, Line) and out.at <= at]
        return [*before, *last, Exit(at + 0.1, code, reason)] if horizon >= at else [*before]

    return replace(program, run=lambda horizon, limit: iter(run(horizon, limit)))


@cache
def _texts() -> dict[str, str]:
    return dict(data.read(Path(__file__).with_name("failures.yaml")))
