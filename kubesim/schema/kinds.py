"""The kinds of the API, one entry each (group, version, kind, plural, then what differs from the usual)."""

from __future__ import annotations

from dataclasses import replace

from kubesim.schema.entries import NO_LABEL, SCALE, STATUS, WORKLOAD
from kubesim.schema.entries import field as _field
from kubesim.schema.entries import fixed as _fixed
from kubesim.schema.platform_kinds import PLATFORM
from kubesim.schema.registry import Field, Immutable, Kind, Registry, Scale, Subresource

ROLE_REF = _fixed("roleRef", text="cannot change roleRef", roleRef="RoleRef")

PROXY_VERBS = ("create", "delete", "get", "patch", "update")

POD = Kind(
    "", "v1", "Pod", "pods", schema="V1Pod", short_names=("po",), categories=WORKLOAD, graceful=True,
    returns_deleted=True, generation=True,
    subresources=(
        Subresource("attach", "PodAttachOptions", verbs=("create", "get")),
        Subresource("binding", "Binding", verbs=("create",)),
        Subresource("ephemeralcontainers"),
        Subresource("eviction", "Eviction", "policy", "v1", verbs=("create",)),
        Subresource("exec", "PodExecOptions", verbs=("create", "get")),
        Subresource("log", verbs=("get",)),
        Subresource("portforward", "PodPortForwardOptions", verbs=("create", "get")),
        Subresource("proxy", "PodProxyOptions", verbs=PROXY_VERBS),
        Subresource("resize"),
        STATUS,
    ),
    fields=(
        _field("spec.nodeName"), _field("spec.restartPolicy"), _field("spec.schedulerName"),
        _field("spec.serviceAccountName"), _field("spec.hostNetwork", empty="false"), _field("status.phase"),
        _field("status.podIP"), _field("status.podIP", "status.podIPs"), _field("status.nominatedNodeName"),
    ),
    field_error=NO_LABEL, indexes=("spec.nodeName",),
)  # fmt: skip

EVENT_FIELDS = (
    *(_field(f"involvedObject.{name}") for name in ("kind", "namespace", "name", "uid", "apiVersion")),
    _field("involvedObject.resourceVersion"), _field("involvedObject.fieldPath"),
    _field("reason"), _field("reportingComponent"), _field("type"),
    Field("source", ("source", "component"), instead=("reportingComponent",)),
)  # fmt: skip

REGARDING_FIELDS = (
    *(replace(field, label=field.label.replace("involvedObject", "regarding")) for field in EVENT_FIELDS[:-1]),
    Field("reportingController", ("reportingComponent",)),
)  # fmt: skip

EVENT_RENAMES = (
    ("regarding", "involvedObject"), ("note", "message"), ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"), ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"), ("reportingController", "reportingComponent"),
)  # fmt: skip


def _workload(kind: str, plural: str, *short: str, scale: bool = True, **more: object) -> Kind:
    """A kind of group apps: replicas, a template and a selector that never changes."""
    return Kind(
        "apps", "v1", kind, plural, schema=f"V1{kind}", short_names=short, categories=WORKLOAD, generation=True,
        subresources=(SCALE, STATUS) if scale else (STATUS,), scale=Scale() if scale else None,
        **{"immutable": _fixed("spec.selector"), **more},  # type: ignore[arg-type]
    )  # fmt: skip


def _rbac(kind: str, plural: str, *, namespaced: bool, immutable: tuple[Immutable, ...] = ()) -> Kind:
    return Kind(
        "rbac.authorization.k8s.io", "v1", kind, plural, namespaced, f"V1{kind}", names="path",
        create_on_update=True, immutable=immutable,
    )  # fmt: skip


def _review(group: str, kind: str, plural: str, *, namespaced: bool = False) -> Kind:
    """A question that is answered at once and never stored."""
    return Kind(group, "v1", kind, plural, namespaced, f"V1{kind}", verbs=("create",), virtual=True)


KINDS = (
    Kind("", "v1", "Namespace", "namespaces", False, "V1Namespace", short_names=("ns",), names="label",
         subresources=(Subresource("finalize", verbs=("update",)), STATUS),
         fields=(_field("status.phase"),), field_error=NO_LABEL,
         verbs=("create", "delete", "get", "list", "patch", "update", "watch")),
    Kind("", "v1", "Node", "nodes", False, "V1Node", short_names=("no",),
         subresources=(Subresource("proxy", "NodeProxyOptions", verbs=PROXY_VERBS), STATUS),
         fields=(_field("spec.unschedulable", empty="false"),), field_error=NO_LABEL),
    POD,
    Kind("", "v1", "Event", "events", schema="CoreV1Event", names="path", short_names=("ev",), fields=EVENT_FIELDS,
         field_error=NO_LABEL, indexes=("involvedObject.uid",), create_on_update=True, ttl_s=3600),
    Kind("", "v1", "ConfigMap", "configmaps", schema="V1ConfigMap", short_names=("cm",)),
    Kind("", "v1", "Secret", "secrets", schema="V1Secret", fields=(_field("type"),), field_error=NO_LABEL,
         immutable=_fixed("type")),
    Kind("", "v1", "ServiceAccount", "serviceaccounts", schema="V1ServiceAccount", short_names=("sa",),
         subresources=(Subresource("token", "TokenRequest", "authentication.k8s.io", "v1", ("create",)),),
         returns_deleted=True),
    Kind("", "v1", "Service", "services", schema="V1Service", short_names=("svc",), categories=WORKLOAD,
         names="dns1035", field_error=NO_LABEL,
         subresources=(Subresource("proxy", "ServiceProxyOptions", verbs=PROXY_VERBS), STATUS),
         fields=(_field("spec.clusterIP"), _field("spec.type")),
         returns_deleted=True, create_on_update=True),
    Kind("", "v1", "Endpoints", "endpoints", schema="V1Endpoints", short_names=("ep",), create_on_update=True,
         deprecated="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    Kind("", "v1", "ResourceQuota", "resourcequotas", schema="V1ResourceQuota", short_names=("quota",),
         subresources=(STATUS,), returns_deleted=True),
    Kind("", "v1", "LimitRange", "limitranges", schema="V1LimitRange", short_names=("limits",),
         create_on_update=True),
    Kind("batch", "v1", "Job", "jobs", schema="V1Job", categories=WORKLOAD, subresources=(STATUS,), generation=True,
         fields=(_field("status.succeeded", "status.successful", "0"),),
         field_error='field label "{label}" not supported for Job', propagation="Orphan", immutable=_fixed(
             "spec.completions", "spec.selector", "spec.template", "spec.completionMode", "spec.podFailurePolicy",
             "spec.backoffLimitPerIndex", "spec.managedBy", "spec.successPolicy", template="PodTemplateSpec",
             podFailurePolicy="PodFailurePolicy", successPolicy="SuccessPolicy",
         )),
    _workload("Deployment", "deployments", "deploy"),
    _workload("ReplicaSet", "replicasets", "rs"),
    _workload("StatefulSet", "statefulsets", "sts", immutable=(), names="label"),
    _workload("DaemonSet", "daemonsets", "ds", scale=False),
    Kind("apps", "v1", "ControllerRevision", "controllerrevisions", schema="V1ControllerRevision",
         immutable=_fixed("data")),
    Kind("batch", "v1", "CronJob", "cronjobs", schema="V1CronJob", short_names=("cj",), categories=WORKLOAD,
         subresources=(STATUS,), generation=True),
    Kind("", "v1", "ReplicationController", "replicationcontrollers", schema="V1ReplicationController",
         short_names=("rc",), categories=WORKLOAD, subresources=(SCALE, STATUS), scale=Scale(), generation=True,
         fields=(_field("status.replicas", empty="0"),), field_error=NO_LABEL),
    Kind("", "v1", "PodTemplate", "podtemplates", schema="V1PodTemplate", returns_deleted=True, generation=True),
    Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
         schema="V2HorizontalPodAutoscaler", short_names=("hpa",), categories=WORKLOAD, subresources=(STATUS,)),
    Kind("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
         schema="V1HorizontalPodAutoscaler", short_names=("hpa",), categories=WORKLOAD, subresources=(STATUS,),
         storage="horizontalpodautoscalers.autoscaling"),
    _rbac("Role", "roles", namespaced=True),
    _rbac("RoleBinding", "rolebindings", namespaced=True, immutable=ROLE_REF),
    _rbac("ClusterRole", "clusterroles", namespaced=False),
    _rbac("ClusterRoleBinding", "clusterrolebindings", namespaced=False, immutable=ROLE_REF),
    Kind("coordination.k8s.io", "v1", "Lease", "leases", schema="V1Lease", create_on_update=True,
         unconditional_update=False),
    Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, "V1PriorityClass", short_names=("pc",),
         generation=True, immutable=(
             *_fixed("value", text="may not be changed in an update.", forbidden=True), *_fixed("preemptionPolicy"))),
    Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", schema="V1EndpointSlice",
         immutable=_fixed("addressType"), generation=True),
    Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", schema="V1PodDisruptionBudget",
         short_names=("pdb",), names="path", subresources=(STATUS,), generation=True, unconditional_update=False),
    Kind("events.k8s.io", "v1", "Event", "events", schema="EventsV1Event", short_names=("ev",), storage="events",
         renames=EVENT_RENAMES, fields=REGARDING_FIELDS, field_error=NO_LABEL, indexes=("regarding.uid",),
         create_on_update=True),
    *PLATFORM,
    Kind("", "v1", "Binding", "bindings", schema="V1Binding", verbs=("create",), virtual=True),
    Kind("", "v1", "ComponentStatus", "componentstatuses", False, "V1ComponentStatus", short_names=("cs",),
         verbs=("get", "list"), deprecated="v1 ComponentStatus is deprecated in v1.19+"),
    _review("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    _review("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    _review("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"),
    _review("authorization.k8s.io", "LocalSubjectAccessReview", "localsubjectaccessreviews", namespaced=True),
    _review("authentication.k8s.io", "TokenReview", "tokenreviews"),
    _review("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews"),
)  # fmt: skip


registry = Registry(KINDS)
