"""The preflight of a cluster: what it is, what we may do in it, and what it lacks. Changes nothing in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from faults import clock, crypto, environment, selectors
from faults.errors import ClusterError, FaultError, Invalid, Unauthorized
from faults.guardrails import Guardrails
from faults.inventory import PRODUCT_LABEL, Inventory
from faults.kube.client import Kube
from faults.metrics import GPU_QUERY, parse_gpus
from faults.models import Cluster
from faults.services.credentials import note_credentials
from faults.services.leasing import check_kubeconfig
from faults.services.requirements import take_inventory
from faults.services.toolboxes import nodes_for_toolboxes, toolbox_image
from faults.toolbox import NAME, Toolbox
from faults.toolbox_nodes import SET_ASIDE

TIMEOUT_S = (2.0, 4.0)  # to connect, and between two bytes: somebody waits for the page
MIN_MINOR = 30  # admission policies are stable from 1.30 on
_READS = (
    ("get", "", "pods/proxy"),
    ("get", "", "services/proxy"),
    ("create", "", "pods/exec"),
    ("create", "authorization.k8s.io", "subjectaccessreviews"),
)
"""Of conditions, beside objects and logs."""
_WORKLOADS = (("", "pods"), ("", "secrets"), ("apps", "deployments"), ("batch", "jobs"))


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the preflight. Every session would fail on one that is not ``good`` and is ``needed``."""

    title: str
    text: str
    good: bool
    needed: bool = True


def inspect_cluster(*, cluster: Cluster) -> list[Finding]:
    """Ask a cluster, and store whether sessions can work there; one that does not answer is a finding as well."""
    inventory, findings = _findings(cluster)
    error = "; ".join(f"{found.title}: {found.text}" for found in findings if found.needed and not found.good)
    Cluster.objects.filter(pk=cluster.pk).update(preflight_at=clock.now(), preflight_error=error)
    if inventory is not None:
        Cluster.objects.filter(pk=cluster.pk).update(inventory=inventory.dump())
    return findings


def _findings(cluster: Cluster) -> tuple[Inventory | None, list[Finding]]:
    try:
        access = check_kubeconfig(crypto.unseal(cluster.kubeconfig))
    except FaultError as exc:
        return None, [Finding("Kubeconfig", str(exc), False)]
    kube = Kube(selectors.checked_access(access), timeout=TIMEOUT_S, max_repeat_s=0)
    try:
        inventory = take_inventory(cluster, kube)
        findings = [_version(kube), _permissions(kube, cluster), _gpus(inventory), _pod_security(kube)]
        note_credentials(cluster=cluster, accepted=True)
        toolbox = [_toolbox(cluster), _toolbox_gpu(kube)]
        return inventory, [*findings, _metrics(inventory), _gpu_metrics(cluster), *toolbox]
    except Unauthorized as exc:
        note_credentials(cluster=cluster, accepted=False)
        return None, [Finding("Credentials", f"{exc.message.rstrip('.')} (401): replace the kubeconfig above", False)]
    except ClusterError as exc:
        return None, [Finding("Connection", exc.message.rstrip("."), False)]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None, [Finding("Connection", f"{access.server} answers, but not as Kubernetes does", False)]
    finally:
        kube.close()


def _version(kube: Kube) -> Finding:
    told = kube.version()
    minor = int("".join(filter(str.isdigit, str(told.get("minor", "")))) or 0)
    text = f"Kubernetes {told['gitVersion']}"
    return Finding("Version", text if minor >= MIN_MINOR else f"{text}; 1.{MIN_MINOR} is needed", minor >= MIN_MINOR)


def _permissions(kube: Kube, cluster: Cluster) -> Finding:
    needed = _needed(kube, cluster)
    missing = [f"{verb} {resource}" for verb, group, resource in needed if not _may(kube, verb, group, resource)]
    text = f"All {len(needed)} that are needed are held" if not missing else f"Missing: {', '.join(missing)}"
    return Finding("Permissions", text, not missing)


def _needed(kube: Kube, cluster: Cluster) -> list[tuple[str, str, str]]:
    """Return (verb, group, resource) of all that an environment and the workloads of scenarios take."""
    rails = Guardrails.plan(tier=cluster.tier, home="check", gpus=1, rights=())
    changes = environment.changes(["check"], rails, Toolbox(NAME, NAME))
    targets = {(change.target.api_version, change.target.kind) for change in changes}
    kinds = [kube.resource(*target) for target in targets]
    made = {(kind.api_version.rpartition("/")[0], kind.plural) for kind in kinds} | set(_WORKLOADS)
    pairs = [(verb, *pair) for pair in sorted(made) for verb in ("get", "list", "create", "patch", "delete")]
    classes = [("get", "scheduling.k8s.io", "priorityclasses")] if rails.shared else []  # of a policy's parameters
    return [*pairs, ("list", "", "nodes"), ("create", "", "serviceaccounts/token"), *_READS, *classes]


def _may(kube: Kube, verb: str, group: str, resource: str) -> bool:
    name, _, sub = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": name, "subresource": sub}
    body: dict[str, Any] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    return bool(kube.create(body)["status"].get("allowed"))


def _gpus(inventory: Inventory) -> Finding:
    """Tell what scenarios find there: of nodes that take new pods, by product."""
    products: Counter[str] = Counter()
    for kind in inventory.nodes:
        products[kind.labels.get(PRODUCT_LABEL, "unlabelled")] += kind.gpus * kind.count
    nodes, with_gpus = (sum(kind.count for kind in inventory.nodes if kind.gpus >= least) for least in (0, 1))
    named = ", ".join(f"{count} × {product}" for product, count in sorted(products.items()) if count)
    text = f"{products.total()} on {with_gpus} of {nodes} nodes"
    return Finding("GPUs", f"{text}: {named}" if named else text, bool(products.total()), needed=False)


def _pod_security(kube: Kube) -> Finding:
    """Only the admission plugin refuses a level that does not exist."""
    labels = {"pod-security.kubernetes.io/enforce": "no-such-level"}
    meta = {"name": "admission-check", "labels": labels}
    try:
        kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta}, dry_run=True)
    except Invalid:
        return Finding("Pod Security", "The admission plugin is at work", True)
    return Finding("Pod Security", "The admission plugin is missing: pods could reach the nodes", False)


def _gpu_metrics(cluster: Cluster) -> Finding:
    """Tell whether the live page will have the GPUs' readings; without them it shows only who holds which."""
    try:
        source = selectors.prometheus_for(cluster)
        try:
            gpus = len(parse_gpus(source.query(GPU_QUERY)))
        finally:
            source.close()
    except ClusterError as exc:
        return Finding("GPU metrics", exc.message.rstrip("."), False, needed=False)
    return Finding("GPU metrics", f"Prometheus at {source.where} tells of {gpus} GPUs", bool(gpus), needed=False)


def _toolbox(cluster: Cluster) -> Finding:
    """Tell whether candidates get a toolbox here; they can do without, solutions cannot be rehearsed without."""
    image = toolbox_image(cluster)
    text = image or "None, since TOOLBOX_IMAGE is not set: candidates have the tools of their own machines only"
    return Finding("Toolbox", text, bool(image), needed=False)


def _toolbox_gpu(kube: Kube) -> Finding:
    """Tell whether ``nvidia-smi`` runs in toolboxes; scenarios that like to have it there go without."""
    found = nodes_for_toolboxes(kube.list("v1", "Node"))
    text = (
        f"On {found[0]}" if found else f"None, since no node with a GPU has {SET_ASIDE}: nvidia-smi runs in pods only"
    )
    return Finding("Toolbox with a GPU", text, bool(found), needed=False)


def _metrics(inventory: Inventory) -> Finding:
    there = "metrics.k8s.io" in inventory.groups
    text = "metrics.k8s.io is served: kubectl top works" if there else "metrics.k8s.io is missing: kubectl top fails"
    return Finding("Metrics", text, there, needed=False)
