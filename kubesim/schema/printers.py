"""What ``kubectl get`` prints: the columns of each kind, as data.

A column is a name and a value: a dotted path into the object, or a function of the object and the time. Wide columns
(priority 1) appear with ``-o wide``.
"""

from __future__ import annotations

from kubesim.schema.cells import (
    Value,
    component_condition,
    component_health,
    container_names,
    count,
    data_count,
    dig,
    endpoints,
    event_count,
    event_first_seen,
    event_last_seen,
    event_message,
    event_object,
    event_source,
    external_ip,
    images,
    job_completions,
    job_duration,
    job_status,
    label_selector,
    map_selector,
    node_address,
    node_info,
    node_roles,
    node_status,
    or_none,
    or_unset,
    pod_ready,
    pod_restarts,
    pod_status,
    ports,
    quota,
    readiness_gates,
    role_name,
    slice_endpoints,
    slice_ports,
    subjects,
)
from kubesim.schema.columns import AGE, NAME, Column, kind_columns
from kubesim.schema.platform_printers import PLATFORM

TEMPLATE_WIDE = (
    Column("Containers", container_names, wide=True),
    Column("Images", images, wide=True),
)
SELECTOR_WIDE = Column("Selector", label_selector, wide=True)


def _budget(path: str) -> Value:
    """Return minAvailable or maxUnavailable, ``N/A`` without."""
    return lambda obj, now: "N/A" if dig(obj, path) is None else str(dig(obj, path))


PRINTERS: dict[str, tuple[Column, ...]] = {
    "pods": kind_columns(
        Column("Ready", pod_ready),
        Column("Status", pod_status),
        Column("Restarts", pod_restarts),
        wide=(
            Column("IP", or_none("status.podIP"), wide=True),
            Column("Node", or_none("spec.nodeName"), wide=True),
            Column("Nominated Node", or_none("status.nominatedNodeName"), wide=True),
            Column("Readiness Gates", readiness_gates, wide=True),
        ),
    ),
    "nodes": (
        NAME,
        Column("Status", node_status),
        Column("Roles", node_roles),
        AGE,
        Column("Version", "status.nodeInfo.kubeletVersion"),
        Column("Internal-IP", node_address("InternalIP"), wide=True),
        Column("External-IP", node_address("ExternalIP"), wide=True),
        Column("OS-Image", node_info("osImage"), wide=True),
        Column("Kernel-Version", node_info("kernelVersion"), wide=True),
        Column("Container-Runtime", node_info("containerRuntimeVersion"), wide=True),
    ),
    "componentstatuses": (
        NAME,
        Column("Status", component_health),
        Column("Message", component_condition("message")),
        Column("Error", component_condition("error")),
    ),
    "namespaces": kind_columns(Column("Status", "status.phase")),
    "configmaps": kind_columns(Column("Data", data_count, type="integer")),
    "secrets": kind_columns(Column("Type", "type"), Column("Data", data_count, type="integer")),
    "serviceaccounts": kind_columns(Column("Secrets", count("secrets"), type="integer")),
    "services": kind_columns(
        Column("Type", "spec.type"),
        Column("Cluster-IP", or_none("spec.clusterIP")),
        Column("External-IP", external_ip),
        Column("Port(s)", ports),
        wide=(Column("Selector", map_selector, wide=True),),
    ),
    "endpoints": kind_columns(Column("Endpoints", endpoints)),
    "endpointslices.discovery.k8s.io": kind_columns(
        Column("AddressType", "addressType"), Column("Ports", slice_ports), Column("Endpoints", slice_endpoints)
    ),
    "resourcequotas": kind_columns(Column("Request", quota(())), Column("Limit", quota(("limits.",)))),
    "limitranges": (NAME, Column("Created At", "metadata.creationTimestamp")),
    "jobs.batch": kind_columns(
        Column("Status", job_status),
        Column("Completions", job_completions),
        Column("Duration", job_duration),
        wide=(*TEMPLATE_WIDE, SELECTOR_WIDE),
    ),
    "deployments.apps": kind_columns(
        Column("Ready", lambda d, now: f"{dig(d, 'status.readyReplicas') or 0}/{dig(d, 'spec.replicas') or 0}"),
        Column("Up-to-date", "status.updatedReplicas", type="integer"),
        Column("Available", "status.availableReplicas", type="integer"),
        wide=(*TEMPLATE_WIDE, SELECTOR_WIDE),
    ),
    "replicasets.apps": kind_columns(
        Column("Desired", "spec.replicas", type="integer"),
        Column("Current", "status.replicas", type="integer"),
        Column("Ready", "status.readyReplicas", type="integer"),
        wide=(*TEMPLATE_WIDE, SELECTOR_WIDE),
    ),
    "statefulsets.apps": kind_columns(
        Column("Ready", lambda s, now: f"{dig(s, 'status.readyReplicas') or 0}/{dig(s, 'spec.replicas') or 0}"),
        wide=TEMPLATE_WIDE,
    ),
    "replicationcontrollers": kind_columns(
        Column("Desired", "spec.replicas", type="integer"),
        Column("Current", "status.replicas", type="integer"),
        Column("Ready", "status.readyReplicas", type="integer"),
        wide=(*TEMPLATE_WIDE, Column("Selector", map_selector, wide=True)),
    ),
    "daemonsets.apps": kind_columns(
        Column("Desired", "status.desiredNumberScheduled", type="integer"),
        Column("Current", "status.currentNumberScheduled", type="integer"),
        Column("Ready", "status.numberReady", type="integer"),
        Column("Up-to-date", "status.updatedNumberScheduled", type="integer"),
        Column("Available", "status.numberAvailable", type="integer"),
        Column(
            "Node Selector",
            lambda d, now: (
                ",".join(f"{k}={v}" for k, v in sorted((dig(d, "spec.template.spec.nodeSelector") or {}).items()))
                or "<none>"
            ),
        ),
        wide=(*TEMPLATE_WIDE, SELECTOR_WIDE),
    ),
    "events": (
        Column("Last Seen", event_last_seen),
        Column("Type", "type"),
        Column("Reason", "reason"),
        Column("Object", event_object),
        Column("Subobject", or_none("involvedObject.fieldPath", ""), wide=True),
        Column("Source", event_source, wide=True),
        Column("Message", event_message),
        Column("First Seen", event_first_seen, wide=True),
        Column("Count", event_count, wide=True, type="integer"),
        Column("Name", "metadata.name", wide=True, format="name"),
    ),
    "roles.rbac.authorization.k8s.io": (NAME, Column("Created At", "metadata.creationTimestamp")),
    "clusterroles.rbac.authorization.k8s.io": (NAME, Column("Created At", "metadata.creationTimestamp")),
    "rolebindings.rbac.authorization.k8s.io": kind_columns(
        Column("Role", role_name),
        wide=(
            Column("Users", subjects("User"), wide=True),
            Column("Groups", subjects("Group"), wide=True),
            Column("ServiceAccounts", subjects("ServiceAccount"), wide=True),
        ),
    ),
    "leases.coordination.k8s.io": kind_columns(Column("Holder", "spec.holderIdentity")),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        Column("Value", "value", type="integer"),
        Column("Global-Default", lambda p, now: bool(p.get("globalDefault"))),
        AGE,
        Column("PreemptionPolicy", or_unset("preemptionPolicy")),
    ),
    "poddisruptionbudgets.policy": kind_columns(
        Column("Min Available", _budget("spec.minAvailable")),
        Column("Max Unavailable", _budget("spec.maxUnavailable")),
        Column("Allowed Disruptions", "status.disruptionsAllowed", type="integer"),
    ),
}
PRINTERS["clusterrolebindings.rbac.authorization.k8s.io"] = PRINTERS["rolebindings.rbac.authorization.k8s.io"]
PRINTERS["events.events.k8s.io"] = PRINTERS["events"]
PRINTERS |= PLATFORM
DEFAULT = (NAME, Column("Created At", "metadata.creationTimestamp"))
