"""The cluster file of ``kubesim serve --cluster-file``: the nodes and the first objects of a fresh cluster.

    nodes:                       # instead of --nodes, --gpus and --product
    - count: 3                   # 1
      product: H100              # H100
      gpus: 8                    # 8
      profile: gke               # gke: named and labelled as that cloud's; plain: as any machine's
      name: trainer              # trainer-0, trainer-1, ...; by default the profile names them
      labels: {team: vision}
      taints:
      - {key: nvidia.com/gpu, value: present, effect: NoSchedule}
      kubelet:                   # of their KubeletConfiguration: what lets pods be evicted, and images be removed
        evictionHard: {memory.available: 5%, nodefs.available: 10%}
      present: [nginx:1.28]      # images that are on these nodes already
    present:                     # images that are on all nodes already, beside those that such nodes have in any case
    - registry.example.com/team/embedding-api:1.4
    images:                      # that registries serve beside the public ones; kubesim/README.md names the fields
    - name: registry.example.com/team/embedding-api
      tags: ["1.*", latest]
      from: python:3.12-slim
      script: |
        #!/usr/bin/env python3
        print("serving")
    addons:                      # what kubesim brings
    - gpu-operator               # device plugin, feature discovery, dcgm-exporter
    - monitoring                 # Prometheus, kube-state-metrics, node_exporter
    namespaces:
    - training                   # or metadata: {name: training, labels: {...}, annotations: {...}}
    - {name: serving, labels: {pod-security.kubernetes.io/enforce: baseline}}
    manifests:
    - quota.yaml                 # a file or a folder of them, relative to this file
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: site}, data: {a: b}}

What it says is checked in two steps: its own fields when it is read, and every object by the API that takes it in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import orjson

from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.auth.users import ADMIN
from kubesim.errors import ApiError, Obj
from kubesim.gpu.nodes import PRODUCTS
from kubesim.kubelet import imagefile
from kubesim.kubelet.imagefile import WrongImage
from kubesim.kubelet.thresholds import WrongConfig, rules
from kubesim.located import FileError, Mapping, documents
from kubesim.pools import MAX_GPUS, MAX_NODES, PROFILES, Pool

MANAGER = "kubectl-create"
ADDONS = Path(__file__).with_name("addons")
T = TypeVar("T")
SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Planned:
    """An object that a fresh cluster is to have, and where it is written."""

    path: Path
    line: int
    obj: Obj


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """What a cluster file asks for; ``pools`` is None where it says nothing of nodes."""

    path: Path
    pools: tuple[Pool, ...] | None = None
    objects: list[Planned] = field(default_factory=list)
    images: tuple[Obj, ...] = ()
    """The cluster's own images (``kubelet/imagefile.py``)."""
    present: tuple[str, ...] = ()
    """Images that are on every node from the start."""

    def create(self, operations: Operations) -> None:
        """Create the objects, in their order; raises FileError for the first that the API refuses."""
        for planned in self.objects:
            try:
                _create(operations, planned.obj)
            except ApiError as error:
                raise FileError(planned.path, planned.line, f"{error.message}; mend it here") from error


def read(path: Path) -> ClusterFile:
    """Read a cluster file; raises FileError."""
    found = list(documents(path))
    if len(found) != 1 or not isinstance(found[0], Mapping):
        raise FileError(path, 1, "one mapping is expected, with nodes, namespaces and manifests")
    fields = _Fields(path, found[0], "")
    pools: tuple[Pool, ...] | None = tuple(fields.each("nodes", _pool))
    pools = pools if "nodes" in found[0] else None
    names = [pool.name for pool in pools or () if pool.name and pool.count]
    for name in {name for name in names if names.count(name) > 1}:
        raise fields.error("nodes", f"{name} is the name of more than one entry; give each its own")
    if pools is not None and sum(pool.count for pool in pools) > MAX_NODES:
        raise fields.error("nodes", f"there are more than {MAX_NODES}; give fewer")
    images, present = _images(fields, pools or ())
    objects = [found for addon in fields.each("addons", _addon) for found in addon]
    objects += fields.each("namespaces", _namespace)
    for manifests in fields.each("manifests", _manifest):
        objects += manifests
    fields.end()
    return ClusterFile(path, pools, objects, tuple(images), tuple(present))


def _images(fields: _Fields, pools: Iterable[Pool]) -> tuple[list[Obj], list[str]]:
    """Return the images that a file brings, and those that are on all nodes; raises FileError."""
    given: list[Any] = [orjson.loads(orjson.dumps(fields.list(name))) for name in ("images", "present")]
    try:
        images = imagefile.read(given[0])
        for pool in pools:
            imagefile.read_present(list(pool.images), images, "nodes.present")
        return images, imagefile.read_present(given[1], images)
    except WrongImage as error:
        raise fields.within(error.field, error.message) from error


def known_addons() -> list[str]:
    """Return the names of what kubesim brings."""
    return sorted(path.stem for path in ADDONS.glob("*.yaml"))


@cache
def addon(name: str) -> tuple[Planned, ...]:
    """Return the objects of an addon, which nobody changes; raises KeyError for one that is not there."""
    if name not in known_addons():
        raise KeyError(name)
    path = ADDONS / f"{name}.yaml"
    return tuple(found for document in documents(path) for found in _objects(path, document))


def with_addons(names: Iterable[str], file: ClusterFile | None = None) -> ClusterFile | None:
    """Return a cluster file with the objects of addons before its own; None where there is nothing at all."""
    objects = [found for name in names for found in addon(name)]
    if file is None:
        return ClusterFile(ADDONS, None, objects) if objects else None
    return replace(file, objects=objects + file.objects)


class _Fields:
    """A mapping of the file that is taken apart field by field; what is left over is an error."""

    def __init__(self, path: Path, found: Mapping, where: str) -> None:
        self.path = path
        self.line = found.line
        self.where = where
        self._found = found
        self._known: list[str] = []

    def error(self, name: str, message: str) -> FileError:
        """Return an error that stands at a field."""
        line = self._found.lines.get(name, self._found.line)
        return FileError(self.path, line, f"{self.where}{name}: {message}")

    def within(self, place: str, message: str) -> FileError:
        """Return an error that stands somewhere below a field, as ``images[1].size``: at the line of it."""
        line, found = self._found.line, self._found
        for name, index in re.findall(r"(\w+)(?:\[(\d+)\])?", place):
            line = found.lines.get(name, line)
            below = found.get(name)
            below = below[int(index)] if index and isinstance(below, list) and int(index) < len(below) else below
            if not isinstance(below, Mapping):
                break
            found, line = below, below.line if index else line
        return FileError(self.path, line, f"{place}: {message}")

    def get(self, name: str, default: Any, fits: Callable[[Any], bool], wanted: str) -> Any:
        """Return a field's value; raises FileError for one that does not fit."""
        self._known.append(name)
        value = self._found.get(name)
        if value is None:
            return default
        if not fits(value):
            raise self.error(name, f"{wanted} is expected, not {value!r}")
        return value

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number."""

        def fits(value: Any) -> bool:
            return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

        return int(self.get(name, default, fits, f"a whole number from {least} to {most}"))

    def choice(self, name: str, default: str, choices: list[str]) -> str:
        """Return one of some texts."""
        return str(self.get(name, default, choices.__contains__, f"one of {', '.join(choices)}"))

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        return str(self.get(name, default, lambda value: isinstance(value, str), "a text"))

    def texts(self, name: str) -> dict[str, str]:
        """Return texts by name, as labels are."""

        def fits(value: Any) -> bool:
            return isinstance(value, Mapping) and all(isinstance(found, str) for found in value.values())

        return dict(self.get(name, {}, fits, "a mapping of texts (put numbers and true into quotes)"))

    def list(self, name: str) -> list[Any]:
        """Return a list."""
        return list(self.get(name, [], lambda value: isinstance(value, list), "a list"))

    def each(self, name: str, read: Callable[[_Fields, Any], T]) -> Iterator[T]:
        """Return what ``read`` makes of every item of a list."""
        for index, item in enumerate(self.list(name)):
            where = f"{self.where}{name}[{index}]"
            if isinstance(item, Mapping):
                yield read(_Fields(self.path, item, where + "."), item)
            else:
                yield read(_Fields(self.path, Mapping(self._found.lines[name]), where), item)

    def end(self) -> None:
        """Raise FileError for a field that nobody has asked for."""
        for name in self._found.keys() - set(self._known):
            raise self.error(name, f"there is no such field; known are {', '.join(self._known)}")


def _pool(fields: _Fields, item: Any) -> Pool:
    """Return some nodes of one kind."""
    _expect_mapping(fields, item)
    pool = Pool(
        count=fields.whole("count", 1, 0, MAX_NODES),
        product=fields.choice("product", "H100", sorted(PRODUCTS)),
        gpus=fields.whole("gpus", 8, 0, MAX_GPUS),
        profile=fields.choice("profile", "gke", sorted(PROFILES)),
        name=fields.text("name"),
        labels=fields.texts("labels"),
        taints=tuple(fields.each("taints", _taint)),
        kubelet=_kubelet(fields),
        images=tuple(map(str, fields.list("present"))),
        path=fields.path,
        line=fields.line,
    )
    fields.end()
    return pool


def _kubelet(fields: _Fields) -> Obj:
    """Return a kubelet's configuration; what it may be, the kubelet says."""
    given = fields.get("kubelet", {}, lambda value: isinstance(value, Mapping), "a mapping")
    found: Obj = orjson.loads(orjson.dumps(given))
    try:
        rules(found)
    except (WrongConfig, TypeError, AttributeError, ValueError) as error:
        raise fields.error("kubelet", str(error)) from error
    return found


def _taint(fields: _Fields, item: Any) -> Obj:
    """Return one taint; what its texts may be, the API says."""
    _expect_mapping(fields, item)
    taint = {name: fields.text(name) for name in ("key", "value", "effect")}
    fields.end()
    return {name: value for name, value in taint.items() if value}


def _namespace(fields: _Fields, item: Any) -> Planned:
    """Return a namespace, given by its name or with what else its metadata has."""
    if isinstance(item, Mapping):
        metadata: Obj = {"name": fields.text("name"), "labels": fields.texts("labels")}
        metadata["annotations"] = fields.texts("annotations")
        fields.end()
    elif isinstance(item, str):
        metadata = {"name": item}
    else:
        raise fields.error("", f"a name or a mapping with one is expected, not {item!r}")
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    return Planned(fields.path, fields.line, obj)


def _addon(fields: _Fields, item: Any) -> tuple[Planned, ...]:
    """Return the objects of something that kubesim brings."""
    if item not in known_addons():
        raise fields.error("", f"one of {', '.join(known_addons())} is expected, not {item!r}")
    return addon(item)


def _manifest(fields: _Fields, item: Any) -> list[Planned]:
    """Return the objects of a manifest: one that stands in the file, or those of a file or a folder."""
    if isinstance(item, Mapping):
        return [*_objects(fields.path, item)]
    if not isinstance(item, str):
        raise fields.error("", f"a path or an object is expected, not {item!r}")
    path = fields.path.parent / item
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES) if path.is_dir() else [path]
    if not path.exists() or not files:
        raise fields.error("", f"{path} is no manifest and no folder of some; give a path relative to this file")
    return [found for file in files for document in documents(file) for found in _objects(file, document)]


def _objects(path: Path, document: Any) -> Iterator[Planned]:
    """Yield the objects of a document; a List is taken apart."""
    if not isinstance(document, Mapping):
        raise FileError(path, 1, "an object of Kubernetes is expected, with apiVersion, kind and metadata")
    fields = _Fields(path, document, "")
    kind = fields.text("kind")
    if kind == "List":
        for item in fields.list("items"):
            yield from _objects(path, item)
        return
    if not kind or not fields.text("apiVersion"):
        raise fields.error("kind", "an object needs an apiVersion and a kind")
    if kind == "Node":
        raise fields.error("kind", "give nodes under nodes:, so that somebody runs their pods")
    fields.get("metadata", {}, lambda value: isinstance(value, Mapping), "a mapping")
    yield Planned(path, document.line, document)


def _expect_mapping(fields: _Fields, item: Any) -> None:
    if not isinstance(item, Mapping):
        raise fields.error("", f"a mapping is expected, not {item!r}")


def _create(operations: Operations, obj: Obj) -> None:
    """Create one object as the administrator does with kubectl; raises ApiError."""
    version, name = obj["apiVersion"], obj["kind"]
    try:
        kind = operations.registry.by_kind(version, name)
    except ApiError as error:
        raise ApiError(404, "NotFound", f'no matches for kind "{name}" in version "{version}"') from error
    namespace = (obj.get("metadata") or {}).get("namespace") or "default"
    options = Options(ADMIN.name, MANAGER, field_validation="Strict", requester=ADMIN)
    operations.create(kind, namespace if kind.namespaced else "", obj, options=options)
