"""CEL with the functions that conditions over Kubernetes objects need.

CEL here is the core language of the package common-expression-language: no optional types, no string extensions.
What it lacks is refused by name when a pack is loaded, not discovered during an interview. The functions below never
raise: a missing field is an empty value, so that an expression over half-made objects stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from faults.checks import listed_devices, placement, programs
from faults.checks.cel_library import cel
from faults.checks.lookups import dig as _dig
from faults.checks.lookups import rows as _rows
from faults.checks.quantities import parse_quantity

MAX_LENGTH = 2000
GPU = "nvidia.com/gpu"
Obj = Mapping[str, Any]
Prepared = cel.Context

_CORE = frozenset(
    {"bool", "contains", "double", "duration", "dyn", "endsWith", "int", "matches", "size", "startsWith", "string"}
    | {"timestamp", "type", "uint"}
)
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_MIGHTY = frozenset({"ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "SYS_RAWIO"})
_LOOP_VARIABLE = re.compile(r"\.(?:all|exists|exists_one|filter|map)\(\s*([A-Za-z_]\w*)\s*,")


class ExpressionError(Exception):
    """An expression cannot be compiled, or uses a name that does not exist."""


def check_names(expression: str, variables: Collection[str]) -> None:
    """Raise ``ExpressionError`` unless the expression compiles and uses only known functions and ``variables``."""
    program = _compiled(expression)
    known = set(variables) | set(_LOOP_VARIABLE.findall(expression))
    _refuse("variable", set(program.variables()) - known)
    used = {name for name in program.functions() if name[0].isalpha()}
    _refuse("function", used - _CORE - set(FUNCTIONS))


def prepared(values: Mapping[str, Any]) -> Prepared:
    """Return what expressions are run on: taking objects over costs more than most expressions do, 0.2 ms a pod.

    Raises ``ExpressionError`` for a value that CEL has no type for.
    """
    try:
        return cel.Context(variables=dict(values), functions=FUNCTIONS)
    except ValueError as exc:
        raise ExpressionError(_first_line(exc)) from exc


def run(expression: str, values: Mapping[str, Any] | Prepared) -> Any:
    """Return the value of an expression on values, or on what ``prepared`` made of them for several expressions.

    Raises ``ExpressionError`` with the cause.
    """
    context = values if isinstance(values, Prepared) else prepared(values)
    try:
        return _compiled(expression).execute(context)
    except KeyError as exc:
        raise ExpressionError(f"the field {exc} is not there; use has() or field()") from exc
    except (IndexError, TypeError, ValueError, RuntimeError, OverflowError) as exc:
        raise ExpressionError(_first_line(exc)) from exc


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> cel.Program:
    if len(expression) > MAX_LENGTH:
        raise ExpressionError(f"the expression is longer than {MAX_LENGTH} characters")
    try:
        return cel.compile(expression)
    except (ValueError, RuntimeError) as exc:
        raise ExpressionError(_first_line(exc)) from exc


def _refuse(what: str, names: Collection[str]) -> None:
    if names:
        raise ExpressionError(f"there is no {what} named {', '.join(sorted(names))}")


def _first_line(exc: Exception) -> str:
    return str(exc).strip().splitlines()[0][:300] if str(exc).strip() else type(exc).__name__


def _condition(obj: Any, kind: str) -> bool:
    """Whether the object has the condition of this type with status True."""
    return any(
        _dig(row, "type", "") == kind and _dig(row, "status", "") == "True" for row in _rows(obj, "status.conditions")
    )


def _statuses(pod: Any) -> list[Any]:
    return _rows(pod, "status.initContainerStatuses") + _rows(pod, "status.containerStatuses")


def _waiting_reason(pod: Any) -> str:
    """The reason for which a container of the pod waits, such as CrashLoopBackOff; empty where none waits."""
    reasons = (_dig(status, "state.waiting.reason", "") for status in _statuses(pod))
    return next((str(reason) for reason in reasons if reason), "")


def _restarts(pod: Any) -> int:
    return sum(count for status in _statuses(pod) if isinstance(count := _dig(status, "restartCount", 0), int))


def _state(pod: Any) -> str:
    """One word for the pod: what a container waits for, else its phase."""
    return _waiting_reason(pod) or str(_dig(pod, "status.phase", "Unknown"))


def _containers(obj: Any) -> list[Any]:
    """The containers of a pod, or of the pod template of a workload."""
    return _rows(obj, "spec.containers") or _rows(obj, "spec.template.spec.containers")


def _images(obj: Any) -> list[str]:
    return [str(_dig(container, "image", "")) for container in _containers(obj)]


def _command(obj: Any) -> list[str]:
    """The command line (command, then args) of the first container."""
    first: Any = next(iter(_containers(obj)), {})
    return [str(word) for word in _rows(first, "command") + _rows(first, "args")]


def _gpus(obj: Any) -> int:
    """The NVIDIA GPUs that the containers of a pod, or of a workload's template, are limited to."""
    limits = (_dig(container, "resources.limits", {}) for container in _containers(obj))
    counts = (str(limit.get(GPU, 0)) for limit in limits if isinstance(limit, Mapping))
    return sum(int(count) for count in counts if count.isdecimal())


def _quantity(value: Any) -> float:
    """The number of a quantity such as 500m, 32Gi or 1e3; zero for what is none."""
    return parse_quantity(str(value)) or 0.0


def _gpu_capacity(node: Any) -> int:
    """The NVIDIA GPUs of a node that pods may have."""
    allocatable = _dig(node, "status.allocatable", {})
    return int(_quantity(allocatable.get(GPU, 0))) if isinstance(allocatable, Mapping) else 0


def _gpu_use(node: Any, pods: Any) -> int:
    """The GPUs of a node that are given to pods which have not ended."""
    name = _dig(node, "metadata.name", "")
    return sum(
        _gpus(pod)
        for pod in (pods if isinstance(pods, list) else [])
        if _dig(pod, "spec.nodeName", None) == name and _dig(pod, "status.phase", "") not in ("Succeeded", "Failed")
    )


def _newest(objects: Any) -> list[Any]:
    """The object that was created last, as a list of one; of several created in one second the last in the list."""
    created = [obj for obj in (objects if isinstance(objects, list) else []) if isinstance(obj, Mapping)]
    best = max(enumerate(created), key=lambda pair: (_created(pair[1]), pair[0]), default=None)
    return [] if best is None else [best[1]]


def _created(obj: Any) -> str:
    return str(_dig(obj, "metadata.creationTimestamp", ""))  # RFC 3339 in UTC: in order as text


def _seconds(begin: Any, end: Any) -> float:
    """The seconds from one time of the API to another; zero where one of them is missing."""
    first, last = _moment(begin), _moment(end)
    return 0.0 if first is None or last is None else last - first


def _moment(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def _available(deployment: Any) -> bool:
    """Whether every replica that is asked for is available, and at least one is asked for."""
    wanted = _dig(deployment, "spec.replicas", 1)
    have = _dig(deployment, "status.availableReplicas", 0)
    return isinstance(wanted, int) and isinstance(have, int) and have >= wanted >= 1


def _reaches_host(pod: Any) -> bool:
    """Whether a pod can change its node: a host path or namespace, or a container that is as good as root on it."""
    shared = any(_dig(pod, f"spec.{name}", False) for name in ("hostPID", "hostIPC", "hostNetwork"))
    mounted = any("hostPath" in volume for volume in _rows(pod, "spec.volumes"))
    return shared or mounted or any(map(_is_mighty, _all_containers(pod)))


def _all_containers(pod: Any) -> list[Any]:
    return [row for name in _CONTAINER_LISTS for row in _rows(pod, f"spec.{name}")]


def _is_mighty(container: Any) -> bool:
    added = {str(name).removeprefix("CAP_") for name in _rows(container, "securityContext.capabilities.add")}
    return _dig(container, "securityContext.privileged", False) is True or bool(added & _MIGHTY)


def _join(values: Any, separator: str) -> str:
    return str(separator).join(str(value) for value in values) if isinstance(values, list) else str(values)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "available": _available,
    "command": _command,
    "condition": _condition,
    "devices": listed_devices.devices,
    "digest": programs.digest,
    "field": _dig,
    "gpu_capacity": _gpu_capacity,
    "gpu_use": _gpu_use,
    "gpus": _gpus,
    "images": _images,
    "join": _join,
    "newest": _newest,
    "owned_by": programs.owned_by,
    "programs": programs.programs,
    "quantity": _quantity,
    "reaches_host": _reaches_host,
    "restarts": _restarts,
    "seconds": _seconds,
    "selects": placement.selects,
    "state": _state,
    "tolerates": placement.tolerates,
    "waiting_reason": _waiting_reason,
}
