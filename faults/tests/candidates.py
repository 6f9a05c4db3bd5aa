"""A candidate with a pack's rights in a cluster that has no session: for tests of many packs or namespaces in one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from faults import environment
from faults.errors import AlreadyExists
from faults.guardrails import Grant, Guardrails
from faults.kube.client import Kube
from faults.kube.config import render
from faults.packs import Pack

KINDS = ("Namespace", "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")


def kubeconfig_with_rights(admin: Kube, pack: Pack) -> str:
    """Make a bound pack's namespaces, without their limits, and an account with its rights; return its kubeconfig.

    What is for the whole cluster has the first namespace in its name.
    """
    namespaces = list(pack.namespaces.values())
    rails = Guardrails.plan(tier="practice", home=namespaces[0], gpus=1, rights=pack.rights)
    rails = replace(rails, suffix=f"-{namespaces[0]}", grants=(Grant(pack.access),))
    if pack.workspace:
        with suppress(AlreadyExists):  # for another pack of the same cluster
            admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": pack.workspace.state}})
    for change in environment.changes(namespaces, rails):
        if change.target.kind in KINDS and change.action == "delete":
            admin.create(_without_labels(change.object))
    token, _ = admin.token_request(namespaces[0], environment.SERVICE_ACCOUNT, seconds=600)
    access = {"server": admin.access.server, "ca_pem": admin.access.ca_pem, "token": token}
    return render(**access, namespace=namespaces[0], user="me", cluster="c")


def _without_labels(obj):
    """Return an object without those of Pod Security."""
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "labels"}}
