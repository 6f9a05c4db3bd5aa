"""What the models do not tell: merge keys and quantities. Facts of the tags in k8s.io/api's Go types."""

from __future__ import annotations

PRIMITIVE = "primitive"
"""The mark of a list of scalars that merges as a set."""

_POD_LISTS = {
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "imagePullSecrets": "name",
    "volumes": "name", "hostAliases": "ip", "topologySpreadConstraints": "topologyKey", "schedulingGates": "name",
    "resourceClaims": "name",
}  # fmt: skip
_CONTAINER_LISTS = {
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
}
_CONTAINERS = ("V1Container", "V1EphemeralContainer")
_WITH_CONDITIONS = ("Pod", "Node", "Deployment", "ReplicaSet", "Job", "Namespace", "Service", "PodDisruptionBudget")

MERGE_KEYS = {
    **{("V1PodSpec", name): key for name, key in _POD_LISTS.items()},
    **{(owner, name): key for owner in _CONTAINERS for name, key in _CONTAINER_LISTS.items()},
    **{(f"V1{kind}Status", "conditions"): "type" for kind in _WITH_CONDITIONS},
    ("V1ServiceAccount", "secrets"): "name",
    ("V1ServiceAccount", "imagePullSecrets"): "name",
    ("V1ServiceSpec", "ports"): "port",
    ("V1NodeStatus", "addresses"): "type",
    ("V1PodStatus", "podIPs"): "ip",
    ("V1PodStatus", "hostIPs"): "ip",
    ("V1ResourceRequirements", "claims"): "name",
    ("V1ObjectMeta", "ownerReferences"): "uid",
    ("V1ObjectMeta", "finalizers"): PRIMITIVE,
    ("V1NodeSpec", "podCIDRs"): PRIMITIVE,
}

QUANTITIES = {
    ("V1ResourceRequirements", "limits"), ("V1ResourceRequirements", "requests"),
    ("V1VolumeResourceRequirements", "limits"), ("V1VolumeResourceRequirements", "requests"),
    ("V1ContainerStatus", "allocatedResources"), ("V1PodStatus", "allocatedResources"),
    ("V1NodeStatus", "capacity"), ("V1NodeStatus", "allocatable"), ("V1PodSpec", "overhead"),
    ("V1ResourceQuotaSpec", "hard"), ("V1ResourceQuotaStatus", "hard"), ("V1ResourceQuotaStatus", "used"),
    ("V1LimitRangeItem", "default"), ("V1LimitRangeItem", "defaultRequest"), ("V1LimitRangeItem", "max"),
    ("V1LimitRangeItem", "min"), ("V1LimitRangeItem", "maxLimitRequestRatio"),
    ("V1EmptyDirVolumeSource", "sizeLimit"), ("V1ResourceFieldSelector", "divisor"),
}  # fmt: skip

INT64 = frozenset(
    ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerationSeconds", "expirationSeconds", "generation")
    + ("observedGeneration", "deletionGracePeriodSeconds", "gracePeriodSeconds", "runAsUser", "runAsGroup", "fsGroup")
)

NULLS = {("V1PodCondition", "lastProbeTime"), ("CoreV1Event", "eventTime"), ("CoreV1Event", "firstTimestamp"),
         ("CoreV1Event", "lastTimestamp"), ("V1ClusterRole", "rules"), ("V1EndpointSlice", "endpoints"),
         ("V1EndpointSlice", "ports")}  # fmt: skip
"""Fields that are written even where they are null."""

KEPT_EMPTY = {("V1PolicyRule", "verbs"), ("V1Role", "rules"), ("V1ClusterRole", "rules")}
"""Lists that are written even where they are empty."""

_ZEROS = {
    "V1PodSpec": "hostNetwork hostPID hostIPC nodeName hostname subdomain serviceAccount serviceAccountName",
    "V1Container": "stdin stdinOnce tty workingDir imagePullPolicy terminationMessagePath",
    "V1NodeSpec": "unschedulable podCIDR providerID",
    "V1VolumeMount": "readOnly subPath subPathExpr",
    "V1DeploymentSpec": "paused minReadySeconds",
    "V1ReplicaSetSpec": "minReadySeconds",
    "V1DeploymentStatus": "replicas updatedReplicas readyReplicas availableReplicas unavailableReplicas "
    "observedGeneration",
    "V1ReplicaSetStatus": "fullyLabeledReplicas readyReplicas availableReplicas observedGeneration",
    "V1JobStatus": "active succeeded failed completedIndexes",
    "V1EnvVar": "value",
    "V1Toleration": "key operator value effect",
    "V1Taint": "value",
    "V1ContainerPort": "hostPort hostIP name",
    "V1ObjectMeta": "generateName namespace selfLink",
    "V1Probe": "initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold",
    "CoreV1Event": "count message reason type action",
}
OMITTED = {(owner, name) for owner, names in _ZEROS.items() for name in names.split()}
"""Scalars that are left out where they are zero, because their Go fields are no pointers."""

POINTERS = {"selector"}
"""Required objects that are pointers nevertheless, so that their absence can be told."""
