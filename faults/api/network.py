"""Routes of network faults: partitions between pods, and their clean-up."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

from django.conf import settings
from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from faults import network_faults, services
from faults.api.access import needs
from faults.api.problems import ApiProblem
from faults.api.recording import caller_of, recorded
from faults.api.schemas import REFUSED, InjectedOut, Seconds, Strict, injected
from faults.errors import NotYet
from faults.jobs import holder_name
from faults.models import InjectedFault
from faults.network_faults import WrongPartition
from faults.services.api_tokens import INJECT

router = Router(tags=["network"])
Namespace = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Pods = Annotated[str, Field(min_length=1, max_length=300, description="Labels (app=web), or worker, frontend, nats.")]
Port = Annotated[int, Field(ge=1, le=65535)]


class PartitionParameters(Strict):
    """Parameters of a partition: ``ports`` are closed alone; ``block`` and ``dns`` are for ``custom``."""

    namespace: Namespace
    ports: Annotated[list[Port], Field(min_length=1, max_length=8)] | None = None
    block: Literal["ingress", "egress", "all"] | None = None
    dns: bool | None = None


class NetworkFaultIn(Strict):
    """A partition: pods of ``source`` no longer reach those of ``target``."""

    partition_type: Literal["frontend_worker", "worker_nats", "worker_worker", "custom"]
    source: Pods
    target: Pods
    mode: Literal["networkpolicy"] = "networkpolicy"
    parameters: PartitionParameters
    duration: Seconds = None


class CleanupOut(Schema):
    """The policies that were deleted."""

    policies_deleted: int
    deleted_policy_names: list[str]
    still_recovering: list[str]


@router.post("/inject", response={200: InjectedOut, **REFUSED}, auth=needs(INJECT), summary="Partition the network")
def inject_network_fault(request: HttpRequest, body: NetworkFaultIn) -> Any:
    """Keep pods of a namespace from each other by a NetworkPolicy."""
    caller, kind = caller_of(request), f"network_{body.partition_type}"
    planned = _planned(body, kind)
    fault = recorded(
        caller,
        "fault.inject",
        f"{kind} {planned.target}",
        lambda: services.inject_fault(cluster=caller.cluster, planned=planned, by=caller.name, holder=holder_name()),
    )
    return injected(fault, f"{body.source} no longer reaches {body.target} in {body.parameters.namespace}")


@router.post("/cleanup", response={200: CleanupOut, **REFUSED}, auth=needs(INJECT), summary="End partitions")
def clean_up(request: HttpRequest, namespace: Query[Namespace]) -> Any:
    """End every network fault of the API in a namespace."""
    caller = caller_of(request)
    left = InjectedFault.objects.filter(
        cluster=caller.cluster, type__startswith="network_", target__startswith=f"{namespace}/", recovered_at=None
    )
    done: list[str] = []
    waiting: list[str] = []
    for fault in left.order_by("-id"):

        def recover(fault: InjectedFault = fault) -> InjectedFault:
            try:
                return services.recover_fault(cluster=caller.cluster, fault_id=fault.fault_id, holder=holder_name())
            except NotYet:
                return fault

        over = recorded(caller, "fault.recover", fault.fault_id, recover).recovered_at is not None
        (done if over else waiting).append(fault.target.partition("/")[2])
    return {"policies_deleted": len(done), "deleted_policy_names": done, "still_recovering": waiting}


def _planned(body: NetworkFaultIn, kind: str) -> services.PlannedFault:
    wanted, fault_id = body.parameters, services.fault_id_for(kind)
    in_guide = bool(settings.GUIDE_CLUSTER)
    # Where somebody is interviewed, the name of a policy must not tell what it is for.
    name = f"fault-injection-{fault_id.replace('_', '-')}" if in_guide else f"traffic-rules-{secrets.token_hex(3)}"
    given = {key: value for key, value in wanted.dict().items() if key != "namespace" and value is not None}
    try:
        made = network_faults.policy(
            name=name,
            namespace=wanted.namespace,
            partition=body.partition_type,
            source=body.source,
            target=body.target,
            more=given,
            labelled=in_guide,
        )
    except WrongPartition as exc:
        raise ApiProblem(422, "partition_invalid", str(exc), "Read /api/v1/openapi.json.") from exc
    seconds = body.duration or services.MAX_FAULT_SECONDS
    target = f"{wanted.namespace}/{name}"
    return services.PlannedFault(fault_id, kind, target, [network_faults.step(made)], seconds, details=body.dict())
