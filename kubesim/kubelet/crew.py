"""The processes that a program starts beside itself, and the numbers by which a node knows those of its pods."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubesim.gpu.collectives import CHILD_PID, is_launcher, membership, processes, script_at

MOST = 64
"""More ranks of one container are not shown."""
FIRST_NUMBER, NUMBERS_PER_S, HIGHEST_NUMBER = 4200, 2, 4_194_303
"""Below it are the node's own processes; how fast numbers are used up; the kernel's bound (pid_max)."""
SHIM, PAUSE = -2, -1
"""Stand for the shim and the first process of a pod, where others stand by their number in the container."""
PYTHON = "/usr/bin/python3"
SCRIPTS = frozenset({"torchrun", "vllm"})
"""Programs that Python interprets: the kernel puts it before their names."""


def shown(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command line as the kernel has it of a script with an interpreter."""
    name = argv[0].rpartition("/")[2] if argv else ""
    return (PYTHON, f"/usr/local/bin/{name}", *argv[1:]) if name in SCRIPTS else tuple(argv)


@dataclass(frozen=True, slots=True)
class Member:
    """One such process. ``device``: which of the container's GPUs it uses (None: all of them, -1: none).

    ``rank`` is its number among those that compute; -1 for one that does not.
    """

    pid: int
    parent: int
    argv: tuple[str, ...]
    device: int | None = -1
    env: tuple[tuple[str, str], ...] = ()
    rank: int = 0


def crew(argv: Sequence[str], env: Mapping[str, str], devices: int, parent: int = 1) -> tuple[Member, ...]:
    """Return what a command line starts: torchrun one process for each rank; nothing for most."""
    if not is_launcher(argv):
        return ()
    each, own = min(processes(argv, env, devices), MOST), membership(argv, env, devices)
    words = (PYTHON, "-u", *argv[script_at(argv) :])
    first = own.rank if own is not None else 0
    world = own.size * own.each if own is not None else each
    shared = {
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": each,
        "GROUP_RANK": max(own.place, 0) if own is not None else 0,
        "MASTER_ADDR": own.master if own is not None else "localhost",
        "MASTER_PORT": own.port if own is not None else 29500,
        "OMP_NUM_THREADS": env.get("OMP_NUM_THREADS", "1"),
        "TORCHELASTIC_RUN_ID": "none",
    }
    found = []
    for local in range(each):
        named = {**shared, "RANK": max(first, 0) + local, "LOCAL_RANK": local}
        device = local if local < devices else -1
        more = tuple((name, str(value)) for name, value in named.items())
        found.append(Member(parent + CHILD_PID - 1 + local, parent, words, device, more, max(first, 0) + local))
    return tuple(found)


class Numbers:
    """Which number a node has given to each process: ascending with time, and the same whenever somebody looks."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, int], int] = {}

    def of(self, key: str, inner: int, at: datetime) -> int:
        """Return the number of process ``inner`` of a container (its id) or pod (its uid) that started at ``at``."""
        if (key, inner) not in self._given:
            taken, room = {*self._given.values()}, HIGHEST_NUMBER - FIRST_NUMBER
            wanted = int(at.timestamp() * NUMBERS_PER_S) + zlib.crc32(key.encode()) % 32 + inner
            while FIRST_NUMBER + wanted % room in taken:
                wanted += 1
            self._given[key, inner] = FIRST_NUMBER + wanted % room
        return self._given[key, inner]

    def keep(self, keys: Iterable[str]) -> None:
        """Forget everything but these containers and pods."""
        known = {*keys}
        self._given = {key: number for key, number in self._given.items() if key[0] in known}
