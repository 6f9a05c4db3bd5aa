"""Bodies of network faults, in the words of the service that the guide was written for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from faults.api.schemas import Seconds, Strict

Namespace = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Pods = Annotated[str, Field(min_length=1, max_length=300, description="Labels (app=web), or worker, frontend, nats.")]
Port = Annotated[int, Field(ge=1, le=65535)]
Ports = Annotated[list[Port], Field(min_length=1, max_length=8)] | None
LabelKey = Annotated[
    str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]{0,200})/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
]
LabelValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")]
Labels = Annotated[dict[LabelKey, LabelValue], Field(min_length=1, max_length=8)]
LabelSets = Annotated[list[Labels], Field(min_length=1, max_length=4)] | None
Share = Annotated[float, Field(gt=0, le=100)] | None
Milliseconds = Annotated[int, Field(ge=1, le=60_000)] | None
Rate = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,8}([kmgt]?bit|[kmgt]?bps)$", description="Such as 1mbit.")] | None
OF_POLICY = (
    "ports", "block", "dns", "block_nats", "block_all_egress", "block_ingress", "block_specific_pods", "block_ports",
    "allow_namespaces",
)  # fmt: skip
OF_CHAOS = (
    "packet_loss_percent", "delay_ms", "delay_jitter_ms", "bandwidth_limit", "corrupt_percent", "duplicate_percent",
    "target_nats", "target_specific_pods", "target_ports",
)  # fmt: skip


class PartitionParameters(Strict):
    """Parameters of a network fault.

    ``target_pod_prefix`` names the pods that suffer by how their names begin, in place of ``source`` (of ``target``
    for ``frontend_worker``). Of ``networkpolicy``: ``ports`` (or ``block_ports``) are closed alone; ``block`` and
    ``dns`` are for ``custom``; ``block_nats``, ``block_specific_pods``, ``block_all_egress`` and ``block_ingress``
    close that in place of what the partition's name says, and ``allow_namespaces`` stay open to the last two. Of
    ``chaos_mesh``: the others; all together take effect.
    """

    namespace: Namespace
    target_pod_prefix: Annotated[str, Field(pattern=r"^[a-z0-9][-a-z0-9.]{0,252}$")] | None = None
    ports: Ports = None
    block: Literal["ingress", "egress", "all"] | None = None
    dns: bool | None = None
    block_nats: bool | None = None
    block_all_egress: bool | None = None
    block_ingress: bool | None = None
    block_specific_pods: LabelSets = None
    block_ports: Ports = None
    allow_namespaces: Annotated[list[Namespace], Field(min_length=1, max_length=8)] | None = None
    packet_loss_percent: Share = None
    delay_ms: Milliseconds = None
    delay_jitter_ms: Milliseconds = None
    bandwidth_limit: Rate = None
    corrupt_percent: Share = None
    duplicate_percent: Share = None
    target_nats: bool | None = None
    target_specific_pods: LabelSets = None
    target_ports: Ports = None


class NetworkFaultIn(Strict):
    """A partition: pods of ``source`` no longer reach those of ``target``."""

    partition_type: Literal["frontend_worker", "worker_nats", "worker_worker", "custom"]
    source: Pods
    target: Pods
    mode: Literal["networkpolicy", "chaos_mesh"] = "networkpolicy"
    parameters: PartitionParameters
    duration: Seconds = None
