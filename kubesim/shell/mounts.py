"""Mounts of a container or node: the rows that /proc/mounts, mount, findmnt and df show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from kubesim import data
from kubesim.shell.files import HIDDEN, Files, Mount

if TYPE_CHECKING:
    from kubesim.shell.machine import Machine

NODE_DISK = ("/dev/sda1", "ext4")
"""Source and kind of what lies on a node's disk."""
SNAPSHOTS = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"


class Row(NamedTuple):
    """A line of /proc/mounts, as proc(5) has it."""

    source: str
    path: str
    kind: str
    options: str


_TABLE = data.table(__file__, "mounts.yaml")
FIRST, MASKED = (tuple(Row(*row) for row in _TABLE[name]) for name in ("first", "masked"))
SHARED = "rw,nosuid,nodev,noexec,relatime,size=65536k,inode64"
"""Options of /dev/shm."""


def of_container(machine: Machine, files: Files) -> list[Row]:
    """Return the mounts of a container with this tree."""
    mounted, number = files.mounts, crc32(machine.hostname.encode()) % 900 + 60
    layers = f"lowerdir={SNAPSHOTS}/{number - 1}/fs:{SNAPSHOTS}/{number - 4}/fs,upperdir={SNAPSHOTS}/{number}/fs"
    root = Row("overlay", "/", "overlay", f"rw,relatime,{layers},workdir={SNAPSHOTS}/{number}/work")
    own = {path: _row(path, mount) for path, mount in mounted.items() if mount.kind != HIDDEN}
    own = {path: row for path, row in own.items() if path not in ("/", "/proc", "/dev")}
    bound = [Row(NODE_DISK[0], path, NODE_DISK[1], options) for path, options in machine.bound.items()]
    fixed = [row for row in FIRST if row.path not in own]
    return [root, *fixed, *bound, *own.values(), *([] if "/sys" in own else MASKED)]


def of_node(mounted: Mapping[str, Mount]) -> list[Row]:
    """Return the mounts of a node."""
    root = Row(NODE_DISK[0], "/", NODE_DISK[1], "rw,relatime")
    return [root, *(_row(path, mount) for path, mount in mounted.items() if mount.kind != HIDDEN)]


def seen(machine: Machine, files: Files) -> list[Row]:
    """Return the mounts that a process with this tree sees: its container's, or after a chroot those of its node."""
    side = machine.host
    return of_node(files.mounts) if side is not None and files.root is side.root else of_container(machine, files)


def _row(path: str, mount: Mount) -> Row:
    if path == "/dev/shm":  # noqa: S108 - a path of the simulated container
        return Row(mount.source, path, mount.kind, SHARED)
    memory, mode = mount.directory.memory, "ro" if mount.readonly else "rw"
    size = f",size={memory.limit >> 10}k,inode64" if memory is not None and memory.limit < 1 << 60 else ""
    return Row(mount.source, path, mount.kind, f"{mode},relatime{size}")
