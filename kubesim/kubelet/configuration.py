"""A kubelet's configuration: what it is by default, and the file on its node that it reads when it starts."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import yaml

from kubesim.data import parse_sent
from kubesim.errors import Obj
from kubesim.goyaml import to_yaml
from kubesim.kubelet.thresholds import CONFIG, WrongConfig
from kubesim.shell.files import Directory, File, Files, View

FOLDERS, NAME = ("etc", "kubernetes"), "kubelet-config.yaml"
DEFAULTS = CONFIG
NOT_LOADED = (
    "failed to load kubelet config file, path: {path}, error: failed to load Kubelet config file {path}, error {why}"
)
GO_KINDS = {str: "string", int: "number", float: "number", bool: "bool", dict: "object", type(None): "null"}
GO_TYPES = {str: "string", int: "int32", bool: "bool", dict: "map[string]string", list: "[]string"}


def max_pulls(config: Mapping[str, Any]) -> int:
    """Return how many images a kubelet of a configuration pulls at once; 0: any number."""
    whole = {**DEFAULTS, **config}
    return 1 if whole["serializeImagePulls"] else int(whole["maxParallelImagePulls"] or 0)


def text(config: Obj) -> str:
    """Return the file of a configuration."""
    return to_yaml({**DEFAULTS, **config})


def entry(config: Obj) -> Obj:
    """Return the file as what a node's disk is restored from."""
    owner = {"mode": 0o644, "uid": 0, "gid": 0, "mtime": 0.0, "program": "", "platform": ""}
    return {"path": "/".join((*FOLDERS, NAME)), **owner, "file": base64.b64encode(text(config).encode()).decode()}


def read(root: Directory) -> Obj:
    """Return what the file on a node's disk says. Raises ``WrongConfig``."""
    path = f"/{'/'.join((*FOLDERS, NAME))}"
    found = View(Files(root), lambda: 0.0).find(path)
    try:
        if not isinstance(found, File):
            raise WrongConfig(
                f'failed to read kubelet config file "{path}", error: open {path}: no such file or directory'
            )
        if not found.data:
            raise WrongConfig(f'kubelet config file "{path}" was empty')
        return _decoded(bytes(found.data).decode("utf-8", "replace"))
    except WrongConfig as error:
        raise WrongConfig(NOT_LOADED.format(path=path, why=error)) from error


def _decoded(text: str) -> Obj:
    """Return what a file says, its known fields of the right types. Raises ``WrongConfig``."""
    try:
        config = parse_sent(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        line, why = mark.line + 1 if mark else 1, getattr(error, "problem", "") or str(error)
        raise WrongConfig(f"failed to decode: yaml: line {line}: {why}") from error
    if not isinstance(config, dict) or config.get("kind") != DEFAULTS["kind"]:
        raise WrongConfig("failed to decode: Object 'Kind' is missing in the file")
    for name, value in config.items():
        wanted = type(DEFAULTS.get(str(name), value))
        if value is not None and type(value) is not wanted:
            found = f"{GO_KINDS.get(type(value), 'array')} into Go struct field KubeletConfiguration.{name}"
            raise WrongConfig(f"failed to decode: json: cannot unmarshal {found} of type {GO_TYPES[wanted]}")
    return config
