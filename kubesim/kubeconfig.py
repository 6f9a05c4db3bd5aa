"""Makes kubeconfigs, and writes them into files that may hold others."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import yaml

from kubesim import data
from kubesim.errors import Obj
from kubesim.pki import write_private

LISTS = ("clusters", "users", "contexts")


def server_url(host: str, port: int) -> str:
    """Return the address of a server; an IPv6 address gets its brackets."""
    shown = f"[{host}]" if ":" in host else host
    return f"https://{shown}:{port}"


def render(*, name: str, server: str, ca_pem: bytes, user: str, token: str, namespace: str = "default") -> str:
    """Return a kubeconfig with one cluster, one user and one context, as YAML."""
    cluster = {"certificate-authority-data": base64.b64encode(ca_pem).decode(), "server": server}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": namespace}}],
        "current-context": name,
        "preferences": {},
    }
    return data.dump(document)


class KubeconfigError(Exception):
    """A file that cannot take a cluster in; the message says why and what to do."""


def write(path: Path, rendered: str) -> None:
    """Write what ``render`` returned: 0600, never half, and beside what a kubeconfig of that name holds already.

    The same cluster, user and context of an earlier run are replaced. The lock is the one that kubectl takes.
    Raises KubeconfigError, and OSError.
    """
    path = path.resolve()  # where it is a link, the file that it points to is replaced
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(path.name + ".lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError as error:
        message = f"{lock} exists: another program is writing {path}; try again, or remove it where none is"
        raise KubeconfigError(message) from error
    try:
        write_private(path, _merged(path, data.parse(rendered)).encode())
    finally:
        lock.unlink()


def _merged(path: Path, ours: Obj) -> str:
    """Return a kubeconfig with everything of the file, and ours as its current context; raises KubeconfigError."""
    try:
        theirs = data.parse(path.read_bytes()) or {}
        if theirs.get("kind", "Config") != "Config":
            raise ValueError(theirs["kind"])
        for name in LISTS:
            own = {entry["name"] for entry in ours[name]}
            ours[name] = [entry for entry in theirs.get(name) or () if entry.get("name") not in own] + ours[name]
    except FileNotFoundError:
        theirs = {}
    except (yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        message = f"{path} holds something else than a kubeconfig; choose another file with --kubeconfig"
        raise KubeconfigError(message) from error
    return data.dump(theirs | ours)
