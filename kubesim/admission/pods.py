"""The admission steps of pods: service account and its token, tolerations, priority, limits."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubesim import data
from kubesim.admission import limits, prepare
from kubesim.admission.validation.metadata import path_errors
from kubesim.admission.validation.pods import MIRROR
from kubesim.api import status
from kubesim.api.meta import generated_name
from kubesim.api.status import show
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

GPU = "nvidia.com/gpu"
GKE_GPU = "cloud.google.com/gke-gpu"
GPU_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
LIMITED = "kubernetes.io/enforce-mountable-secrets"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
TOKEN: Obj = data.table(__file__, "pods.yaml")["token"]
"""The volume with the token of a pod's account."""
EVICTED_AFTER_S = 300
NODE_TROUBLES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
BY_CLASS = "from the given PriorityClass name"
COMPUTED = {"priority": "the integer value of priority", "preemptionPolicy": "the string value of PreemptionPolicy"}
"""What the class of a pod decides, and how a pod that decides it otherwise is refused."""
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def admit(ops: Operations, kind: Kind, new: Obj) -> None:
    """Complete a new pod as the default admission plugins do. Raises 403."""
    add_service_account(ops, kind, new)
    add_resource_tolerations(ops, new["spec"])
    add_tolerations(new["spec"])
    add_priority(ops, kind, new)
    apply_runtime_class(ops, kind, new)
    limits.apply(ops, kind, new)
    new["status"]["qosClass"] = prepare.qos_class(new["spec"])


def add_service_account(ops: Operations, kind: Kind, new: Obj) -> None:
    """Name the service account and mount its token. Raises 403 for an account that does not exist.

    The account ``default`` is not waited for: its controller makes it in every namespace, and upstream's plugin
    retries until it is there.
    """
    spec, namespace = new["spec"], new["metadata"]["namespace"]
    if MIRROR in (new["metadata"].get("annotations") or {}):
        _check_mirror(kind, new)
        return
    name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    found = ops.store.get(ops.registry.by_resource("serviceaccounts"), namespace, name)
    if found is None and name != "default":
        wrong = path_errors(name)
        lost = f'serviceaccount "{name}" not found'
        if wrong:
            lost = f'invalid resource name "{name}": [{" ".join(wrong)}]'
        why = f"error looking up service account {namespace}/{name}: {lost}"
        raise status.forbidden(kind, new["metadata"].get("name", ""), why)
    account: Obj = found or {}
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = list(account["imagePullSecrets"])
    if (account.get("metadata", {}).get("annotations") or {}).get(LIMITED) == "true":
        _check_secrets(kind, new, account)
    wanted = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True))
    if wanted:
        _mount_token(spec)


def _check_mirror(kind: Kind, new: Obj) -> None:
    """Raise 403 for a mirror pod, which nothing is mounted into, that wants an account or a secret."""
    spec = new["spec"]
    wanted = "service accounts" if spec.get("serviceAccountName") else "secrets" if any(_secrets_used(spec)) else ""
    if wanted:
        raise status.forbidden(kind, new["metadata"].get("name", ""), f"a mirror pod may not reference {wanted}")


def _check_secrets(kind: Kind, new: Obj, account: Obj) -> None:
    """Raise 403 for a secret that the account does not name, where it says that its pods get no others."""
    known = {entry.get("name") for entry in account.get("secrets") or ()}
    pulls = {entry.get("name") for entry in account.get("imagePullSecrets") or ()}
    ending = f"is not allowed because service account {account['metadata']['name']} does not reference that"
    for what, secret in _secrets_used(new["spec"]):
        if secret not in known:
            raise status.forbidden(kind, new["metadata"].get("name", ""), f"{what}={show(secret)} {ending} secret")
    for at, entry in enumerate(new["spec"].get("imagePullSecrets") or ()):
        if entry.get("name") not in pulls:
            why = f"imagePullSecrets[{at}].name={show(entry.get('name', ''))} {ending} imagePullSecret"
            raise status.forbidden(kind, new["metadata"].get("name", ""), why)


def _secrets_used(spec: Obj) -> Iterator[tuple[str, str]]:
    """Yield where a pod names a secret, and the secret."""
    for volume in spec.get("volumes") or ():
        if secret := (volume.get("secret") or {}).get("secretName"):
            yield "volume with secret.secretName", secret
    for field, word in (("initContainers", "init container"), ("containers", "container")):
        for holder in spec.get(field) or ():
            yield from _secrets_of(holder, word)


def _secrets_of(holder: Obj, word: str) -> Iterator[tuple[str, str]]:
    for entry in holder.get("env") or ():
        if reference := (entry.get("valueFrom") or {}).get("secretKeyRef"):
            where = f"{word} {holder['name']} with envVar {entry['name']} referencing secret.secretName"
            yield where, reference.get("name", "")
    for entry in holder.get("envFrom") or ():
        if reference := entry.get("secretRef"):
            yield f"{word} {holder['name']} with envFrom referencing secret.secretName", reference.get("name", "")


def _mount_token(spec: Obj) -> None:
    holders = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    lacking = [h for h in holders if not any(m.get("mountPath") == TOKEN_PATH for m in h.get("volumeMounts", ()))]
    if not lacking:
        return
    own = next((v["name"] for v in spec.get("volumes", ()) if v.get("name", "").startswith("kube-api-access-")), "")
    name = own or generated_name("kube-api-access-")
    if not own:
        spec["volumes"] = [*spec.get("volumes", ()), {"name": name, "projected": copy.deepcopy(TOKEN)}]
    for holder in lacking:
        mount = {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}
        holder["volumeMounts"] = [*holder.get("volumeMounts", ()), mount]


def keep_priority(old: Obj, new: Obj) -> None:
    """Let a changed pod that says nothing of its priority keep it."""
    for name in ("priority", "preemptionPolicy"):
        if name in old:
            new.setdefault(name, old[name])


def add_tolerations(spec: Obj) -> None:
    """Let a pod stay five minutes on a node that is not ready or unreachable, unless it says otherwise."""
    tolerations = spec.get("tolerations", [])
    missing = [trouble for trouble in NODE_TROUBLES if not any(_covers(t, trouble) for t in tolerations)]
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": EVICTED_AFTER_S}
        for key in missing
    ]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def add_resource_tolerations(ops: Operations, spec: Obj) -> None:
    """Let a pod that asks for GPUs on to nodes that are kept for such pods, as ExtendedResourceToleration does.

    The plugin is not among the default ones; GKE has it, and labels the nodes of GPU pools that it taints.
    """
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = any(GPU in ((item.get("resources") or {}).get("requests") or {}) for item in containers)
    if not asked or not any(GPU_TAINT.items() <= taint.items() for taint in _kept(ops)):
        return
    own = spec.get("tolerations") or []
    if not any(item.get("key") == GPU and item.get("operator") == "Exists" for item in own):
        spec["tolerations"] = [*own, {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]


def _kept(ops: Operations) -> Iterator[Obj]:
    """Yield the taints of the nodes of GKE's GPU pools."""
    for node in ops.store.list(ops.registry.by_resource("nodes")):
        if (node["metadata"].get("labels") or {}).get(GKE_GPU) == "true":
            yield from node["spec"].get("taints") or ()


def _covers(toleration: Obj, key: str) -> bool:
    return bool(toleration.get("key", key) == key and toleration.get("effect", "NoExecute") == "NoExecute")


def add_priority(ops: Operations, kind: Kind, new: Obj) -> None:
    """Set the priority that the class says, or the global default's. Raises 403 for a class that does not exist."""
    spec = new["spec"]
    classes = ops.registry.by_resource("priorityclasses.scheduling.k8s.io")
    name = spec.get("priorityClassName", "")
    if name:
        found: Obj | None = ops.store.get(classes, "", name)
        if found is None and name in SYSTEM_CLASSES:
            found = {"value": SYSTEM_CLASSES[name]}
        if found is None:
            why = f"no PriorityClass with name {name} was found"
            raise status.forbidden(kind, new["metadata"].get("name", ""), why)
    else:
        found = next((entry for entry in ops.store.list(classes) if entry.get("globalDefault")), None)
        if found:
            spec["priorityClassName"] = found["metadata"]["name"]
    found = found or {}
    computed = {"priority": found.get("value", 0)}
    computed["preemptionPolicy"] = found.get("preemptionPolicy", "PreemptLowerPriority")
    for field, what in COMPUTED.items():
        if spec.get(field, computed[field]) != computed[field]:
            why = f"{what} ({spec[field]}) must not be provided in pod spec; priority admission controller computed "
            raise status.forbidden(kind, new["metadata"].get("name", ""), f"{why}{computed[field]} {BY_CLASS}")
    spec |= computed


def apply_runtime_class(ops: Operations, kind: Kind, new: Obj) -> None:
    """Add what a pod's runtime costs and where it is to be had. Raises 403 for a class that does not exist."""
    spec, name = new["spec"], new["spec"].get("runtimeClassName", "")
    if not name:
        return
    found = ops.store.get(ops.registry.by_resource("runtimeclasses.node.k8s.io"), "", name)
    if found is None:
        why = f'pod rejected: RuntimeClass "{name}" not found'
        raise status.forbidden(kind, new["metadata"].get("name", ""), why)
    if overhead := (found.get("overhead") or {}).get("podFixed"):
        spec["overhead"] = dict(overhead)
    scheduling = found.get("scheduling") or {}
    if selector := scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **selector}
    held = spec.get("tolerations", [])
    if added := [toleration for toleration in scheduling.get("tolerations", ()) if toleration not in held]:
        spec["tolerations"] = [*held, *added]
