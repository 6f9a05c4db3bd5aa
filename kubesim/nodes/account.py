"""The group's own account: what the simulated network reads, as kube-proxy and a network plugin do on a real node.

A kubelet's rights end at its own node, so services' endpoints and other nodes' pods are read with this account. Where
``kubesim nodes`` runs with a person's kubeconfig it makes the account and works with its tokens; in a pod the
account is the pod's own, made by the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kubesim import data
from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.times import parse

TOKEN_SECONDS = 3600
RBAC, VERSION = "rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1"
_NETWORK = Path(__file__).with_suffix(".yaml")
"""The rules by which the simulated network reads. No secret, no write."""
AUTHORITY_ROLE = "extension-apiserver-authentication-reader"
NODE_ROLE = "system:node"


class Tokens:
    """A credential for an account: short-lived tokens, asked for with the right of whoever made the account."""

    def __init__(
        self, owner: Client, account: str, clock: Clock, namespace: str = "", bound: Obj | None = None
    ) -> None:
        """``namespace``: the account's, our own by default; ``bound``: the pod with which the tokens end."""
        self._owner = owner
        self._account = account
        self._clock = clock
        self._namespace = namespace or NAMESPACE
        self._bound = bound
        self._token = ""
        self._until: datetime | None = None

    async def headers(self) -> Mapping[str, str]:
        """Return a token that is good for a while longer. Raises ``ApiError``."""
        now = self._clock.now()
        if self._until is None or now >= self._until:
            await self._ask(now)
        return {"Authorization": f"Bearer {self._token}"}

    def refused(self) -> None:
        """Ask for another."""
        self._until = None

    async def _ask(self, now: datetime) -> None:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {"name": self._account},
            "spec": {"expirationSeconds": TOKEN_SECONDS, "boundObjectRef": self._bound},
        }
        made = await self._owner.create("serviceaccounts", review, namespace=self._namespace, subresource="token")
        self._token = made["status"]["token"]
        self._until = now + (parse(made["status"]["expirationTimestamp"]) - now) * 0.8


def tokens_of(pod: Obj, node: Client, clock: Clock) -> Tokens:
    """Return the credential of a pod's account, as the node of the pod gets it."""
    meta = pod["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    return Tokens(node, pod["spec"].get("serviceAccountName") or "default", clock, meta["namespace"], bound)


async def make(client: Client, group: Group) -> Obj:
    """Make the account with its rights; returns the cluster role, which owns the nodes. Raises ``ApiError``."""
    role = await put(
        client, ROLES, {"kind": "ClusterRole", "apiVersion": VERSION, "rules": data.read(_NETWORK)}, group
    )
    account = {"kind": "ServiceAccount", "apiVersion": "v1"}
    await put(client, "serviceaccounts", account, group, NAMESPACE)
    await put(client, BINDINGS, _binding("ClusterRoleBinding", "ClusterRole", group.account, group), group)
    local = _binding("RoleBinding", "Role", AUTHORITY_ROLE, group)
    await put(client, LOCAL_BINDINGS, local, group, NAMESPACE)
    return role


async def widen(client: Client, group: Group) -> None:
    """Let the account do what any node may: for clusters that give nodes no certificates. Raises ``ApiError``."""
    document = _binding("ClusterRoleBinding", "ClusterRole", NODE_ROLE, group)
    document["metadata"] = {**group.meta(), "name": f"{group.account}-as-node"}
    await client.create(BINDINGS, document)


async def put(client: Client, resource: str, obj: Obj, group: Group, namespace: str = "") -> Obj:
    """Create an object with the group's name and labels; one that is there is taken as it is."""
    try:
        return await client.create(resource, {**obj, "metadata": group.meta()}, namespace=namespace)
    except ApiError as error:
        if error.code != 409:
            raise
        return await client.get(resource, group.account, namespace)


def _binding(kind: str, role_kind: str, role: str, group: Group) -> Obj:
    return {
        "kind": kind,
        "apiVersion": VERSION,
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": group.account, "namespace": NAMESPACE}],
    }


GROUP_LABEL = "kubesim.dev/group"
TAINT_KEY = "kubesim.dev/simulated"
TAINT = {"key": TAINT_KEY, "value": "true", "effect": "NoSchedule"}
ROLES, BINDINGS = "clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"
LOCAL_BINDINGS = "rolebindings.rbac.authorization.k8s.io"
NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class Group:
    """Some nodes that one process serves, and everything that is theirs."""

    name: str

    @property
    def account(self) -> str:
        """The service account, and the cluster role and bindings that it is given: all have one name."""
        return f"kubesim-nodes-{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        """Labels that every object of the group carries."""
        return {GROUP_LABEL: self.name}

    @property
    def selector(self) -> str:
        """Selector that finds them."""
        return f"{GROUP_LABEL}={self.name}"

    def request(self, node: str, purpose: str) -> str:
        """Return the name of a node's request for a certificate."""
        return f"{self.account}-{node}-{purpose}"

    def meta(self) -> Obj:
        """Return the metadata of what has the account's name."""
        return {"name": self.account, "labels": self.labels}
