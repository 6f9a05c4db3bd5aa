"""What kubectl debug's profiles make of the container that looks, and of the pod around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from kubesim.api.patch import strategic_patch
from kubesim.errors import ApiError
from kubesim.schema.kinds import registry
from kubesim.shell.errors import FileError
from kubesim.shell.kubectl.client import KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.machine import Process


@dataclass(frozen=True)
class Profile:
    """A container's rights, added to those it has unless these are cleared, and what a pod on a node shares."""

    security: Obj | None = None
    capabilities: tuple[str, ...] = ()
    cleared: bool = False
    on_host: bool = False
    """Whether a node's pod is in the node's namespaces."""
    sees_disk: bool = False
    legacy: bool = False
    """Whether a copy keeps all but its labels."""


PROFILES = {
    "legacy": Profile(on_host=True, sees_disk=True, legacy=True),
    "general": Profile(capabilities=("SYS_PTRACE",), on_host=True, sees_disk=True),
    "baseline": Profile(cleared=True),
    "restricted": Profile(
        security={
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        cleared=True,
    ),
    "netadmin": Profile(capabilities=("NET_ADMIN", "NET_RAW"), on_host=True),
    "sysadmin": Profile(security={"privileged": True}, on_host=True, sees_disk=True),
}
PROBES = {"keep-liveness": "livenessProbe", "keep-readiness": "readinessProbe", "keep-startup": "startupProbe"}
NOT_CUSTOM = ("name", "command", "image", "lifecycle", "volumeDevices")


def named(opts: Flags) -> Profile:
    """Return the profile that is asked for. Raises KubectlError."""
    name = opts.get("profile") or "legacy"
    if name not in PROFILES:
        raise KubectlError(f"error: unknown profile: {name}")
    return PROFILES[name]


def granted(profile: Profile, container: Obj, *, on_node: bool = False) -> None:
    """Give a container the rights of a profile."""
    if profile.cleared or on_node and profile is PROFILES["general"]:
        container.pop("securityContext", None)
    security = dict(container.get("securityContext") or {}) | (profile.security or {})
    if profile.capabilities and not (on_node and profile is PROFILES["general"]):
        known = dict(security.get("capabilities") or {})
        security["capabilities"] = {**known, "add": [*(known.get("add") or []), *profile.capabilities]}
    if security:
        container["securityContext"] = security


def on_host(profile: Profile, spec: Obj) -> None:
    """Let a node's pod see the node."""
    if profile.sees_disk:
        spec["volumes"] = [{"name": "host-root", "hostPath": {"path": "/"}}]
        spec["containers"][0]["volumeMounts"] = [{"name": "host-root", "mountPath": "/host"}]
    if profile.on_host:
        spec |= {"hostNetwork": True, "hostPID": True, "hostIPC": True}


def stripped(profile: Profile, opts: Flags, pod: Obj) -> None:
    """Take from a copy what would let others mistake it for the original."""
    metadata, spec = pod["metadata"], pod["spec"]
    if profile.legacy or not opts.on("keep-labels"):
        metadata.pop("labels", None)
    if profile.legacy:
        return
    if not opts.on("keep-annotations"):
        metadata.pop("annotations", None)
    for flag, probe in PROBES.items():
        for container in spec["containers"]:
            if not opts.on(flag):
                container.pop(probe, None)
    if not opts.on("keep-init-containers", True):
        spec.pop("initContainers", None)
    spec.setdefault("shareProcessNamespace", True)


def custom(process: Process, opts: Flags) -> Obj | None:
    """Return the part of a container that a file brings. Raises KubectlError."""
    path = opts.get("custom")
    if not path:
        return None
    try:
        found: Any = yaml.safe_load(process.view.read(path).decode("utf-8", "replace"))
    except FileError as error:
        reason = f"open {path}: {error.text.lower()}"
        raise KubectlError(f"error: must pass a container spec json file for custom profile: {reason}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        text = str(getattr(error, "problem", "") or error).splitlines()[0]
        raise KubectlError(f"error: {path} does not contain a valid container spec: {text}") from error
    if not isinstance(found, dict):
        raise KubectlError(f"error: {path} does not contain a valid container spec: no mapping")
    return found


def check_custom(part: Obj | None) -> None:
    """Refuse what a file must not change. Raises KubectlError."""
    if part and any(part.get(key) for key in NOT_CUSTOM):
        raise KubectlError(
            "error: name, command, image, lifecycle and volume devices are not modifiable via custom profile"
        )


def customised(part: Obj | None, container: Obj) -> Obj:
    """Return a container with what a file brings. Raises KubectlError."""
    if not part:
        return container
    pod = registry.by_kind("v1", "Pod").shape
    inner = pod.field("spec") if pod else None
    spec = inner.shape if inner else None
    listed = spec.field("containers") if spec else None
    try:
        return strategic_patch(container, part, listed.shape if listed else None)
    except ApiError as error:
        raise KubectlError(
            f"error: error creating three way patch to add debug container: {error.message}"
        ) from error
