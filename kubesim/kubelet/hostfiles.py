"""What lies on a node's disk, and what its kernel shows as files: its configuration, /sys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubesim import data
from kubesim.goyaml import to_yaml
from kubesim.gpu.board import Board
from kubesim.gpu.hardware import SPEEDS, bus
from kubesim.gpu.products import driver
from kubesim.shell.files import Directory, File, Files, Link, Listing, Node, View

if TYPE_CHECKING:
    from kubesim.kubelet.host import Node as HostNode

_table = data.beside(__file__, "hostfiles.yaml")
KUBELET = "/etc/kubernetes/kubelet-config.yaml"
LINKS = {"/var/lib/kubelet/config.yaml": KUBELET, "/etc/localtime": "/usr/share/zoneinfo/Etc/UTC"}


def texts(node: HostNode) -> dict[str, str]:
    """Return the files of a node's configuration by their paths."""
    board, table = node.gpus.board, _table()
    values = {
        "name": node.name,
        "ip": node.ip,
        "cidr": node.cidr,
        "machine": node.info.get("machineID", ""),
        "driver": driver().version,
        "boot": f"{board.booted:%b %d %Y %H:%M:%S}",
        "runtime": "nvidia" if board.devices else "runc",
    }
    found = {path: text.format(**values) for path, text in table["all"].items()}
    if board.devices:
        found |= {path: text.format(**values) for path, text in table["gpus"].items()}
        found["/etc/containerd/config.toml"] += table["runtime"]
    own = {"address": "0.0.0.0", "clusterDNS": ["10.96.0.10"], "cgroupDriver": "systemd", "serverTLSBootstrap": True}  # noqa: S104
    own |= {
        "staticPodPath": "/etc/kubernetes/manifests",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    }
    found[KUBELET] = to_yaml({**node.config, **own})
    return found


def tree(node: HostNode, below: Directory) -> Directory:
    """Return what lies on the disk of a node over its distribution's files."""
    base = Directory(lower=below, mtime=node.gpus.board.booted.timestamp())
    found: dict[str, Node] = {path: File(data=text.encode(), mtime=base.mtime) for path, text in texts(node).items()}
    found |= {path: Link(target=target) for path, target in LINKS.items()}
    there = View(Files(below), lambda: base.mtime)
    for path, each in found.items():
        if there.find(path) is not None:
            continue
        *folders, name = path.strip("/").split("/")
        here = base
        for folder in folders:
            inner = here.get(folder)
            if not isinstance(inner, Directory):
                inner = Directory(mtime=base.mtime)
                here.put(folder, inner)
            here = inner
        here.put(name, each)
    return Directory(lower=base, mtime=base.mtime)


def sysfs(board: Board, node: HostNode) -> Directory:
    """Return the part of a node's /sys that tells of its devices, as they are whenever somebody looks."""
    return Listing(
        mode=0o555, find=lambda name: _sysfs(board, node).get(name), all=lambda: _sysfs(board, node).names()
    )


def parts(node: HostNode) -> dict[str, Directory]:
    """Return the parts of a node's /sys that its containers see too, by their paths."""

    def part(name: str) -> Directory:
        def now() -> Directory:
            found = _sysfs(node.gpus.board, node).get(name)
            return found if isinstance(found, Directory) else Directory()

        return Listing(mode=0o555, find=lambda below: now().get(below), all=lambda: now().names())

    return {f"/sys/{name}": part(name) for name in ("bus", "class", "module")}


def _dmi(node: HostNode) -> Directory:
    """Return what the firmware says of the machine; the numbers of its owner are for root."""
    uuid = node.info.get("systemUUID", "")
    rows = {**_table()["dmi"]["gce" if node.cloud == "gce" else "plain"]}
    found = _directory(
        {name: text.format(uuid=uuid, serial=uuid.replace("-", "").upper()) for name, text in rows.items()}
    )
    for name in ("product_uuid", "product_serial", "board_serial", "chassis_serial"):
        if (each := found.get(name)) is not None:
            each.mode = 0o400
    return found


def _sysfs(board: Board, node: HostNode) -> Directory:
    slots: dict[str, dict[str, str]] = {}
    for each in bus(board):
        vendor, _, device = each.ids.partition(":")
        rows = {"vendor": f"0x{vendor}", "device": f"0x{device}", "class": f"0x{each.code}00"}
        if each.gpu is not None:
            pci = each.gpu.product.pci
            generation, width = each.gpu.trouble.narrow or (pci["generation"], pci["width"])
            rows |= {
                "numa_node": str(each.gpu.numa),
                "max_link_speed": f"{SPEEDS[pci['generation']].replace('GT', '.0 GT')} PCIe",
                "max_link_width": str(pci["width"]),
                "current_link_speed": f"{SPEEDS[generation].replace('GT', '.0 GT')} PCIe",
                "current_link_width": str(width),
            }
        slots[f"0000:{each.address}"] = rows
    net = {"mtu": "1460", "operstate": "up", "speed": "100000", "carrier": "1"}
    modules = {"nvidia": {"version": driver().version, "refcnt": "211"}} if board.devices and board.loaded else {}
    dmi = {"dmi": {"id": _dmi(node)}, "net": {"eth0": net, "lo": {"mtu": "65536"}}}
    return _directory({"bus": {"pci": {"devices": slots}}, "class": dmi, "module": modules})


def _directory(entries: dict[str, Any]) -> Directory:
    """Return a directory of texts, of directories as tables, and of what is there already."""
    return Directory(mode=0o555, entries={name: _node(entry) for name, entry in entries.items()})


def _node(entry: Any) -> Node:
    if isinstance(entry, str):
        return File(mode=0o444, data=f"{entry}\n".encode())
    return _directory(entry) if isinstance(entry, dict) else entry
