"""kubectl config: the files that the configuration is in, what they say together, and how they are changed.

Format: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import Any

import yaml

from kubesim.goyaml import to_json, to_yaml
from kubesim.shell.errors import FileError
from kubesim.shell.kubectl import printing
from kubesim.shell.kubectl.client import KubectlError, Obj
from kubesim.shell.kubectl.documents import documents
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.tabs import table
from kubesim.shell.machine import Process

HEAD = ["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"]
PARTS = {"clusters": "cluster", "contexts": "context", "users": "user"}
DATA = ("certificate-authority-data", "client-certificate-data", "client-key-data")
HIDDEN = dict.fromkeys(DATA, "DATA+OMITTED") | {"token": "REDACTED", "password": "REDACTED"}


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


async def view(process: Process, opts: Flags) -> int:
    """Show the configuration."""
    config = load(process, opts)
    config.current = opts.get("context") or config.current
    whole = config.shown(raw=opts.on("raw") or opts.on("flatten"))
    if opts.on("minify"):
        whole = _minified(config, whole)
    form = opts.get("output") or "yaml"
    if form == "yaml":
        await process.write(to_yaml(whole))
    elif form == "json":
        await process.write(to_json(whole))
    else:
        await process.write(printing.formatted(form, whole))
    return 0


def _minified(config: Kubeconfig, whole: Obj) -> Obj:
    if not config.current:
        raise KubectlError("error: current-context must exist in order to minify")
    context = config.parts["contexts"].get(config.current)
    if context is None:
        raise KubectlError(f"error: cannot locate context {config.current}")
    kept = {"contexts": config.current, "clusters": context.get("cluster"), "users": context.get("user")}
    return {
        **whole,
        **{part: [each for each in whole[part] or [] if each["name"] == kept[part]] or None for part in PARTS},
    }


async def current_context(process: Process, opts: Flags) -> int:
    """Name the current context."""
    found = load(process, opts).current
    if not found:
        raise KubectlError("error: current-context is not set")
    await process.write(found + "\n")
    return 0


async def get_contexts(process: Process, opts: Flags) -> int:
    """List the contexts, or those that are named."""
    config = load(process, opts)
    known = config.parts["contexts"]
    wanted = sorted(opts.args or known)
    if opts.get("output") == "name":
        await process.write("".join(f"{name}\n" for name in wanted if name in known))
        return 0
    rows = [] if opts.on("no-headers") else [HEAD]
    for name in wanted:
        if name in known:
            inner = known[name]
            mark = "*" if name == config.current else ""
            rows.append([mark, name, *(str(inner.get(key) or "") for key in ("cluster", "user", "namespace"))])
    await process.write(table(rows))
    missing = [f"error: context {name} not found\n" for name in wanted if name not in known]
    await process.flush()
    await process.error("".join(missing))
    return int(bool(missing))


async def use_context(process: Process, opts: Flags) -> int:
    """Choose a context."""
    name = _one(opts)
    config = load(process, opts)
    if name not in config.parts["contexts"]:
        raise KubectlError(f'error: no context exists with the name: "{name}"')
    config.current = name
    save(process, config)
    await process.write(f'Switched to context "{name}".\n')
    return 0


def _one(opts: Flags) -> str:
    if len(opts.args) != 1:
        raise KubectlError(f"error: Unexpected args: [{' '.join(opts.args)}]")
    return opts.args[0]


async def set_context(process: Process, opts: Flags) -> int:
    """Make a context, or change one."""
    config = load(process, opts)
    if opts.on("current"):
        name = config.current
        if not name:
            raise KubectlError("error: no current context is set")
    else:
        if not opts.args:
            raise KubectlError("error: you must specify a non-empty context name or --current")
        name = _one(opts)
    known = name in config.parts["contexts"]
    inner = config.parts["contexts"].setdefault(name, {"cluster": "", "user": ""})
    inner |= {key: opts.get(key) for key in ("cluster", "user", "namespace") if key in opts}
    save(process, config)
    await process.write(f'Context "{name}" {"modified" if known else "created"}.\n')
    return 0
