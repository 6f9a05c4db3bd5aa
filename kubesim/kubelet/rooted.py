"""What a container sees of its node that has the node's root directory as a volume."""

from __future__ import annotations

from functools import partial

from kubesim.errors import Obj
from kubesim.gpu.hardware import bus
from kubesim.kubelet import hostfiles
from kubesim.kubelet.host import Host
from kubesim.kubelet.host import Node as HostNode
from kubesim.kubelet.inside import DRIVER_DEVICES
from kubesim.network.fabric import Request
from kubesim.shell import journals, proc, rootfs
from kubesim.shell.files import HIDDEN, Device, Directory, File, Files, Listing, Mount, Node
from kubesim.shell.hostside import HostProcess, HostSide
from kubesim.shell.machine import Machine
from kubesim.shell.mounts import of_node
from kubesim.shell.tools import journalctl

PODS, CONTAINERS = "/var/log/pods", "/var/log/containers"
DRIVER_FILES = ("nvidia-smi", "nvidia-persistenced", "nv-fabricmanager")
OWNER = "host"
DISKS = {"sda": 0, "sda1": 1, "sda14": 14, "sda15": 15}


def enter_all(made: Machine, pod: Obj, spec: Obj, host: Host) -> None:
    """Let a container that has the node's root as a volume see the node."""
    roots = {
        volume["name"]
        for volume in pod["spec"].get("volumes") or ()
        if (volume.get("hostPath") or {}).get("path") == "/"
    }
    for item in spec.get("volumeMounts") or ():
        if item["name"] in roots and not item.get("subPath"):
            enter(made, host, item["mountPath"])
    if pod["spec"].get("hostPID"):
        _share_processes(made, host)


def _share_processes(made: Machine, host: Host) -> None:
    """Let a machine see everything that runs on its node."""

    def others() -> dict[int, HostProcess]:
        found = {each.pid: each for each in host.node.processes()}
        return {pid: each for pid, each in found.items() if each.inner is None or each.inner.machine is not made}

    made.outside = others
    made.host = made.host or _side(made, host)


def _side(made: Machine, host: Host) -> HostSide:
    """Return the node as somebody sees it who has its root."""
    node = host.node
    devices = node.gpus.access(OWNER, privileged=True)

    async def ask(target: str) -> tuple[int, bytes]:
        answer = await node.endpoint.respond(Request("GET", target))
        return answer.status, answer.body

    def tree() -> Files:
        return Files(node.disk.root, _mounts(made, node, side))

    booted, services, now = devices.board.booted, node.agents.services, host.clock.now
    reboot = partial(host.machines.reboot, node.name)
    root, processes = node.disk.root, node.processes
    side = HostSide(node.name, root, devices, booted, ask, processes, tree, services, now, node.images, reboot)
    return side


def enter(made: Machine, host: Host, path: str) -> None:
    """Let a machine have its node's root at ``path``, with the node's /proc and /dev below it."""
    made.host = made.host or _side(made, host)
    for place, mount in made.host.tree().mounts.items():
        made.files.mount(path.rstrip("/") + place, mount)


def _mounts(made: Machine, node: HostNode, side: HostSide) -> dict[str, Mount]:
    """Return what is mounted on a node; the logs, which are computed, lie on its disk."""
    if side.devices.board.devices:
        _add_driver(node.disk.root)
    pods, containers = node.logs
    found = {
        "/proc": Mount(_proc(made, side), source="proc", kind="proc"),
        "/sys": Mount(hostfiles.sysfs(side.devices.board, node), source="sysfs", kind="sysfs"),
        "/dev": Mount(_dev(made, side), source="udev", kind="devtmpfs"),
        PODS: Mount(pods, kind=HIDDEN),
        CONTAINERS: Mount(containers, kind=HIDDEN),
    }
    _add_logs(node.disk.root, side)
    for path in (PODS, CONTAINERS):  # what is mounted has to be there to be listed
        Files(node.disk.root).mount(path, found[path])
    return found


def _add_logs(root: Directory, side: HostSide) -> None:
    """Put in the kernel's log as rsyslog keeps it."""

    def text() -> bytes:
        log = side.devices.board.log
        return "".join(f"{journalctl.shown(entry, side.name)}\n" for entry in journals.kernel(log)).encode()

    if (folder := _folder(root, "var", "log")) is not None:
        for name in ("kern.log", "syslog"):
            folder.put(name, File(mode=0o640, make=text))


def _folder(root: Directory, *names: str) -> Directory | None:
    folder = root
    for name in names:
        below = folder.get(name)
        if not isinstance(below, Directory):
            return None
        folder = below
    return folder


def _add_driver(root: Directory) -> None:
    if (folder := _folder(root, "usr", "bin")) is None:
        return
    for name in DRIVER_FILES:
        folder.put(name, File(mode=0o755, program=f"driver:{name}", data=b"\x7fELF"))


def _dev(made: Machine, side: HostSide) -> Directory:
    """Return the node's /dev, as it is whenever somebody looks."""

    def now() -> Directory:
        return _devices(made, side)

    return Listing(mode=0o755, find=lambda name: now().get(name), all=lambda: now().names())


def _devices(made: Machine, side: HostSide) -> Directory:
    """Return the node's devices."""
    found, board = Directory(mtime=made.now()), side.devices.board

    def take(data: bytes) -> None:
        board.log.write_device(made.clock.now(), data.decode("utf-8", "replace"))

    found.put("kmsg", Device(kind="null", mode=0o644, major=1, minor=11, sink=take, mtime=made.now()))
    for name, minor in DISKS.items():
        found.put(name, Device(kind="null", mode=0o660, major=8, minor=minor, mtime=board.booted.timestamp()))
    for name, (major, minor) in rootfs.DEVICES.items():
        found.put(
            name, Device(kind="random" if name == "urandom" else name, major=major, minor=minor, mtime=made.now())
        )
    known = side.devices.board.devices
    names = [(f"nvidia{each.minor}", 195, each.minor) for each in known if side.devices.board.loaded]
    if side.devices.board.loaded and known:
        names += [*DRIVER_DEVICES, ("nvidia-modeset", 195, 254)]
        switches = [each for each in bus(side.devices.board) if each.kind == "Bridge" and each.ids.startswith("10de")]
        names += [(f"nvidia-nvswitch{at}", 240, at) for at in range(len(switches))]
        names += [("nvidia-nvswitchctl", 240, 255), ("nvidia-nvlink", 241, 0)] * bool(switches)
    for name, major, minor in names:
        found.put(name, Device(kind="null", major=major, minor=minor, mtime=made.now()))
    return found


def _proc(made: Machine, side: HostSide) -> Directory:
    """Return the node's /proc: with what the driver tells."""
    own = proc.directory(made, lambda: {each.pid: each for each in side.processes()})

    def find(name: str) -> Node | None:
        if name == "mounts":
            text = proc.text_of(of_node(side.tree().mounts))
            return File(mode=0o444, data=text.encode())
        return own.get(name)

    return Listing(mode=0o555, find=find, all=own.names)
