"""Writing runs down before anything happens to a cluster."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from faults import environment, selectors
from faults.errors import FaultError
from faults.guardrails import Grant, Guardrails
from faults.models import Cluster, FaultRun, ScenarioVersion
from faults.packs import AccessRule, Pack, Workspace
from faults.packs.rights import impersonated, subtract
from faults.packs.workspaces import together
from faults.services.requirements import cluster_values
from faults.services.toolboxes import agent_image, toolbox_image
from faults.session_agents import SessionAgents
from faults.toolbox import NAMESPACE, Toolbox

NO_TERRAFORM = (
    "A scenario needs Terraform in the toolbox, and the cluster has none: set TOOLBOX_IMAGE (see docs/admin.md)."
)


def plan_environment_run(
    *,
    cluster: Cluster,
    namespaces: Mapping[str, str],
    deadline: datetime,
    packs: Iterable[Pack] = (),
    access: Iterable[AccessRule] = (),
    toolbox_namespace: str | None = None,
    toolbox_gpu: bool = False,
) -> FaultRun:
    """Plan a session's namespaces (logical name -> real name), the candidate's identity, and a toolbox.

    There is no toolbox where the cluster has no image for it, nor without packs, whose solutions run in it, unless
    its namespace is named; with ``toolbox_gpu`` (``has_gpu_for_toolbox``) it has a GPU. The limits of the namespaces
    follow from the tier of the cluster and from what the packs ask for. ``access`` are the rights by verb and
    resource that are known already; ``grant_rights`` adds what depends on a variant.
    """
    if not namespaces:
        raise FaultError("An environment needs at least one namespace.")
    needed = list(packs)
    rails = Guardrails.plan(
        tier=cluster.tier,
        home=next(iter(namespaces.values())),
        gpus=sum(pack.requires.total_gpus for pack in needed),
        rights=[right for pack in needed for right in pack.rights],
    )
    if toolbox_namespace is None and needed:
        toolbox_namespace = NAMESPACE
    image = toolbox_image(cluster) if toolbox_namespace else ""
    lacks = not toolbox_gpu and any(pack.requires.toolbox_gpu for pack in needed)
    terraform = _terraform(needed)
    if terraform and not image:
        raise FaultError(NO_TERRAFORM)
    box = Toolbox(toolbox_namespace, image, toolbox_gpu, lacks, terraform) if toolbox_namespace and image else None
    agents = SessionAgents.plan(agent_image(cluster)) if any(pack.requires.agent for pack in needed) else None
    own = list(namespaces.values())
    if rules := subtract(access, environment.common_rules(own, rails, box)):
        rails = rails.with_grants([Grant(rules)])
    return FaultRun.objects.create(
        purpose=FaultRun.Purpose.ENVIRONMENT,
        cluster=cluster,
        namespaces=dict(namespaces),
        parameters=rails.dump()
        | ({selectors.TOOLBOX: box.dump()} if box else {})
        | ({selectors.AGENTS: agents.dump()} if agents else {}),
        deadline=deadline,
    )


def _terraform(packs: Sequence[Pack]) -> Workspace | None:
    """Return what the packs' workspaces say together, and whom their candidate may impersonate; None without any."""
    whole = together(pack.workspace for pack in packs if pack.workspace)
    names = impersonated(rule for pack in packs for rule in pack.access)
    return replace(whole, impersonated=tuple(names)) if whole else None


def plan_fault_run(
    *,
    cluster: Cluster,
    scenario_version: ScenarioVersion,
    namespaces: Mapping[str, str],
    parameters: Mapping[str, str],
    seed: int,
    deadline: datetime,
    values: Mapping[str, str] | None = None,
) -> FaultRun:
    """Plan one scenario's fault. Which of the variants with these parameters, ``seed`` decides.

    ``values`` are those that the cluster decides; it is asked for them where they are not given. All of them are kept
    with the run, so that whoever plays it again has the same. Raises PackError, FaultError and ClusterError.
    """
    pack = selectors.pack_of(scenario_version)
    if values is None:
        values = cluster_values(cluster=cluster, pack=pack, seed=seed)
    drawn = {**draw_variant(pack, seed, parameters), **values}
    bound = pack.bind(namespaces, drawn)
    return FaultRun.objects.create(
        purpose=FaultRun.Purpose.FAULT,
        cluster=cluster,
        scenario_version=scenario_version,
        namespaces=dict(bound.namespaces),
        parameters=drawn,
        seed=seed,
        deadline=deadline,
    )


def draw_variant(pack: Pack, seed: int, parameters: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Choose among the variants that have these parameters; the same seed always gives the same one.

    Raises PackError where no variant has them.
    """
    return dict(random.Random(f"{seed}:{pack.slug}").choice(pack.variants_with(parameters)))
