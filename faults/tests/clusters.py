"""The clusters on which sessions are attacked: a practice cluster, and a real control plane where there is one.

The latter where ``CONTRACT_KUBECONFIG`` names it: ``make contract-real``; ``CONTRACT_CLUSTERS=real`` leaves out the
former.
"""

from __future__ import annotations

import base64
import os
import threading
import time as machine_time

import yaml

from faults.errors import ClusterError, Forbidden, Invalid

REAL = os.environ.get("CONTRACT_KUBECONFIG", "")
CLUSTERS = os.environ.get("CONTRACT_CLUSTERS", "kubesim real").split()
PRACTICE = ["practice"] if "kubesim" in CLUSTERS else []
TIERS = [*PRACTICE, *(["real"] if REAL else [])]
FILES = ("certificate-authority-data", "client-certificate-data", "client-key-data")
PATIENCE_S = 60.0


def flat(path):
    """Return a kubeconfig with the files that it names put in."""
    document = yaml.safe_load(path.read_text())
    for entry in (document["clusters"][0]["cluster"], document["users"][0]["user"]):
        for key in [key for key in entry if key + "-data" in FILES]:
            entry[key + "-data"] = base64.b64encode((path.parent / entry.pop(key)).read_bytes()).decode()
    return yaml.safe_dump(document)


def refusal(kube, obj):
    """Return the words of the refusal; empty where the object was created, which is deleted again."""
    try:
        kube.create(obj)
    except (Forbidden, Invalid) as exc:
        return exc.message
    meta = obj["metadata"]
    kube.delete(obj["apiVersion"], obj["kind"], meta["name"], meta.get("namespace", ""), grace_seconds=0)
    return ""


def refused(kube, home):
    try:
        kube.list("v1", "Pod", home)
    except Forbidden:
        return True
    except ClusterError as exc:
        raise AssertionError(exc.message) from exc
    return False


def eventually(true):
    end, gate = machine_time.monotonic() + PATIENCE_S, threading.Event()
    while not (answer := true()):
        assert machine_time.monotonic() < end, "it did not happen in time"
        gate.wait(0.05)
    return answer
