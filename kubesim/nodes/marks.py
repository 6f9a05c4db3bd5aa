"""How the nodes of one group are known in the cluster that they join, so that all of theirs can be removed."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.errors import Obj

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
        """What every object of the group carries."""
        return {GROUP_LABEL: self.name}

    @property
    def selector(self) -> str:
        """What finds them."""
        return f"{GROUP_LABEL}={self.name}"

    def request(self, node: str, purpose: str) -> str:
        """Return the name of a node's request for a certificate."""
        return f"{self.account}-{node}-{purpose}"

    def meta(self) -> Obj:
        """Return the metadata of what has the account's name."""
        return {"name": self.account, "labels": self.labels}
