"""The volumes of a pod as directories: what each kind holds, and the kubelet's words where it cannot be mounted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from kubesim.api.quantity import parse
from kubesim.client import Client
from kubesim.errors import ApiError, Obj
from kubesim.kubelet import layers
from kubesim.kubelet.environment import ConfigError, Sources, field_value, resource_value, secret_data
from kubesim.kubelet.status import PodRecord
from kubesim.shell.files import Directory, File, Link
from kubesim.shell.share import Disk, Memory

DEFAULT_MODE = 0o644
BASE = 11 << 30
"""What a node's own system takes of its disk, in bytes."""
EVERYTHING = 1 << 60
HOST = "/"
"""The name of a node's own tree among its claims."""
MISSING_KEY = "references non-existent secret"
ROOT_CA = "kube-root-ca.crt"
ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
REFRESHED = ("configMap", "secret", "downwardAPI", "projected")
"""The kinds whose content follows the API."""


class MountError(Exception):
    """A volume that cannot be mounted; the message is that of the FailedMount event."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a volume."""

    data: bytes
    mode: int = DEFAULT_MODE


Payload = dict[str, Entry]


@dataclass
class NodeDisk:
    """What outlives pods on one node: the host's own tree, and the volumes that claims stand for."""

    fresh: Callable[[], Directory]
    """Makes the host's own tree, when somebody first looks at it."""
    claims: dict[str, Directory] = field(default_factory=dict)
    looked_at: bool = False
    """Whether anything of the host's own tree may have changed."""
    room: Disk = field(default_factory=lambda: Disk(100 << 30, BASE))
    """What is used of its space, by whatever takes some."""

    @cached_property
    def root(self) -> Directory:
        """The host's own tree."""
        self.looked_at = True
        return self.fresh()

    def dump(self) -> Obj:
        """Return what has been written to it, and to each claim."""
        found: Obj = {name: layers.dump(directory) for name, directory in self.claims.items()}
        return found | ({HOST: layers.dump(self.root)} if self.looked_at else {})

    def restore(self, saved: Obj) -> None:
        """Bring back what ``dump`` has told of."""
        for name, entries in saved.items():
            where = self.root if name == HOST else self.claims.setdefault(name, Directory(mode=0o777))
            layers.restore(where, entries)


async def mount(client: Client, record: PodRecord, disk: NodeDisk, now: datetime) -> dict[str, Directory]:
    """Return every volume of a pod by name. Raises ``MountError`` with the first that fails."""
    volumes: dict[str, Directory] = {}
    for volume in record.pod["spec"].get("volumes") or ():
        try:
            volumes[volume["name"]] = await _mount(client, record, disk, volume, now)
        except ConfigError as error:
            raise MountError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from error
    return volumes


def changing(pod: Obj) -> bool:
    """Whether a pod has volumes whose content may change beside its own token."""
    return any(
        kind in ("configMap", "secret", "downwardAPI") and source.get("name") != ROOT_CA
        for volume in pod["spec"].get("volumes") or ()
        for kind, source in _sources(volume)
        if not volume["name"].startswith("kube-api-access-")
    )


async def check(client: Client, record: PodRecord, disk: NodeDisk) -> None:
    """Raise ``MountError`` where something that a volume stands for is missing; no content is made."""
    for volume in record.pod["spec"].get("volumes") or ():
        try:
            for kind, source in _sources(volume):
                if kind in ("configMap", "secret"):
                    await _values(Sources(client, record.pod["metadata"]["namespace"]), kind, source)
                elif kind == "hostPath" and source.get("type"):
                    _host_path(disk, source)
        except ConfigError as error:
            raise MountError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from error


def _sources(volume: Obj) -> list[tuple[str, Obj]]:
    """Return the kind and source of a volume, or those of all parts of a projected one."""
    if (projected := volume.get("projected")) is not None:
        return [(kind, part) for item in projected.get("sources") or () for kind, part in item.items()]
    return [(kind, source or {}) for kind, source in volume.items() if kind != "name"]


async def refresh(client: Client, record: PodRecord, volumes: Mapping[str, Directory], now: datetime) -> None:
    """Bring the volumes that follow the API up to date; what has gone meanwhile keeps its last content."""
    for volume in record.pod["spec"].get("volumes") or ():
        if volume["name"] in volumes and any(kind in volume for kind in REFRESHED):
            try:
                payload = await _payload(client, record, volume)
            except (ConfigError, ApiError):
                continue
            write(volumes[volume["name"]], payload, now)


async def _mount(client: Client, record: PodRecord, disk: NodeDisk, volume: Obj, now: datetime) -> Directory:
    if any(kind in volume for kind in REFRESHED):
        directory = Directory(mode=0o777, mtime=now.timestamp())
        write(directory, await _payload(client, record, volume), now)
        return directory
    if source := volume.get("hostPath"):
        return _host_path(disk, source)
    if source := volume.get("persistentVolumeClaim"):
        name = f"{record.pod['metadata']['namespace']}/{source['claimName']}"
        return disk.claims.setdefault(name, Directory(mode=0o777, mtime=now.timestamp()))
    own = volume.get("emptyDir") or {}
    memory = Memory(_most(record.pod["spec"], own)) if own.get("medium") == "Memory" else None
    return Directory(mode=0o777, mtime=now.timestamp(), memory=memory)


def _most(spec: Obj, source: Obj) -> int:
    """Return the bytes that an empty directory in memory may hold: no more than the pod, or what it says itself."""
    limits = [((each.get("resources") or {}).get("limits") or {}).get("memory") for each in spec["containers"]]
    pod = sum(int(parse(str(limit))) for limit in limits) if all(limits) else EVERYTHING
    own = int(parse(str(source["sizeLimit"]))) if source.get("sizeLimit") else 0
    return min(pod, own or EVERYTHING)


def _host_path(disk: NodeDisk, source: Obj) -> Directory:
    """Return a directory of the node; it is made unless the type says that it must be there."""
    path, wanted = source["path"], source.get("type") or ""
    here = disk.root
    for name in filter(None, path.split("/")):
        below = here.get(name)
        if isinstance(below, File) and wanted in ("", "File", "FileOrCreate"):
            return _holder(below)
        if below is None and wanted == "FileOrCreate" and path.rstrip("/").endswith(f"/{name}"):
            below = File(mode=DEFAULT_MODE)
            here.put(name, below)
            return _holder(below)
        if not isinstance(below, Directory):
            if wanted in ("Directory", "File", "Socket", "CharDevice", "BlockDevice"):
                what = {"Directory": "directory", "File": "file", "Socket": "socket file"}.get(wanted, "device")
                raise ConfigError(f"hostPath type check failed: {path} is not a {what}")
            below = Directory()
            here.put(name, below)
        here = below
    return here


def _holder(file: File) -> Directory:
    """Return a directory that stands for one file: its only entry has no name."""
    holder = Directory()
    holder.put("", file)
    return holder


async def _payload(client: Client, record: PodRecord, volume: Obj) -> Payload:
    """Return the files of a volume that follows the API. Raises ``ConfigError``."""
    sources = Sources(client, record.pod["metadata"]["namespace"])
    outer = volume.get("projected") or {}
    payload: Payload = {}
    for kind, source in _sources(volume):
        mode = source.get("defaultMode", outer.get("defaultMode", DEFAULT_MODE))
        if kind in ("configMap", "secret"):
            payload |= _files(await _values(sources, kind, source), source, mode)
        elif kind == "downwardAPI":
            payload |= await _downward(client, record, source, mode)
        elif kind == "serviceAccountToken":
            token = await _token(client, record, source)
            payload[source["path"]] = Entry(token.encode(), 0o600 if "defaultMode" not in outer else mode)
    return payload


async def _values(sources: Sources, kind: str, source: Obj) -> dict[str, bytes]:
    """Return the data of a config map or secret. Raises ``ConfigError`` for a missing object or key."""
    optional = bool(source.get("optional"))
    name = source.get("secretName") or source.get("name") or ""
    found = await sources.get("configmaps" if kind == "configMap" else "secrets", name, optional=optional)
    if kind == "secret":
        values = secret_data(found)
    else:
        values = {key: value.encode() for key, value in ((found or {}).get("data") or {}).items()}
        values |= secret_data({"data": (found or {}).get("binaryData")})
    for item in source.get("items") or ():
        if item["key"] not in values and not optional:
            what = "configmap references non-existent config" if kind == "configMap" else MISSING_KEY
            raise ConfigError(f"{what} key: {item['key']}")
    return values


def _files(values: Mapping[str, bytes], source: Obj, mode: int) -> Payload:
    items = source.get("items")
    if not items:
        return {key: Entry(value, mode) for key, value in values.items()}
    return {
        item["path"]: Entry(values[item["key"]], item.get("mode") or mode) for item in items if item["key"] in values
    }


async def _downward(client: Client, record: PodRecord, source: Obj, mode: int) -> Payload:
    payload = {}
    for item in source.get("items") or ():
        if reference := item.get("fieldRef"):
            text = field_value(record, reference["fieldPath"])
        else:
            text = await resource_value(client, record, {}, item["resourceFieldRef"])
        payload[item["path"]] = Entry(text.encode(), item.get("mode") or mode)
    return payload


async def _token(client: Client, record: PodRecord, source: Obj) -> str:
    """Return a token of the pod's account, bound to the pod. Raises ``ConfigError``."""
    metadata, account = record.pod["metadata"], record.pod["spec"].get("serviceAccountName") or "default"
    bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
    spec = {"expirationSeconds": source.get("expirationSeconds", 3600), "boundObjectRef": bound}
    if source.get("audience"):
        spec["audiences"] = [source["audience"]]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"name": account}}
    try:
        made = await client.create(
            "serviceaccounts", review | {"spec": spec}, namespace=metadata["namespace"], subresource="token"
        )
    except ApiError as error:
        raise ConfigError(f"failed to fetch token: {error}") from error
    return str(made["status"]["token"])


def write(directory: Directory, payload: Payload, now: datetime) -> None:
    """Put files into a volume as the kubelet's atomic writer does: the data behind a link that is swapped at once."""
    link = directory.get("..data")
    old = link.target if isinstance(link, Link) else ""
    if old and _content(directory.get(old)) == {path: entry.data for path, entry in payload.items()}:
        return
    stamp = now.strftime("..%Y_%m_%d_%H_%M_%S.") + f"{now.microsecond:06d}000"
    data = Directory(mode=0o755, mtime=now.timestamp())
    for path, entry in payload.items():
        *folders, name = path.split("/")
        here = data
        for folder in folders:
            below = here.get(folder)
            if not isinstance(below, Directory):
                below = Directory(mtime=now.timestamp())
                here.put(folder, below)
            here = below
        here.put(name, File(mode=entry.mode, data=entry.data, mtime=now.timestamp()))
    directory.put(stamp, data)
    directory.put("..data", Link(target=stamp, mtime=now.timestamp()))
    if old:
        directory.drop(old)
    tops = {path.split("/")[0] for path in payload}
    for name in directory.names():
        if not name.startswith("..") and name not in tops:
            directory.drop(name)
    for name in tops:
        if directory.get(name) is None:
            directory.put(name, Link(target=f"..data/{name}", mtime=now.timestamp()))


def _content(node: object, prefix: str = "") -> dict[str, bytes]:
    """Return every file below a directory."""
    if not isinstance(node, Directory):
        return {}
    found: dict[str, bytes] = {}
    for name in node.names():
        below = node.get(name)
        if isinstance(below, File):
            found[prefix + name] = bytes(below.data)
        else:
            found |= _content(below, f"{prefix}{name}/")
    return found
