"""A session's toolbox: a pod of its own, from which a candidate can work with nothing installed.

It runs under the candidate's service account, which lives in the toolbox's namespace for that reason: kubectl in it
may do what the candidate may, and nothing any more once the bindings are gone. The candidate may enter the pod and
make nothing beside it, so that the namespace needs neither quota nor admission policy; the pod states its limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from faults import terraform_account, toolbox_place
from faults.packs import AccessRule, Workspace
from faults.toolbox_nodes import NODE_ROLE, SET_ASIDE, TOLERATION

Obj = dict[str, Any]
NAME, NAMESPACE, HOME = toolbox_place.NAME, toolbox_place.NAMESPACE, toolbox_place.HOME
ROLE = "toolbox-user"
NETWORK_POLICY = "toolbox-egress"
USER_ID = 1000
TOOLS = ("kubectl", "crane", "curl", "jq", "python3")
"""The programs that briefs and solutions may count on; ``deploy/toolbox.Dockerfile`` installs them."""
OF_TERRAFORM = ("terraform",)
"""Those that come with a scenario of Terraform."""
OF_GPU = ("nvidia-smi",)
"""Those that come with a GPU, from its node."""
NO_GPU = f"without a GPU: no node with one has {SET_ASIDE}"
PRACTICE_IMAGE = "ghcr.io/platform-tools/toolbox:1"
"""The image on simulated nodes, which know its programs; ``make images`` builds the same for real ones."""
_RBAC = "rbac.authorization.k8s.io"
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_LEVELS = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
# What a candidate has changed there outlasts a restart of the container.
_START = """test -e .kube/config || { mkdir -p .kube && printf '%s' "$1" > .kube/config; }
exec sleep infinity"""
_WITH_TERRAFORM = f"""token=$(cat {terraform_account.MOUNT}/token)
test -e .kube/terraform || {{ mkdir -p .kube && printf "$2" "$token" > .kube/terraform; }}
"""
_KUBECONFIG = """apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster:
    server: https://kubernetes.default.svc
    certificate-authority: {account}/ca.crt
users:
- name: {user}
  user:
    tokenFile: {account}/token
contexts:
- name: toolbox
  context:
    cluster: cluster
    user: {user}
    namespace: {namespace}
current-context: toolbox
"""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The toolbox that a session was planned with: its namespace, the image of its pod, and whether it has a GPU.

    ``lacks_gpu``: a scenario asks for one, and the cluster has none set aside.
    """

    namespace: str
    image: str
    gpu: bool = False
    lacks_gpu: bool = False
    terraform: Workspace | None = None
    """All about Terraform that the session's packs say together; None where none needs it."""

    @property
    def command(self) -> str:
        """The command that enters it."""
        return f"kubectl exec -it {NAME} -n {self.namespace} -- bash"

    @property
    def tools(self) -> tuple[str, ...]:
        """The programs in it."""
        return (*TOOLS, *(OF_TERRAFORM if self.terraform else ()), *(OF_GPU if self.gpu else ()))

    @property
    def lack(self) -> str:
        """Demands of a scenario that it cannot meet, in words; empty where there are none."""
        return NO_GPU if self.lacks_gpu else ""

    def dump(self) -> Obj:
        """Return it as JSON."""
        told = {key: value for key, value in asdict(self).items() if key != "terraform"}
        return told | ({"terraform": self.terraform.dump()} if self.terraform else {})

    @classmethod
    def load(cls, data: Obj) -> Toolbox:
        """Read what ``dump`` wrote."""
        terraform = data.get("terraform")
        return cls(**{**data, "terraform": Workspace.load(terraform) if terraform else None})


def namespace(box: Toolbox) -> Obj:
    """Return the namespace, with the strictest level of Pod Security: the pod needs no more."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": box.namespace, "labels": dict(_LEVELS)}}


def network_policy(box: Toolbox, namespaces: Sequence[str], *, shared: bool) -> Obj:
    """Let the pod reach the session's namespaces, names, and any API server or registry by TLS.

    In a cluster of the session's own it reaches all pods; nowhere the metadata server of the node, which has port 80.
    """
    pods: Obj = {"namespaceSelector": {"matchExpressions": [_named(namespaces)]} if shared else {}}
    dns = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    tls = [{"protocol": "TCP", "port": port} for port in (443, 6443)]
    spec = {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "egress": [{"to": [pods]}, {"ports": [*dns, *tls]}],
    }
    meta = {"name": NETWORK_POLICY, "namespace": box.namespace}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": spec}


def rules(box: Toolbox) -> list[AccessRule]:
    """Return the right to see the pod, to enter it, and to copy files to and from it, which is exec as well."""
    rights = {"pods": ("get", "list", "watch"), "pods/log": ("get",), "pods/exec": ("get", "create")}
    return [AccessRule((resource,), verbs, (box.namespace,)) for resource, verbs in rights.items()]


def role(box: Toolbox) -> Obj:
    """Return the role with these rights."""
    rows = [{"apiGroups": [""], "resources": list(rule.resources), "verbs": list(rule.verbs)} for rule in rules(box)]
    meta = {"name": ROLE, "namespace": box.namespace}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": meta, "rules": rows}


def pod(box: Toolbox, *, account: str, selected: str) -> Obj:
    """Return the pod; kubectl in it selects the namespace ``selected``.

    It stays on its node whatever becomes of that, and asks for next to nothing of it. With a GPU it has a node of its
    own; without one it keeps off nodes that have any.
    """
    spec = {
        "serviceAccountName": account,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,  # sleep, as the first process, takes no notice of a signal
        "tolerations": [
            {"operator": "Exists", "effect": "NoExecute"},
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            *([TOLERATION] if box.gpu else []),
        ],
        **({"nodeSelector": {NODE_ROLE: ""}} if box.gpu else {"affinity": _OFF_GPU_NODES}),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(box, _KUBECONFIG.format(account=_ACCOUNT, user=account, namespace=selected))],
        "volumes": [{"name": "home", "emptyDir": {"sizeLimit": "1Gi"}}, *([_TOKEN] if box.terraform else [])],
    }
    meta = {"name": NAME, "namespace": box.namespace, "labels": {"app": NAME}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def why_not_running(pod: Obj) -> str:
    """Return why a pod's container does not run: no node, no image, or it has ended. Empty where it runs."""
    status = pod.get("status") or {}
    states = [found.get("state") or {} for found in status.get("containerStatuses") or []]
    if any("running" in state for state in states):
        return ""
    reasons = [inner.get("reason") for state in states for inner in state.values()]
    refused = [row.get("message") for row in status.get("conditions") or [] if row.get("status") == "False"]
    return str(next(filter(None, (*reasons, *refused)), status.get("phase") or "Pending"))


_OFF_GPU_NODES = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "preference": {"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "DoesNotExist"}]},
            }
        ]
    }
}


_GPU = {"nvidia.com/gpu": "1"}
_ENV_OF_GPU = [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"}]  # nvidia-smi, and nothing that computes


_TOKEN = {"name": "terraform", "secret": {"secretName": terraform_account.TOKEN}}


def _container(box: Toolbox, kubeconfig: str) -> Obj:
    found = _plain_container(box, kubeconfig)
    if box.terraform:
        found["command"] = [
            *("sh", "-c", _WITH_TERRAFORM + _START, NAME, kubeconfig),
            terraform_account.kubeconfig(box.terraform.state),
        ]
        found["env"] += terraform_account.environment(box.terraform)
        found["volumeMounts"] += [{"name": "terraform", "mountPath": terraform_account.MOUNT, "readOnly": True}]
    return found


def _plain_container(box: Toolbox, kubeconfig: str) -> Obj:
    return {
        "name": NAME,
        "image": box.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", _START, NAME, kubeconfig],
        "workingDir": HOME,
        "env": [{"name": "HOME", "value": HOME}, *(_ENV_OF_GPU if box.gpu else [])],
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"cpu": "1", "memory": "512Mi", "ephemeral-storage": "2Gi", **(_GPU if box.gpu else {})},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "home", "mountPath": HOME}],
    }


def _named(namespaces: Sequence[str]) -> Obj:
    return {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
