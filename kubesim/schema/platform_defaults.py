"""Defaults of workloads beside Deployments and Jobs, of storage, networking, autoscaling and admission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesim.errors import Obj

DEFAULT_CPU_PERCENT = 80
SCALE_PERIOD_S = 15
EVERYTHING = {"policies": [{"type": "Percent", "value": 100, "periodSeconds": SCALE_PERIOD_S}], "selectPolicy": "Max"}
SCALE_DOWN: Obj = EVERYTHING
SCALE_UP: Obj = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": SCALE_PERIOD_S}, EVERYTHING["policies"][0]],
}
WEBHOOK: Obj = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}

STATIC: dict[str, Obj] = {
    "V1StatefulSetSpec": {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
    },
    "V1DaemonSetSpec": {"revisionHistoryLimit": 10},
    "V1CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "V1ReplicationControllerSpec": {"replicas": 1},
    "V1PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    "V1PersistentVolumeStatus": {"phase": "Pending"},
    "V1PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "V1PersistentVolumeClaimStatus": {"phase": "Pending"},
    "V1StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "V1CSIDriverSpec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
        "seLinuxMount": False,
        "volumeLifecycleModes": ["Persistent"],
    },
    "V1HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "V2HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "V1IngressClassParametersReference": {"scope": "Cluster"},
    "V1NetworkPolicyPort": {"protocol": "TCP"},
    "V1ValidatingWebhook": WEBHOOK,
    "V1MutatingWebhook": {**WEBHOOK, "reinvocationPolicy": "Never"},
    "V1RuleWithOperations": {"scope": "*"},
    "V1NamedRuleWithOperations": {"scope": "*"},
    "AdmissionregistrationV1ServiceReference": {"port": 443},
    "ApiregistrationV1ServiceReference": {"port": 443},
    "V1DeviceToleration": {"operator": "Equal"},
    "V1ValidatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "V1MatchResources": {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}},
    "V1FlowSchemaSpec": {"matchingPrecedence": 1000},
    "V1LimitedPriorityLevelConfiguration": {"nominalConcurrencyShares": 30, "lendablePercent": 0},
    "V1ExemptPriorityLevelConfiguration": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    "V1EndpointSlice": {"endpoints": None, "ports": None},
    "V1CSINodeDriver": {"topologyKeys": None},
    "V2HorizontalPodAutoscalerStatus": {"currentMetrics": None},
    "V1QueuingConfiguration": {"queues": 64, "handSize": 8, "queueLengthLimit": 50},
}


def statefulset_spec(obj: Obj) -> None:
    """Pods are replaced one by one, and claims stay when pods go."""
    strategy = obj.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    for template in obj.get("volumeClaimTemplates", ()):
        template |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    policy = obj.setdefault("persistentVolumeClaimRetentionPolicy", {})
    policy |= {name: policy.get(name) or "Retain" for name in ("whenDeleted", "whenScaled")}


def daemonset_spec(obj: Obj) -> None:
    """One node's pod is replaced at a time."""
    strategy = obj.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def replication_controller(obj: Obj) -> None:
    """Labels and selector default to the labels of the template."""
    spec = obj.get("spec") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        spec["selector"] = spec.get("selector") or dict(labels)
        obj.setdefault("metadata", {})
        obj["metadata"]["labels"] = obj["metadata"].get("labels") or dict(labels)


def autoscaler_spec(obj: Obj) -> None:
    """Without metrics, 80 % of the requested CPU is aimed at; what a given behaviour leaves open is filled in."""
    if not obj.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": DEFAULT_CPU_PERCENT}
        obj["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = obj.get("behavior")
    if behavior is not None:
        for name, rules in (("scaleUp", SCALE_UP), ("scaleDown", SCALE_DOWN)):
            behavior[name] = {**rules, **{key: item for key, item in behavior.get(name, {}).items() if item}}


def network_policy_spec(obj: Obj) -> None:
    """A policy speaks of what comes in, and of what goes out where it has rules for that."""
    if not obj.get("policyTypes"):
        obj["policyTypes"] = ["Ingress", *(["Egress"] if obj.get("egress") else [])]


def claim(obj: Obj) -> None:
    """The two ways to name what a volume is made from say the same."""
    spec = obj.get("spec") or {}
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = dict(reference)


def definition_names(obj: Obj) -> None:
    """The names of one and of many objects follow from the kind."""
    if kind := obj.get("kind"):
        obj["singular"] = obj.get("singular") or kind.lower()
        obj["listKind"] = obj.get("listKind") or f"{kind}List"


def definition_spec(obj: Obj) -> None:
    """Versions differ in their names only, unless a webhook converts them."""
    obj.setdefault("names", {})
    obj["conversion"] = {"strategy": "None", **(obj.get("conversion") or {})}


def priority_level_spec(obj: Obj) -> None:
    """An exempt level has a share too."""
    if obj.get("type") == "Exempt":
        obj.setdefault("exempt", {"nominalConcurrencyShares": 0, "lendablePercent": 0})


def device_request(obj: Obj) -> None:
    """Without a count, one device is asked for."""
    obj["allocationMode"] = obj.get("allocationMode") or "ExactCount"
    if obj["allocationMode"] == "ExactCount":
        obj["count"] = obj.get("count") or 1


COMPUTED: dict[str, Callable[[Any], None]] = {
    "V1CustomResourceDefinitionNames": definition_names,
    "V1CustomResourceDefinitionSpec": definition_spec,
    "V1ExactDeviceRequest": device_request,
    "V1DeviceSubRequest": device_request,
    "V1StatefulSetSpec": statefulset_spec,
    "V1DaemonSetSpec": daemonset_spec,
    "V1ReplicationController": replication_controller,
    "V2HorizontalPodAutoscalerSpec": autoscaler_spec,
    "V1NetworkPolicySpec": network_policy_spec,
    "V1PersistentVolumeClaim": claim,
    "V1PriorityLevelConfigurationSpec": priority_level_spec,
}
