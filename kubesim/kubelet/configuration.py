"""A kubelet's configuration: what it is by default, and the file on its node that it reads when it starts."""

from __future__ import annotations

import base64
import json
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
GO_HEAD = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
SAID = {
    "mapping values are not allowed here": "mapping values are not allowed in this context",
    "found character '\\t' that cannot start any token": "found character that cannot start any token",
}
"""What Go's YAML says otherwise."""
MORE: dict[str, type] = {
    "evictionSoft": dict,
    "evictionSoftGracePeriod": dict,
    "evictionMinimumReclaim": dict,
    "evictionMaxPodGracePeriod": int,
    "clusterDNS": list,
}
TYPES = {name: type(value) for name, value in DEFAULTS.items()} | MORE
"""Field -> its type."""


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
        line = error.problem_mark.line + 1 if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark else 1
        told = "exceeded max depth" if isinstance(error, RecursionError) else str(error)
        trouble = (error.problem or "") if isinstance(error, yaml.MarkedYAMLError) else told
        raise WrongConfig(f"failed to decode: yaml: line {line}: {SAID.get(trouble, trouble)}") from error
    if not isinstance(config, dict):
        kind = GO_KINDS.get(type(config), "array")
        text = "couldn't get version/kind; json parse error: json: cannot unmarshal"
        raise WrongConfig(f"failed to decode: {text} {kind} into Go value of type {GO_HEAD}")
    if not config.get("kind"):
        raise WrongConfig(f"failed to decode: Object 'Kind' is missing in '{_json(config)}'")
    if config["kind"] != DEFAULTS["kind"]:
        text = f'no kind "{config["kind"]}" is registered for version "{config.get("apiVersion", "")}" in scheme'
        raise WrongConfig(f'failed to decode: {text} "k8s.io/kubernetes/pkg/kubelet/apis/config/scheme/scheme.go:33"')
    for name, value in config.items():
        _check_type(str(name), value)
    return config


def _json(config: Obj) -> str:
    """Return what somebody has written as JSON, in which keys that are no texts become some."""
    try:
        return json.dumps(config, default=str, skipkeys=True, separators=(",", ":"), ensure_ascii=False)
    except RecursionError:
        return "{}"


def _check_type(name: str, value: object) -> None:
    """Raise ``WrongConfig`` where a known field is of another type than it has to be."""
    wanted = TYPES.get(name)
    if wanted is None or value is None:
        return
    inner, text = [value], GO_TYPES[wanted]
    if wanted in (dict, list) and isinstance(value, wanted):
        inner, wanted, text = [*(value.values() if isinstance(value, dict) else value)], str, "string"
    for each in inner:
        if type(each) is not wanted:
            found = GO_KINDS.get(type(each), "array")
            field = f"KubeletConfiguration.{name}"
            raise WrongConfig(
                f"failed to decode: json: cannot unmarshal {found} into Go struct field {field} of type {text}"
            )
