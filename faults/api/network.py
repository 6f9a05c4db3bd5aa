"""Routes of network faults: partitions between pods, bad networks by Chaos Mesh, and their clean-up."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja import Query, Router, Schema

from faults import network_chaos, network_faults, selectors, services
from faults.api.access import guarded
from faults.api.network_schemas import OF_CHAOS, OF_POLICY, Namespace, NetworkFaultIn, PartitionParameters
from faults.api.problems import ApiProblem
from faults.api.recording import caller_of, recorded
from faults.api.schemas import REFUSED, InjectedOut, injected
from faults.errors import NotFound, NotYet
from faults.injectors import isolation
from faults.jobs import holder_name
from faults.kube.client import Kube
from faults.models import Cluster, InjectedFault
from faults.network_chaos import Weather
from faults.network_faults import NATS, Blocks, WrongPartition
from faults.services.api_tokens import INJECT

Obj = dict[str, Any]
Made = tuple[Sequence[Obj], list[Obj]]
"""The objects of a fault, and the engine's steps that make it."""
router = Router(tags=["network"])


class CleanupOut(Schema):
    """The policies that were deleted."""

    policies_deleted: int
    deleted_policy_names: list[str]
    still_recovering: list[str]


@router.post("/inject", response={200: InjectedOut, **REFUSED}, **guarded(INJECT), summary="Partition the network")
def inject_network_fault(request: HttpRequest, body: NetworkFaultIn) -> Any:
    """Keep pods of a namespace from each other by NetworkPolicies, or make their network bad by Chaos Mesh."""
    caller, kind = caller_of(request), f"network_{body.partition_type}"
    planned = _planned(body, kind, caller.cluster)
    fault = recorded(
        caller,
        "fault.inject",
        f"{kind} {planned.target}",
        lambda: services.inject_fault(cluster=caller.cluster, planned=planned, by=caller.name, holder=holder_name()),
    )
    between = f"between {body.source} and {body.target} in {body.parameters.namespace}"
    return injected(fault, f"The network {between} is {'bad' if body.mode == 'chaos_mesh' else 'cut'}")


@router.post("/cleanup", response={200: CleanupOut, **REFUSED}, **guarded(INJECT), summary="End partitions")
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
                return services.recover_fault(
                    cluster=caller.cluster, fault_id=fault.fault_id, holder=holder_name(), by=caller.name
                )
            except NotYet:
                return fault

        over = recorded(caller, "fault.recover", fault.fault_id, recover).recovered_at is not None
        (done if over else waiting).extend(fault.details.get("objects") or [fault.target.partition("/")[2]])
    return {"policies_deleted": len(done), "deleted_policy_names": done, "still_recovering": waiting}


def _planned(body: NetworkFaultIn, kind: str, cluster: Cluster) -> services.PlannedFault:
    _refuse_strangers(body)
    fault_id, in_guide = services.fault_id_for(kind), bool(settings.GUIDE_CLUSTER)
    # Where somebody is interviewed, the name of a policy must not tell what it is for.
    name = f"fault-injection-{fault_id.replace('_', '-')}" if in_guide else f"traffic-rules-{secrets.token_hex(3)}"
    seconds = body.duration or services.MAX_FAULT_SECONDS
    try:
        made, steps = _made(body, name, selectors.kube_for(cluster), seconds, in_guide)
    except WrongPartition as exc:
        raise ApiProblem(422, "partition_invalid", str(exc), "Read /api/v1/openapi.json.") from exc
    details = {**body.dict(), "objects": [one["metadata"]["name"] for one in made]}
    target = f"{body.parameters.namespace}/{name}"
    where = body.parameters.namespace
    return services.PlannedFault(fault_id, kind, target, steps, seconds, details=details, namespace=where)


def _refuse_strangers(body: NetworkFaultIn) -> None:
    """Refuse parameters of the other mode: they would have no effect. Raises ApiProblem."""
    others = OF_POLICY if body.mode == "chaos_mesh" else OF_CHAOS
    given = body.parameters.dict(exclude_none=True)
    if found := [name for name in others if name in given]:
        text = f"{', '.join(found)} has no effect with mode {body.mode}."
        raise ApiProblem(422, "partition_invalid", text, "Leave it out, or choose the other mode.")
    if body.parameters.target_ports:
        text = "Chaos Mesh cannot choose ports for a network fault."
        raise ApiProblem(422, "ports_unsupported", text, "Use mode networkpolicy with block_ports.")


def _made(body: NetworkFaultIn, name: str, kube: Kube, seconds: int, labelled: bool) -> Made:
    """Return what makes a fault. Raises WrongPartition, ApiProblem and ClusterError."""
    if body.mode == "networkpolicy":
        return _partition(body, name, kube, labelled)
    _require_chaos_mesh(kube)
    made = _weathered(body, name, kube, seconds, labelled)
    return made, [network_faults.step(one) for one in made]


def _weathered(body: NetworkFaultIn, name: str, kube: Kube, seconds: int, labelled: bool) -> list[Obj]:
    wanted = body.parameters
    source, target = _sides(body, kube)
    return network_chaos.objects(
        name=name,
        namespace=wanted.namespace,
        source=source,
        targets=[*([NATS] if wanted.target_nats else []), *(wanted.target_specific_pods or [])] or [target],
        weather=_weather(wanted),
        seconds=seconds,
        labelled=labelled,
    )


def _partition(body: NetworkFaultIn, name: str, kube: Kube, labelled: bool) -> Made:
    """Return the policies of a partition, and the steps that make it: in a session's own namespaces, one more."""
    wanted = body.parameters
    source, target = _sides(body, kube)
    fence = _isolation(kube, wanted.namespace)
    tenants = isolation.tenants_of(fence) if fence else []
    more = {key: value for key in ("ports", "block", "dns") if (value := getattr(wanted, key)) is not None}
    made = network_faults.policies(
        name=name,
        namespace=wanted.namespace,
        partition=body.partition_type,
        source=source,
        target=target,
        more=more,
        blocks=_blocks(wanted),
        tenants=tenants,
        labelled=labelled,
    )
    if not fence:
        _refuse_contradiction(kube, wanted.namespace, made)
        return made, [network_faults.step(one) for one in made]
    _refuse_second(fence, made)
    part = network_faults.parted(made, tenants)
    return part.policies, [*map(network_faults.step, part.policies), network_faults.last_step(part)]


def _isolation(kube: Kube, namespace: str) -> Obj | None:
    """Return the policy by which a session's namespaces are open to each other; None where there is none.

    Raises ApiProblem where another one has its name, since policies only ever add to what is open, and ClusterError.
    """
    with suppress(NotFound):
        found = kube.get(isolation.API_VERSION, "NetworkPolicy", isolation.NETWORK_POLICY, namespace)
        if isolation.is_isolation(found):
            return found
        text = f"NetworkPolicy {isolation.NETWORK_POLICY} of {namespace} is none of a session's: what it opens stays."
        raise ApiProblem(409, "partition_without_effect", text, "Choose another namespace, or mode chaos_mesh.")
    return None


def _refuse_contradiction(kube: Kube, namespace: str, made: Sequence[Obj]) -> None:
    """Refuse a partition of pods that another policy speaks of: each would open what the other closes."""
    for found in kube.list(isolation.API_VERSION, "NetworkPolicy", namespace):
        if any(isolation.contradict(each["spec"], found["spec"]) for each in made):
            name = found["metadata"]["name"]
            text = f"NetworkPolicy {name} of {namespace} may select the same pods, and policies only ever open."
            raise ApiProblem(409, "partition_contradicted", text, "End or change that one, or use mode chaos_mesh.")


def _refuse_second(fence: Obj, made: Sequence[Obj]) -> None:
    """Refuse to close a direction in which another partition's policies open the other pods."""
    if not isolation.is_whole(fence, made):
        namespace = fence["metadata"]["namespace"]
        text = f"A session's namespace has one partition in each direction, and {namespace} has another."
        raise ApiProblem(409, "partition_in_force", text, "End that one, or use mode chaos_mesh.")


def _sides(body: NetworkFaultIn, kube: Kube) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels of the pods on both sides; a prefix names those that suffer."""
    wanted = body.parameters
    if wanted.target_pod_prefix is None:
        return network_faults.labels_of(body.source), network_faults.labels_of(body.target)
    found = network_faults.labels_by_prefix(kube.list("v1", "Pod", wanted.namespace), wanted.target_pod_prefix)
    if body.partition_type == "frontend_worker" and _blocks(wanted).is_empty:
        return network_faults.labels_of(body.source), found
    return found, network_faults.labels_of(body.target)


def _blocks(wanted: PartitionParameters) -> Blocks:
    return Blocks(
        nats=bool(wanted.block_nats),
        all_egress=bool(wanted.block_all_egress),
        ingress=bool(wanted.block_ingress),
        pods=wanted.block_specific_pods or (),
        ports=wanted.block_ports or (),
        open_namespaces=wanted.allow_namespaces or (),
    )


def _weather(wanted: PartitionParameters) -> Weather:
    return Weather(
        loss=wanted.packet_loss_percent,
        delay_ms=wanted.delay_ms,
        jitter_ms=wanted.delay_jitter_ms,
        bandwidth=wanted.bandwidth_limit,
        corrupt=wanted.corrupt_percent,
        duplicate=wanted.duplicate_percent,
    )


def _require_chaos_mesh(kube: Kube) -> None:
    if not network_chaos.is_installed(kube):
        text = f"Chaos Mesh is not installed: the cluster has no {network_chaos.DEFINITION}."
        raise ApiProblem(409, "chaos_mesh_missing", text, "Install Chaos Mesh, or use mode networkpolicy.")
