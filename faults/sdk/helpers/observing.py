"""What tests wait for: states of a node, and a model that answers. Nodes are watched; every wait has a deadline."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any

from helpers.kube_client import NODE, Kind, Kube

Obj = dict[str, Any]
QUARANTINE = "quarantineHealthEvent"
STATE = "dgxc.nvidia.com/nvsentinel-state"
XID_CONDITIONS = ("SysLogsXIDError", "GpuXidError")
DAEMON_SET = Kind("apps/v1", "daemonsets", "DaemonSet")


class NotSeenError(AssertionError):
    """What a test waited for did not happen in its time."""


def is_cordoned(node: Obj) -> bool:
    """Return whether no pods are to come to the node."""
    return bool(node["spec"].get("unschedulable"))


def is_quarantined(node: Obj) -> bool:
    """Return whether NVSentinel has taken the node out of service."""
    return is_cordoned(node) and QUARANTINE in (node["metadata"].get("annotations") or {})


def is_in_service(node: Obj) -> bool:
    """Return whether the node is ready, takes pods, and NVSentinel has nothing against it."""
    return not is_cordoned(node) and _has(node, ("Ready",)) and sentinel_state(node) == ""


def is_drained(node: Obj) -> bool:
    """Return whether NVSentinel has got beyond taking the pods off."""
    return sentinel_state(node) in ("drain-succeeded", "remediating", "remediation-succeeded")


def is_remediated(node: Obj) -> bool:
    """Return whether NVSentinel's repair has been done."""
    return sentinel_state(node) == "remediation-succeeded" or is_in_service(node)


def sees_xid(node: Obj) -> bool:
    """Return whether a health monitor has told of an Xid on the node."""
    return _has(node, XID_CONDITIONS)


def sentinel_state(node: Obj) -> str:
    """Return NVSentinel's word for what it does with the node; empty: nothing."""
    return str((node["metadata"].get("labels") or {}).get(STATE, ""))


def _has(node: Obj, types: Iterable[str]) -> bool:
    conditions = node["status"].get("conditions") or []
    return any(row["type"] in types and row["status"] == "True" for row in conditions)


def wait_for_node(kube: Kube, name: str, is_done: Callable[[Obj], bool], what: str, seconds: float) -> Obj:
    """Return the node as soon as it is as wanted. Raises NotSeenError, with what it is instead."""
    end, node = time.monotonic() + seconds, kube.get(NODE, "", name)
    while (left := end - time.monotonic()) > 0:
        for _, found in kube.watch(NODE, "", left, fieldSelector=f"metadata.name={name}"):
            node = found or node
            if is_done(node):
                return node
    state = sentinel_state(node) or "none"
    raise NotSeenError(
        f"{name} was not {what} within {seconds:.0f} s (cordoned: {is_cordoned(node)}, NVSentinel's state: {state})."
    )


def node_stays(kube: Kube, name: str, is_bad: Callable[[Obj], bool], what: str, seconds: float) -> None:
    """Watch a node for some time. Raises NotSeenError as soon as it is what it must not be."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        for _, node in kube.watch(NODE, "", left, fieldSelector=f"metadata.name={name}"):
            if node and is_bad(node):
                raise NotSeenError(f"{name} was {what}, which this Xid must not lead to.")


def has_nvsentinel(kube: Kube) -> bool:
    """Return whether NVSentinel reads the nodes' kernel logs."""
    return bool(kube.list(DAEMON_SET, "nvsentinel", labelSelector="app=syslog-health-monitor").get("items"))


class Inference:
    """A model behind an OpenAI-compatible server, asked as its users ask it."""

    def __init__(self, frontend_url: str, timeout_s: float = 10, pause_s: float = 1) -> None:
        """``pause_s`` lies between two requests."""
        self._url = frontend_url.rstrip("/")
        self._timeout_s = timeout_s
        self._pause_s = pause_s
        self._model = ""

    def answers(self) -> bool:
        """Return whether the model answers a request."""
        question = [{"role": "user", "content": "Say hello."}]
        try:
            self._model = self._model or str(self._ask("/v1/models")["data"][0]["id"])
            body = {"model": self._model, "messages": question, "max_tokens": 8}
            return bool(self._ask("/v1/chat/completions", body)["choices"])
        except (OSError, ValueError, LookupError, TypeError):
            return False

    def share(self, requests: int = 5) -> float:
        """Return the share of requests that are answered."""
        answered = 0
        for at in range(requests):
            answered += self.answers()
            time.sleep(self._pause_s if at + 1 < requests else 0)
        return answered / requests

    def wait_until(self, serves: bool, seconds: float) -> None:
        """Wait until the model answers, or no longer does. Raises NotSeenError."""
        end = time.monotonic() + seconds
        while self.answers() is not serves:
            if time.monotonic() > end:
                wanted = "answered" if serves else "stopped answering"
                raise NotSeenError(f"The model at {self._url} has not {wanted} within {seconds:.0f} s.")
            time.sleep(self._pause_s)

    def _ask(self, path: str, body: Obj | None = None) -> Obj:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:  # noqa: S310
            found: Obj = json.load(answer)
            return found


def node_of_a_worker(kube: Kube, namespace: str, named: str = "") -> str:
    """Return the node that a test is to break: the named one, or that of a worker. Raises NotSeenError."""
    pods = Kind("v1", "pods", "Pod")
    workers = kube.list(pods, namespace, labelSelector="nvidia.com/dynamo-component-type=worker").get("items") or []
    nodes = sorted({pod["spec"]["nodeName"] for pod in workers if pod["spec"].get("nodeName")})
    if named:
        return named
    if not nodes:
        raise NotSeenError(f"No worker runs in {namespace}: label them nvidia.com/dynamo-component-type=worker.")
    return str(nodes[0])
