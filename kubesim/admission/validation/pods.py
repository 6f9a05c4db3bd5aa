"""The rules of pods and of their templates."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence

from kubesim.admission.validation.metadata import dns_errors, label_errors, unique_errors
from kubesim.api.quantity import parse
from kubesim.api.status import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_found_field,
    required,
    unsupported,
)
from kubesim.errors import Obj
from kubesim.schema.internal import internal

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
STANDARD = ("cpu", "memory", "ephemeral-storage")
PORT_RANGE = "must be between 1 and 65535, inclusive"
ENV_NAME = re.compile(r"[ -<>-~]+")
LONGEST_SYSCTL = 253
SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
FREE_FIELDS = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_errors(pod: Obj) -> list[FieldError]:
    """Return what is wrong with a pod."""
    return spec_errors(pod["spec"], "spec")


def spec_errors(spec: Obj, path: str) -> list[FieldError]:
    """Return what is wrong with a PodSpec."""
    errors = list(_volume_errors(spec.get("volumes", ()), f"{path}.volumes"))
    volumes = {volume.get("name", "") for volume in spec.get("volumes", ())}
    if not spec.get("containers"):
        errors.append(required(f"{path}.containers"))
    for field in ("containers", "initContainers"):
        errors += _containers_errors(spec.get(field, ()), f"{path}.{field}", volumes)
    errors += _enum(spec, "restartPolicy", RESTART_POLICIES, path)
    errors += _enum(spec, "dnsPolicy", DNS_POLICIES, path)
    errors += label_errors(spec.get("nodeSelector"), f"{path}.nodeSelector")
    errors += _toleration_errors(spec.get("tolerations", ()), f"{path}.tolerations")
    context = spec.get("securityContext") or {}
    errors += _sysctl_errors(context.get("sysctls") or (), f"{path}.securityContext.sysctls")
    if (name := spec.get("serviceAccountName")) and (wrong := dns_errors(name, "subdomain")):
        errors += [invalid_value(f"{path}.serviceAccountName", name, why) for why in wrong]
    if (seconds := spec.get("activeDeadlineSeconds")) is not None and seconds < 1:
        errors.append(
            invalid_value(f"{path}.activeDeadlineSeconds", seconds, "must be between 1 and 2147483647, inclusive")
        )
    return errors


def _enum(obj: Obj, name: str, choices: tuple[str, ...], path: str) -> Iterator[FieldError]:
    value = obj.get(name)
    if value is not None and value not in choices:
        yield unsupported(f"{path}.{name}", value, choices)


def _sysctl_errors(sysctls: Sequence[Obj], path: str) -> Iterator[FieldError]:
    for at, sysctl in enumerate(sysctls):
        name = sysctl.get("name", "")
        if not name:
            yield required(f"{path}[{at}].name")
        elif len(name) > LONGEST_SYSCTL or not SYSCTL.fullmatch(name):
            why = f"must have at most {LONGEST_SYSCTL} characters and match regex ^{SYSCTL.pattern}$"
            yield invalid_value(f"{path}[{at}].name", name, why)
        elif name in [earlier.get("name") for earlier in sysctls[:at]]:
            yield duplicate(f"{path}[{at}].name", name)


def _volume_errors(volumes: list[Obj], path: str) -> Iterator[FieldError]:
    for at, volume in enumerate(volumes):
        name = volume.get("name", "")
        if not name:
            yield required(f"{path}[{at}].name")
        else:
            yield from (invalid_value(f"{path}[{at}].name", name, why) for why in dns_errors(name))
        sources = [key for key in volume if key != "name"]
        if len(sources) > 1:
            yield forbidden_field(f"{path}[{at}].{sources[1]}", "may not specify more than 1 volume type")
    yield from unique_errors([volume.get("name", "") for volume in volumes], path)


def _containers_errors(containers: list[Obj], path: str, volumes: set[str]) -> Iterator[FieldError]:
    for at, container in enumerate(containers):
        yield from _container_errors(container, f"{path}[{at}]", volumes)
    yield from unique_errors([container.get("name", "") for container in containers], path)


def _container_errors(container: Obj, path: str, volumes: set[str]) -> Iterator[FieldError]:
    if not (name := container.get("name")):
        yield required(f"{path}.name")
    else:
        yield from (invalid_value(f"{path}.name", name, why) for why in dns_errors(name))
    if not (image := container.get("image")):
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from _port_errors(container.get("ports", ()), f"{path}.ports")
    yield from _env_errors(container.get("env", ()), f"{path}.env")
    yield from _mount_errors(container.get("volumeMounts", ()), f"{path}.volumeMounts", volumes)
    yield from _enum(container, "imagePullPolicy", PULL_POLICIES, path)
    yield from resource_errors(container.get("resources", {}), f"{path}.resources")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        yield from _probe_errors(container.get(probe), f"{path}.{probe}")


def _port_errors(ports: list[Obj], path: str) -> Iterator[FieldError]:
    for at, port in enumerate(ports):
        number = port.get("containerPort", 0)
        if number == 0:
            yield required(f"{path}[{at}].containerPort")
        elif not 0 < number < 65536:
            yield invalid_value(f"{path}[{at}].containerPort", number, PORT_RANGE)
        yield from _enum(port, "protocol", ("SCTP", "TCP", "UDP"), f"{path}[{at}]")
    yield from unique_errors([port.get("name", "") for port in ports], path)


def _env_errors(env: list[Obj], path: str) -> Iterator[FieldError]:
    for at, entry in enumerate(env):
        if not entry.get("name"):
            yield required(f"{path}[{at}].name")
        if entry.get("value") and entry.get("valueFrom"):
            yield invalid_value(f"{path}[{at}].valueFrom", "", "may not be specified when `value` is not empty")


def _mount_errors(mounts: list[Obj], path: str, volumes: set[str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for at, mount in enumerate(mounts):
        if not (name := mount.get("name")):
            yield required(f"{path}[{at}].name")
        elif name not in volumes:
            yield not_found_field(f"{path}[{at}].name", name)
        if not (where := mount.get("mountPath")):
            yield required(f"{path}[{at}].mountPath")
        elif where in seen:
            yield invalid_value(f"{path}[{at}].mountPath", where, "must be unique")
        seen.add(mount.get("mountPath", ""))


def resource_errors(resources: Obj, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with requests and limits; extended resources cannot be overcommitted."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for part, quantities in (("limits", limits), ("requests", requests)):
        for name, value in sorted(quantities.items()):
            yield from _quantity_errors(name, value, f"{path}.{part}")
    for name, value in sorted(requests.items()):
        yield from _pair_errors(name, value, limits.get(name), path)


def _quantity_errors(name: str, value: str, path: str) -> Iterator[FieldError]:
    where = f"{path}[{name}]"
    if "/" not in name and name not in STANDARD and not name.startswith("hugepages-"):
        yield invalid_value(where, name, "must be a standard resource type or fully qualified")
        yield invalid_value(where, name, "must be a standard resource for containers")
    if parse(value) < 0:
        yield invalid_value(where, value, "must be greater than or equal to 0")
    if is_extended(name) and parse(value).denominator != 1:
        yield invalid_value(where, value, "must be an integer")


def _pair_errors(name: str, request: str, limit: str | None, path: str) -> Iterator[FieldError]:
    if limit is None:
        if is_extended(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    elif is_extended(name) and parse(request) != parse(limit):
        yield invalid_value(f"{path}.requests", request, f"must be equal to {name} limit of {limit}")
    elif parse(request) > parse(limit):
        yield invalid_value(f"{path}.requests", request, f"must be less than or equal to {name} limit of {limit}")


def is_extended(name: str) -> bool:
    """Tell whether a resource is an extended one, such as nvidia.com/gpu."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def _probe_errors(probe: Obj | None, path: str) -> Iterator[FieldError]:
    if probe is None:
        return
    handlers = [name for name in ("exec", "httpGet", "tcpSocket", "grpc") if name in probe]
    if not handlers:
        yield required(path, "must specify a handler type")
    for extra in handlers[1:]:
        yield forbidden_field(f"{path}.{extra}", "may not specify more than 1 handler type")


def _toleration_errors(tolerations: list[Obj], path: str) -> Iterator[FieldError]:
    for at, toleration in enumerate(tolerations):
        where, operator = f"{path}[{at}]", toleration.get("operator", "Equal")
        if operator not in ("Equal", "Exists"):
            yield unsupported(f"{where}.operator", operator, ("Equal", "Exists"))
        elif operator == "Exists" and toleration.get("value"):
            value = toleration["value"]
            yield invalid_value(f"{where}.operator", value, "value must be empty when `operator` is 'Exists'")
        elif operator == "Equal" and not toleration.get("key"):
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid_value(f"{where}.operator", operator, why)
        yield from _enum(toleration, "effect", EFFECTS, where)
        if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid_value(f"{where}.effect", toleration.get("effect", ""), why)


def update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return an error where a pod changed in more than its images, its deadline or added tolerations."""
    before, after = old["spec"], new["spec"]
    for field in ("containers", "initContainers"):
        if len(before.get(field, ())) != len(after.get(field, ())):
            return [forbidden_field(f"spec.{field}", "pod updates may not add or remove containers")]
    deadline, earlier = after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is not None and earlier is not None and deadline > earlier:
        why = "must be less than or equal to previous value"
        return [invalid_value("spec.activeDeadlineSeconds", deadline, why)]
    errors = []
    if deadline is None and earlier is not None:
        why = "must not update from a positive integer to nil value"
        errors.append(invalid_value("spec.activeDeadlineSeconds", None, why))
    kept = [_lasting(entry) for entry in after.get("tolerations", ())]
    if any(_lasting(entry) not in kept for entry in before.get("tolerations", ())):
        why = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(forbidden_field("spec.tolerations", why))
    munged = _munged(before, after)
    if munged != before:
        errors.append(forbidden_field("spec", f"{UPDATE_TEXT}\n{_diff(before, munged)}"))
    return errors


def _lasting(toleration: Obj) -> Obj:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _munged(before: Obj, after: Obj) -> Obj:
    """Return the new PodSpec with the old value of everything that an update may change."""
    munged = {name: value for name, value in after.items() if name not in FREE_FIELDS}
    munged |= {name: before[name] for name in FREE_FIELDS if name in before}
    if before.get("terminationGracePeriodSeconds", 0) < 0 and after.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    for field in ("containers", "initContainers"):
        if field in after:
            pairs = zip(after[field], before[field], strict=True)
            munged[field] = [{**entry, "image": earlier.get("image", "")} for entry, earlier in pairs]
    return munged


def _diff(before: Obj, after: Obj) -> str:
    """Return what changed as the API server shows it: a unified diff of both as it has them in memory."""
    old, new = (json.dumps(internal("PodSpec", spec), indent=1, ensure_ascii=False) for spec in (before, after))
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="")
    return "".join(f"{line}\n" for line in list(lines)[2:])
