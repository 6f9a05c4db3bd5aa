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
_SYSTEM = ("/bin", "/lib", "/lib64", "/sbin", "/usr")


def programs(workload: Any, image: Any, folders: Any, maps: Any) -> list[list[str]]:
    """Return the command lines of the containers that run what their words say, of a pod or a pod template.

    Such a container has the image, and in each of ``folders`` the config map of that name and nothing else. Nothing
    is mounted over the system's own files, no hook runs beside it, and no variable, its own or one of ``maps``, leads
    elsewhere. Variables of maps that are not at hand could be anything.
    """
    spec = dig(workload, "spec.template.spec", None) or dig(workload, "spec", {})
    wanted = {_path(path): str(name) for path, name in folders.items()} if isinstance(folders, Mapping) else {}
    volumes = {str(dig(volume, "name", "")): volume for volume in rows(spec, "volumes")}
    return [
        _words(container)
        for container in rows(spec, "containers")
        if dig(container, "image", "") == image
        and not dig(container, "lifecycle.postStart", {})
        and _has_its_folders(container, volumes, wanted)
        and not _is_redirected(container, maps if isinstance(maps, list) else [])
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


def _has_its_folders(container: Any, volumes: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    mounts = [(_path(dig(mount, "mountPath", "")), mount) for mount in rows(container, "volumeMounts")]
    found = {path for path, mount in mounts if path in wanted and _shows(mount, volumes, wanted[path])}
    return found == set(wanted) and not any(
        _covers(path, [*_SYSTEM, *wanted]) for path, _ in mounts if path not in found
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


def _is_redirected(container: Any, maps: list[Any]) -> bool:
    by_name = {str(dig(obj, "metadata.name", "")): texts(obj, "data") for obj in maps}
    names = {str(dig(row, "name", "")) for row in rows(container, "env")}
    for source in rows(container, "envFrom"):
        data = by_name.get(str(dig(source, "configMapRef.name", "")))
        if data is None:
            return True
        names |= {str(dig(source, "prefix", "")) + key for key in data}
    return bool(names & _REDIRECTING)
