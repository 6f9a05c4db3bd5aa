"""Endpoints and EndpointSlices: which pods stand behind a service."""

from __future__ import annotations

from typing import Any

from kubesim.controllers import pods
from kubesim.controllers.base import Context, Controller, delete_if_there, is_ending, owner_reference, queue_key
from kubesim.errors import ApiError, Obj
from kubesim.times import stamp

TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
HEADLESS = "service.kubernetes.io/headless"
ZONE = "topology.kubernetes.io/zone"


class EndpointsController(Controller):
    """Keeps one Endpoints and one EndpointSlice for each service that selects pods."""

    source = "endpoint-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.services = self.informers["services"]
        self.pods = self.informers["pods"]
        self.nodes = self.informers["nodes"]
        self.endpoints = self.informers["endpoints"]
        self.slices = self.informers["endpointslices.discovery.k8s.io"]

    def listen(self) -> None:
        """Watch services and the pods that they may select."""
        self.watch_own(self.services)
        self.watch_owned(self.slices, "Service")
        self.pods.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        """Look at the services of a pod whose address, readiness or labels changed."""
        if old is not None and new is not None and _reach(old) == _reach(new):
            return
        for service in self.services.by("namespace", (new or old or {})["metadata"]["namespace"]):
            if any(pod is not None and _selects(service, pod) for pod in (old, new)):
                self.queue.add(queue_key(service))

    async def sync(self, namespace: str, name: str) -> None:
        """Write who stands behind one service."""
        service = self.services.get(namespace, name)
        endpoints = self.endpoints.get(namespace, name)
        if service is None:
            if endpoints is not None:
                await delete_if_there(self, "endpoints", endpoints)
            return
        if not service["spec"].get("selector") or is_ending(service):
            return
        found = [pod for pod in self.pods.by("namespace", namespace) if _selects(service, pod) and _reachable(pod)]
        found.sort(key=lambda pod: pod["status"]["podIP"])
        await self._write_endpoints(service, endpoints, found)
        await self._write_slice(service, found)

    async def _write_endpoints(self, service: Obj, old: Obj | None, found: list[Obj]) -> None:
        subset: Obj = {}
        for field, ready in (("addresses", True), ("notReadyAddresses", False)):
            chosen = [pod for pod in found if (pods.ready_since(pod) is not None) is ready]
            if chosen:
                subset[field] = [{"ip": pod["status"]["podIP"], **_place(pod)} for pod in chosen]
        if subset and (ports := _ports(service, found[0])):
            subset["ports"] = ports
        labels = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        body: Obj = {"apiVersion": "v1", "kind": "Endpoints", "metadata": self._metadata(service, labels)}
        body["metadata"]["name"] = service["metadata"]["name"]
        if subset:
            body["subsets"] = [subset]
        await self._write("endpoints", old, body, ("subsets",))

    async def _write_slice(self, service: Obj, found: list[Obj]) -> None:
        name = service["metadata"]["name"]
        labels = {
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            "kubernetes.io/service-name": name,
        }
        meta = self._metadata(service, labels)
        old = next(iter(self.slices.by("controller", service["metadata"]["uid"])), None)
        meta |= {"generateName": f"{name}-", "ownerReferences": [owner_reference(service)]}
        if old is not None:
            meta["name"] = old["metadata"]["name"]
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": meta,
            "addressType": "IPv4",
            "endpoints": [self._endpoint(pod) for pod in found] or None,
            "ports": [{"name": "", **port} for port in _ports(service, found[0])] if found else None,
        }
        await self._write("endpointslices.discovery.k8s.io", old, body, ("endpoints", "ports"))

    def _metadata(self, service: Obj, own: dict[str, str]) -> Obj:
        labels = {**(service["metadata"].get("labels") or {}), **own}
        if service["spec"].get("clusterIP") == "None":
            labels[HEADLESS] = ""
        meta = service["metadata"]
        return {"namespace": meta["namespace"], "labels": labels, "annotations": {TRIGGER: stamp(self.clock.now())}}

    def _endpoint(self, pod: Obj) -> Obj:
        ready, ending = pods.ready_since(pod) is not None, is_ending(pod)
        node = self.nodes.get("", pod["spec"]["nodeName"])
        zone = (node["metadata"].get("labels") or {}).get(ZONE) if node is not None else None
        return {
            "addresses": [pod["status"]["podIP"]],
            "conditions": {"ready": ready and not ending, "serving": ready, "terminating": ending},
            **_place(pod),
            **({"zone": zone} if zone else {}),
        }

    async def _write(self, resource: str, old: Obj | None, body: Obj, fields: tuple[str, ...]) -> None:
        """Create or replace one object where one of ``fields`` or its labels changed."""
        meta = body["metadata"]
        if old is None:
            try:
                answer = await self.client.create(resource, body, namespace=meta["namespace"])
            except ApiError as error:
                if error.code in (403, 404, 409):  # the namespace is going, or somebody else was first
                    return
                raise
            self.informers[resource].note(answer, created=True)
        elif (
            any(old.get(field) != body.get(field) for field in fields) or old["metadata"]["labels"] != meta["labels"]
        ):
            kept = {**old["metadata"], "labels": meta["labels"], "annotations": meta["annotations"]}
            self.informers[resource].note(await self.client.update(resource, {**body, "metadata": kept}))


def _selects(service: Obj, pod: Obj) -> bool:
    wanted = service["spec"].get("selector") or {}
    labels = pod["metadata"].get("labels") or {}
    return bool(wanted) and all(labels.get(name) == value for name, value in wanted.items())


def _reachable(pod: Obj) -> bool:
    return bool(pod.get("status", {}).get("podIP")) and pods.phase_of(pod) not in pods.ENDED and not is_ending(pod)


def _reach(pod: Obj) -> Any:
    ready = pods.ready_since(pod) is not None
    return pod.get("status", {}).get("podIP"), ready, is_ending(pod), pod["metadata"].get("labels"), _reachable(pod)


def _place(pod: Obj) -> Obj:
    meta = pod["metadata"]
    target = {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    return {"nodeName": pod["spec"]["nodeName"], "targetRef": target}


def _ports(service: Obj, pod: Obj) -> list[Obj]:
    """Return a service's ports with the number that each has in its pods."""
    found = []
    for port in service["spec"].get("ports") or ():
        number = _target(port.get("targetPort", port["port"]), pod)
        if number:
            name = {"name": port["name"]} if port.get("name") else {}
            found.append({**name, "port": number, "protocol": port.get("protocol", "TCP")})
    return found


def _target(target: int | str, pod: Obj) -> int:
    """Return the number of a port that may be named in the pod; 0 for a name that no container has."""
    if isinstance(target, int):
        return target
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == target:
                return int(port["containerPort"])
    return int(target) if target.isdigit() else 0
