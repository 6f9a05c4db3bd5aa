"""Scenarios of workloads (``workloads.yaml``) played on a cluster; what the real control plane did lies beside them.

``python -m kubesim.tests.workloads KUBECONFIG`` plays them on a real control plane (whose nodes nobody runs) and
writes ``workloads_real.yaml`` anew; ``test_workloads.py`` plays them on kubesim and compares.
"""

from __future__ import annotations

import asyncio
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import orjson
import yaml
from kubernetes import client as kubernetes_client
from kubernetes import config

from kubesim import data

HERE = Path(__file__).parent
RECORD = HERE / "workloads_real.yaml"
GROUPS = {
    "pods": "api/v1", "events": "api/v1", "deployments": "apis/apps/v1", "replicasets": "apis/apps/v1",
    "statefulsets": "apis/apps/v1", "daemonsets": "apis/apps/v1", "controllerrevisions": "apis/apps/v1",
    "jobs": "apis/batch/v1", "poddisruptionbudgets": "apis/policy/v1",
}  # fmt: skip
OTHERS = ("kubelet", "default-scheduler", "node-controller", "taint-eviction-controller")
"""Whose events tell of the node, and are left out."""
INDEX = "batch.kubernetes.io/job-completion-index"
Obj = dict[str, Any]


class Stage(Protocol):
    """A cluster on which scenarios are played, in a namespace of its own and with a node of its own."""

    node: str

    async def create(self, resource: str, obj: Obj, subresource: str = "") -> Obj:
        """Create an object; returns the answer, also a refusal."""

    async def patch(self, resource: str, name: str, patch: Obj, subresource: str = "") -> Obj:
        """Patch an object."""

    async def items(self, resource: str) -> list[Obj]:
        """Return objects."""

    async def remove(self, pod: str) -> None:
        """Delete a pod at once."""

    async def wait(self, seconds: float) -> None:
        """Let time pass."""

    def now(self) -> datetime:
        """Return the cluster's time."""


async def play(stage: Stage, steps: list[Obj]) -> Obj:
    """Play a scenario; returns what was shown, and the events."""
    shown: list[Any] = []
    for step in steps:
        ((verb, what),) = step.items()
        match verb:
            case "create":
                kind = what["kind"].lower() + "s"
                await stage.create(kind, yaml.safe_load(yaml.safe_dump(what).replace("NODE", stage.node)))
            case "patch":
                await stage.patch(*what)
            case "wait":
                await stage.wait(what)
            case "run":
                await _run(stage)
            case "end":
                await _end(stage, *what)
            case "evict":
                shown.append(await _evict(stage, what))
            case "show":
                shown += [{resource: await _status(stage, resource)} for resource in what]
    return {"shown": _plain(shown), "events": _plain(sorted(await _events(stage)))}


async def pods(stage: Stage) -> list[Obj]:
    """Return the pods in the order in which scenarios count them."""

    def place(pod: Obj) -> tuple[int, str, str]:
        meta = pod["metadata"]
        return int((meta.get("annotations") or {}).get(INDEX, 0)), meta["creationTimestamp"], meta["name"]

    return sorted(await stage.items("pods"), key=place)


async def _run(stage: Stage) -> None:
    for pod in await pods(stage):
        if pod["metadata"].get("deletionTimestamp"):
            await stage.remove(pod["metadata"]["name"])
        elif pod["status"].get("phase", "Pending") == "Pending":
            await _set_state(stage, pod, "Running", {"running": {"startedAt": _stamp(stage)}})


async def _end(stage: Stage, number: int, code: int) -> None:
    pod, now = (await pods(stage))[number], _stamp(stage)
    ended = {"exitCode": code, "startedAt": now, "finishedAt": now, "reason": "Error" if code else "Completed"}
    await _set_state(stage, pod, "Failed" if code else "Succeeded", {"terminated": ended})


async def _set_state(stage: Stage, pod: Obj, phase: str, state: Obj) -> None:
    now, ready = _stamp(stage), phase == "Running"
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": now, "lastProbeTime": None}
    container = {"name": "main", "image": "img", "imageID": "", "ready": ready, "restartCount": 0}
    container |= {"state": state, "lastState": {}}
    status = {"phase": phase, "startTime": now, "conditions": [condition], "containerStatuses": [container]}
    await stage.patch("pods", pod["metadata"]["name"], {"status": status}, "status")


async def _evict(stage: Stage, number: int) -> Obj:
    name = (await pods(stage))[number]["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    answer = await stage.create("pods", body, "eviction")
    return {name: answer[name] for name in ("status", "reason", "message", "details") if name in answer}


async def _status(stage: Stage, resource: str) -> list[Obj]:
    found = sorted(await stage.items(resource), key=lambda obj: (obj["metadata"]["creationTimestamp"], _size(obj)))
    names = ("status", "revision")
    return [{name: obj[name] for name in names if name in obj} | _facts(obj) for obj in found]


def _size(obj: Obj) -> str:
    return str((obj["metadata"].get("annotations") or {}).get("deployment.kubernetes.io/revision", ""))


def _facts(obj: Obj) -> Obj:
    notes = {k: v for k, v in (obj["metadata"].get("annotations") or {}).items() if k.startswith("deployment.")}
    return {"annotations": notes} if notes else {}


async def _events(stage: Stage) -> list[str]:
    found = [event for event in await stage.items("events") if event["source"].get("component") not in OTHERS]
    keys = ("type", "reason", "message")
    return [f"{event['involvedObject']['kind']}: {' '.join(event[key] for key in keys)}" for event in found]


def _stamp(stage: Stage) -> str:
    return stage.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _plain(found: Any) -> Any:
    """Leave out what differs from one time to the next: times, uids, generated parts of names, namespaces."""
    text = yaml.safe_dump(found, width=1000)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    text = re.sub(r"\b((?:web|job)(?:-\d)?)(-[bcdfghjklmnpqrstvwxz2456789]{5,10})+\b", r"\1-X", text)
    text = re.sub(r"play-node-\d+", "NODE", re.sub(r"play-\d+", "default", text))
    loaded = yaml.safe_load(text)
    return sorted(loaded) if loaded and isinstance(loaded[0], str) else loaded


def scenarios() -> list[Obj]:
    """Return the scenarios."""
    found: list[Obj] = data.read(HERE / "workloads.yaml")
    return found


class RealStage:
    """A scenario on a cluster behind a kubeconfig."""

    def __init__(self, api: kubernetes_client.ApiClient, number: int) -> None:
        number += int(self.now().timestamp()) * 100
        self.node = f"play-node-{number}"
        self._api = api
        self._space = f"play-{number}"
        self._call("POST", "api/v1/namespaces", {"metadata": {"name": self._space}})
        self._call("POST", "api/v1/nodes", {"metadata": {"name": self.node}})
        ready = {"type": "Ready", "status": "True", "reason": "x", "message": "x", "lastHeartbeatTime": _stamp(self)}
        room = {"cpu": "64", "memory": "64Gi", "pods": "500"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        self._call("PATCH", f"api/v1/nodes/{self.node}/status", {"status": status})

    def _call(self, method: str, path: str, body: Obj | None = None) -> Obj:
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        url, sent = f"{self._api.configuration.host}/{path}", orjson.dumps(body) if body else None
        pool = self._api.rest_client.pool_manager
        answer = pool.request(method, url, body=sent, headers={"Content-Type": kind, "Accept": "application/json"})
        return dict(orjson.loads(answer.data))

    def _path(self, resource: str, name: str = "", subresource: str = "") -> str:
        parts = [GROUPS[resource], "namespaces", self._space, resource, name, subresource]
        return "/".join(filter(None, parts))

    async def create(self, resource: str, obj: Obj, subresource: str = "") -> Obj:
        """Create an object."""
        return self._call(
            "POST", self._path(resource, obj["metadata"]["name"] if subresource else "", subresource), obj
        )

    async def patch(self, resource: str, name: str, patch: Obj, subresource: str = "") -> Obj:
        """Patch an object."""
        return self._call("PATCH", self._path(resource, name, subresource), patch)

    async def items(self, resource: str) -> list[Obj]:
        """Return objects."""
        return list(self._call("GET", self._path(resource))["items"])

    async def remove(self, pod: str) -> None:
        """Delete a pod at once."""
        self._call("DELETE", self._path("pods", pod), {"gracePeriodSeconds": 0})

    async def wait(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def now(self) -> datetime:
        """Return the time."""
        return datetime.now(UTC)

    def leave(self) -> None:
        """Take everything away again."""
        self._call("DELETE", f"api/v1/namespaces/{self._space}")
        self._call("DELETE", f"api/v1/nodes/{self.node}")


async def record(kubeconfig: str) -> None:
    """Play every scenario on a real control plane, all at once, and write down what it did."""
    api = config.new_client_from_config(kubeconfig)  # type: ignore[no-untyped-call]
    stages = [RealStage(api, number) for number in range(len(scenarios()))]
    await asyncio.sleep(2)
    found = await asyncio.gather(*(play(stage, s["steps"]) for stage, s in zip(stages, scenarios(), strict=True)))
    names = [scenario["name"] for scenario in scenarios()]
    text = yaml.safe_dump(dict(zip(names, found, strict=True)), width=200, sort_keys=True)
    RECORD.write_text(f"# Written by python -m kubesim.tests.workloads.\n{text}", encoding="utf-8")
    for stage in stages:
        stage.leave()


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1]))
