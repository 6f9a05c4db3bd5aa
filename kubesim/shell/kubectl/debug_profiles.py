"""What kubectl debug's profiles make of the container that looks, and of the pod around it."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.shell.kubectl.client import KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags


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
