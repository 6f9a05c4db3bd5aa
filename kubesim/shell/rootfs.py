"""What images have on their disk: programs and a few files, as layers that all containers share."""

from __future__ import annotations

from functools import cache

from kubesim.shell.files import Directory, File, Files
from kubesim.shell.tools import TOOLS


@cache
def layer(kind: str) -> Directory:
    """Return the lowest layer of an image kind: busybox, alpine, debian, distroless. Never write to it."""
    root = Directory()
    if kind != "distroless":
        programs = Directory()
        for name in TOOLS:
            programs.put(name, File(mode=0o755, program=f"busybox:{name}"))
        root.put("bin", programs)
    return root


def files(kind: str) -> Files:
    """Return a fresh tree over an image's layer."""
    return Files(Directory(lower=layer(kind)))
