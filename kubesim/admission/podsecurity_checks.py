"""The Pod Security Standards as data: what each level forbids, in upstream's words and order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kubesim import data
from kubesim.errors import Obj

NEWEST = 10_001
Violation = tuple[str, str]
"""What is forbidden, and where it is done."""
HOST_FLAGS = ("hostNetwork", "hostPID", "hostIPC")
_SAFE: dict[str, Any] = data.table(__file__, "podsecurity.yaml")
SAFE_CAPABILITIES, SAFE_VOLUMES, SAFE_LABELS = (
    frozenset(_SAFE[name]) for name in ("capabilities", "volumes", "selinux types")
)
SAFE_SYSCTLS: dict[int, list[str]] = _SAFE["sysctls"]
SAFE_PROFILES = ("RuntimeDefault", "Localhost")
APPARMOR_NOTE = "container.apparmor.security.beta.kubernetes.io/"
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HOOKS = ("postStart", "preStop")


def context(holder: Obj, *path: str) -> Any:
    """Return what a pod or container sets in its securityContext, or None."""
    value: Any = holder.get("securityContext")
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def containers(spec: Obj) -> list[Obj]:
    """Return all containers, in the order in which upstream visits them."""
    return [c for group in ("initContainers", "containers", "ephemeralContainers") for c in spec.get(group) or ()]


def quoted(names: Iterable[str]) -> str:
    """Return ``"a", "b"``."""
    return ", ".join(f'"{name}"' for name in names)


def plural(word: str, names: list[str]) -> str:
    """Return ``container "a"`` or ``containers "a", "b"``."""
    return f"{word}{'s' if len(names) > 1 else ''} {quoted(names)}"


def named(spec: Obj, bad: Callable[[Obj], object]) -> list[str]:
    """Return the names of the containers of which something is true."""
    return [container["name"] for container in containers(spec) if bad(container)]


def setters(spec: Obj, path: tuple[str, ...], bad: Callable[[Any], bool]) -> list[str]:
    """Return who sets something bad in a securityContext: the pod, containers."""
    found = ["pod"] if bad(context(spec, *path)) else []
    names = named(spec, lambda container: bad(context(container, *path)))
    return [*found, *([plural("container", names)] if names else [])]


def host_namespaces(pod: Obj, spec: Obj) -> Violation | None:
    flags = [f"{flag}=true" for flag in HOST_FLAGS if spec.get(flag)]
    return ("host namespaces", ", ".join(flags)) if flags else None


def privileged(pod: Obj, spec: Obj) -> Violation | None:
    names = named(spec, lambda c: context(c, "privileged"))
    return (
        ("privileged", f"{plural('container', names)} must not set securityContext.privileged=true")
        if names
        else None
    )


def capabilities_baseline(pod: Obj, spec: Obj) -> Violation | None:
    def bad(container: Obj) -> set[str]:
        return set(context(container, "capabilities", "add") or ()) - SAFE_CAPABILITIES

    names = named(spec, bad)
    caps = sorted(set().union(*(bad(c) for c in containers(spec))))
    where = f"{plural('container', names)} must not include {quoted(caps)} in securityContext.capabilities.add"
    return ("non-default capabilities", where) if names else None


def capabilities_restricted(pod: Obj, spec: Obj) -> Violation | None:
    def adding(container: Obj) -> set[str]:
        return set(context(container, "capabilities", "add") or ()) - {"NET_BIND_SERVICE"}

    lacking = named(spec, lambda c: "ALL" not in (context(c, "capabilities", "drop") or ()))
    names, caps = named(spec, adding), sorted(set().union(*(adding(c) for c in containers(spec))))
    parts = [f'{plural("container", lacking)} must set securityContext.capabilities.drop=["ALL"]'] if lacking else []
    if names:
        text = f"{plural('container', names)} must not include {quoted(caps)} in securityContext.capabilities.add"
        parts.append(text)
    return ("unrestricted capabilities", "; ".join(parts)) if parts else None


def host_path(pod: Obj, spec: Obj) -> Violation | None:
    names = [volume["name"] for volume in spec.get("volumes") or () if "hostPath" in volume]
    return ("hostPath volumes", plural("volume", names)) if names else None


def restricted_volumes(pod: Obj, spec: Obj) -> Violation | None:
    bad = [(v["name"], kind) for v in spec.get("volumes") or () for kind in v if kind not in SAFE_VOLUMES]
    if not bad:
        return None
    names, kinds = [name for name, _ in bad], sorted({kind for _, kind in bad})
    verb, many = ("use" if len(names) > 1 else "uses"), ("s" if len(kinds) > 1 else "")
    where = f"{plural('volume', names)} {verb} restricted volume type{many} {quoted(kinds)}"
    return "restricted volume types", where


def host_ports(pod: Obj, spec: Obj) -> Violation | None:
    def ports(container: Obj) -> list[int]:
        return [port["hostPort"] for port in container.get("ports") or () if port.get("hostPort")]

    names, found = named(spec, ports), sorted({port for c in containers(spec) for port in ports(c)})
    if not names:
        return None
    verb, many = ("use" if len(names) > 1 else "uses"), ("s" if len(found) > 1 else "")
    return "hostPort", f"{plural('container', names)} {verb} hostPort{many} {', '.join(map(str, found))}"


def host_probes(pod: Obj, spec: Obj) -> Violation | None:
    def hosts(container: Obj) -> list[str]:
        handlers = [container.get(probe) or {} for probe in PROBES]
        handlers += [(container.get("lifecycle") or {}).get(hook) or {} for hook in HOOKS]
        actions = [handler.get(way) or {} for handler in handlers for way in ("httpGet", "tcpSocket")]
        return [action["host"] for action in actions if action.get("host")]

    names, found = named(spec, hosts), sorted({host for c in containers(spec) for host in hosts(c)})
    if not names:
        return None
    verb, many = ("use" if len(names) > 1 else "uses"), ("s" if len(found) > 1 else "")
    return (
        "probe or lifecycle host",
        f"{plural('container', names)} {verb} probe or lifecycle host{many} {quoted(found)}",
    )


def app_armor(pod: Obj, spec: Obj) -> Violation | None:
    def bad(profile: Any) -> bool:
        return isinstance(profile, str) and profile not in SAFE_PROFILES

    who = setters(spec, ("appArmorProfile", "type"), bad)
    notes = [
        f'{key}="{value}"'
        for key, value in (pod.get("metadata", {}).get("annotations") or {}).items()
        if key.startswith(APPARMOR_NOTE) and not (value in ("", "runtime/default") or value.startswith("localhost/"))
    ]
    if not who and not notes:
        return None
    values = ["Unconfined"] if who else []
    subjects = [*who, *([f"annotation{'s' if len(notes) > 1 else ''}"] if notes else [])]
    many = "s" if len(values) + len(notes) > 1 and not who else ""
    return "forbidden AppArmor profiles" if len(values) + len(notes) > 1 else "forbidden AppArmor profile", (
        f"{' and '.join(subjects)} must not set AppArmor profile type{many} to {quoted([*values, *notes])}"
    )


def se_linux(pod: Obj, spec: Obj) -> Violation | None:
    holders = [spec, *containers(spec)]
    options = [context(holder, "seLinuxOptions") or {} for holder in holders]
    kinds = [o["type"] for o in options if o.get("type", "") not in SAFE_LABELS]
    who = setters(spec, ("seLinuxOptions",), lambda o: bool(o) and _labelled(o))
    if not who:
        return None
    bad = [f"type{'s' if len(set(kinds)) > 1 else ''} {quoted(sorted(set(kinds)))}"] if kinds else []
    bad += ["user may not be set"] if any(o.get("user") for o in options) else []
    bad += ["role may not be set"] if any(o.get("role") for o in options) else []
    return "seLinuxOptions", f"{' and '.join(who)} set forbidden securityContext.seLinuxOptions: {'; '.join(bad)}"


def _labelled(options: Obj) -> bool:
    return options.get("type", "") not in SAFE_LABELS or bool(options.get("user")) or bool(options.get("role"))


def proc_mount(pod: Obj, spec: Obj) -> Violation | None:
    def bad(container: Obj) -> bool:
        return context(container, "procMount") not in (None, "Default")

    names = named(spec, bad)
    kinds = sorted({context(c, "procMount") for c in containers(spec) if bad(c)})
    where = f"{plural('container', names)} must not set securityContext.procMount to {quoted(kinds)}"
    return ("procMount", where) if names else None


def seccomp_baseline(pod: Obj, spec: Obj) -> Violation | None:
    who = setters(spec, ("seccompProfile", "type"), lambda kind: kind == "Unconfined")
    where = f'{" and ".join(who)} must not set securityContext.seccompProfile.type to "Unconfined"'
    return ("seccompProfile", where) if who else None


def seccomp_restricted(pod: Obj, spec: Obj) -> Violation | None:
    bad = seccomp_baseline(pod, spec)
    if bad is not None:
        return bad
    if context(spec, "seccompProfile", "type") in SAFE_PROFILES:
        return None
    names = named(spec, lambda c: context(c, "seccompProfile", "type") not in SAFE_PROFILES)
    who = f"pod or {plural('container', names)}"
    choice = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return ("seccompProfile", f"{who} {choice}") if names else None


def sysctls(minor: int) -> Callable[[Obj, Obj], Violation | None]:
    """Return the control of a minor version."""
    safe = {name for since, names in SAFE_SYSCTLS.items() if since <= minor for name in names}

    def find(pod: Obj, spec: Obj) -> Violation | None:
        names = [entry["name"] for entry in context(spec, "sysctls") or () if entry["name"] not in safe]
        return ("forbidden sysctls", ", ".join(names)) if names else None

    return find


def host_process(pod: Obj, spec: Obj) -> Violation | None:
    who = setters(spec, ("windowsOptions", "hostProcess"), bool)
    where = f"{' and '.join(who)} must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", where) if who else None


def privilege_escalation(pod: Obj, spec: Obj) -> Violation | None:
    names = named(spec, lambda c: context(c, "allowPrivilegeEscalation") is not False)
    where = f"{plural('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return ("allowPrivilegeEscalation != false", where) if names else None


def run_as_non_root(pod: Obj, spec: Obj) -> Violation | None:
    who = setters(spec, ("runAsNonRoot",), lambda value: value is False)
    if who:
        return "runAsNonRoot != true", f"{' and '.join(who)} must not set securityContext.runAsNonRoot=false"
    names = named(spec, lambda c: context(c, "runAsNonRoot") is None)
    if context(spec, "runAsNonRoot") or not names:
        return None
    return "runAsNonRoot != true", f"pod or {plural('container', names)} must set securityContext.runAsNonRoot=true"


def run_as_user(pod: Obj, spec: Obj) -> Violation | None:
    who = setters(spec, ("runAsUser",), lambda value: value == 0)
    return ("runAsUser=0", f"{' and '.join(who)} must not set runAsUser=0") if who else None


@dataclass(frozen=True, slots=True)
class Check:
    """One control of a level, from which minor version on it exists, and the baseline control that it replaces."""

    find: Callable[[Obj, Obj], Violation | None]
    since: int = 0
    until: int = NEWEST
    instead_of: Callable[[Obj, Obj], Violation | None] | None = None
    linux: int = NEWEST
    """From which minor version on it is no concern of pods for Windows."""


BASELINE = (
    Check(app_armor), Check(capabilities_baseline), Check(host_namespaces), Check(host_path), Check(host_ports),
    Check(host_probes, since=34), Check(privileged), Check(proc_mount), Check(se_linux),
    Check(seccomp_baseline, since=19),
    *(Check(sysctls(minor), minor, until) for minor, until in ((0, 27), (27, 29), (29, 32), (32, NEWEST))),
    Check(host_process),
)  # fmt: skip
RESTRICTED = (
    Check(privilege_escalation, since=8, linux=25),
    Check(capabilities_restricted, since=22, instead_of=capabilities_baseline, linux=25),
    Check(restricted_volumes, instead_of=host_path), Check(run_as_non_root), Check(run_as_user, since=23),
    Check(seccomp_restricted, since=19, instead_of=seccomp_baseline, linux=25),
)  # fmt: skip


def violations(level: str, minor: int, pod: Obj, spec: Obj) -> list[Violation]:
    """Return what a pod does that ``level`` of version 1.``minor`` forbids."""
    if level == "privileged":
        return []
    stricter = [check for check in RESTRICTED if level == "restricted" and check.since <= minor < check.until]
    replaced = {check.instead_of for check in stricter}
    usual = [check for check in BASELINE if check.since <= minor < check.until and check.find not in replaced]
    windows = (spec.get("os") or {}).get("name") == "windows"
    found = (check.find(pod, spec) for check in (*usual, *stricter) if not (windows and check.linux <= minor))
    return [violation for violation in found if violation is not None]
