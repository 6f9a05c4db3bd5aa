"""What images have on their disk: programs and a few files, as layers that all containers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from kubesim import data
from kubesim.clock import Clock
from kubesim.shell import proc
from kubesim.shell.files import Device, Directory, File, Files, Link, Mount
from kubesim.shell.machine import Machine
from kubesim.shell.tools import TOOLS

_kinds = data.beside(__file__, "rootfs.yaml")
_releases: data.Reader[dict[str, dict[str, str]]] = data.beside(__file__, "releases.yaml")
BUILT = 1_735_689_600.0  # when the files of images were made
OWN_RELEASES = {"debian": "debian-12", "toolbox": "debian-12", "alpine": "alpine-3.20"}
"""What an image kind is where nobody says which release."""
UNQUOTED = ("ID", "ID_LIKE", "VERSION_CODENAME", "UBUNTU_CODENAME")
MODES = {"root": 0o700, "tmp": 0o1777, "var/tmp": 0o1777, "proc": 0o555, "sys": 0o555}
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}


def _release(name: str) -> str:
    """Return the text of an /etc/os-release."""
    rows = ((key, value) for key, value in _releases()[name].items() if key.isupper())
    return "".join(f"{key}={value}\n" if key in UNQUOTED else f'{key}="{value}"\n' for key, value in rows)


async def _session(shell: Any) -> int:
    """Run an interactive session; its modules are read when somebody first sits down at a terminal."""
    return int(await import_module("kubesim.shell.session").run(shell))


def programs(kind: str) -> dict[str, list[str]]:
    """Return the names of an image kind's programs by folder."""
    entry = _kinds()[kind]
    found = dict(programs(entry["like"])) if "like" in entry else {}
    for folder, names in entry.get("programs", {}).items():
        found[folder] = [*found.get(folder, []), *names]
    return found


@cache
def layer(kind: str, release: str = "") -> Directory:
    """Return the lowest layer of an image kind, as a release of its distribution has it. Never write to it."""
    entry = _kinds()[kind]
    tree = _like(kind)
    root = Directory(mtime=BUILT)
    for path in tree["folders"]:
        _folder(root, path).mode = MODES.get(path, 0o755)
    for path, target in tree["links"].items():
        above, _, name = path.rpartition("/")
        _folder(root, above).put(name, Link(target=target, mtime=BUILT))
    for folder, names in programs(kind).items():
        _install(_folder(root, folder), names, entry)
    _configure(_folder(root, "etc"), release or OWN_RELEASES.get(kind, ""), tree)
    return root


def _like(kind: str) -> dict[str, Any]:
    """Return a kind's entry with what it takes over from the one that it is like."""
    entry: dict[str, Any] = _kinds()[kind]
    return (_like(entry["like"]) if "like" in entry else {}) | entry


def _folder(root: Directory, path: str) -> Directory:
    here = root
    for name in filter(None, path.split("/")):
        below = here.get(name)
        if isinstance(below, Link):
            below = _folder(root, below.target)
        if not isinstance(below, Directory):
            below = Directory(mtime=BUILT)
            here.put(name, below)
        here = below
    return here


def _install(folder: Directory, names: list[str], entry: dict[str, Any]) -> None:
    for name in names:
        if name not in TOOLS:
            continue
        flavour = {"sh": entry["shell"], "bash": "bash", "dash": "dash", "ash": "ash"}.get(name, entry["flavour"])
        size = b"\x7fELF\x02\x01\x01" + bytes(9)
        folder.put(name, File(mode=0o755, program=f"{flavour}:{name}", data=size, mtime=BUILT))


def _configure(etc: Directory, release: str, entry: dict[str, Any]) -> None:
    texts: dict[str, str] = {name: entry[name] for name in ("passwd", "group", "nsswitch.conf") if name in entry}
    if release:
        texts["os-release"] = _release(release)
        texts |= {key: f"{value}\n" for key, value in _releases()[release].items() if key == "debian_version"}
    for name, text in texts.items():
        etc.put(name, File(data=text.encode(), mtime=BUILT))


def files(kind: str, release: str = "") -> Files:
    """Return a fresh tree over an image's layer."""
    return Files(Directory(lower=layer(kind, release), mtime=BUILT))


def machine(
    kind: str,
    clock: Clock,
    *,
    release: str = "",
    hostname: str = "localhost",
    env: Mapping[str, str] | None = None,
    prepare: Callable[[Machine], None] | None = None,
) -> Machine:
    """Return a container of an image kind with its /dev, /proc and /etc files; ``prepare`` may add to it."""
    made = Machine(clock, files(kind, release), TOOLS, hostname=hostname, env=dict(env or {}))
    made.session = _session
    devices = Directory(mtime=made.now())
    for name, (major, minor) in DEVICES.items():
        sort = "random" if name == "urandom" else name
        devices.put(name, Device(kind=sort, major=major, minor=minor, mtime=made.now()))
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        devices.put(name, Link(target=f"/proc/self/fd/{number}", mtime=made.now()))
    made.files.mount("/dev", Mount(devices, source="tmpfs"))
    made.files.mount("/proc", Mount(proc.directory(made), source="proc", kind="proc"))
    etc = made.files.root.get("etc")
    if isinstance(etc, Directory):
        hosts = f"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{made.address}\t{hostname}\n"
        for name, text in (("hostname", hostname + "\n"), ("hosts", hosts)):
            etc.put(name, File(data=text.encode(), mtime=made.now()))
    if prepare:
        prepare(made)
    return made
