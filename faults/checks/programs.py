"""Programs of containers: whose command lines can be believed, since image, files and environment are as expected.

A command line alone proves nothing: ``python /work/train.py`` runs whatever lies there, on whatever is called python.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping
from typing import Any

from faults.checks.lookups import dig, rows, texts

_REDIRECTING = frozenset(
    {"LD_AUDIT", "LD_PRELOAD", "PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE"}
)
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_SYSTEM = ("/bin", "/lib", "/lib64", "/sbin", "/usr")


def programs(workload: Any, image: Any, folders: Any, maps: Any) -> list[list[str]]:
    """Return the command lines of the containers that run what their words say, of a pod or a pod template.

    Such a container has the image, and in each of ``folders`` the config map of that name. Nothing is mounted over
    the system's own files, or over one of the map's; below its folder only what begins empty and nothing else fills.
    No hook runs beside it, and no variable, its own or one of ``maps``, leads elsewhere. Variables and files of maps
    that are not at hand could be anything.
    """
    spec = dig(workload, "spec.template.spec", None) or dig(workload, "spec", {})
    wanted = {_path(path): str(name) for path, name in folders.items()} if isinstance(folders, Mapping) else {}
    known = maps if isinstance(maps, list) else []
    return [
        _words(container)
        for container in rows(spec, "containers")
        if dig(container, "image", "") == image
        and not dig(container, "lifecycle.postStart", {})
        and _has_its_folders(container, spec, wanted, known)
        and not _is_redirected(container, known)
    ]


def owned_by(obj: Any, owner: Any) -> bool:
    """Return whether an object belongs to another one, as the pods of a job do."""
    uid = dig(owner, "metadata.uid", "")
    return bool(uid) and any(dig(row, "uid", "") == uid for row in rows(obj, "metadata.ownerReferences"))


def digest(text: Any) -> str:
    """Return what stands for a text: the first 16 characters of its SHA-256."""
    return hashlib.sha256(str(text).encode("utf-8", "replace")).hexdigest()[:16]


def _words(container: Any) -> list[str]:
    return [str(word) for word in rows(container, "command") + rows(container, "args")]


def _path(path: Any) -> str:
    return posixpath.normpath("/" + str(path).lstrip("/"))


def _has_its_folders(container: Any, spec: Any, wanted: Mapping[str, str], maps: list[Any]) -> bool:
    volumes = {str(dig(volume, "name", "")): volume for volume in rows(spec, "volumes")}
    mounts = [(_path(dig(mount, "mountPath", "")), mount) for mount in rows(container, "volumeMounts")]
    found = [(path, mount) for path, mount in mounts if path in wanted and _shows(mount, volumes, wanted[path])]
    others = [row for row in mounts if row not in found]  # such as one at the same path, written with a slash more
    return {path for path, _ in found} == set(wanted) and not any(
        _covers(path, [*_SYSTEM, *wanted])
        and not (_hides_no_file(path, wanted, maps) and _stays_empty(mount, container, spec, volumes))
        for path, mount in others
    )


def _shows(mount: Any, volumes: Mapping[str, Any], name: str) -> bool:
    """Whether a mount is the whole of a config map, each file under its own name."""
    source = dig(volumes.get(str(dig(mount, "name", ""))), "configMap", {})
    whole = not dig(mount, "subPath", "") and not dig(mount, "subPathExpr", "")
    renamed = any(dig(item, "key", "") != dig(item, "path", None) for item in rows(source, "items"))
    return whole and not renamed and bool(name) and dig(source, "name", "") == name


def _covers(path: str, folders: list[str]) -> bool:
    """Whether something mounted there hides a part of one of the folders."""
    return any(path == "/" or f"{path}/".startswith(f"{own}/") or f"{own}/".startswith(f"{path}/") for own in folders)


def _hides_no_file(path: str, wanted: Mapping[str, str], maps: list[Any]) -> bool:
    """Whether a mount lies below one of the folders, and no file of its config map lies there.

    The files of the image below the system's folders are not known, nor those of a map that is not at hand.
    """
    for folder, name in wanted.items():
        if path.startswith(f"{folder}/"):
            files = [_files(obj) for obj in maps if dig(obj, "metadata.name", "") == name]
            return len(files) == 1 and path.removeprefix(f"{folder}/").partition("/")[0] not in files[0]
    return False


def _files(config_map: Any) -> set[str]:
    return {*texts(config_map, "data"), *texts(config_map, "binaryData")}


def _stays_empty(mount: Any, container: Any, spec: Any, volumes: Mapping[str, Any]) -> bool:
    """Whether nothing but the program writes there: a module beside its file would be found before Python's own."""
    name = str(dig(mount, "name", ""))
    others = [row for kind in _CONTAINERS for row in rows(spec, kind) if row is not container]
    users = [row for other in others for row in rows(other, "volumeMounts") if dig(row, "name", "") == name]
    return isinstance(dig(volumes.get(name), "emptyDir", None), Mapping) and all(
        dig(row, "readOnly", False) is True for row in users
    )


def _is_redirected(container: Any, maps: list[Any]) -> bool:
    by_name = {str(dig(obj, "metadata.name", "")): texts(obj, "data") for obj in maps}
    names = {str(dig(row, "name", "")) for row in rows(container, "env")}
    for source in rows(container, "envFrom"):
        data = by_name.get(str(dig(source, "configMapRef.name", "")))
        if data is None:
            return True
        names |= {str(dig(source, "prefix", "")) + key for key in data}
    return bool(names & _REDIRECTING)
