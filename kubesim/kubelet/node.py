"""The kubelets of one process: they share one watch on pods and one timer for their heartbeats."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from typing import Any, Unpack

from kubesim.client import Client
from kubesim.clock import Clock, Timer
from kubesim.errors import ApiError, Obj
from kubesim.gpu.nodes import conditions, network_tags
from kubesim.informer import Informer, WorkQueue, cancel
from kubesim.kubelet import admit, announce, configuration, keeping, logs, registry, status, timings
from kubesim.kubelet.access import Access
from kubesim.kubelet.agents import REFUSED, Agents
from kubesim.kubelet.duties import Duties, Monitoring
from kubesim.kubelet.endpoint import HEALTH_PORT, KubeletEndpoint, port_of
from kubesim.kubelet.eviction import Watches
from kubesim.kubelet.footprint import Process, processes
from kubesim.kubelet.gpus import NodeGpus, of_node
from kubesim.kubelet.host import Host, Node
from kubesim.kubelet.images import STANDARD, Catalogue
from kubesim.kubelet.logs import LogArguments
from kubesim.kubelet.machines import Machines
from kubesim.kubelet.node_images import Downloads, NodeImages
from kubesim.kubelet.pod import PodWorker
from kubesim.kubelet.table import pod_logs, table
from kubesim.kubelet.usage import Ledger
from kubesim.network.fabric import Fabric, HttpServer
from kubesim.recorder import Recorder
from kubesim.scheduler.state import NodeState
from kubesim.times import parse, stamp

UNEXPECTED = "UnexpectedAdmissionError"
log = logging.getLogger(__name__)


class Kubelets:
    """The kubelets of the nodes named in ``start``. ``logs`` and ``follow`` are what a log endpoint calls."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        names: tuple[str, ...],
        state: dict[str, Any],
        fabric: Fabric,
        *,
        selector: str = "",
        cidr: str = "10.244.0.0/24",
        foreign: bool = False,
        catalogue: Catalogue = STANDARD,
    ) -> None:
        """``selector``: the pods that the client may see; ``cidr``: the pods' addresses where a node says nothing.

        ``foreign``: whether the cluster is not kubesim's, and so has agents of its own for every node;
        ``catalogue``: what the registries serve that the nodes reach.
        """
        self._foreign = foreign
        self._catalogue = catalogue
        fabric.registry = partial(registry.answer, catalogue)
        self.fabric = fabric
        self._cidr = cidr
        self.telemetry = Monitoring(client, clock, fabric)
        self._client = client
        self._clock = clock
        self._names = names
        self._nodes: dict[str, Node] = {}
        self._rooms: dict[str, admit.Room] = {}
        self._workers: dict[str, PodWorker] = {}
        self.containers = Access(self._workers.get)
        self.machines = Machines(client, clock, self._workers, self._returned, self._enter, self._leave)
        self.watches = Watches(clock, self._here, self._report, self.machines.idle_for)
        self.duties = Duties()
        self._saved = state
        self._changed_pods: set[tuple[str, str]] | None = None
        """Key and uid of each pod whose record has changed; None while nobody asks for changes."""
        self._changed_files: set[str] = set()
        self.touch: Callable[[], None] = lambda: None
        """Called when there is something to keep that no change of an object tells of."""
        self.machines.touch = lambda: self.touch()
        self._pods = Informer(client, clock, "pods", selector)
        self._queue = WorkQueue(clock, self._sync, "kubelet", resource="pods")
        self._heartbeat: Timer | None = None
        self._beating: asyncio.Task[None] | None = None
        self._reported_at = clock.now()
        self._doubted: set[str] = set()
        self._ailing: set[str] = set()
        """Nodes that were not ready at the last beat."""

    async def start(self) -> None:
        """Report the nodes ready and take up the pods that are bound to them."""
        for name in self._names:
            await self._join(name)
            self._open(self._nodes[name])
        await self._beat()
        await self._pods.start()
        for node in self._nodes.values():
            node.gpus.keep(self._pods.items(), self._clock.now())
        self._pods.add_handler(self._changed)
        self._queue.start()
        self.machines.start()
        self.watches.start()
        self._plan_beat()

    async def _enter(self, name: str) -> Node:
        """Run the kubelet of one more node, with the pods that wait for it already."""
        await self._join(name)
        node = self._nodes[name]
        self._open(node)
        await announce.renew_lease(self._client, node, self._clock.now())
        for pod in self._pods.items():
            self._changed(None, pod)
        return node

    def _leave(self, name: str) -> None:
        """End the kubelet of a node that is gone, with everything on it."""
        node = self._nodes.pop(name)
        self._rooms.pop(name, None)
        for key in [key for key, worker in self._workers.items() if worker.node is node]:
            worker = self._workers.pop(key)
            worker.stop()
            self._note(key, worker)
        self.watches.leave(name)  # pulls that end ask how many may run at a time
        node.agents.services.close()
        self.fabric.detach(node.ip)

    def _open(self, node: Node) -> None:
        """Let a node answer on its kubelet's port."""

        def pods() -> list[Obj]:
            return [worker.record.pod for worker in here()]

        def read(namespace: str, pod: str, container: str, tail: int | None, previous: bool) -> bytes:
            return self.logs(namespace, pod, container, tail_lines=tail, previous=previous)

        def here() -> list[PodWorker]:
            return self._here(node.name)

        def running() -> list[Process]:
            return [process for worker in here() for process in processes(worker)]

        self.fabric.attach(node.ip)
        node.processes = lambda: table(node, here())
        node.logs = pod_logs(here, self._clock.now)
        node.ledger = Ledger(running, node.capacity, lambda: node.gpus.board.log.booted.timestamp())
        node.endpoint = KubeletEndpoint(node, pods, read, self._clock, running)
        if not node.agents.silent:
            self._answer(node)

    def _answer(self, node: Node, *, again: bool = True) -> None:
        """Open the kubelet's ports, or close them."""
        for port in (node.port, HEALTH_PORT):
            if again:
                self.fabric.listen(node.ip, port, node.endpoint)
            else:
                self.fabric.shut(node.ip, port)

    def _came(self, node: Node) -> None:
        """A node's kubelet has started: it answers, and looks at its pods."""
        if node.name in self._nodes:
            self._answer(node)
            self.machines.greet(node.name)
            for worker in self._here(node.name):
                worker.sandbox.host.wake()
            for pod in self._pods.items():
                self._changed(None, pod)

    async def stop(self) -> None:
        """Stop at once; the pods stay as they are in the API."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        await cancel(self._beating)
        await self._queue.stop()
        await self.machines.stop()
        await self.watches.stop()
        await self._pods.stop()
        for node in self._nodes.values():
            node.agents.services.close()
        for worker in self._workers.values():
            worker.stop()
        await self.telemetry.stop()

    def changes(self) -> dict[str, Any]:
        """Return what a later ``start`` needs beside the API's objects, as far as it has changed since the last call.

        By uid the back-offs and the ends of processes of a pod (None: it is gone), by name the images of a node.
        """
        changed, self._changed_pods = self._changed_pods, set()
        found: dict[str, Any] = {**self.machines.changes()}
        if changed is None:
            changed = {(key, worker.record.uid) for key, worker in self._workers.items()}
            found |= {f"disk/{name}": node.disk.dump() for name, node in self._nodes.items() if node.disk.looked_at}
        for key, uid in changed:
            worker = self._workers.get(key)
            if worker is None or worker.record.uid != uid:
                found |= {f"pod/{uid}": None, f"files/{uid}": None}
                continue
            found[f"pod/{uid}"] = status.dump_record(worker.record)
        for node in self._nodes.values():
            if node.images.unsaved:
                found[f"images/{node.name}"], node.images.unsaved = node.images.dump(), False
        return found | self._files()

    def _files(self) -> dict[str, Any]:
        """Return what processes have written, of the pods in which one has since the last call."""
        found: dict[str, Any] = {}
        for worker in filter(None, map(self._workers.get, self._changed_files)):
            found[f"files/{worker.record.uid}"] = keeping.dump(worker.sandbox)
            if disk := worker.node.disk.dump():
                found[f"disk/{worker.node.name}"] = disk
        self._changed_files.clear()
        return found

    def logs(self, namespace: str, pod: str, container: str, **options: Unpack[LogArguments]) -> bytes:
        """Return a container's log. Raises ``ApiError`` 400 with the kubelet's words where there is none."""
        worker = self._worker(namespace, pod, container)
        return logs.read(worker, container, options, self._clock.now())

    def follow(
        self, namespace: str, pod: str, container: str, **options: Unpack[LogArguments]
    ) -> AsyncIterator[bytes]:
        """Yield a container's log as it grows, until the container ends or the pod is gone; errors as ``logs``."""
        worker = self._worker(namespace, pod, container)
        key = f"{namespace}/{pod}"
        return logs.follow(worker, container, options, self._clock, lambda: self._workers.get(key) is worker)

    def pod(self, namespace: str, name: str) -> Obj | None:
        """Return a pod that has been taken up, as the API last showed it."""
        worker = self._workers.get(f"{namespace}/{name}")
        return worker.record.pod if worker is not None else None

    def endpoint(self, node: str) -> HttpServer:
        """Return what answers on a node's port. Raises KeyError for a node that is not ours."""
        return self._nodes[node].endpoint

    def gpus(self, node: str) -> NodeGpus:
        """Return the devices of a node. Raises KeyError for one that is not ours."""
        return self._nodes[node].gpus

    def away(self, node: str) -> str:
        """Return why a kubelet cannot be called, in a dialler's words; empty where it can. Raises KeyError."""
        found, why = self._nodes[node], "i/o timeout" if self.machines.down_for(node) else REFUSED
        return f"dial tcp {found.ip}:{found.port}: {why}" if self.machines.silent(node) else ""

    def _worker(self, namespace: str, pod: str, container: str) -> PodWorker:
        worker = self._workers.get(f"{namespace}/{pod}")
        if worker is None:
            # A pod that is bound but not yet seen by its kubelet.
            text = f'container "{container}" in pod "{pod}" is waiting to start: ContainerCreating'
            raise ApiError(400, "BadRequest", text)
        return worker

    async def _join(self, name: str) -> None:
        obj = await self._client.get("nodes", name)
        ip = next(item["address"] for item in obj["status"]["addresses"] if item["type"] == "InternalIP")
        self._rooms[name], gpus = admit.Room(NodeState(obj)), of_node(obj)
        architecture = obj["status"]["nodeInfo"]["architecture"]
        images = NodeImages(architecture, self._catalogue, self._saved.pop(f"images/{name}", ()))
        self._nodes[name] = Node(
            name=name,
            uid=obj["metadata"]["uid"],
            architecture=architecture,
            ip=ip,
            cidr=obj["spec"].get("podCIDR", self._cidr),
            port=port_of(obj),
            foreign=self._foreign,
            tags=network_tags(obj),
            recorder=Recorder(self._client, self._clock, "kubelet", name),
            images=images,
            downloads=Downloads(images, lambda: configuration.max_pulls(self.watches.of(name).config)),
            gpus=gpus,
            capacity=obj["status"].get("capacity") or {},
            config=configuration.DEFAULTS,
            info={**obj["status"]["nodeInfo"]},
            cloud=obj["spec"].get("providerID", "").partition(":")[0],
            agents=Agents(self._clock, gpus),
        )
        if (devices := self._saved.pop(f"gpus/{name}", None)) is not None:
            self._nodes[name].gpus.restore(devices)
        if (disk := self._saved.pop(f"disk/{name}", None)) is not None:
            self._nodes[name].disk.restore(disk)
        if (booted := self._saved.pop(f"boot/{name}", None)) is not None:
            gpus.booted = parse(booted)
        self.machines.take(self._nodes[name])
        if devices is not None or booted is not None:  # of devices the last word may not have been reported
            (gpus.noted if devices is None else gpus.changed)()
        self.watches.take(self._nodes[name], obj)
        self._employ(self._nodes[name])
        if (faults := self._saved.pop(f"faults/{name}", None)) is not None:
            self.machines.faults(name).restore(faults)
        await self._report(name)

    def _employ(self, node: Node) -> None:
        """Let what happens to a node's own services have its consequences."""
        node.agents.came = lambda: self._came(node)
        node.agents.went = lambda: self._answer(node, again=False)
        node.agents.configure = lambda: node.watch.restart() if node.disk.looked_at else ""
        if (services := self._saved.pop(f"services/{node.name}", None)) is not None:
            node.agents.services.restore(services)

    # Pods.

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        pod = new or old
        assert pod is not None
        if pod["spec"].get("nodeName") not in self._nodes:
            return
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        worker = self._workers.get(key)
        if new is not None and worker is not None and _version(worker.record.pod) == _version(new):
            return
        self._queue.add(key)

    async def _sync(self, key: str) -> None:
        namespace, name = key.split("/")
        pod = self._pods.get(namespace, name)
        worker = self._workers.get(key)
        held = worker.record.pod if worker is not None else pod
        if held is not None and (off := self.machines.idle_for(held["spec"]["nodeName"])):
            self._queue.add_after(key, off)
            await self._let_be(key, pod)
            return
        if worker is not None and (pod is None or pod["metadata"]["uid"] != worker.record.uid):
            self._forget(key, worker)
            worker = None
        if pod is None:
            return
        if worker is None and await self._refuses(pod):
            return
        if worker is None:
            worker = self._workers[key] = self._take_up(pod)
        if worker.gone:
            return
        if (rest := worker.rest_s) > 0:
            self._queue.add_after(key, rest)
            return
        self._note(key, worker)
        again = await worker.sync(pod)
        if again is not None:
            self._queue.add_after(key, again)

    async def _let_be(self, key: str, pod: Obj | None) -> None:
        """Let a pod go on while its kubelet can do nothing: it runs again where kubesim was started anew."""
        if key in self._workers:
            self._note(key, self._workers[key])
        elif pod is not None and f"pod/{pod['metadata']['uid']}" in self._saved:
            self._rooms[pod["spec"]["nodeName"]].enter(pod)
            worker = self._workers[key] = self._take_up(pod)
            await worker.resume()

    def _here(self, name: str) -> list[PodWorker]:
        """Return what runs the pods of a node."""
        node = self._nodes.get(name)
        return [worker for worker in self._workers.values() if worker.node is node]

    def _note(self, key: str, worker: PodWorker) -> None:
        """Note that a pod's record has changed."""
        if self._changed_pods is not None:
            self._changed_pods.add((key, worker.record.uid))

    def _written(self, key: str) -> None:
        """Note that a process of a pod has changed a file, to be kept soon."""
        if (worker := self._workers.get(key)) is not None:
            worker.node.watch.written()
        if self._changed_pods is not None and key not in self._changed_files:
            self._changed_files.add(key)
            self.touch()

    async def _refuses(self, pod: Obj) -> bool:
        """Tell whether a pod is not taken, and say why where it is new; one that is taken holds its room."""
        status, room = pod.get("status", {}), self._rooms[pod["spec"]["nodeName"]]
        if admit.was_refused(pod):
            return True
        if not status.get("startTime") and not pod["metadata"].get("deletionTimestamp"):
            others = (worker.record.pod for worker in self._workers.values() if not worker.gone)
            here = (other for other in others if other["spec"]["nodeName"] == pod["spec"]["nodeName"])
            devices = self._nodes[pod["spec"]["nodeName"]].gpus.refusal(pod)
            why = self.watches.of(pod["spec"]["nodeName"]).refusal(pod) or (
                (UNEXPECTED, devices) if devices else None
            )
            why = why or await room.refusal(self._client, pod, here)
            if why is not None:
                await self._refuse(pod, *why)
                return True
        room.enter(pod)
        return False

    async def _refuse(self, pod: Obj, reason: str, message: str) -> None:
        meta = pod["metadata"]
        status = admit.refused(pod, reason, message, stamp(self._clock.now()))
        await self._nodes[pod["spec"]["nodeName"]].recorder.warning(pod, reason, message)
        patch = {"metadata": {"uid": meta["uid"]}, "status": {**status, "conditions": None}}
        await self._client.patch("pods", meta["name"], meta["namespace"], patch, subresource="status")

    def _forget(self, key: str, worker: PodWorker) -> None:
        self._rooms[worker.record.pod["spec"]["nodeName"]].leave(worker.record.uid)
        keeping.clear(worker.sandbox)
        self._workers.pop(key).stop()
        self._note(key, worker)
        self._nodes[worker.record.pod["spec"]["nodeName"]].taken.pop(worker.record.uid, None)

    def _take_up(self, pod: Obj) -> PodWorker:
        node = self._nodes[pod["spec"]["nodeName"]]
        uid = pod["metadata"]["uid"]
        kept, files = self._saved.pop(f"pod/{uid}", None), self._saved.pop(f"files/{uid}", None)
        record = status.rebuild_record(pod, node, kept, files, self._clock.now())
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        return PodWorker(
            Host(
                self._client,
                self._clock,
                node,
                self.fabric,
                lambda: self._queue.add(key),
                self.telemetry,
                self.machines,
                self.duties,
                lambda: self._written(key),
            ),
            record,
        )

    # Heartbeats.

    def _plan_beat(self) -> None:
        self._heartbeat = self._clock.call_later(timings.HEARTBEAT_S, self._begin_beat)

    def _begin_beat(self) -> None:
        self._beating = asyncio.create_task(self._try_beat(), name="heartbeat")
        self._plan_beat()

    async def _try_beat(self) -> None:
        try:
            await self._beat()
        except (ApiError, ConnectionError) as error:
            log.warning("a heartbeat did not get through: %s", error)

    async def _beat(self) -> None:
        """Renew every lease, and now and then the nodes' conditions."""
        for node in [*self._nodes.values()]:
            if not self.machines.silent(node.name):
                await announce.renew_lease(self._client, node, self._clock.now())
        due = ({*self._nodes} & self._doubted) | self._ailing
        self._ailing = {name for name, node in self._nodes.items() if node.agents.not_ready()}
        if self._clock.now() - self._reported_at >= timedelta(seconds=timings.STATUS_REPORT_S):
            self._reported_at, due = self._clock.now(), {*self._nodes}
        due |= {name for name, node in self._nodes.items() if node.images.changed}
        for name in sorted(due | self._ailing):
            if name in self._nodes and not self.machines.silent(name):
                self._doubted.discard(name)
                await self._report(name)

    def doubt(self, name: str) -> None:
        """Report a node again with the next beat: the control plane has lost sight of it and says so."""
        self._doubted.add(name)

    async def _returned(self, node: Node) -> None:
        """Go on with a node that has booted."""
        await announce.renew_lease(self._client, node, self._clock.now())
        await self._report(node.name)

    async def _report(self, name: str) -> None:
        """Report the node's images and conditions, keeping the times of those that did not change."""
        images = self._nodes[name].images
        try:
            obj = await self._client.get("nodes", name)
        except ApiError as error:
            if error.code == 404:
                return
            raise
        old = {item["type"]: item for item in obj["status"].get("conditions", ())}
        trouble = self._nodes[name].agents.not_ready()
        fresh = conditions(self._clock.now(), self._clock.now(), self.watches.of(name).conditions, trouble)
        for condition in fresh:
            before = old.get(condition["type"])
            if before is not None and before["status"] == condition["status"]:
                condition["lastTransitionTime"] = before["lastTransitionTime"]
        patch: Obj = {"status": {"conditions": fresh}}
        if images.changed:
            patch["status"]["images"], images.changed = images.status(), False
        await self._client.patch("nodes", name, "", patch, patch_type="strategic", subresource="status")


def _version(obj: Obj) -> str:
    return str(obj["metadata"]["resourceVersion"])
