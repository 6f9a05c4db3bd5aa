"""Jobs of several pods whose processes meet and compute together: what PyTorch and NCCL want to know, and say."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubesim import data

_table = data.beside(__file__, "collectives.yaml")
PORT, TIMEOUT_S = 29500, 600.0
LONGEST = 255
"""More of a name is not repeated in a log."""
INTERFACES = ("eth0", "lo")
"""What a pod has."""
TALKATIVE = ("INFO", "TRACE")
LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
WAITS = frozenset({"timeout", "dist_timeout", "ddp_timeout", "nccl_timeout"})
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
CHILD_PID = 67
"""The number of the first process that torchrun starts, in a container in which it is the first itself."""


@dataclass(frozen=True, slots=True)
class Membership:
    """What one pod knows of its job: the number of its process group's pods, its own place, and where all meet."""

    place: int
    size: int
    each: int
    """Processes of each pod."""
    master: str
    port: int
    timeout: float
    launched: bool
    """Whether torchrun starts the processes."""
    missing: str = ""
    """The variable that PyTorch needs and nobody has set."""
    script: str = "train.py"

    @property
    def rank(self) -> int:
        """The first of the pod's processes among all."""
        return self.place * self.each


def membership(argv: Sequence[str], env: Mapping[str, str], devices: int = 1) -> Membership | None:
    """Return what a command line and its environment say of a job; None for one that is of a single pod."""
    given = options(argv)
    name = argv[0].rpartition("/")[2] if argv else ""
    script = next((word for word in argv if word.endswith(".py")), "train.py").rpartition("/")[2][:LONGEST]
    wait = next((_number(value, 0) for key, value in given.items() if key in WAITS), 0) or TIMEOUT_S
    if is_launcher(argv):
        return _launched(argv, env, devices, wait, script)
    size = _number(env.get("WORLD_SIZE") or env.get("OMPI_COMM_WORLD_SIZE", ""), 1)
    if size < 2 or not name.startswith("python"):
        return None
    own = {"RANK": env.get("JOB_COMPLETION_INDEX", ""), **{k: env[k] for k in NEEDED if k in env}}
    missing = next((key for key in NEEDED if not own.get(key)), "")
    place, port = _number(own["RANK"], 0), _number(own.get("MASTER_PORT", ""), PORT)
    return Membership(place, size, 1, own.get("MASTER_ADDR", "")[:LONGEST], port, wait, False, missing, script)


def _launched(
    argv: Sequence[str], env: Mapping[str, str], devices: int, wait: float, script: str
) -> Membership | None:
    given = options(argv)

    def option(name: str, default: str = "") -> str:
        return given.get(name) or env.get(f"PET_{name.upper()}") or default

    size = _number(option("nnodes", "1").partition(":")[0], 1)
    if size < 2:
        return None
    host, _, port = option("rdzv_endpoint").partition(":")
    each = processes(argv, env, devices)
    place = _number(option("node_rank"), -1 if host else 0)
    master = (host or option("master_addr", "127.0.0.1"))[:LONGEST]
    return Membership(place, size, each, master, _number(port or option("master_port"), PORT), wait, True, "", script)


def is_launcher(argv: Sequence[str]) -> bool:
    """Whether a command line is torchrun's, which starts the processes that compute."""
    name = argv[0].rpartition("/")[2] if argv else ""
    return name == "torchrun" or any(word in LAUNCHERS for word in argv)


def script_at(argv: Sequence[str]) -> int:
    """Return where in torchrun's command line the script (or ``-m``) stands; its length where there is none."""
    modules = (at for at, word in enumerate(argv[:-1]) if word == "-m" and argv[at + 1] not in LAUNCHERS)
    return next((at for at, word in enumerate(argv) if word.endswith(".py")), next(modules, len(argv)))


def processes(argv: Sequence[str], env: Mapping[str, str], devices: int = 1) -> int:
    """Return how many processes torchrun starts in a pod; ``devices`` is the number of the pod's GPUs."""
    asked = options(argv).get("nproc_per_node") or env.get("PET_NPROC_PER_NODE", "1")
    return max(_number(asked, devices if asked in ("gpu", "auto") else 1), 1)


def ended(local: int, rank: int, pid: int, signal: int, script: str, host: str, at: datetime, code: int = 0) -> str:
    """Return what torchrun prints when one of its processes has ended, by a signal (its number) or with a code."""
    names = {6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
    why = f"Signal {signal} ({names.get(signal, f'SIG{signal}')}) received by PID {pid}"
    return text(
        "child",
        stamp=f"{at:%m%d %H:%M:%S}.{at.microsecond:06d}",
        time=f"{at:%Y-%m-%d_%H:%M:%S}",
        host=host,
        rank=rank,
        local=local,
        pid=pid,
        script=script,
        code=-signal if signal else code,
        trace=why if signal else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    )


def interface(asked: str) -> str:
    """Return the network interface that NCCL takes for ``NCCL_SOCKET_IFNAME``; empty where none fits."""
    if not asked:
        return INTERFACES[0]
    without, exactly = asked.startswith("^"), asked.lstrip("^").startswith("=")
    names = [name for name in asked.lstrip("^").lstrip("=").split(",") if name]

    def fits(name: str) -> bool:
        return any(name == each if exactly else name.startswith(each) for each in names)

    return next((name for name in INTERFACES if fits(name) != without), "")


def text(name: str, **values: object) -> str:
    """Return what is printed at a point of a job's life: one of the texts of ``collectives.yaml``."""
    table = _table()
    inner = {key: table[key] for key in ("init", "frames") if f"{{{key}}}" in table[name]}
    inner = {key: value if key == "init" else value.rstrip("\n") for key, value in inner.items()}
    if "{first}" in table[name]:
        inner["first"] = table["first"].format(**values)
    return str(table[name]).format(**inner, **values).rstrip("\n")


def watchdog(rank: int, at: datetime, timeout: float, ran: float, sequence: int) -> str:
    """Return what PyTorch's watchdog prints of a collective that has run for too long (seconds)."""
    size = "NumelIn=26214400, NumelOut=26214400"
    work = f"WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, {size}, Timeout(ms)={round(timeout * 1000)})"
    passed = round(ran * 1000) + rank % 90 + 4
    return text("watchdog", rank=rank, at=glog(at), work=work, ran=passed, seq=sequence, done=sequence - 1)


def glog(at: datetime) -> str:
    """Return a moment as PyTorch's C++ parts write it."""
    return f"{at:%m%d %H:%M:%S.%f}{zlib.crc32(at.isoformat().encode()) % 1000:03d}"


def options(argv: Sequence[str]) -> dict[str, str]:
    """Return the options of a command line, with underscores in their names."""
    found: dict[str, str] = {}
    for word, after in zip(argv, [*argv[1:], ""], strict=True):
        if word.startswith("--"):
            name, given, value = word[2:].partition("=")
            found.setdefault(name.replace("-", "_"), value if given else after)
    return found


def _number(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else default
