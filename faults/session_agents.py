"""A session's node agents: one on each node, for scenarios whose faults are those of hardware and nodes.

They run in a namespace of their own, which the candidate cannot read, from an image that says nothing of faults. They
answer below a secret path alone, since a candidate's pod may reach their addresses. On real nodes they open the
kernel log, which takes a privileged container, and give up every privilege before they listen (``faults/agent``).
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from typing import Any

from faults.engine.node_agents import BASE_PATH, SESSION

Obj = dict[str, Any]
PRACTICE_IMAGE = "ghcr.io/platform-tools/node-agent:1"
"""The image on simulated nodes, which know its program."""
NAME = "node-agent"
KEY_BYTES = 12
STATE = "/var/lib/node-agent"
KERNEL_LOG = "/dev/kmsg"
PRIVILEGED_PODS = {"pod-security.kubernetes.io/enforce": "privileged"}


@dataclass(frozen=True, slots=True)
class SessionAgents:
    """The agents that a session was planned with."""

    image: str
    key: str

    @classmethod
    def plan(cls, image: str) -> SessionAgents:
        """Return agents with a path that nobody can guess."""
        return cls(image, secrets.token_hex(KEY_BYTES))

    @classmethod
    def load(cls, data: Obj) -> SessionAgents:
        """Read what ``dump`` wrote."""
        return cls(**data)

    def dump(self) -> Obj:
        """Return it as JSON."""
        return asdict(self)


def objects(agents: SessionAgents) -> list[Obj]:
    """Return the namespace and the daemon set."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": SESSION.namespace, "labels": dict(PRIVILEGED_PODS)},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": NAME, "namespace": SESSION.namespace, "labels": dict(SESSION.labels)},
            "spec": {
                "selector": {"matchLabels": dict(SESSION.labels)},
                "template": {"metadata": {"labels": dict(SESSION.labels)}, "spec": _pod(agents)},
            },
        },
    ]


def _pod(agents: SessionAgents) -> Obj:
    """Return the pod: it stays on its node whatever becomes of that."""
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": NAME,
                "image": agents.image,
                "imagePullPolicy": "IfNotPresent",
                "args": [f"{BASE_PATH}/{agents.key}"],
                "ports": [{"name": "http", "containerPort": SESSION.port}],
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
                "securityContext": {"privileged": True, "readOnlyRootFilesystem": True},
                "volumeMounts": [
                    {"name": "state", "mountPath": STATE},
                    {"name": "kernel-log", "mountPath": KERNEL_LOG},
                ],
            }
        ],
        "volumes": [
            {"name": "state", "hostPath": {"path": STATE, "type": "DirectoryOrCreate"}},
            {"name": "kernel-log", "hostPath": {"path": KERNEL_LOG}},  # no type: a simulated node has a file there
        ],
    }


def all_run(daemon_set: Obj) -> bool:
    """Return whether every node that is to have an agent has one that runs."""
    status = daemon_set.get("status") or {}
    wanted = status.get("desiredNumberScheduled", 0)
    return bool(wanted > 0 and status.get("numberReady", 0) >= wanted)
