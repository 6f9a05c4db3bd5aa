"""LD_PRELOAD as ld.so reads it, and the CUDA error that a preloaded fault library returns from every call.

Such a library replaces CUDA's functions alone: NVML, and with it nvidia-smi, sees healthy devices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kubesim.gpu.fault_table import unpack

ReadFile = Callable[[str], bytes | None]
"""Returns the bytes of a container's file; None where there is none."""
FOLDERS = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib", "/usr/local/lib")
REFUSED = "ERROR: ld.so: object '{}' from LD_PRELOAD cannot be preloaded ({}): ignored."


def preloaded(environment: Mapping[str, str], read: ReadFile) -> tuple[dict[str, bytes], list[str]]:
    """Return the libraries that a new process preloads, by path, and ld.so's complaints about the others."""
    found: dict[str, bytes] = {}
    refused = []
    for name in filter(None, re.split("[ :]", environment.get("LD_PRELOAD", ""))):
        paths = [name] if "/" in name else [f"{folder}/{name}" for folder in FOLDERS]
        path, content = next(((each, data) for each in paths if (data := read(each)) is not None), (name, None))
        if content is None:
            refused.append(REFUSED.format(name, "cannot open shared object file"))
        elif not content.startswith(b"\x7fELF"):
            refused.append(REFUSED.format(name, "invalid ELF header" if len(content) > 4 else "file too short"))
        else:
            found[path] = content
    return found, refused


def injected_error(environment: Mapping[str, str], read: ReadFile) -> int:
    """Return CUDA's error of every call of a process; 0 where no library that it preloads makes one."""
    xid = environment.get("CUDA_XID_TYPE", "")
    if environment.get("CUDA_FAULT_INJECTION_ENABLED") != "1" or not re.fullmatch("[1-9][0-9]{0,2}", xid):
        return 0
    tables = map(unpack, preloaded(environment, read)[0].values())
    return next((row.error for table in tables for row in table if row.xid == int(xid)), 0)
