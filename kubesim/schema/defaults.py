"""Defaults by type, as the SetDefaults functions of k8s.io/kubernetes/pkg/apis/*/v1 set them.

``STATIC`` are constants; a function here is a default that depends on other fields. Both apply wherever the type
occurs, so that a pod template gets what a pod gets.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

from kubesim.errors import Obj
from kubesim.schema import facts, platform_defaults

MAX_INT32 = 2147483647
RBAC_GROUP = "rbac.authorization.k8s.io"
FILE_MODE = {"defaultMode": 420}
CONTAINER = {"resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
JOB = {"completionMode": "NonIndexed", "suspend": False, "manualSelector": False}

STATIC: dict[str, Obj] = {
    "V1PodSpec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    "V1Container": CONTAINER,
    "V1EphemeralContainer": CONTAINER,
    "V1ContainerPort": {"protocol": "TCP"},
    "V1Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "V1HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "V1GRPCAction": {"service": ""},
    "V1SecretVolumeSource": FILE_MODE,
    "V1ConfigMapVolumeSource": FILE_MODE,
    "V1DownwardAPIVolumeSource": FILE_MODE,
    "V1ProjectedVolumeSource": FILE_MODE,
    "V1ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "V1ObjectFieldSelector": {"apiVersion": "v1"},
    "V1ResourceFieldSelector": {"divisor": "0"},
    "V1HostPathVolumeSource": {"type": ""},
    "V1ContainerStatus": {"state": {}, "lastState": {}},
    "V1PodCondition": {"lastProbeTime": None},
    "V1DeploymentSpec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    "V1ReplicaSetSpec": {"replicas": 1},
    "V1Secret": {"type": "Opaque"},
    "V1ServiceSpec": {"type": "ClusterIP", "sessionAffinity": "None"},
    "V1ServicePort": {"protocol": "TCP"},
    "V1RoleRef": {"apiGroup": RBAC_GROUP},
    "V1PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "DiscoveryV1EndpointPort": {"name": "", "protocol": "TCP"},
    "CoreV1EndpointPort": {"protocol": "TCP"},
    "CoreV1Event": {"firstTimestamp": None, "lastTimestamp": None, "eventTime": None, "source": {}},
}


def container(obj: Obj) -> None:
    """An image without a tag, or with ``latest``, is always pulled."""
    if "image" in obj:
        obj.setdefault("imagePullPolicy", pull_policy(obj["image"]))


def pull_policy(image: str) -> str:
    """Return the pull policy that an image's reference implies."""
    if "@" in image:
        return "IfNotPresent"
    tag = re.search(r":([^/:]+)$", image)
    return "Always" if tag is None or tag[1] == "latest" else "IfNotPresent"


def pod_spec(obj: Obj) -> None:
    """``serviceAccount`` is the old name of ``serviceAccountName``."""
    name = obj.get("serviceAccountName") or obj.get("serviceAccount")
    if name:
        obj["serviceAccountName"] = obj["serviceAccount"] = name


def pod(obj: Obj) -> None:
    """Requests default to limits, and host ports to the container's, in pods only and not in their templates."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("enableServiceLinks", True)
    for holder in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        for port in holder.get("ports", ()) if spec.get("hostNetwork") else ():
            port.setdefault("hostPort", port.get("containerPort"))
        resources = holder["resources"]
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **resources.get("requests", {})}


def deployment_spec(obj: Obj) -> None:
    """Rolling updates move a quarter of the pods at a time."""
    strategy = obj.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def job(obj: Obj) -> None:
    """One pod, six retries; per-index limits and failure policies change the rest. Templates of jobs have none of it.

    A job without labels takes those of its pod template.
    """
    spec = obj.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", MAX_INT32 if spec.get("backoffLimitPerIndex") is not None else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    for name, value in JOB.items():
        spec.setdefault(name, value)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not obj.get("metadata", {}).get("labels"):
        obj.setdefault("metadata", {})["labels"] = dict(labels)


def secret(obj: Obj) -> None:
    """``stringData`` is a way to write ``data`` and is never read back."""
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        obj["data"] = {**obj.get("data", {}), **encoded}


def service_port(obj: Obj) -> None:
    """A port is its own target."""
    if obj.get("targetPort") in (None, "", 0) and "port" in obj:
        obj["targetPort"] = obj["port"]


def service_spec(obj: Obj) -> None:
    """Traffic policies by type."""
    if obj["type"] in ("ClusterIP", "NodePort", "LoadBalancer"):
        obj.setdefault("internalTrafficPolicy", "Cluster")
    if obj["type"] in ("NodePort", "LoadBalancer"):
        obj.setdefault("externalTrafficPolicy", "Cluster")
    if obj["type"] == "LoadBalancer":
        obj.setdefault("allocateLoadBalancerNodePorts", True)


def subject(obj: Obj) -> None:
    """Users and groups belong to the group of RBAC, service accounts to the core group."""
    if obj.get("kind") in ("User", "Group"):
        obj.setdefault("apiGroup", RBAC_GROUP)


def limit_item(obj: Obj) -> None:
    """For containers, limits default to the maximum and requests to the limits, else to the minimum."""
    if obj.get("type") != "Container":
        return
    limits = {**obj.get("max", {}), **obj.get("default", {})}
    requests = {**obj.get("min", {}), **limits, **obj.get("defaultRequest", {})}
    for name, value in (("default", limits), ("defaultRequest", requests)):
        if value:
            obj[name] = value


COMPUTED: dict[str, Callable[[Obj], None]] = {
    "V1Container": container,
    "V1EphemeralContainer": container,
    "V1PodSpec": pod_spec,
    "V1Pod": pod,
    "V1DeploymentSpec": deployment_spec,
    "V1Job": job,
    "V1Secret": secret,
    "V1ServicePort": service_port,
    "V1ServiceSpec": service_spec,
    "RbacV1Subject": subject,
    "V1LimitRangeItem": limit_item,
}
STATIC |= platform_defaults.STATIC
COMPUTED |= platform_defaults.COMPUTED


def _default(name: str) -> Callable[[Obj], None]:
    static, computed = STATIC.get(name, {}), COMPUTED.get(name)

    def apply(obj: Obj) -> None:
        for field, value in static.items():
            if field not in obj or (not obj[field] and (name, field) in facts.WRITTEN):
                obj[field] = value.copy() if isinstance(value, dict | list) else value
        if computed is not None:
            computed(obj)

    return apply


DEFAULTS = {name: _default(name) for name in {**STATIC, **COMPUTED}}
"""What sets the defaults of each type that has any."""
