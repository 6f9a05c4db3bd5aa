"""A kubelet's configuration: what it is by default, and the file on its node that it reads when it starts."""

from __future__ import annotations

import base64
from typing import Any

import yaml

from kubesim.errors import Obj
from kubesim.goyaml import to_yaml
from kubesim.kubelet import thresholds, timings
from kubesim.kubelet.thresholds import WrongConfig
from kubesim.network.dns import DOMAIN
from kubesim.shell.files import Directory, File

FOLDERS, NAME = ("etc", "kubernetes"), "kubelet-config.yaml"
DEFAULTS: dict[str, Any] = {
    "kind": "KubeletConfiguration",
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "maxPods": 110,
    "clusterDomain": DOMAIN,
    "nodeStatusUpdateFrequency": "10s",
    "nodeStatusReportFrequency": f"{timings.STATUS_REPORT_S / 60:.0f}m0s",
    "nodeLeaseDurationSeconds": timings.LEASE_S,
    "containerLogMaxSize": "10Mi",
    "containerLogMaxFiles": 5,
    **thresholds.CONFIG,
}


def text(config: Obj) -> str:
    """Return the file of a configuration."""
    return to_yaml({**DEFAULTS, **config})


def entry(config: Obj) -> Obj:
    """Return the file as what a node's disk is restored from."""
    owner = {"mode": 0o644, "uid": 0, "gid": 0, "mtime": 0.0, "program": "", "platform": ""}
    return {"path": "/".join((*FOLDERS, NAME)), **owner, "file": base64.b64encode(text(config).encode()).decode()}


def read(root: Directory) -> Obj:
    """Return what the file on a node's disk says. Raises ``WrongConfig``."""
    found: object = root
    for name in (*FOLDERS, NAME):
        found = found.get(name) if isinstance(found, Directory) else None
    if not isinstance(found, File):
        raise WrongConfig(f"open /{'/'.join((*FOLDERS, NAME))}: no such file or directory")
    try:
        config = yaml.safe_load(bytes(found.data).decode("utf-8", "replace"))
    except (yaml.YAMLError, RecursionError) as error:
        raise WrongConfig(f"error converting YAML to JSON: {error}") from error
    if not isinstance(config, dict) or config.get("kind") != DEFAULTS["kind"]:
        raise WrongConfig("Object 'Kind' is missing or no KubeletConfiguration")
    return config
