"""The files that kubectl's configuration is in: what they say together, and how they are changed.

Format: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import Any

import yaml

from kubesim.shell.errors import FileError
from kubesim.shell.kubectl.client import KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.texts import to_yaml
from kubesim.shell.machine import Process
from kubesim.shell.tools.jq import documents

PARTS = {"clusters": "cluster", "contexts": "context", "users": "user"}
HIDDEN = {
    "certificate-authority-data": "DATA+OMITTED",
    "client-certificate-data": "DATA+OMITTED",
    "client-key-data": "DATA+OMITTED",
    "token": "REDACTED",
    "password": "REDACTED",
}


@dataclass
class Kubeconfig:
    """A configuration: clusters, users and contexts by name, and which context is in force."""

    path: str = ""
    current: str = ""
    parts: dict[str, dict[str, Obj]] = field(default_factory=lambda: {part: {} for part in PARTS})

    @property
    def context(self) -> Obj:
        """The context in force; empty where there is none."""
        return self.parts["contexts"].get(self.current, {})

    def shown(self, *, raw: bool) -> Obj:
        """Return the configuration as an object, its secrets hidden unless it is ``raw``."""
        whole: Obj = {"kind": "Config", "apiVersion": "v1"}
        for part in ("clusters", "users", "contexts"):
            entries = [
                {"name": name, PARTS[part]: inner if raw else _redacted(inner)}
                for name, inner in sorted(self.parts[part].items())
            ]
            whole[part] = entries or None
        return {**whole, "current-context": self.current}


def _redacted(inner: Obj) -> Obj:
    return {key: HIDDEN.get(key, value) for key, value in inner.items()}


def paths(process: Process, opts: Flags) -> list[str]:
    """Return the files that the configuration is in, the first of which is written."""
    if opts.get("kubeconfig"):
        return [opts.get("kubeconfig")]
    named = [each for each in process.env.get("KUBECONFIG", "").split(":") if each]
    return named or [posixpath.join(process.env.get("HOME", "/root"), ".kube/config")]


def load(process: Process, opts: Flags) -> Kubeconfig:
    """Return what the files say, the first one's word for each name. Raises KubectlError."""
    found = Kubeconfig()
    files = paths(process, opts)
    for path in reversed(files):
        one = _read(process, path)
        found.current = one.current or found.current
        for part, entries in one.parts.items():
            found.parts[part] |= entries
    found.path = files[0]
    return found


def _read(process: Process, path: str) -> Kubeconfig:
    found = Kubeconfig(path)
    if process.view.find(path) is None:
        return found
    try:
        whole = next(iter(documents(process.view.read(path).decode("utf-8", "replace"))), None) or {}
    except FileError as error:
        raise KubectlError(f'error: error loading config file "{path}": open {path}: {error.text.lower()}') from error
    except (yaml.YAMLError, ValueError) as error:
        reason = f"couldn't get version/kind; json parse error: {str(error).splitlines()[0]}"
        raise KubectlError(f'error: error loading config file "{path}": {reason}') from error
    if not isinstance(whole, dict):
        raise KubectlError(f'error: error loading config file "{path}": couldn\'t get version/kind')
    found.current = str(whole.get("current-context") or "")
    for part, inner in PARTS.items():
        entries: list[Any] = whole.get(part) or []
        for each in entries:
            if isinstance(each, dict) and isinstance(each.get(inner) or {}, dict):
                found.parts[part][str(each.get("name", ""))] = _whole(part, each.get(inner) or {})
    return found


def _whole(part: str, inner: Obj) -> Obj:
    """Return an entry; of a context, and of a cluster, some fields are shown even when they are empty."""
    required = {"contexts": ("cluster", "user"), "clusters": ("server",)}.get(part, ())
    return {**dict.fromkeys(required, ""), **inner}


def save(process: Process, config: Kubeconfig) -> None:
    """Write a configuration. Raises KubectlError."""
    try:
        folder = posixpath.dirname(config.path)
        if folder and process.view.find(folder) is None:
            process.view.mkdir(folder)
        process.view.write(config.path, to_yaml(config.shown(raw=True)).encode())
    except FileError as error:
        raise KubectlError(f"error: open {config.path}: {error.text.lower()}") from error
