"""The status of a pod as a kubelet reports it, from the records of its containers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kubesim.client import Client
from kubesim.errors import Obj
from kubesim.kubelet.images import Image
from kubesim.kubelet.records import Container, Instance, containers_of
from kubesim.times import go_duration, parse, stamp

if TYPE_CHECKING:
    from kubesim.kubelet.host import Node


WAITING = ("pulling", "pullFailed", "pullWaiting", "refused", "waiting", "configError", "postStart")
FIRST_STEPS = ("waiting", "pulling", "creating")
"""What a kubelet does in one go: what has come of it, it tells afterwards."""
OWN_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
RUNTIME = "containerd"
NEVER = "1970-01-01T00:00:00Z"
"""When a process began that did not: what the runtime tells of a container that could not be started."""


def group(container: Container) -> str:
    """Return the list of a pod's spec in which a container stands."""
    return "initContainers" if container.init else "ephemeralContainers" if container.ephemeral else "containers"


@dataclass
class PodRecord:
    """A pod on a node: its object, its containers in order, and what the node gave it."""

    pod: Obj
    containers: list[Container]
    bound_at: datetime
    host_ip: str
    ip: str
    images: dict[str, Image] = field(default_factory=dict)
    failure: tuple[str, str] = ("", "")
    """Why the kubelet has ended the pod, as reason and message; empty unless it has."""
    files: Obj | None = None
    """What its processes had written before kubesim was started again."""
    disruption: list[Obj] = field(default_factory=list)
    """The condition of its end by its kubelet, if there is one."""
    _indexed: Obj | None = None
    _specs: dict[tuple[str, str], Obj] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return str(self.pod["metadata"]["uid"])

    @property
    def init(self) -> list[Container]:
        """The init containers."""
        return [container for container in self.containers if container.init]

    @property
    def main(self) -> list[Container]:
        """The app containers."""
        return [container for container in self.containers if not container.init and not container.ephemeral]

    @property
    def ephemeral(self) -> list[Container]:
        """The containers that somebody has added to look into the pod."""
        return [container for container in self.containers if container.ephemeral]

    @property
    def full_name(self) -> str:
        """The pod as the kubelet's messages name it."""
        return f"{self.name}_{self.pod['metadata']['namespace']}({self.uid})"

    @property
    def policy(self) -> str:
        """The restart policy."""
        return str(self.pod["spec"].get("restartPolicy", "Always"))

    @property
    def sandboxed(self) -> bool:
        """Whether the kubelet knows of the pod's sandbox and network: not while it makes the first container."""
        return any(c.state not in FIRST_STEPS or c.instance is not None for c in self.containers)

    @property
    def initialized(self) -> bool:
        """Whether every init container is through (a sidecar, once it runs)."""
        return self.awaited is None

    def spec(self, container: Container) -> Obj:
        """Return the spec of a container; while it runs, with the image that it runs."""
        found, instance = self._wanted(container), container.instance
        return {**found, "image": instance.image} if instance is not None and self.changed(container) else found

    def _wanted(self, container: Container) -> Obj:
        return self._index()[group(container), container.name]

    def spec_named(self, name: str) -> Obj:
        """Return the spec of the app container of a name; empty where there is none."""
        return self._index().get(("containers", name), {})

    def _index(self) -> dict[tuple[str, str], Obj]:
        """Return the specs by list and name; the index is built once for each version of the pod."""
        spec = self.pod["spec"]
        if self._indexed is not spec:
            lists = ("initContainers", "containers", "ephemeralContainers")
            self._specs = {(name, item["name"]): item for name in lists for item in spec.get(name) or ()}
            self._indexed = spec
        return self._specs

    def changed(self, container: Container) -> bool:
        """Whether a container runs another image than its pod asks for."""
        instance = container.instance
        if instance is None or not instance.image or instance.finished_at is not None:
            return False
        return bool(instance.image != self._wanted(container)["image"])

    def take_in(self, now: datetime) -> None:
        """Know the ephemeral containers that have been added."""
        known = {container.name for container in self.containers}
        for spec in self.pod["spec"].get("ephemeralContainers") or ():
            if spec["name"] not in known:
                self.containers.append(Container(spec["name"], False, now, ephemeral=True))

    @property
    def awaited(self) -> Container | None:
        """The first init container that is not through: it may run, and everything after it waits."""
        return next((container for container in self.init if not self.passed(container)), None)

    def passed(self, container: Container) -> bool:
        """Whether the containers after this init container may begin."""
        return container.succeeded or (self.is_sidecar(container) and container.running and container.startup_done)

    def is_sidecar(self, container: Container) -> bool:
        """Whether it is an init container that keeps running."""
        return container.init and self.spec(container).get("restartPolicy") == "Always"

    @property
    def is_agent(self) -> bool:
        """Whether it is one of those that a cluster runs on every node."""
        return any(owner["kind"] == "DaemonSet" for owner in self.pod["metadata"].get("ownerReferences") or ())


def pod_status(record: PodRecord, now: datetime) -> Obj:
    """Return the complete status of a pod."""
    phase = _phase(record)
    initializing = not record.initialized
    status: Obj = {
        "phase": phase,
        "conditions": _conditions(record, phase, now),
        "hostIP": record.host_ip,
        "hostIPs": [{"ip": record.host_ip}],
        "startTime": stamp(record.bound_at),
        "qosClass": record.pod.get("status", {}).get("qosClass") or qos_class(record.pod["spec"]),
        "containerStatuses": [_container_status(record, container, initializing) for container in record.main],
    }
    if record.failure[0]:
        status |= {"reason": record.failure[0], "message": record.failure[1]}
    generation = record.pod["metadata"].get("generation")
    if generation:
        status["observedGeneration"] = generation
    if record.init:
        status["initContainerStatuses"] = [_container_status(record, each, initializing) for each in record.init]
    if record.ephemeral:
        status["ephemeralContainerStatuses"] = [
            _container_status(record, each, initializing) for each in record.ephemeral
        ]
    if record.sandboxed or record.pod["spec"].get("hostNetwork"):
        status |= {"podIP": record.ip, "podIPs": [{"ip": record.ip}]}
    return status


def change(record: PodRecord, status: Obj) -> Obj:
    """Return the strategic merge by which a pod comes to have a status: what differs, and what is gone."""
    old = record.pod.get("status", {})
    differing = {name: value for name, value in status.items() if name not in old or old[name] != value}
    shown = {item["type"]: item for item in old.get("conditions", ())}
    told = [
        {**dict.fromkeys(shown.get(item["type"], item).keys() - item.keys()), **item}
        for item in status["conditions"]
        if item != shown.get(item["type"])
    ]
    differing.pop("conditions", None)
    # merged by their types, conditions that others have set in the meantime stay
    return differing | ({"conditions": told} if told else {})


def qos_class(spec: Obj) -> str:
    """Return Guaranteed, Burstable or BestEffort, from cpu and memory alone."""
    guaranteed, anything = True, False
    for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            anything = anything or name in limits or name in requests
            guaranteed = guaranteed and name in limits and requests.get(name, limits[name]) == limits[name]
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _phase(record: PodRecord) -> str:
    if record.failure[0]:
        return "Failed"
    if not record.initialized and not any(container.instance for container in record.main):
        failed = any(container.done and not container.succeeded for container in record.init)
        return "Failed" if failed else "Pending"
    main = record.main
    if any(container.instance is None for container in main):
        return "Pending"
    if any(container.running for container in main) or not all(container.done for container in main):
        return "Running"
    return "Succeeded" if all(container.succeeded for container in main) else "Failed"


def is_ready(record: PodRecord, container: Container) -> bool:
    """Whether a container counts as ready."""
    if container.ephemeral:
        return False
    if record.is_sidecar(container) or not container.init:
        return container.running and container.startup_done and container.ready
    return container.succeeded


def _conditions(record: PodRecord, phase: str, now: datetime) -> list[Obj]:
    unready = [c.name for c in record.main if not is_ready(record, c)]
    ready = _truth(unready, phase, "ContainersNotReady", "containers with unready status: [{}]")
    waiting = [c.name for c in record.init if not record.passed(c)]
    if phase == "Succeeded":
        initialized = ("True", "PodCompleted", "")
    else:
        initialized = _truth(waiting, "", "ContainersNotInitialized", "containers with incomplete status: [{}]")
    sandbox = record.sandboxed and phase not in ("Succeeded", "Failed")
    wanted = {
        "PodReadyToStartContainers": ("True" if sandbox else "False", "", ""),
        "Initialized": initialized,
        "Ready": ready,
        "ContainersReady": ready,
        "PodScheduled": ("True", "", ""),
    }
    old = {item["type"]: item for item in record.pod.get("status", {}).get("conditions", ())}
    own = [_condition(name, *wanted[name], old.get(name), record, now) for name in OWN_CONDITIONS]
    known = {*OWN_CONDITIONS, *(item["type"] for item in record.disruption)}
    return [*own, *record.disruption, *(item for name, item in old.items() if name not in known)]


def disruption(pod: Obj, why: str, now: datetime) -> Obj:
    """Return the condition of a pod that its kubelet ends for want of something."""
    reason = {"reason": "TerminationByKubelet", "message": why}
    found: Obj = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None, **reason}
    generation = pod["metadata"].get("generation")
    return {**found, "lastTransitionTime": stamp(now)} | ({"observedGeneration": generation} if generation else {})


def _truth(names: list[str], phase: str, reason: str, message: str) -> tuple[str, str, str]:
    if phase == "Succeeded":
        return "False", "PodCompleted", ""
    if phase == "Failed":
        return "False", "PodFailed", ""
    return ("False", reason, message.format(" ".join(names))) if names else ("True", "", "")


def _condition(
    name: str, status: str, reason: str, message: str, old: Obj | None, record: PodRecord, now: datetime
) -> Obj:
    same = old is not None and old["status"] == status
    since = old["lastTransitionTime"] if old is not None and same else stamp(now)
    condition: Obj = {"type": name, "status": status, "lastProbeTime": None, "lastTransitionTime": since}
    generation = record.pod["metadata"].get("generation")
    if generation:
        condition["observedGeneration"] = generation
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def _container_status(record: PodRecord, container: Container, initializing: bool) -> Obj:
    spec = record.spec(container)
    instance = container.instance
    name = (instance.image if instance is not None else "") or spec["image"]
    image = record.images.get(name) if instance is not None else None
    state, last = _states(record, container, initializing)
    status: Obj = {
        "name": container.name,
        "state": state,
        "lastState": last,
        "ready": is_ready(record, container),
        "restartCount": container.restarts,
        "image": image.reference.full if image else name,
        "imageID": image.image_id if image else "",
        "started": container.running and container.startup_done,
    }
    if instance is not None:
        status["containerID"] = _full_id(instance)
    return status | _resources(spec, container)


def _resources(spec: Obj, container: Container) -> Obj:
    resources = spec.get("resources") or {}
    shown: Obj = {}
    if container.running:
        shown["resources"] = resources
        if granted := resources.get("requests"):
            shown["allocatedResources"] = granted
    mounts = [_mount(mount) for mount in spec.get("volumeMounts") or ()]
    return shown | ({"volumeMounts": mounts} if mounts else {})


def _mount(mount: Obj) -> Obj:
    shown: Obj = {"name": mount["name"], "mountPath": mount["mountPath"]}
    return shown | ({"readOnly": True, "recursiveReadOnly": "Disabled"} if mount.get("readOnly") else {})


def _states(record: PodRecord, container: Container, initializing: bool) -> tuple[Obj, Obj]:
    """Return ``state`` and ``lastState``."""
    current, previous = container.instance, container.previous
    again = container.state == "creating" and record.pod["spec"].get("restartPolicy") != "Always"
    if container.state in WAITING or current is None or again:  # what is told to have ended could not run again
        waiting = _waiting(record, container, initializing)
        return {"waiting": waiting}, _terminated(container.previous if container.state == "postStart" else current)
    if container.state == "crashLoop":
        delay = go_duration(container.backoff.delay)
        text = f"back-off {delay} restarting failed container={container.name} pod={record.full_name}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": text}}, _terminated(current)
    if current.finished_at is not None:
        return _terminated(current), _terminated(previous)
    return {"running": {"startedAt": stamp(current.started_at)}}, _terminated(previous)


def _waiting(record: PodRecord, container: Container, initializing: bool) -> Obj:
    image = record.spec(container)["image"]
    if container.state == "pullFailed":
        return {"reason": "ErrImagePull", "message": container.pull_error}
    if container.state == "pullWaiting" or (container.state == "pulling" and container.pull_error):
        text = f'Back-off pulling image "{image}": ErrImagePull: {container.pull_error}'
        return {"reason": "ImagePullBackOff", "message": text}
    if container.state == "refused":
        return {"reason": container.refusal, "message": container.pull_error}
    if container.state == "configError":
        return {"reason": "CreateContainerConfigError", "message": container.config_error}
    return {"reason": "PodInitializing" if initializing else "ContainerCreating"}


def _terminated(instance: Instance | None) -> Obj:
    if instance is None or instance.finished_at is None:
        return {}
    ended: Obj = {
        "exitCode": instance.exit_code,
        "reason": instance.reason,
        "startedAt": NEVER if instance.reason == "StartError" else stamp(instance.started_at),
        "finishedAt": stamp(instance.finished_at),
        "containerID": _full_id(instance),
    }
    return {"terminated": ended | ({"message": instance.message} if instance.message else {})}


def _full_id(instance: Instance) -> str:
    return f"{RUNTIME}://{instance.id}"


class Reporter:
    """Tells of one pod."""

    __slots__ = ("_client", "_record", "_reported", "_version")

    def __init__(self, client: Client, record: PodRecord) -> None:
        self._client = client
        self._record = record
        self._reported: Obj = {}
        self._version: str | None = ""

    async def report(self, now: datetime) -> None:
        """Write the status if it differs from what the API has. Raises ``ApiError``."""
        record = self._record
        metadata = record.pod["metadata"]
        unchanged = (
            not record.sandboxed and not record.disruption and metadata.get("resourceVersion") == self._version
        )
        if unchanged or any(c.replaced and c.state in FIRST_STEPS for c in record.containers):
            return
        status = pod_status(record, now)
        if status == self._reported:
            return
        if differing := change(record, status):  # not so where the kubelet was started again
            patch = {"metadata": {"uid": metadata["uid"]}, "status": differing}
            record.pod = await self._client.patch(
                "pods", metadata["name"], metadata["namespace"], patch, patch_type="strategic", subresource="status"
            )
        self._reported, self._version = status, record.pod["metadata"].get("resourceVersion")


def rebuild_record(pod: Obj, node: Node, kept: Obj | None, files: Obj | None, now: datetime) -> PodRecord:
    """Return the record of a pod; ``kept`` is what ``dump_record`` told before a restart, if any."""
    uid, status = pod["metadata"]["uid"], pod.get("status", {})
    if kept is not None:
        containers = [Container.load(item) for item in kept["containers"]]
        address, bound = node.address(uid, kept["ip"]), parse(kept["bound_at"])
        return PodRecord(pod, containers, bound, node.ip, address, files=files)
    containers = containers_of(pod, "initContainers", "initContainerStatuses", now)
    containers += containers_of(pod, "containers", "containerStatuses", now)
    containers += containers_of(pod, "ephemeralContainers", "ephemeralContainerStatuses", now)
    bound = parse(status["startTime"]) if status.get("startTime") else now
    address = node.ip if pod["spec"].get("hostNetwork") else node.address(uid, status.get("podIP", ""))
    return PodRecord(pod, containers, bound, node.ip, address)


def dump_record(record: PodRecord) -> dict[str, Any]:
    """Return what a later start needs of a pod's record."""
    containers = [container.dump() for container in record.containers]
    return {"containers": containers, "ip": record.ip, "bound_at": record.bound_at}
