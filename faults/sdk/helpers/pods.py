"""Waiting for pods by watching them, always with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from helpers.kube_client import POD, Kube

Obj = dict[str, Any]
CRASHED = {"CrashLoopBackOff", "Error", "RunContainerError"}


def await_pods(
    kube: Kube, namespace: str, selector: str, seconds: float, is_done: Callable[[list[Obj]], bool]
) -> list[Obj]:
    """Watch the pods of a selector until ``is_done`` says so of them; return them as they were last seen.

    ``is_done`` is asked after each change, and has to be asked once more by whoever wants to know how it ended.
    """
    end, pods = time.monotonic() + seconds, dict[str, Obj]()
    while (left := end - time.monotonic()) > 0:
        pods, is_synced = {}, False
        for event, pod in kube.watch(POD, namespace, left, labelSelector=selector):
            is_synced = is_synced or event == "SYNCED"
            _note(pods, event, pod)
            if is_synced and is_done(list(pods.values())):
                return list(pods.values())
    return list(pods.values())


def _note(pods: dict[str, Obj], event: str, pod: Obj) -> None:
    if event == "DELETED":
        pods.pop(pod["metadata"]["uid"], None)
    elif pod.get("metadata"):
        pods[pod["metadata"]["uid"]] = pod


def is_leaving(pod: Obj) -> bool:
    """Return whether somebody has deleted the pod."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_over(pod: Obj) -> bool:
    """Return whether the pod has ended for good: nothing replaces it by a change of its template."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_ready(pod: Obj) -> bool:
    """Return whether the pod serves."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    ready = any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)
    return ready and not is_leaving(pod)


def has_crashed(pod: Obj) -> bool:
    """Return whether a container of the pod has ended by an error, now or before it was started again."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if ((status.get("state") or {}).get("waiting") or {}).get("reason") in CRASHED:
            return True
        for key in ("state", "lastState"):
            if ((status.get(key) or {}).get("terminated") or {}).get("exitCode"):
                return True
    return False


def name_of(pod: Obj) -> str:
    """Return the pod's name."""
    return str(pod["metadata"]["name"])
