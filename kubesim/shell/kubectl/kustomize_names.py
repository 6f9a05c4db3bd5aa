"""Where kustomize changes objects: hashes of what is generated, names that others refer to, labels, images, order.

The rules are those of kustomize v5 (https://kubectl.docs.kubernetes.io/references/kustomize/).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from kubesim.schema.kinds import registry
from kubesim.shell.kubectl.client import Obj
from kubesim.shell.kubectl.texts import compact

FIRST = [
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
]
LAST = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_LETTERS = str.maketrans("013ae", "ghkmt")
PLAIN_REFERENCES = {
    "configMapRef": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
    "configMap": "ConfigMap",
    "secretRef": "Secret",
    "secretKeyRef": "Secret",
}
"""Fields whose ``name`` is that of an object."""
TEXT_REFERENCES = {
    "secretName": "Secret",
    "serviceAccountName": "ServiceAccount",
    "serviceAccount": "ServiceAccount",
    "claimName": "PersistentVolumeClaim",
    "serviceName": "Service",
    "priorityClassName": "PriorityClass",
    "storageClassName": "StorageClass",
    "ingressClassName": "IngressClass",
}
POD_PATHS = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"),
        ("spec", "template", "spec"),
    ),
}
CLUSTER_WIDE = frozenset(kind.kind for kind in registry.all() if not kind.namespaced)


def hashed(obj: Obj, name: str) -> str:
    """Return the suffix of a generated object's name: ten letters that follow from what it holds and its ``name``.

    kubectl counts the name among that, kustomize does not.
    """
    found: dict[str, Any] = {"kind": obj["kind"], "name": name, "data": obj.get("data", "")}
    if obj["kind"] == "Secret":
        found["type"] = obj.get("type", "")
    if obj.get("binaryData"):
        found["binaryData"] = obj["binaryData"]
    return hashlib.sha256(compact(found).encode()).hexdigest()[:10].translate(_LETTERS)


def at(obj: Obj, *path: str) -> Obj | None:
    """Return the mapping at a path, if there is one."""
    for name in path:
        found = obj.get(name)
        if not isinstance(found, dict):
            return None
        obj = found
    return obj


def renamed(objects: list[Obj], names: dict[tuple[str, str], str]) -> None:
    """Let every reference to an object that has a new name follow; ``names`` are by kind and old name."""
    for obj in objects:
        for node in _nodes(obj):
            _follow(node, names)
        for part in ("imagePullSecrets", "secrets"):
            _listed(at(obj, *POD_PATHS.get(obj["kind"], ())) or obj, part, names)


def _nodes(value: Any) -> Iterator[Obj]:
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _nodes(each)


def _listed(holder: Obj, part: str, names: dict[tuple[str, str], str]) -> None:
    for each in holder.get(part) or []:
        if isinstance(each, dict) and "name" in each:
            each["name"] = names.get(("Secret", str(each["name"])), each["name"])


def _follow(node: Obj, names: dict[tuple[str, str], str]) -> None:
    for key, value in node.items():
        kind = TEXT_REFERENCES.get(key, "")
        if isinstance(value, str):
            node[key] = names.get((kind, value), value)
        elif not isinstance(value, dict) or "name" not in value:
            continue
        elif key in ("roleRef", "scaleTargetRef"):
            value["name"] = names.get((str(value.get("kind")), str(value["name"])), value["name"])
        elif key in PLAIN_REFERENCES:
            value["name"] = names.get((PLAIN_REFERENCES[key], str(value["name"])), value["name"])
        elif key == "service" and "port" in value:
            value["name"] = names.get(("Service", str(value["name"])), value["name"])
        elif key == "secret":
            value["name"] = names.get(("Secret", str(value["name"])), value["name"])
    for each in node.get("sources") or [] if isinstance(node.get("sources"), list) else []:
        if isinstance(each, dict) and isinstance(each.get("secret"), dict):
            _follow(each, names)


def subjects(objects: list[Obj], names: dict[tuple[str, str], str], namespace: str) -> None:
    """Let bindings name the accounts that are built with them, and the default one, where they will be."""
    for obj in objects:
        for each in obj.get("subjects") or [] if obj["kind"].endswith("RoleBinding") else []:
            if each.get("kind") != "ServiceAccount":
                continue
            known = ("ServiceAccount", str(each.get("name"))) in names
            if namespace and (known or each.get("name") == "default"):
                each["namespace"] = namespace
            each["name"] = names.get(("ServiceAccount", str(each.get("name"))), each.get("name"))


def labelled(obj: Obj, pairs: Obj, *, selectors: bool, templates: bool) -> None:
    """Add labels to an object, to what it selects, to what it makes."""
    places: list[tuple[str, ...]] = [("metadata", "labels")]
    path = POD_PATHS.get(obj["kind"], ())[:-1]
    if path and (selectors or templates):
        places.append((*path, "metadata", "labels"))
    if selectors and obj["kind"] in ("Service", "ReplicationController"):
        places.append(("spec", "selector"))
    elif selectors and obj["kind"] in ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"):
        places.append(("spec", "selector", "matchLabels"))
    if obj["kind"] == "CronJob" and (selectors or templates):
        places.append(("spec", "jobTemplate", "metadata", "labels"))
    for place in places:
        if place[-1] == "selector" and at(obj, "spec", "selector") is None:
            continue
        _made(obj, place).update(pairs)


def annotated(obj: Obj, pairs: Obj) -> None:
    """Add annotations to an object and to what it makes."""
    _made(obj, ("metadata", "annotations")).update(pairs)
    path = POD_PATHS.get(obj["kind"], ())[:-1]
    if path:
        _made(obj, (*path, "metadata", "annotations")).update(pairs)


def _made(obj: Obj, path: tuple[str, ...]) -> Obj:
    for name in path:
        if not isinstance(obj.get(name), dict):
            obj[name] = {}
        obj = obj[name]
    return obj


def with_image(obj: Obj, rule: Obj) -> None:
    """Change the image of an object's containers where its name is a rule's."""
    pod = at(obj, *POD_PATHS.get(obj["kind"], ("spec", "template", "spec"))) or {}
    for part in ("containers", "initContainers", "ephemeralContainers"):
        for container in pod.get(part) or []:
            match = re.fullmatch(r"(.*?)((?::[^/:@]+)?(?:@.+)?)", str(container.get("image", "")))
            if match is None or match[1] != rule.get("name"):
                continue
            tag = match[2]
            if rule.get("newTag") is not None:
                tag = f":{rule['newTag']}"
            if rule.get("digest"):
                tag = (tag.partition("@")[0] if rule.get("newTag") is not None else "") + f"@{rule['digest']}"
            container["image"] = (rule.get("newName") or match[1]) + tag


def ordered(objects: list[Obj]) -> list[Obj]:
    """Return objects in the order in which they are printed: what others need first."""

    def place(obj: Obj) -> tuple[int, str, str, str]:
        kind = obj["kind"]
        rank = FIRST.index(kind) - len(FIRST) if kind in FIRST else LAST.index(kind) + 1 if kind in LAST else 0
        metadata = obj["metadata"]
        return rank, _kind_text(obj), str(metadata.get("namespace", "")), str(metadata.get("name", ""))

    return sorted(objects, key=place)


def _kind_text(obj: Obj) -> str:
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return f"{group}_{version}_{obj['kind']}"


def called(obj: Obj) -> str:
    """Return an object's id as kustomize's messages show it."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    metadata = obj.get("metadata") or {}
    space = metadata.get("namespace") or "[noNs]"
    return f"{obj.get('kind')}.{version}.{group or '[noGrp]'}/{metadata.get('name')}.{space}"
