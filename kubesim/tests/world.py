"""A cluster in a test: real store and operations, controllers, scheduler and kubelets, on a clock that tests move."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kubernetes import client as kubernetes_client

from kubesim import controllers, kubelet, scheduler
from kubesim.api.operations import Operations
from kubesim.auth.rbac import Authorizer
from kubesim.auth.tokens import TokenSigner
from kubesim.clock import ManualClock
from kubesim.cluster import StorePolicies
from kubesim.errors import Obj
from kubesim.gpu import nodes
from kubesim.inprocess import InProcessClient
from kubesim.store import Store

SIGNER = TokenSigner.create()
MODELS = {
    "pods": "V1Pod",
    "nodes": "V1Node",
    "jobs.batch": "V1Job",
    "deployments.apps": "V1Deployment",
    "replicasets.apps": "V1ReplicaSet",
    "events": "CoreV1Event",
    "statefulsets.apps": "V1StatefulSet",
    "daemonsets.apps": "V1DaemonSet",
    "controllerrevisions.apps": "V1ControllerRevision",
    "cronjobs.batch": "V1CronJob",
    "replicationcontrollers": "V1ReplicationController",
    "horizontalpodautoscalers.autoscaling": "V2HorizontalPodAutoscaler",
    "persistentvolumes": "V1PersistentVolume",
    "persistentvolumeclaims": "V1PersistentVolumeClaim",
    "certificatesigningrequests.certificates.k8s.io": "V1CertificateSigningRequest",
    "endpointslices.discovery.k8s.io": "V1EndpointSlice",
    "resourcequotas": "V1ResourceQuota",
    "leases.coordination.k8s.io": "V1Lease",
    "namespaces": "V1Namespace",
    "serviceaccounts": "V1ServiceAccount",
    "configmaps": "V1ConfigMap",
}


class World:
    """What a test holds: ``client`` is the seam, ``clock`` the time; ``tick`` moves it."""

    def __init__(self, clock: ManualClock, store: Store, client: InProcessClient) -> None:
        self.clock = clock
        self.store = store
        self.client = client
        self.kubelets: kubelet.Kubelets
        self.node_names: list[str] = []

    async def tick(self, seconds: float = 2.0) -> None:
        """Let time pass."""
        await self.clock.advance(seconds)

    async def create(self, resource: str, obj: Obj) -> Obj:
        """Create an object in the namespace default and let the cluster take it in."""
        made = await self.client.create(resource, obj, namespace="default")
        await self.clock.advance(0)
        return made

    async def items(self, resource: str, namespace: str = "default") -> list[Obj]:
        """List objects."""
        return (await self.client.list(resource, namespace)).items

    async def pod(self, prefix: str = "") -> Obj:
        """Return the one pod whose name begins so."""
        (found,) = [pod for pod in await self.items("pods") if pod["metadata"]["name"].startswith(prefix)]
        return found

    async def events(self, reason: str = "") -> list[Obj]:
        """Return events, oldest first."""
        found = [event for event in await self.items("events") if reason in ("", event["reason"])]
        return sorted(found, key=lambda event: int(event["metadata"]["name"].rpartition(".")[2], 16))

    async def messages(self, reason: str) -> list[str]:
        """Return the messages of events."""
        return [event["message"] for event in await self.events(reason)]

    async def check_models(self) -> None:
        """Every object loads with the official client's models, which refuse what is incomplete."""
        for resource, model in MODELS.items():
            for obj in await self.items(resource, ""):
                getattr(kubernetes_client, model).from_dict(obj)


LARGE = (
    *(f"nvcr.io/nvidia/pytorch:{version}-py3" for version in ("24.05", "24.10", "25.03")),
    *("pytorch/pytorch:2.4.0", "vllm/vllm-openai:v0.10.1"),
)
"""Images that take minutes to pull."""


@asynccontextmanager
async def world(
    count: int = 3, gpus: int = 8, product: str = "H100", present: Sequence[str] = LARGE
) -> AsyncIterator[World]:
    """Run a cluster of ``count`` nodes with ``gpus`` devices of a product each, which have some images already."""
    clock = ManualClock()
    store = Store(clock)
    client = InProcessClient(Operations(store, clock), store)
    client.operations.allows = Authorizer(StorePolicies(store, client.operations.registry)).allows
    made = World(clock, store, client)
    for name in ("default", "kube-system", "kube-node-lease"):
        await client.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    fleet = [nodes.node(index, gpus, clock.now(), nodes.PRODUCTS[product]) for index in range(count)]
    made.node_names = await nodes.register(client, fleet)
    running: list[Any] = [await controllers.start(client, clock, controllers.Keys("the authority", signer=SIGNER))]
    running.append(await scheduler.start(client, clock))
    state = {f"images/{name}": present for name in made.node_names}
    made.kubelets = await kubelet.start(client, clock, *made.node_names, state=state)
    await clock.advance(0)
    try:
        yield made
    finally:
        for part in [*running, made.kubelets]:
            await part.stop()


def container(image: str = "busybox:1.36", *command: str, **more: Any) -> Obj:
    """Return a container named main."""
    return {"name": "main", "image": image} | ({"command": list(command)} if command else {}) | more


def pod(name: str, *containers: Obj, **spec: Any) -> Obj:
    """Return a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": list(containers) or [container("busybox:1.36", "sleep", "3600")], **spec},
    }


def job(name: str, main: Obj, policy: str = "OnFailure", **spec: Any) -> Obj:
    """Return a job."""
    template = {"spec": {"restartPolicy": policy, "containers": [main]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def deployment(name: str, image: str = "nginx:1.27", replicas: int = 3, **spec: Any) -> Obj:
    """Return a deployment."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


def stateful_set(name: str, replicas: int = 2, **spec: Any) -> Obj:
    """Return a stateful set."""
    made = deployment(name, replicas=replicas, serviceName=name, **spec)
    return made | {"kind": "StatefulSet"}


def daemon_set(name: str, image: str = "nginx:1.27", **spec: Any) -> Obj:
    """Return a daemon set."""
    made = deployment(name, image)
    del made["spec"]["replicas"]
    return made | {"kind": "DaemonSet", "spec": made["spec"] | spec}


def cron_job(name: str, schedule: str, *command: str, **spec: Any) -> Obj:
    """Return a cron job whose jobs run a command."""
    template = {"spec": job(name, container("busybox:1.36", *command))["spec"]}
    metadata = {"name": name}
    body = {"schedule": schedule, "jobTemplate": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": body}
