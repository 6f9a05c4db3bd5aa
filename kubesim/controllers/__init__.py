"""The controllers of the control plane, each a queue over shared caches; they reach the API only through the seam."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kubesim.auth.certificates import Certifier
from kubesim.auth.tokens import TokenSigner
from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.controllers.aggregation import AggregationController, FlowSchemaController, PolicyStatusController
from kubesim.controllers.base import Context, Controller, Usage, nobody_measures
from kubesim.controllers.cronjob import CronJobController
from kubesim.controllers.daemonset import DaemonSetController
from kubesim.controllers.deployment import DeploymentController
from kubesim.controllers.disruption import DisruptionController
from kubesim.controllers.endpoints import EndpointsController
from kubesim.controllers.gc import CustomKinds, GarbageCollector
from kubesim.controllers.job import JobController
from kubesim.controllers.namespace import NamespaceController, ServiceAccountController
from kubesim.controllers.node import NodeController, PodCollector, TaintEvictionController
from kubesim.controllers.quota import QuotaController
from kubesim.controllers.replicaset import ReplicaSetController, ReplicationControllerController
from kubesim.controllers.statefulset import StatefulSetController
from kubesim.controllers.tokens import CertificateController, TokenController
from kubesim.controllers.volumes import Provisioner, VolumeController
from kubesim.informer import Informers
from kubesim.schema.kinds import registry

__all__ = ["Controllers", "Keys", "start"]

NOT_COLLECTED = ("events", "leases.coordination.k8s.io")
"""Kinds that change much and own nothing: the garbage collector does without them."""
NOT_COUNTED = (*NOT_COLLECTED, "events.events.k8s.io")
PLAIN: tuple[Callable[[Context], Controller], ...] = (
    ReplicaSetController, ReplicationControllerController, DeploymentController, StatefulSetController,
    DaemonSetController, JobController, CronJobController, EndpointsController,
    DisruptionController, AggregationController, VolumeController,
    Provisioner, PolicyStatusController, FlowSchemaController, TaintEvictionController,
    PodCollector, NodeController,
)  # fmt: skip
"""Controllers that need nothing but what all share."""
SETTLED_S = 5.0
"""Until the objects of a cluster that has settled are looked at: whoever asked for it has more urgent work."""
NEEDED_VERBS = {"list", "watch", "delete", "patch"}


@dataclass(frozen=True)
class Keys:
    """What the controllers vouch with: ``root_ca`` (PEM) goes into every namespace, ``certifier`` signs certificate
    requests and ``signer`` the tokens of secrets; both wait for ever without one."""

    root_ca: str = ""
    certifier: Certifier | None = None
    signer: TokenSigner | None = None


class Controllers:
    """All controllers of one cluster."""

    def __init__(self, client: Client, clock: Clock, keys: Keys, usage: Usage) -> None:
        self._informers = Informers(client, clock)
        context = Context(client, clock, self._informers, usage)
        kinds = [kind for kind in registry.stored() if set(kind.verbs) >= NEEDED_VERBS]
        collected = {k.resource: f"{k.api_version}/{k.kind}" for k in kinds if k.resource not in NOT_COLLECTED}
        namespaced = [kind.resource for kind in kinds if kind.namespaced]
        spaces, collector = NamespaceController(context, namespaced), GarbageCollector(context, collected)
        self._controllers: list[Controller] = [
            CustomKinds(context, [spaces.follow, collector.follow]),
            spaces,
            ServiceAccountController(context, keys.root_ca),
            collector,
            QuotaController(context, [name for name in namespaced if name not in NOT_COUNTED]),
            *(make(context) for make in PLAIN),
        ]
        if keys.certifier is not None:
            self._controllers.append(CertificateController(context, keys.certifier))
        if keys.signer is not None:
            self._controllers.append(TokenController(context, keys.signer, keys.root_ca))

    async def start(self, *, settled: bool = False) -> None:
        """Fill the caches, then work; in a cluster that has ``settled`` on what changes first."""
        await self._informers.start()
        for controller in self._controllers:
            controller.listen()
            if settled and not isinstance(controller, CustomKinds):
                controller.queue.put_off(SETTLED_S)
        for controller in self._controllers:
            controller.queue.start()

    async def stop(self) -> None:
        """Stop at once."""
        for controller in self._controllers:
            await controller.queue.stop()
        await self._informers.stop()


NO_KEYS = Keys()


async def start(
    client: Client, clock: Clock, keys: Keys = NO_KEYS, usage: Usage = nobody_measures, *, settled: bool = False
) -> Controllers:
    """Run the controllers of a cluster until ``stop``; ``usage`` tells what pods use.

    ``settled``: other controllers have left every object as it should be.
    """
    controllers = Controllers(client, clock, keys, usage)
    await controllers.start(settled=settled)
    return controllers
