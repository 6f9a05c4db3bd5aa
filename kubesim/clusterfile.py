"""The cluster file of ``kubesim serve --cluster-file``: the nodes and the first objects of a fresh cluster.

``clusterfile.yaml`` shows one that has every field.
What it says is checked in two steps: its own fields when it is read, and every object by the API that takes it in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from kubesim import data
from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.auth.users import ADMIN
from kubesim.custom.values import errors_of, prune
from kubesim.errors import ApiError, Obj
from kubesim.gpu.nodes import PRODUCTS
from kubesim.kubelet import imagefile
from kubesim.kubelet.imagefile import WrongImage
from kubesim.kubelet.thresholds import WrongConfig, rules
from kubesim.located import FileError, Mapping, documents, without_lines
from kubesim.pools import MAX_NODES, PROFILES, Pool

MANAGER = "kubectl-create"
ADDONS = Path(__file__).with_name("addons")
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
    return _file(path, found[0])


def of(asked: Obj) -> ClusterFile:
    """Return what a request asks for with the fields of a cluster file; raises FileError, for paths of files, too."""
    path, manifests = Path("request"), asked.get("manifests")
    for at, entry in enumerate(manifests if isinstance(manifests, list) else ()):
        if isinstance(entry, str):
            raise FileError(path, 0, f"manifests[{at}]: give the object itself; no file is read for a request")
    return _file(path, without_lines(asked))


def _file(path: Path, file: Mapping) -> ClusterFile:
    """Return what a mapping asks for; raises FileError."""
    _check(path, file, schema())
    pools = tuple(_pool(path, file, at, entry) for at, entry in enumerate(file["nodes"])) if "nodes" in file else None
    names = [pool.name for pool in pools or () if pool.name and pool.count]
    for name in {name for name in names if names.count(name) > 1}:
        raise _error(path, file, "nodes", f"{name} is the name of more than one entry; give each its own")
    if pools is not None and sum(pool.count for pool in pools) > MAX_NODES:
        raise _error(path, file, "nodes", f"there are more than {MAX_NODES}; give fewer")
    images, present = _images(path, file, pools or ())
    objects = [planned for name in file.get("addons", ()) for planned in addon(name)]
    objects += [_namespace(path, file, at, entry) for at, entry in enumerate(file.get("namespaces", ()))]
    for at, entry in enumerate(file.get("manifests", ())):
        objects += _manifest(path, file, at, entry)
    return ClusterFile(path, pools, objects, tuple(images), tuple(present))


@cache
def schema() -> Obj:
    """Return the schema of a cluster file."""
    found: Obj = data.table(__file__, "clusterfile.yaml")
    nodes = found["properties"]["nodes"]["items"]["properties"]
    nodes["product"]["enum"], nodes["profile"]["enum"] = sorted(PRODUCTS), sorted(PROFILES)
    found["properties"]["addons"]["items"]["enum"] = known_addons()
    return found


def _check(path: Path, found: Mapping, wanted: Obj) -> None:
    """Raise FileError for what a schema does not have or does not allow."""
    given, unknown = orjson.loads(orjson.dumps(found)), list[str]()
    prune(given, wanted, "", unknown)
    for place in unknown:
        raise _error(path, found, place, f"there is no such field; known are {', '.join(_known(wanted, place))}")
    for error in errors_of(given, wanted):
        hint = " (put numbers and true into quotes)" if "must be of type string" in error.detail else ""
        raise _error(path, found, error.field, error.detail + hint)


def _known(wanted: Obj, place: str) -> Iterable[str]:
    """Return the fields of the object in which a field stands."""
    for name in re.findall(r"[a-zA-Z]\w*", place)[:-1]:
        below = wanted["properties"][name]
        wanted = below.get("items", below)
    return list(wanted["properties"])


def _error(path: Path, found: Mapping, place: str, message: str) -> FileError:
    """Return an error that stands somewhere below a mapping, as ``images[1].size``: at the line of it."""
    line = found.line
    for name, index in re.findall(r"(\w+)(?:\[(\d+)\])?", place):
        line = found.lines.get(name, line)
        below = found.get(name)
        below = below[int(index)] if index and isinstance(below, list) and int(index) < len(below) else below
        if not isinstance(below, Mapping):
            break
        found, line = below, below.line if index else line
    return FileError(path, line, f"{place}: {message}")


def _images(path: Path, file: Mapping, pools: Iterable[Pool]) -> tuple[list[Obj], list[str]]:
    """Return the images that a file brings, and those that are on all nodes; raises FileError."""
    given: Obj = orjson.loads(orjson.dumps(file))
    try:
        images = imagefile.read(given.get("images", []))
        for pool in pools:
            imagefile.read_present(list(pool.images), images, "nodes.present")
        return images, imagefile.read_present(given.get("present", []), images)
    except WrongImage as error:
        raise _error(path, file, error.field, error.message) from error


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


def _pool(path: Path, file: Mapping, at: int, entry: Mapping) -> Pool:
    """Return some nodes of one kind; what a kubelet's configuration may be, the kubelet says."""
    given: Obj = orjson.loads(orjson.dumps(entry))
    try:
        rules(given.get("kubelet", {}))
    except (WrongConfig, TypeError, AttributeError, ValueError) as error:
        raise _error(path, file, f"nodes[{at}].kubelet", str(error)) from error
    images = tuple(map(str, given.pop("present", ())))
    return Pool(
        **{"count": 1, **given, "taints": tuple(given.get("taints", ()))}, images=images, path=path, line=entry.line
    )


def _namespace(path: Path, file: Mapping, at: int, entry: Any) -> Planned:
    """Return a namespace, given by its name or with what else its metadata has."""
    if isinstance(entry, Mapping):
        _check(path, entry, schema()["x-namespace"])
    elif not isinstance(entry, str):
        words = f"a name or a mapping with one is expected, not {entry!r}"
        raise _error(path, file, f"namespaces[{at}]", words)
    metadata = {"name": entry} if isinstance(entry, str) else {"labels": {}, "annotations": {}, **entry}
    line = entry.line if isinstance(entry, Mapping) else file.lines.get("namespaces", 0)
    return Planned(path, line, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def _manifest(path: Path, file: Mapping, at: int, entry: Any) -> list[Planned]:
    """Return the objects of a manifest: one that stands in the file, or those of a file or a folder."""
    if isinstance(entry, Mapping):
        return [*_objects(path, entry)]
    where = f"manifests[{at}]"
    if not isinstance(entry, str):
        raise _error(path, file, where, f"a path or an object is expected, not {entry!r}")
    given = path.parent / entry
    files = sorted(found for found in given.iterdir() if found.suffix in SUFFIXES) if given.is_dir() else [given]
    if not given.exists() or not files:
        raise _error(
            path, file, where, f"{given} is no manifest and no folder of some; give a path relative to this file"
        )
    return [planned for found in files for document in documents(found) for planned in _objects(found, document)]


def _objects(path: Path, document: Any) -> Iterator[Planned]:
    """Yield the objects of a document; a List is taken apart."""
    if not isinstance(document, Mapping):
        raise FileError(path, 1, "an object of Kubernetes is expected, with apiVersion, kind and metadata")
    for error in errors_of(document, schema()["x-object"]):
        raise _error(path, document, error.field, error.detail)
    if document["kind"] == "List":
        for item in document.get("items", ()):
            yield from _objects(path, item)
        return
    if document["kind"] == "Node":
        raise _error(path, document, "kind", "give nodes under nodes:, so that somebody runs their pods")
    yield Planned(path, document.line, document)


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
