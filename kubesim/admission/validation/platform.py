"""The rules of storage, networking, autoscaling, certificates, budgets and admission."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Callable, Iterator
from typing import Any

from kubesim.admission.validation.metadata import label_errors
from kubesim.admission.validation.rules import (
    Rule,
    all_errors,
    dns,
    each_of,
    least,
    matches,
    need,
    one_of,
    walk,
    wrong,
)
from kubesim.api.quantity import parse
from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, unsupported
from kubesim.errors import Obj

MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
SINGLE_MODE = "may not use ReadWriteOncePod with other access modes"
POSITIVE = "must be greater than zero"
CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
PERCENT = "[0-9]+%"
PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
USAGES = (
    *("any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment"),
    *("decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel"),
    *("ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime"),
    *("server auth", "signing", "timestamping"),
)
METRICS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
NOT_SOURCES = (
    *("capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions"),
    *("volumeMode", "nodeAffinity", "volumeAttributesClassName"),
)
"""The fields of a volume's spec that do not say where it comes from."""
BOTH_ACTIONS = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)
TIMEOUT = "the timeout value must be between 1 and 30 seconds"
PATHS = "spec.rules[].http.paths[]"


def _webhook(reinvocation: tuple[Rule, ...] = ()) -> tuple[Rule, ...]:
    three = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}"
    return (
        matches("webhooks[].name", three, "should be a domain with at least three segments separated by dots"),
        need("webhooks[].admissionReviewVersions", "must specify one of v1, v1beta1"),
        one_of("webhooks[].failurePolicy", "Fail", "Ignore"),
        one_of("webhooks[].matchPolicy", "Equivalent", "Exact"),
        need("webhooks[].sideEffects", "must specify one of None, NoneOnDryRun"),
        wrong("webhooks[].timeoutSeconds", lambda n: not 1 <= n <= 30, TIMEOUT),
        need("webhooks[].clientConfig", "exactly one of url or service is required"),
        one_of("webhooks[].rules[].operations[]", "*", "CONNECT", "CREATE", "DELETE", "UPDATE"),
        *reinvocation,
    )  # fmt: skip


RULES: dict[str, tuple[Rule, ...]] = {
    "persistentvolumeclaims": (
        need("spec.accessModes", "at least 1 access mode is required"),
        each_of("spec.accessModes", *MODES),
        dns("spec.storageClassName"),
        one_of("spec.volumeMode", "Block", "Filesystem"),
    ),
    "persistentvolumes": (
        need("spec.accessModes"),
        each_of("spec.accessModes", *MODES),
        need("spec.capacity"),
        one_of("spec.persistentVolumeReclaimPolicy", "Delete", "Recycle", "Retain"),
        need("spec.hostPath.path"),
        need("spec.local.path"),
        need("spec.nfs.server"),
        need("spec.nfs.path"),
        need("spec.csi.driver"),
        need("spec.csi.volumeHandle"),
        dns("spec.storageClassName"),
        one_of("spec.volumeMode", "Block", "Filesystem"),
    ),
    "storageclasses.storage.k8s.io": (
        need("provisioner"),
        one_of("reclaimPolicy", "Delete", "Retain"),
        one_of("volumeBindingMode", "Immediate", "WaitForFirstConsumer"),
    ),
    "ingresses.networking.k8s.io": (
        dns("spec.ingressClassName"),
        wrong("spec.rules[].host", lambda host: _is_address(host), "must be a DNS name, not an IP address"),
        dns("spec.tls[].hosts[]"),
        need("spec.rules[].http.paths"),
        need(f"{PATHS}.pathType", "pathType must be specified"),
        one_of(f"{PATHS}.pathType", "Exact", "ImplementationSpecific", "Prefix"),
        wrong(f"{PATHS}.path", lambda path: path and not path.startswith("/"), "must be an absolute path"),
        wrong(f"{PATHS}.path", lambda path: "//" in path, "must not contain '//'"),
        need(f"{PATHS}.backend.service.name"),
        need("spec.defaultBackend.service.name"),
    ),
    "ingressclasses.networking.k8s.io": (
        need("spec.controller"),
        matches("spec.controller", r"[^/]+/.+", 'must be a domain-prefixed path (such as "acme.io/foo")'),
    ),
    "networkpolicies.networking.k8s.io": (
        one_of("spec.policyTypes[]", "Ingress", "Egress"),
        *(
            rule
            for way in ("spec.ingress[]", "spec.egress[]")
            for rule in (
                one_of(f"{way}.ports[].protocol", "TCP", "UDP", "SCTP"),
                wrong(
                    f"{way}.ports[].port",
                    lambda port: isinstance(port, int) and not 0 < port < 65536,
                    "must be between 1 and 65535, inclusive",
                ),
            )
        ),
    ),
    "certificatesigningrequests.certificates.k8s.io": (
        need("spec.usages"),
        one_of("spec.usages[]", *USAGES),
        need("spec.signerName"),
        matches(
            "spec.signerName",
            r"[a-z0-9][-a-z0-9.]*\.[-a-z0-9.]+/[^/]+",
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
        wrong(
            "spec.signerName",
            lambda name: name == "kubernetes.io/legacy-unknown",
            "the legacy signerName is not allowed via this API version",
        ),
        least("spec.expirationSeconds", 600, "may not specify a duration less than 600 seconds (10 minutes)"),
    ),
    "poddisruptionbudgets.policy": (
        *(
            rule
            for field in ("spec.minAvailable", "spec.maxUnavailable")
            for rule in (
                least(field),
                wrong(field, lambda value: isinstance(value, str) and not _percent(value), PERCENT_TEXT),
                wrong(field, lambda value: _percent(value) > 100, "must not be greater than 100%"),
            )
        ),
        one_of("spec.unhealthyPodEvictionPolicy", "AlwaysAllow", "IfHealthyBudget"),
    ),
    "runtimeclasses.node.k8s.io": (),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (
        *_webhook(),
        one_of("webhooks[].sideEffects", "None", "NoneOnDryRun"),
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (
        *_webhook((one_of("webhooks[].reinvocationPolicy", "IfNeeded", "Never"),)),
        one_of("webhooks[].sideEffects", "None", "NoneOnDryRun"),
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": (
        need("spec.policyName"),
        need("spec.validationActions", "at least one validation action is required"),
        one_of("spec.validationActions[]", "Audit", "Deny", "Warn"),
        wrong("spec.validationActions", lambda actions: {"Deny", "Warn"} <= set(actions), BOTH_ACTIONS),
    ),
    "leases.coordination.k8s.io": (least("spec.leaseDurationSeconds", 1, "must be greater than 0"),),
}


def _percent(value: Any) -> int:
    return int(value[:-1]) if isinstance(value, str) and value[:-1].isdecimal() and value.endswith("%") else 0


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def claim_errors(obj: Obj) -> Iterator[FieldError]:
    """A claim asks for some storage."""
    spec = obj.get("spec") or {}
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if asked is None:
        yield required("spec.resources[storage]")
    elif parse(asked) <= 0:
        yield invalid_value("spec.resources[storage]", asked, POSITIVE)
    modes = spec.get("accessModes") or []
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield forbidden_field("spec.accessModes", SINGLE_MODE)


def volume_errors(obj: Obj) -> Iterator[FieldError]:
    """A volume has one source, and holds something."""
    spec = obj.get("spec") or {}
    sources = [name for name in spec if name not in NOT_SOURCES]
    if not sources:
        yield required("spec", "must specify a volume type")
    for extra in sources[1:]:
        yield forbidden_field(f"spec.{extra}", "may not specify more than 1 volume type")
    capacity = spec.get("capacity") or {}
    if set(capacity) != {"storage"}:
        yield unsupported("spec.capacity", capacity, ("storage",))
    elif parse(capacity["storage"]) <= 0:
        yield invalid_value("spec.capacity[storage]", capacity["storage"], POSITIVE)
    if "local" in spec and "nodeAffinity" not in spec:
        yield required("spec.nodeAffinity", "Local volume requires node affinity")


def ingress_errors(obj: Obj) -> Iterator[FieldError]:
    """Every path has one backend, with one port."""
    spec = obj.get("spec") or {}
    if not spec.get("rules") and not spec.get("defaultBackend"):
        yield invalid_value("spec", None, "either `defaultBackend` or `rules` must be specified")
    for path, host in walk(obj, "spec.rules[].host"):
        if host and not _is_address(host):
            yield from dns("host").test(path, host.removeprefix("*."))
    backends = [*walk(obj, f"{PATHS}.backend"), *walk(obj, "spec.defaultBackend")]
    for path, backend in backends:
        if backend is None:
            continue
        service = backend.get("service")
        if not service and not backend.get("resource"):
            yield invalid_value(path, "", "resource or service backend is required")
        elif service:
            port = service.get("port") or {}
            if not port.get("name") and not port.get("number"):
                yield required(path, "port name or number is required")
            elif port.get("name") and port.get("number"):
                yield invalid_value(path, "", "cannot set both port name & port number")


def policy_errors(obj: Obj) -> Iterator[FieldError]:
    """Every peer of a network policy is of one sort, and its ranges are ranges."""
    spec = obj.get("spec") or {}
    yield from label_errors((spec.get("podSelector") or {}).get("matchLabels"), "spec.podSelector.matchLabels")
    for way in ("spec.ingress[].from[]", "spec.egress[].to[]"):
        for path, peer in walk(obj, way):
            others = [name for name in ("podSelector", "namespaceSelector") if name in peer]
            if not others and "ipBlock" not in peer:
                yield required(path, "must specify a peer")
            elif others and "ipBlock" in peer:
                yield forbidden_field(path, "may not specify both ipBlock and another peer")
            elif "ipBlock" in peer:
                yield from _block_errors(peer["ipBlock"], f"{path}.ipBlock")
    for way in ("spec.ingress[].ports[]", "spec.egress[].ports[]"):
        for path, port in walk(obj, way):
            if port.get("endPort") is not None and "port" not in port:
                why = "may not be specified when `port` is not specified"
                yield invalid_value(f"{path}.endPort", port["endPort"], why)


def _block_errors(block: Obj, path: str) -> Iterator[FieldError]:
    whole = _network(block.get("cidr", ""))
    if whole is None:
        yield invalid_value(f"{path}.cidr", block.get("cidr", ""), CIDR_TEXT)
        return
    for at, text in enumerate(block.get("except") or ()):
        part = _network(text)
        if part is None:
            yield invalid_value(f"{path}.except[{at}]", text, CIDR_TEXT)
        elif part.version != whole.version or not part.subnet_of(whole) or part == whole:  # type: ignore[arg-type]
            yield invalid_value(f"{path}.except[{at}]", text, "must be a strict subset of `cidr`")


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def request_errors(obj: Obj) -> Iterator[FieldError]:
    """A certificate request carries one."""
    given = (obj.get("spec") or {}).get("request", "")
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in base64.b64decode(given):
        yield invalid_value("spec.request", given, "PEM block type must be CERTIFICATE REQUEST")


def budget_errors(obj: Obj) -> Iterator[FieldError]:
    """A budget says what must stay, or what may go."""
    spec = obj.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        shown = {name[:1].upper() + name[1:]: spec.get(name) for name in names}
        yield invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set")


def handler_errors(obj: Obj) -> Iterator[FieldError]:
    """The handler of a runtime class is a label."""
    for path, value in walk(obj, "handler"):
        yield from (
            dns("handler", "label").test(path, value or " ")
            if value
            else (
                invalid_value(error.field, "", error.detail.partition(": ")[2].partition(": ")[2])
                for error in dns("handler", "label").test(path, " ")
            )
        )


def autoscaler_errors(obj: Obj) -> Iterator[FieldError]:
    """An autoscaler has a target, bounds that make sense, and whole metrics."""
    spec = obj.get("spec") or {}
    least_pods, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if least_pods < 1:
        yield invalid_value("spec.minReplicas", least_pods, "must be greater than or equal to 1")
    if most < 1:
        yield invalid_value("spec.maxReplicas", most, "must be greater than 0")
    if most < least_pods:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    for name in ("kind", "name"):
        if not target.get(name):
            yield required(f"spec.scaleTargetRef.{name}")
    if "/" not in target.get("apiVersion", "") and target.get("kind") != "ReplicationController":
        why = "apiVersion must specify API group"
        yield invalid_value("spec.scaleTargetRef.apiVersion", target.get("apiVersion", ""), why)
    for at, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric_errors(metric, f"spec.metrics[{at}]")
    if least_pods == 0 and not any(m.get("type") in ("Object", "External") for m in spec.get("metrics") or ()):
        why = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden_field("spec.metrics", why)


def _metric_errors(metric: Obj, path: str) -> Iterator[FieldError]:
    kind = metric.get("type", "")
    field = METRICS.get(kind)
    if field is None:
        yield unsupported(f"{path}.type", kind, tuple(METRICS))
        return
    source, where = metric.get(field), f"{path}.{field}"
    if source is None:
        yield required(where, "must populate information for the given metric source")
        return
    if field in ("resource", "containerResource") and not source.get("name"):
        yield required(f"{where}.name", "must specify a resource name")
    target = source.get("target") or {}
    if target.get("type") not in ("Utilization", "Value", "AverageValue"):
        why = "must be either Utilization, Value, or AverageValue"
        yield invalid_value(f"{where}.target.type", target.get("type", ""), why)
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        yield invalid_value(f"{where}.target.averageUtilization", share, "must be greater than 0")
    if field in ("resource", "containerResource") and share is None and target.get("averageValue") is None:
        why = "must set either a target raw value or a target utilization"
        yield required(f"{where}.target.averageUtilization", why)


MORE: dict[str, Callable[[Obj], Iterator[FieldError]]] = {
    "persistentvolumeclaims": claim_errors,
    "persistentvolumes": volume_errors,
    "ingresses.networking.k8s.io": ingress_errors,
    "networkpolicies.networking.k8s.io": policy_errors,
    "certificatesigningrequests.certificates.k8s.io": request_errors,
    "poddisruptionbudgets.policy": budget_errors,
    "runtimeclasses.node.k8s.io": handler_errors,
    "horizontalpodautoscalers.autoscaling": autoscaler_errors,
}


def errors_of(resource: str) -> Callable[[Obj], list[FieldError]]:
    """Return what checks the objects of one of these kinds."""
    rules, more = RULES.get(resource, ()), MORE.get(resource)

    def check(obj: Obj) -> list[FieldError]:
        return [*all_errors(rules, obj), *(more(obj) if more is not None else ())]

    return check


NEW = {resource: errors_of(resource) for resource in {*RULES, *MORE}}
