"""How a container looks from inside: its image's files, its mounts, /etc, its user, its devices."""

from __future__ import annotations

import posixpath
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from kubesim.api import quantity
from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.gpu.products import driver
from kubesim.gpu.xids import KernelLog
from kubesim.kubelet import behaviours, hostfiles, memory, servers, tools
from kubesim.kubelet.duties import Post
from kubesim.kubelet.environment import ConfigError, expand
from kubesim.kubelet.failures import libraries, nccl_of, packages
from kubesim.kubelet.host import HOST_FILES, Host
from kubesim.kubelet.status import PodRecord
from kubesim.kubelet.volumes import ACCOUNT_PATH
from kubesim.network.dns import DOMAIN
from kubesim.network.door import PodKube
from kubesim.network.pods import CLUSTER_RESOLVER, NODE_RESOLVER, PodNetwork
from kubesim.network.policy import Gate
from kubesim.shell import rootfs, wayout
from kubesim.shell.files import HIDDEN, Device, Directory, File, Files, Link, Mount, View
from kubesim.shell.hostside import ears
from kubesim.shell.machine import Machine, Tool
from kubesim.shell.mounts import NODE_DISK
from kubesim.shell.share import Memory
from kubesim.shell.tools import TOOLS

BASES = {"python": "debian", "cuda": "debian", "cuda-base": "debian", "none": "distroless"}
"""What of the shell's images those of the catalogue are built on."""
SUB_PATH = 'failed to {} for volumeMount "{}" of container "{}"'
OWN = ("nnp", "sysctl", "torchrun")
"""The programs whose tools are the kubelet's own."""
DRIVER_PROGRAMS = ("/usr/bin/nvidia-smi", "/usr/bin/nvidia-persistenced")
DRIVER_LIBRARIES = (
    "cuda",
    "cudadebugger",
    "nvidia-ml",
    "nvidia-cfg",
    "nvidia-nvvm",
    "nvidia-opencl",
    "nvidia-ptxjitcompiler",
)
LIBRARY_FOLDER = "/usr/lib/x86_64-linux-gnu"
"""The libraries that the toolkit puts into a container, and their folder in one of Debian's kind."""
DRIVER_DEVICES = (("nvidiactl", 195, 255), ("nvidia-uvm", 510, 0), ("nvidia-uvm-tools", 510, 1))
"""Name, major and minor number of the device files that belong to no single GPU."""
DRIVER_OPTIONS = "ro,nosuid,nodev,relatime"
SHARED_BYTES = 64 << 20
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a path of the simulated container
MOST_COLLECTED = 1 << 20
HOST_HEAD = "# Kubernetes-managed hosts file (host network).\n"
HOSTS_HEAD = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
HOSTS_HEAD += "fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"


class Collector:
    """Keeps what a command prints, up to a bound."""

    def __init__(self) -> None:
        self.data = bytearray()

    async def write(self, data: bytes) -> None:
        """Take output."""
        self.data += data[: MOST_COLLECTED - len(self.data)]


def check_user(record: PodRecord, spec: Obj, name: str) -> None:
    """Raise ``ConfigError`` for a container that must not run as root and would."""
    context = {**(record.pod["spec"].get("securityContext") or {}), **(spec.get("securityContext") or {})}
    if context.get("runAsNonRoot") and not context.get("runAsUser"):
        text = "container has runAsNonRoot and image will run as root"
        if context.get("runAsUser") is not None:
            text = "container's runAsUser breaks non-root policy"
        raise ConfigError(f'{text} (pod: "{record.full_name}", container: {name})')


def machine(record: PodRecord, spec: Obj, clock: Clock, host: Host, owner: str) -> Machine:
    """Return a fresh machine with the files of a container's image."""
    image = record.images[spec["image"]]
    context = {**(record.pod["spec"].get("securityContext") or {}), **(spec.get("securityContext") or {})}
    limits = (spec.get("resources") or {}).get("limits") or {}
    kind = BASES.get(image.base, image.base)
    made = rootfs.machine(kind, clock, release=image.release, hostname=hostname(record), env=image.env)
    for path in image.programs.values():
        _add_program(made.files, path)
    for path in (found := packages(image)):
        _folder(made.files, f"{path}/__init__.py")
    env = behaviours.environment(spec, record.pod)
    scripts = behaviours.scripts(image, behaviours.command_line(spec, image, env), behaviours.folder(image, spec))
    trained = {path: text for path, text in scripts.items() if text}
    for path, text in {**servers.files(image), **trained, **image.files}.items():
        mode = 0o755 if text.startswith("#!") else 0o644
        _link(made.files, path, File(data=text.encode(), mode=mode, mtime=rootfs.BUILT))

    def post() -> Post:
        return Post(
            host.client, host.clock, host.fabric, host.machines, host.node.name, record.pod, record.ip, owner,
            nccl=nccl_of(image), reach=lambda: network,
        )  # fmt: skip

    if found:
        made.libraries = libraries(image)
    if image.scripts:
        made.env.setdefault("NCCL_VERSION", nccl_of(image))
    work = tools.Work(host, owner, image, record.uid, post, scripts)
    played = work.play
    own: dict[str, Tool] = dict.fromkeys(("python", "python3"), work.python) if image.scripts else {}
    own |= {"torchrun": work.torchrun, "nnp": tools.nnp(context), "sysctl": tools.sysctl(record.pod["spec"])}
    made.tools = ChainMap({"workload": played, **own}, TOOLS)  # type: ignore[arg-type]
    made.join(host.fabric.share)
    made.uid, made.gid = int(context.get("runAsUser") or 0), int(context.get("runAsGroup") or 0)
    made.memory = int(quantity.parse(host.node.capacity.get("memory", "4Gi")))
    made.cpus = int(quantity.parse(host.node.capacity.get("cpu", "2")))
    made.meter.most = float(quantity.parse(str(limits["cpu"]))) if "cpu" in limits else float(made.cpus)
    made.memory_limit = memory.limit_of(spec)
    made.address = record.ip
    made.catalogue = host.node.images.catalogue
    _connect(made, record, host)
    made.up_since = host.node.gpus.board.log.booted.timestamp()
    made.vitals = lambda: host.node.ledger.now(made.now())
    made.info = host.node.info
    for path, part in hostfiles.parts(host.node).items():
        made.files.mount(path, Mount(part, readonly=True, kind=HIDDEN))
    access = host.node.gpus.access_of(owner, record.pod, spec, image.env)
    made.devices = replace(access, read=View(made.files, made.now).content)
    if made.devices.has_driver:
        _add_devices(made)
        if made.devices.injected:
            _add_driver(made)
    if made.devices.log is not None:
        _add_kernel_log(made, made.devices.log)
    gate = Gate(host.client, host.fabric, record.ip, host.node.tags)
    config = partial(_text, made.files, "/etc/resolv.conf")
    network = PodNetwork(host.client, host.fabric, record.ip, config, gate, host.node.name)
    if host.fabric.door is not None:
        namespace, token = record.pod["metadata"]["namespace"], partial(_text, made.files, f"{ACCOUNT_PATH}/token")
        made.kube = PodKube(host.fabric.door, namespace, token, network.reach_api)
    made.network = network
    return made


def _connect(made: Machine, record: PodRecord, host: Host) -> None:
    """Show a container the interfaces and sockets of its network: the pod's own, or the node's."""
    node, fabric = host.node, host.fabric

    def pods() -> wayout.Wires:
        first = made.processes.get(made.first)
        own = len(record.pod["spec"]["containers"]) == 1 and first is not None
        name, pid = (first.name, made.first) if own and first is not None else ("", 0)
        return wayout.of_pod(record.ip, tuple(wayout.Ear("*", port, name, pid) for port in fabric.ports(record.ip)))

    def nodes() -> wayout.Wires:
        taken = {uid: address for uid, address in node.taken.items() if address != node.ip}
        return wayout.of_node(node.ip, taken, ears(node.processes(), fabric.ports(node.ip)))

    made.wires = pods
    if record.pod["spec"].get("hostNetwork"):
        made.wires = nodes


def _add_driver(made: Machine) -> None:
    """Put in the driver's programs, as the container toolkit does."""
    for path in DRIVER_PROGRAMS:
        folder, name = _folder(made.files, path)
        folder.put(name, File(mode=0o755, program=f"driver:{name}", data=b"\x7fELF"))
        made.bound[path] = DRIVER_OPTIONS
    for library in DRIVER_LIBRARIES:
        path = f"{LIBRARY_FOLDER}/lib{library}.so.{driver().version}"
        folder, name = _folder(made.files, path)
        made.bound[path] = DRIVER_OPTIONS
        folder.put(name, File(mode=0o644, data=b"\x7fELF"))
        folder.put(f"lib{library}.so.1", Link(target=name))


def _add_devices(made: Machine) -> None:
    """Put in the device files."""
    devices = made.devices.view(made.clock.now()).all() if made.devices else []
    mounted = made.files.mounts["/dev"].directory
    own = [(f"nvidia{item.device.minor}", 195, item.device.minor) for item in devices]
    for name, major, minor in [*DRIVER_DEVICES, *own]:
        mounted.put(name, Device(kind="null", major=major, minor=minor, mtime=made.now()))


def _add_kernel_log(made: Machine, log: KernelLog) -> None:
    """Let a privileged container write to its node's kernel log."""

    def take(data: bytes) -> None:
        log.write_device(made.clock.now(), data.decode("utf-8", "replace"))

    made.files.mounts["/dev"].directory.put("kmsg", Device(kind="null", mode=0o644, major=1, minor=11, sink=take))


def _text(files: Files, path: str) -> str:
    """Return what a file of a container says now; empty where there is none."""
    node = View(files, lambda: 0.0).find(path)
    return bytes(node.data).decode("utf-8", "replace") if isinstance(node, File) else ""


def _add_program(files: Files, path: str) -> None:
    """Put a program of the catalogue where the shell's image has none."""
    folder, name = _folder(files, path)
    if folder.get(name) is None:
        tool = name if name in OWN or name in TOOLS else "workload"
        folder.put(name, File(mode=0o755, program=f"image:{tool}", data=b"\x7fELF"))


def _folder(files: Files, path: str) -> tuple[Directory, str]:
    """Return the directory that a path leads into, made where it is missing, and the name in it."""
    view = View(files, lambda: 0.0)
    *folders, name = path.strip("/").split("/")
    here, at = files.root, ""
    for folder in folders:
        at += f"/{folder}"
        below = view.find(at)
        if not isinstance(below, Directory):
            below = Directory(mtime=rootfs.BUILT)
            here.put(folder, below)
        here = below
    return here, name


def folder(record: PodRecord, spec: Obj, made: Machine) -> str:
    """Return where a container's programs start, which the runtime makes where it is missing."""
    path = behaviours.folder(record.images[spec["image"]], spec)
    if View(made.files, made.now).find(path) is None:
        _folder(made.files, f"{path}/.")[0].mtime = made.now()
    return path


def hostname(record: PodRecord) -> str:
    """Return the host name of a pod."""
    spec = record.pod["spec"]
    if spec.get("hostNetwork"):
        return str(spec.get("nodeName", record.name))
    return str(spec.get("hostname") or record.name)[:63]


def mount(
    made: Machine, record: PodRecord, spec: Obj, volumes: Mapping[str, Directory], env: Mapping[str, str]
) -> None:
    """Put a container's volumes into its tree, and the files that the kubelet manages. Raises ``ConfigError``."""
    files = made.files
    made.bound.update(dict.fromkeys(("/etc/hosts", "/etc/hostname", "/etc/resolv.conf"), "rw,relatime"))
    _put(made, "/etc/hostname", f"{made.hostname}\n")
    _put(made, "/etc/resolv.conf", resolv_conf(record))
    paths = {posixpath.normpath(item["mountPath"]) for item in spec.get("volumeMounts") or ()}
    if "/etc/hosts" not in paths:
        if record.pod["spec"].get("hostNetwork"):
            _put(made, "/etc/hosts", HOST_HEAD + HOST_FILES["hosts"] + aliases(record))
        else:
            _put(made, "/etc/hosts", hosts(record, made.hostname))
    files.mount(SHARED_MEMORY, Mount(Directory(mode=0o1777, memory=Memory(SHARED_BYTES)), source="shm"))
    mount_volumes(files, record, spec, volumes, env)
    for at in files.mounts.values():
        if at.directory.memory is not None:
            at.directory.memory.limit = min(at.directory.memory.limit, made.memory)
            at.directory.memory.adopt(id(files))
    if (spec.get("securityContext") or {}).get("readOnlyRootFilesystem"):
        files.mounts.setdefault("/", Mount(files.root, readonly=True, source="overlay", kind="overlay"))


def mount_volumes(
    files: Files, record: PodRecord, spec: Obj, volumes: Mapping[str, Directory], env: Mapping[str, str]
) -> None:
    """Put a container's volumes at their paths. Raises ``ConfigError``."""
    in_memory = {volume["name"] for volume in record.pod["spec"].get("volumes") or () if _in_memory(volume)}
    for item in sorted(spec.get("volumeMounts") or (), key=lambda item: len(item["mountPath"])):
        kind = ("tmpfs", "tmpfs") if item["name"] in in_memory else NODE_DISK
        _mount(files, item, volumes[item["name"]], env, spec["name"], kind)


def reader(
    record: PodRecord, spec: Obj, volumes: Mapping[str, Directory], env: Mapping[str, str]
) -> Callable[[str], bytes | None]:
    """Return what reads the files in a container's volumes, where the container has no machine."""
    files = Files(Directory())
    mount_volumes(files, record, spec, volumes, env)
    return View(files, lambda: 0.0).content


def _in_memory(volume: Obj) -> bool:
    """Whether the kubelet keeps a volume in memory: secrets and tokens, and what asks for it."""
    if "projected" in volume:
        return any(
            "secret" in each or "serviceAccountToken" in each for each in volume["projected"].get("sources") or ()
        )
    return "secret" in volume or (volume.get("emptyDir") or {}).get("medium") == "Memory"


def _mount(
    files: Files, item: Obj, directory: Directory, env: Mapping[str, str], name: str, kind: tuple[str, str]
) -> None:
    readonly, path = bool(item.get("readOnly")), item["mountPath"]
    sub = item.get("subPath") or ""
    if item.get("subPathExpr"):
        sub = expand(item["subPathExpr"], env)
        if "$(" in sub:
            raise ConfigError(f'missing value for "{sub.partition("$(")[2].partition(")")[0]}"')
    whole = directory.get("")
    if isinstance(whole, File):
        _link(files, path, whole)
        return
    if sub.startswith("/"):
        raise ConfigError(f"error SubPath `{sub}` must not be an absolute path")
    if ".." in sub.split("/"):
        raise ConfigError(f"unable to provision SubPath `{sub}`: must not contain '..'")
    found = _below(directory, sub, name, item["name"])
    if isinstance(found, Directory):
        files.mount(path, Mount(found, readonly, *kind))
    else:
        _link(files, path, found)


def _below(directory: Directory, sub: str, container: str, volume: str) -> Directory | File:
    """Return what lies at a subPath of a volume; a directory is made where nothing is."""
    view = View(Files(directory), lambda: directory.mtime)
    if not sub:
        return directory
    found = view.find(sub)
    if found is None:
        here = directory
        for part in filter(None, sub.split("/")):
            below = here.get(part)
            if below is not None and not isinstance(below, Directory):
                raise ConfigError(SUB_PATH.format("create subPath directory", volume, container))
            if below is None:
                below = Directory(mode=directory.mode, mtime=directory.mtime)
                here.put(part, below)
            here = below
        return here
    if isinstance(found, Directory | File):
        return found
    raise ConfigError(SUB_PATH.format("prepare subPath", volume, container))


def _link(files: Files, path: str, node: File) -> None:
    """Put a file at a path of a tree: the same file, not a copy."""
    folder, name = _folder(files, path)
    folder.put(name, node)


def _put(made: Machine, path: str, text: str) -> None:
    _link(made.files, path, File(data=text.encode(), mtime=made.now()))


def message_file(made: Machine, path: str) -> File:
    """Put the file for a termination message into a machine and return it."""
    file = File(mode=0o666, mtime=made.now())
    _link(made.files, path, file)
    made.bound[path] = "rw,relatime"
    return file


def hosts(record: PodRecord, name: str) -> str:
    """Return /etc/hosts as the kubelet writes it."""
    spec = record.pod["spec"]
    namespace = record.pod["metadata"]["namespace"]
    full = f"{name}.{spec['subdomain']}.{namespace}.svc.{DOMAIN}\t" if spec.get("subdomain") else ""
    return f"{HOSTS_HEAD}{record.ip}\t{full}{name}\n{aliases(record)}"


def aliases(record: PodRecord) -> str:
    """Return the lines that a pod adds to /etc/hosts."""
    entries = record.pod["spec"].get("hostAliases") or ()
    lines = ["\t".join([entry["ip"], *(entry.get("hostnames") or ())]) + "\n" for entry in entries]
    return "\n# Entries added by HostAliases.\n" + "".join(lines) if lines else ""


def resolv_conf(record: PodRecord) -> str:
    """Return /etc/resolv.conf for a pod's DNS policy."""
    spec, namespace = record.pod["spec"], record.pod["metadata"]["namespace"]
    policy = spec.get("dnsPolicy", "ClusterFirst")
    config = spec.get("dnsConfig") or {}
    cluster = policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not spec.get("hostNetwork"))
    servers = [CLUSTER_RESOLVER] if cluster else [] if policy == "None" else [NODE_RESOLVER]
    searches = [f"{namespace}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN] if cluster else []
    options = {"ndots": "5"} if cluster else {}
    servers += config.get("nameservers") or []
    searches += config.get("searches") or []
    options |= {item["name"]: item.get("value") or "" for item in config.get("options") or ()}
    lines = [f"search {' '.join(searches)}"] if searches else []
    lines += [f"nameserver {server}" for server in servers]
    if options:
        lines.append("options " + " ".join(f"{name}:{value}" if value else name for name, value in options.items()))
    return "\n".join(lines) + "\n"
