"""The privileges of the agent: root opens the kernel log, and nobody is root from then on.

A container gets the device only if it is privileged, and then has every capability, whatever its manifest drops. So
the process gives up by itself what it does not need: the user, all capabilities, and every way to get them again.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NOBODY = 65532
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
MAX_CAPABILITY = 63
STATUS = Path("/proc/self/status")
NONE_LEFT = {"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000"}
NONE_LEFT |= {"CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1"}


class StillPrivileged(Exception):
    """The kernel has left the process more than it is to have."""


def prepare_folder(folder: Path) -> None:
    """Give a folder to the user that the agent becomes, and let nobody else read it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    for path in (folder, *folder.iterdir()):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def prepare_file(file: Path) -> None:
    """Give a file to the user that the agent becomes; one that is not there is told of when it is needed."""
    if file.is_file() and not file.is_symlink():
        os.chown(file, NOBODY, NOBODY, follow_symlinks=False)


def drop_privileges() -> None:
    """Become a user without privileges, for good. Raises StillPrivileged where the kernel shows any left."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(MAX_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # those that the kernel does not know are refused
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _require_none()


def _require_none() -> None:
    found = dict(line.split(":\t", 1) for line in STATUS.read_text(encoding="ascii").splitlines() if ":\t" in line)
    left = [f"{name} {found.get(name)}" for name, wanted in NONE_LEFT.items() if found.get(name) != wanted]
    if left or 0 in os.getresuid() + os.getresgid() or os.getgroups():
        raise StillPrivileged(f"The agent does not run with privileges: {', '.join(left) or 'root'}")
