"""The cells of ``kubectl get`` that need thought; texts follow pkg/printers/internalversion."""

from __future__ import annotations

from collections.abc import Callable, Set
from datetime import datetime
from functools import partial
from typing import Any

from kubesim.api.durations import between, human, parse_time, since
from kubesim.errors import Obj
from kubesim.schema.paths import dig, first, is_true

Cell = str | int | float | bool | None
NO_NAMES: frozenset[str] = frozenset()
NONE = "<none>"
JOB_WORDS = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")
ACCESS = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
ADDRESS_WIDTH, SHOWN_METRICS, SHOWN_HOSTS = 16, 2, 3
ROLE_PREFIX = "node-role.kubernetes.io/"
PLAIN: dict[str, Callable[[Any], Cell]] = {
    "number": lambda value: int(value or 0),
    "text": str,
    "texts": lambda values: ",".join(value or "" for value in values or ()),
    "names": lambda values: ", ".join(value or "" for value in values or ()),
    "count": lambda value: len(value or ()),
    "flag": bool,
    "unless_false": lambda value: value is None or bool(value),
    "duration": human,
}
"""The cells that are one thought, of what lies at a path."""


def age(obj: Obj, now: datetime) -> str:
    """Return the time since creation."""
    return since(dig(obj, "metadata.creationTimestamp"), now)


# --- of what lies at a path ---------------------------------------------------------------------------------------


def pairs(values: Obj | None, now: datetime) -> str:
    """Return ``a=b,c=d``, sorted."""
    return ",".join(f"{key}={value}" for key, value in sorted((values or {}).items())) or NONE


def selector(found: Obj | None, now: datetime) -> str:
    """Return a selector as kubectl writes it: labels sorted, then expressions."""
    labels = sorted(((found or {}).get("matchLabels") or {}).items())
    expressions = (found or {}).get("matchExpressions") or ()
    return ",".join([*(f"{key}={value}" for key, value in labels), *map(_expression, expressions)]) or NONE


def _expression(expression: Obj) -> str:
    """Return one matchExpressions entry."""
    key, operator = expression.get("key"), expression.get("operator")
    values = ",".join(sorted(expression.get("values") or ()))
    forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": f"{key}"}
    return forms.get(str(operator), f"!{key}")


# --- pods ---------------------------------------------------------------------------------------------------------


def _statuses(pod: Obj, name: str = "containerStatuses") -> list[Obj]:
    """Return a pod's container statuses."""
    return dig(pod, f"status.{name}") or []


def pod_status(pod: Obj, now: datetime | None = None) -> str:
    """Return the STATUS word of a pod."""
    reason = dig(pod, "status.reason") or dig(pod, "status.phase") or ""
    for condition in dig(pod, "status.conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    initializing, reason = _init_reason(pod, reason)
    if not initializing:
        reason = _container_reason(pod, reason)
    if dig(pod, "metadata.deletionTimestamp"):
        if dig(pod, "status.reason") == "NodeLost":
            return "Unknown"
        if dig(pod, "status.phase") not in ("Failed", "Succeeded"):
            return "Terminating"
    return reason


def _sidecars(pod: Obj) -> Set[str]:
    """Return the init containers that keep running."""
    specs = dig(pod, "spec.initContainers")
    return NO_NAMES if not specs else {c["name"] for c in specs if c.get("restartPolicy") == "Always"}


def _init_reason(pod: Obj, reason: str) -> tuple[bool, str]:
    """Return whether an init container holds the pod up, and the word for it."""
    specs = dig(pod, "spec.initContainers")
    if not specs:
        return False, reason
    sidecars = _sidecars(pod)
    for index, status in enumerate(_statuses(pod, "initContainerStatuses")):
        state = status.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended and ended.get("exitCode") == 0:
            continue
        if status.get("name") in sidecars and status.get("started"):
            continue
        if ended:
            return True, f"Init:{ended.get('reason') or _exit_word(ended)}"
        if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            return True, f"Init:{waiting['reason']}"
        return True, f"Init:{index}/{len(specs)}"
    return False, reason


def _exit_word(ended: Obj) -> str:
    """Return the word for an exit that has no reason."""
    signal = ended.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}"


def _container_reason(pod: Obj, reason: str) -> str:
    """Return the word of the containers, the first one's winning."""
    running = False
    for status in reversed(_statuses(pod)):
        state = status.get("state") or {}
        waiting, ended = state.get("waiting"), state.get("terminated")
        if waiting and waiting.get("reason"):
            reason = waiting["reason"]
        elif ended:
            reason = ended.get("reason") or _exit_word(ended)
        elif status.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        return "Running" if is_true(pod, "Ready") else "NotReady"
    return reason


def pod_ready(pod: Obj, now: datetime | None = None) -> str:
    """Return ``1/2``: ready containers and all of them, running sidecars included."""
    sidecars = _sidecars(pod)
    total = len(dig(pod, "spec.containers") or ()) + len(sidecars)
    started = [s for s in _statuses(pod, "initContainerStatuses") if s.get("name") in sidecars]
    ready = sum(1 for s in (*started, *_statuses(pod)) if s.get("ready") and "running" in (s.get("state") or {}))
    return f"{ready}/{total}"


def pod_restarts(pod: Obj, now: datetime) -> str:
    """Return ``5 (20s ago)``."""
    waiting_init, _ = _init_reason(pod, "")
    sidecars = _sidecars(pod)
    inits = _statuses(pod, "initContainerStatuses")
    counted = inits if waiting_init else [*(s for s in inits if s.get("name") in sidecars), *_statuses(pod)]
    restarts = sum(int(s.get("restartCount") or 0) for s in counted)
    ends = [parse_time(dig(s, "lastState.terminated.finishedAt")) for s in counted]
    last = max((end for end in ends if end), default=None)
    if not restarts or last is None:
        return str(restarts)
    return f"{restarts} ({human((now - last).total_seconds())} ago)"


def readiness_gates(pod: Obj, now: datetime) -> str:
    """Return ``1/2`` of the readiness gates."""
    gates = dig(pod, "spec.readinessGates") or ()
    true = {c["type"] for c in dig(pod, "status.conditions") or () if c.get("status") == "True"}
    return f"{sum(g['conditionType'] in true for g in gates)}/{len(gates)}" if gates else "<none>"


# --- jobs -----------------------------------------------------------------------------------------------------------


def job_status(job: Obj, now: datetime | None = None) -> str:
    """Return the STATUS word of a job."""
    true = {c.get("type") for c in dig(job, "status.conditions") or () if c.get("status") == "True"}
    if word := next((word for word in JOB_WORDS if word in true), None):
        return word
    return "Terminating" if dig(job, "metadata.deletionTimestamp") else "Running"


def job_completions(job: Obj, now: datetime | None = None) -> str:
    """Return ``0/1``, or ``0/1 of 3`` for a work queue."""
    done, wanted = dig(job, "status.succeeded") or 0, dig(job, "spec.completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallelism = dig(job, "spec.parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def job_duration(job: Obj, now: datetime) -> str:
    """Return how long a job has run, or ran."""
    start, end = dig(job, "status.startTime"), dig(job, "status.completionTime")
    if not start:
        return ""
    failed = first(job, "status.conditions[type=Failed]") or {}
    return between(
        start, end or (failed.get("lastTransitionTime") if failed.get("status") == "True" else now.isoformat())
    )


# --- nodes ----------------------------------------------------------------------------------------------------------


def node_status(node: Obj, now: datetime | None = None) -> str:
    """Return ``Ready,SchedulingDisabled``."""
    ready = first(node, "status.conditions[type=Ready]")
    words = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if dig(node, "spec.unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def component_health(obj: Obj, now: datetime) -> str:
    """Return whether a part of the control plane is healthy."""
    words = {"True": "Healthy", "False": "Unhealthy"}
    return words.get((obj.get("conditions") or [{}])[0].get("status", ""), "Unknown")


def node_roles(node: Obj, now: datetime | None = None) -> str:
    """Return the roles of the labels, sorted."""
    labels = dig(node, "metadata.labels") or {}
    roles = {key[len(ROLE_PREFIX) :] for key in labels if key.startswith(ROLE_PREFIX)}
    roles |= {value for key, value in labels.items() if key == "kubernetes.io/role" and value}
    return ",".join(sorted(roles - {""})) or "<none>"


# --- services, endpoints, storage-less rest -------------------------------------------------------------------------


def ports(service: Obj, now: datetime) -> str:
    """Return ``80/TCP,443:30443/TCP``."""
    texts = []
    for port in dig(service, "spec.ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or "<none>"


def external_ip(service: Obj, now: datetime) -> str:
    """Return the addresses from outside."""
    kind = dig(service, "spec.type")
    if kind == "ExternalName":
        return str(dig(service, "spec.externalName"))
    addresses = list(dig(service, "spec.externalIPs") or ())
    if kind == "LoadBalancer":
        ingress = dig(service, "status.loadBalancer.ingress") or ()
        addresses += [i.get("ip") or i.get("hostname", "") for i in ingress]
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or "<none>"


def endpoints(endpoints: Obj, now: datetime) -> str:
    """Return up to three ``address:port`` of the ready endpoints."""
    found = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ({"port": ""},)
        for address in subset.get("addresses") or ()
    ]
    return _first_three(found)


def _first_three(values: list[str], none: str = NONE) -> str:
    """Return a short list: three, then how many more."""
    more = f" + {len(values) - 3} more..." if len(values) > 3 else ""
    return (",".join(values[:3]) + more) or none


def slice_ports(endpoint_slice: Obj, now: datetime) -> str:
    """Return the ports of an EndpointSlice."""
    return _first_three([str(p.get("port", "*")) for p in endpoint_slice.get("ports") or ()], "<unset>")


def slice_endpoints(endpoint_slice: Obj, now: datetime) -> str:
    """Return the addresses of an EndpointSlice."""
    addresses = [a for e in endpoint_slice.get("endpoints") or () for a in (e.get("addresses") or ())[:1]]
    return _first_three(addresses, "<unset>")


def data_count(obj: Obj, now: datetime) -> int:
    """Return how many entries a ConfigMap or Secret has."""
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


def _quota(quota: Obj, now: datetime, *, limits: bool) -> str:
    """Return ``name: used/hard`` of the limits of a namespace's pods, or of what else is counted."""
    hard, used = dig(quota, "status.hard") or {}, dig(quota, "status.used") or {}
    names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


quota_requests, quota_limits = partial(_quota, limits=False), partial(_quota, limits=True)


def service_accounts(binding: Obj, now: datetime) -> str:
    """Return ``ns/name`` of a binding's service accounts."""
    found = [s for s in binding.get("subjects") or () if s.get("kind") == "ServiceAccount"]
    return ", ".join(f"{s.get('namespace', '')}/{s.get('name', '')}" for s in found)


# --- events ---------------------------------------------------------------------------------------------------------


def event_object(event: Obj, now: datetime) -> str:
    """Return ``pod/web-1``."""
    target = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(target.get('kind', '')).lower()}/{target.get('name', '')}"


def event_message(event: Obj, now: datetime) -> str:
    """Return the message without the line's end."""
    return str(event.get("message") or event.get("note") or "").strip()


def event_source(event: Obj, now: datetime) -> str:
    """Return ``kubelet, node-1``."""
    component = dig(event, "source.component") or event.get("reportingComponent") or ""
    host = dig(event, "source.host") or event.get("reportingInstance") or ""
    return ", ".join(part for part in (component, host) if part)


def event_count(event: Obj, now: datetime) -> int:
    """Return how often an event has occurred."""
    return int(dig(event, "series.count") or event.get("count") or 1)


# --- storage, networking, certificates, admission, autoscaling -----------------------------------------------------


def access_modes(modes: list[str] | None, now: datetime) -> str:
    """Return ``RWO,RWX``."""
    return ",".join(short for mode, short in ACCESS.items() if mode in (modes or ()))


def volume_phase(obj: Obj, now: datetime) -> str:
    """Return a volume's or claim's phase, or that it is going."""
    return "Terminating" if dig(obj, "metadata.deletionTimestamp") else str(dig(obj, "status.phase") or "")


def class_name(obj: Obj, now: datetime) -> str:
    """Return a storage class' name, marked where it is the default."""
    marked = (dig(obj, "metadata.annotations") or {}).get(DEFAULT_CLASS) == "true"
    return f"{obj['metadata']['name']}{' (default)' if marked else ''}"


def availability(service: Obj, now: datetime) -> str:
    """Return whether an APIService answers, and why not."""
    found = first(service, "status.conditions[type=Available]")
    if found is None:
        return "Unknown"
    return str(found["status"]) if found["status"] == "True" else f"{found['status']} ({found['reason']})"


def hosts(ingress: Obj, now: datetime) -> str:
    """Return an ingress' hosts: three, then how many more rules."""
    rules = dig(ingress, "spec.rules") or []
    found = [rule["host"] for rule in rules if rule.get("host")]
    more = f" + {len(rules) - SHOWN_HOSTS} more..." if len(found[:SHOWN_HOSTS]) == SHOWN_HOSTS < len(rules) else ""
    return (",".join(found[:SHOWN_HOSTS]) + more) or "*"


def ingress_address(ingress: Obj, now: datetime) -> str:
    """Return the addresses of an ingress' load balancer, cut as upstream cuts them."""
    found = {item.get("ip") or item.get("hostname") for item in dig(ingress, "status.loadBalancer.ingress") or ()}
    text = ",".join(sorted(address for address in found if address))
    return text if len(text) <= ADDRESS_WIDTH else f"{text[: ADDRESS_WIDTH - 3]}..."


def class_parameters(ingress_class: Obj, now: datetime) -> str:
    """Return ``Kind.group/name``."""
    found = dig(ingress_class, "spec.parameters")
    if not found:
        return NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") is not None else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


def csr_condition(csr: Obj, now: datetime) -> str:
    """Return ``Approved,Issued``."""
    types = {condition.get("type") for condition in dig(csr, "status.conditions") or ()}
    word = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    failed = ",Failed" if "Failed" in types else ""
    return word + failed + (",Issued" if dig(csr, "status.certificate") else "")


def claim_state(claim: Obj, now: datetime) -> str:
    """Return ``allocated,reserved``."""
    going = ["deleted"] if dig(claim, "metadata.deletionTimestamp") else []
    if not dig(claim, "status.allocation"):
        return ",".join(going or ["pending"])
    return ",".join([*going, "allocated", *(["reserved"] if dig(claim, "status.reservedFor") else [])])


def revision_owner(revision: Obj, now: datetime) -> str:
    """Return ``statefulset.apps/web``."""
    owners = dig(revision, "metadata.ownerReferences") or ()
    owner = next((item for item in owners if item.get("controller")), None)
    if owner is None:
        return NONE
    group = owner.get("apiVersion", "").rpartition("/")[0]
    return f"{owner.get('kind', '').lower()}{'.' + group if group else ''}/{owner.get('name', '')}"


def ingress_ports(ingress: Obj, now: datetime) -> str:
    """Return the ports on which an ingress listens."""
    return "80, 443" if dig(ingress, "spec.tls") else "80"


def metrics(autoscaler: Obj, now: datetime) -> str:
    """Return ``cpu: 12%/80%``: what is measured and what is aimed at, two metrics at most."""
    specs, found = dig(autoscaler, "spec.metrics") or [], dig(autoscaler, "status.currentMetrics") or []
    if not specs:
        return NONE
    texts = [_metric(spec, found[at] if at < len(found) else {}) for at, spec in enumerate(specs)]
    more = f" + {len(texts) - SHOWN_METRICS} more..." if len(texts) > SHOWN_METRICS else ""
    return ", ".join(texts[:SHOWN_METRICS]) + more


def _metric(spec: Obj, found: Obj) -> str:
    kind = spec.get("type", "")
    field = kind[:1].lower() + kind[1:]
    source, current = spec.get(field), (found.get(field) or {}).get("current") or {}
    if source is None:
        return "<unknown type>"
    target = source.get("target") or {}
    if kind in ("Resource", "ContainerResource"):
        return f"{source.get('name', '')}: {_usage(target, current)}"
    if kind == "Pods" or target.get("averageValue") is not None:
        suffix = "" if kind == "Pods" else " (avg)"
        return f"{current.get('averageValue', '<unknown>')}/{target.get('averageValue', '0')}{suffix}"
    return f"{current.get('value', '<unknown>')}/{target.get('value', '0')}"


def _usage(target: Obj, current: Obj) -> str:
    if target.get("averageValue") is not None:
        return f"{current.get('averageValue', '<unknown>')}/{target['averageValue']}"
    wanted, now = target.get("averageUtilization"), current.get("averageUtilization")
    return f"{'<unknown>' if now is None else f'{now}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"
