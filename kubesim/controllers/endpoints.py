"""Endpoints and EndpointSlices: the pods that stand behind a service.

There is one set of slices for each list of ports, with no more than a hundred endpoints in each. Nobody mirrors
Endpoints that somebody wrote by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kubesim.conditions import condition_of
from kubesim.controllers import pods
from kubesim.controllers.base import Context, Controller, Keeper, is_ending, latest, owner_reference, queue_key
from kubesim.errors import Obj, tolerating
from kubesim.schema.paths import is_true

HEADLESS = "service.kubernetes.io/headless"
ZONE = "topology.kubernetes.io/zone"
OWN_LABEL = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
CLOSE = ("PreferClose", "PreferSameZone", "PreferSameNode")
SLICES = "endpointslices.discovery.k8s.io"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE = "kubernetes.io/service-name"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
LARGEST = 100

Group = tuple[str, list[Obj], list[Obj]]
"""Address type, ports and endpoints."""


class EndpointsController(Keeper):
    """Keeps one Endpoints and the EndpointSlices of each service that selects pods."""

    source = "endpoint-controller"
    resource = "services"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pods = self.informers["pods"]
        self.nodes = self.informers["nodes"]
        self.endpoints = self.informers["endpoints"]
        self.slices = self.informers[SLICES]
        self._keeper = SliceKeeper(self, "endpointslice-controller.k8s.io")
        self._seen: dict[str, dict[str, str]] = {}
        """Service -> when it was made ("") and when each of its pods last changed."""

    def listen(self) -> None:
        """Watch services, the pods that they may select, and what we have written of them."""
        super().listen()
        self.watch_owned(self.slices, self.kind)
        self.endpoints.add_handler(self._endpoints_changed)
        self.pods.add_handler(self._changed)

    def _endpoints_changed(self, old: Obj | None, new: Obj | None) -> None:
        """Make them again when they are gone; those that others made for no service stay as they are."""
        if new is None:
            self.queue.add(queue_key(latest(old, new)))

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        """Look at the services of a pod whose address, readiness or labels changed."""
        if old is not None and new is not None and _reach(old) == _reach(new):
            return
        for service in self.own.by("namespace", latest(old, new)["metadata"]["namespace"]):
            if any(pod is not None and _selects(service, pod) for pod in (old, new)):
                self.queue.add(queue_key(service))

    async def gone(self, namespace: str, name: str) -> None:
        """Nobody stands behind a service that is gone."""
        self._seen.pop(f"{namespace}/{name}", None)
        endpoints = self.endpoints.get(namespace, name)
        if endpoints is not None:
            await self.endpoints.delete(endpoints)

    async def look_after(self, service: Obj) -> None:
        """Write who stands behind one service."""
        spec, meta = service["spec"], service["metadata"]
        if not spec.get("selector") or spec.get("type") == "ExternalName" or is_ending(service):
            return
        selected = [pod for pod in self.pods.by("namespace", meta["namespace"]) if _selects(service, pod)]
        trigger = self._trigger(service, selected)
        found = sorted(filter(_has_address, selected), key=lambda pod: str(pod["status"]["podIP"]))
        await self._write_endpoints(service, self.endpoints.get(meta["namespace"], meta["name"]), found, trigger)
        labels = {"labels": _labels(service, {SERVICE: "", MANAGED_BY: ""})}
        await self._keeper.keep(service, labels, self._groups(service, found), trigger)

    def _trigger(self, service: Obj, selected: list[Obj]) -> str:
        """Return the first of the moments that something new happened; empty where there was none."""
        now = {pod["metadata"]["name"]: _turned(pod) for pod in selected}
        now[""] = service["metadata"]["creationTimestamp"]
        before = self._seen.get(queue_key(service), {})
        self._seen[queue_key(service)] = now
        return min((at for name, at in now.items() if at and at > before.get(name, "")), default="")

    async def _write_endpoints(self, service: Obj, old: Obj | None, found: list[Obj], trigger: str) -> None:
        subsets = _subsets(service, found)
        labels = _labels(service, {}) | OWN_LABEL
        if old is not None and (old.get("subsets") or []) == subsets and old["metadata"].get("labels") == labels:
            return
        meta = (
            old["metadata"] if old is not None else {key: service["metadata"][key] for key in ("namespace", "name")}
        )
        notes = {key: value for key, value in (meta.get("annotations") or {}).items() if key != TRIGGER}
        notes |= {TRIGGER: trigger} if trigger else {}
        body: Obj = {"apiVersion": "v1", "kind": "Endpoints"}
        body["metadata"] = {**meta, "labels": labels, "annotations": notes}
        body |= {"subsets": subsets} if subsets else {}
        with tolerating(403, 404, 409):  # the namespace is going, or somebody else was first
            await (self.endpoints.create(body) if old is None else self.endpoints.update(body))

    def _groups(self, service: Obj, found: list[Obj]) -> list[Group]:
        """Return the endpoints by their ports: a named port may differ from pod to pod."""
        groups: dict[str, Group] = {}
        for pod in found:
            ports = [{"name": "", **port} for port in _ports(service, pod)]
            if ports or _needs_no_ports(service):
                group = groups.setdefault(json.dumps(ports), ("IPv4", ports, []))
                group[2].append(self._endpoint(service, pod))
        return list(groups.values())

    def _endpoint(self, service: Obj, pod: Obj) -> Obj:
        serving, ending = is_true(pod, "Ready"), is_ending(pod)
        ready = bool(service["spec"].get("publishNotReadyAddresses")) or (serving and not ending)
        node = self.nodes.get("", pod["spec"].get("nodeName", ""))
        zone = (node["metadata"].get("labels") or {}).get(ZONE) if node is not None else None
        found: Obj = {"addresses": [pod["status"]["podIP"]]}
        found["conditions"] = {"ready": ready, "serving": serving, "terminating": ending}
        found |= _place(service, pod) | ({"zone": zone} if zone else {})
        hints = _hints(service, found) if ready else {}
        return found | ({"hints": hints} if hints else {})


def _selects(service: Obj, pod: Obj) -> bool:
    wanted = service["spec"].get("selector") or {}
    labels = pod["metadata"].get("labels") or {}
    return bool(wanted) and all(labels.get(name) == value for name, value in wanted.items())


def _has_address(pod: Obj) -> bool:
    return bool(pod.get("status", {}).get("podIP")) and pods.phase_of(pod) not in pods.ENDED


def _needs_no_ports(service: Obj) -> bool:
    return service["spec"].get("clusterIP") == "None" and not service["spec"].get("ports")


def _turned(pod: Obj) -> str:
    """Return when a pod last became ready or ceased to be."""
    return condition_of(pod.get("status"), "Ready").get("lastTransitionTime") or ""


def _reach(pod: Obj) -> Any:
    ready = is_true(pod, "Ready")
    place = pod.get("status", {}).get("podIP"), pod["spec"].get("nodeName")
    return *place, ready, is_ending(pod), pod["metadata"].get("labels"), _has_address(pod)


def _labels(service: Obj, without: dict[str, str]) -> dict[str, str]:
    own = {key: value for key, value in (service["metadata"].get("labels") or {}).items() if key not in without}
    own.pop(HEADLESS, None)
    return own | ({HEADLESS: ""} if service["spec"].get("clusterIP") == "None" else {})


def _place(service: Obj, pod: Obj) -> Obj:
    meta, spec = pod["metadata"], pod["spec"]
    target = {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    named = spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]
    found = {"nodeName": spec["nodeName"]} if spec.get("nodeName") else {}
    return found | {"targetRef": target} | ({"hostname": spec["hostname"]} if named else {})


def _hints(service: Obj, endpoint: Obj) -> Obj:
    wanted = service["spec"].get("trafficDistribution")
    hints: Obj = {"forZones": [{"name": endpoint["zone"]}]} if wanted in CLOSE and "zone" in endpoint else {}
    if wanted == "PreferSameNode" and "nodeName" in endpoint:
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    return hints


def _subsets(service: Obj, found: list[Obj]) -> list[Obj]:
    """Return ports with all their addresses, and together those ports that have the same ones."""
    every = bool(service["spec"].get("publishNotReadyAddresses"))
    by_port: dict[str, list[Obj]] = {}
    for pod in found:
        if every or not is_ending(pod):
            for port in _ports(service, pod) or ([{}] if _needs_no_ports(service) else []):
                by_port.setdefault(json.dumps(port), []).append(pod)
    by_pods: dict[tuple[str, ...], list[Obj]] = {}
    for text, listed in by_port.items():
        by_pods.setdefault(tuple(pod["metadata"]["uid"] for pod in listed), []).append(json.loads(text))
    pods_by_uid = {pod["metadata"]["uid"]: pod for pod in found}
    return [_subset(service, [pods_by_uid[uid] for uid in uids], ports) for uids, ports in by_pods.items()]


def _subset(service: Obj, found: list[Obj], ports: list[Obj]) -> Obj:
    every = bool(service["spec"].get("publishNotReadyAddresses"))
    subset: Obj = {}
    for pod in found:
        ready = every or is_true(pod, "Ready")
        address = {"ip": pod["status"]["podIP"], **_place(service, pod)}
        subset.setdefault("addresses" if ready else "notReadyAddresses", []).append(address)
    return subset | ({"ports": ports} if any(ports) else {})


def _ports(service: Obj, pod: Obj) -> list[Obj]:
    """Return a service's ports with the number that each has in a pod; those that the pod has not are left out."""
    found = []
    for port in service["spec"].get("ports") or ():
        number = _target(port.get("targetPort", port["port"]), port.get("protocol", "TCP"), pod)
        if number:
            more = {key: port[key] for key in ("name", "appProtocol") if port.get(key)}
            found.append({**more, "port": number, "protocol": port.get("protocol", "TCP")})
    return found


def _target(target: int | str, protocol: str, pod: Obj) -> int:
    """Return the number of a port that may be named in the pod; 0 for a name that no container has."""
    if isinstance(target, int):
        return target
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == target and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return 0


class SliceKeeper:
    """Keeps the slices of one controller's objects."""

    def __init__(self, controller: Controller, name: str) -> None:
        self._name = name
        self._slices = controller.informers[SLICES]

    def mine(self, owner: Obj) -> list[Obj]:
        """Return the slices that an object has."""
        found = self._slices.by("controller", owner["metadata"]["uid"])
        return [each for each in found if (each["metadata"].get("labels") or {}).get(MANAGED_BY) == self._name]

    async def keep(self, owner: Obj, meta: Obj, groups: Iterable[Group], trigger: str) -> None:
        """Make the slices of ``owner`` those of ``groups``; ``meta`` has their labels and annotations."""
        old = sorted(self.mine(owner), key=lambda each: str(each["metadata"]["name"]))
        parts = list(_parts(groups))
        wanted = {_key(family, ports) for family, ports, _ in parts}
        by_ports: dict[str, list[Obj]] = {}
        for each in old:
            key = _key(each["addressType"], each.get("ports"))
            by_ports.setdefault(key if key in wanted else each["addressType"], []).append(each)
        for family, ports, endpoints in parts:
            same = by_ports.get(_key(family, ports)) or by_ports.get(family) or []
            body = {"addressType": family, "endpoints": endpoints or None, "ports": ports or None}
            await self._write(owner, same.pop(0) if same else None, body, meta, trigger)
        for left in by_ports.values():
            for each in left:
                await self._slices.delete(each)

    async def _write(self, owner: Obj, old: Obj | None, body: Obj, meta: Obj, trigger: str) -> None:
        labels = {**meta["labels"], SERVICE: owner["metadata"]["name"], MANAGED_BY: self._name}
        notes = {**(meta.get("annotations") or {}), **({TRIGGER: trigger} if trigger else {})}
        fresh: Obj = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **body}
        with tolerating(403, 404, 409):  # the namespace is going, or somebody else was first
            if old is None:
                meta = {"generateName": f"{owner['metadata']['name']}-", "namespace": owner["metadata"]["namespace"]}
                meta |= {"labels": labels, "annotations": notes, "ownerReferences": [owner_reference(owner)]}
                await self._slices.create({**fresh, "metadata": meta})
            elif _shows(old) != (labels, body["endpoints"], body["ports"]):
                kept = {**old["metadata"], "labels": labels, "annotations": notes}
                await self._slices.update({**fresh, "metadata": kept})


def _parts(groups: Iterable[Group]) -> Iterator[Group]:
    """Cut groups that are too large; where nothing is left, one slice without endpoints stays."""
    found: list[Group] = [group for group in groups if group[2]]
    for family, ports, endpoints in found or [("IPv4", [], [])]:
        for start in range(0, max(1, len(endpoints)), LARGEST):
            yield family, ports, endpoints[start : start + LARGEST]


def _key(family: str, ports: list[Obj] | None) -> str:
    return json.dumps([family, ports or []], sort_keys=True)


def _shows(old: Obj) -> tuple[dict[str, str], list[Obj] | None, list[Obj] | None]:
    return old["metadata"].get("labels") or {}, old.get("endpoints") or None, old.get("ports") or None
