"""HealthEvents as objects (healthevents.dgxc.nvidia.com), for the user guide of GPU fault injection.

NVSentinel keeps its events in a database, and so they are no objects of any cluster but one in guide mode.
"""

from __future__ import annotations

import hashlib

from kubesim.client import Client
from kubesim.errors import ApiError, Obj
from kubesim.kubelet.duties import Post
from kubesim.times import stamp

RESOURCE, VERSION = "healthevents.healthevents.dgxc.nvidia.com", "healthevents.dgxc.nvidia.com/v1alpha1"
STAGES: dict[str | None, Obj] = {
    "quarantined": {"nodeQuarantined": "Quarantined", "userPodsEvictionStatus": "NotStarted"},
    "draining": {"userPodsEvictionStatus": "InProgress"},
    "drain-succeeded": {"userPodsEvictionStatus": "Succeeded"},
    "remediating": {"faultRemediated": True},
    "remediation-failed": {"faultRemediated": False},
    None: {"nodeQuarantined": "UnQuarantined"},
}
"""State of a node -> what it says of the fatal events that led to it; remediated: the repair has been ordered."""


async def record(post: Post, check: str, message: str, *, code: int, action: str, uuid: str, bus: str) -> None:
    """Keep an event of a check on the post's node; ``code`` 0: the node is healthy again."""
    if not post.fabric.guide:
        return
    now = stamp(post.clock.now())
    named = hashlib.sha256(f"{now}{message}{code}".encode()).hexdigest()[:10]
    entities = [("PCI", bus), ("GPU_UUID", uuid)]
    spec: Obj = {"version": 1, "agent": "syslog-health-monitor", "componentClass": "GPU", "checkName": check}
    spec |= {"isFatal": action != "NONE", "isHealthy": not code, "message": message, "recommendedAction": action}
    spec |= {"errorCode": [str(code)] if code else [], "nodeName": post.node, "generatedTimestamp": now}
    spec["entitiesImpacted"] = [{"entityType": kind, "entityValue": value} for kind, value in entities if value]
    meta = {"name": f"{post.node}-{named}", "namespace": post.pod["metadata"]["namespace"]}
    obj = {"apiVersion": VERSION, "kind": "HealthEvent", "metadata": meta, "spec": spec}
    try:
        await post.api.create(RESOURCE, obj, namespace=meta["namespace"])
    except ApiError as error:
        if error.code not in (404, 409):  # no such kind here; told before the kubelet was started again
            raise


async def follow(post: Post, api: Client, node: str, state: str | None) -> None:
    """Note the state that NVSentinel has put a node into on the node's events that are not over."""
    if not post.fabric.guide or state not in STAGES:
        return
    namespace = post.pod["metadata"]["namespace"]
    try:
        found = (await api.list(RESOURCE, namespace)).items
    except ApiError as error:
        if error.code != 404:
            raise
        return
    for event in found:
        spec, status = event["spec"], event.get("status") or {}
        over = status.get("nodeQuarantined") == "UnQuarantined"
        if spec["nodeName"] == node and spec["isFatal"] and not spec["isHealthy"] and not over:
            patch = {"status": {**status, **STAGES[state]}}
            await api.patch(RESOURCE, event["metadata"]["name"], namespace, patch, subresource="status")
