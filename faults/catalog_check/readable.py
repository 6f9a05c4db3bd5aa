"""Everything that a candidate can read in a session's cluster, and the words that none of it may hold."""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from faults.catalog_check.errors import ProofFailed
from faults.errors import ClusterError, Forbidden, Invalid, NotFound
from faults.kube.client import Kube
from faults.packs import Pack
from faults.services import CandidateAccess

Obj = dict[str, Any]
TELLS = re.compile(
    r"(?<!de)fault|inject|simulat|interview|candidate|chaos|broken|scenario|kubesim|mismatch|symptom",
    re.IGNORECASE,
)
OPEN_PATHS = ("/", "/version", "/api", "/apis", "/healthz", "/livez", "/readyz", "/openapi/v3", "/metrics", "/debug")
PATH_TIMEOUT_S = 5.0
ENVIRONMENT = "env; id; hostname; ps aux; ls -la / /tmp /root /home; cat /etc/hosts /etc/resolv.conf /proc/mounts"
FILES = 'find /etc/hostname "$@" -type f -size -64k -exec cat {} +'
"""Shell lines for every container; the second gets the folders in which volumes are mounted."""
BEFORE, AFTER = 80, 40
"""Characters around a word that tells, so that its place can be found."""


@dataclass(frozen=True, slots=True)
class Text:
    """Something that can be read, and where."""

    place: str
    text: str


def refuse_tells(texts: Sequence[Text]) -> None:
    """Raise ProofFailed for the first text that gives away that something was done to the cluster, or by whom."""
    for one in texts:
        if found := TELLS.search(one.text):
            around = one.text[max(0, found.start() - BEFORE) : found.end() + AFTER]
            raise ProofFailed(f"{one.place} says {found[0]!r}, which tells the candidate: {around!r}")


def given(pack: Pack) -> Iterator[Text]:
    """Yield what the interviewer gives to the candidate."""
    yield Text("the title", pack.title)
    yield Text("statement.md", pack.statement)
    for number, hint in enumerate(pack.hints):
        yield Text(f"hints.{number}", hint.text)


def reachable(kube: Kube, access: CandidateAccess, namespaces: Sequence[str]) -> Iterator[Text]:
    """Yield what the cluster answers to the candidate, whose client ``kube`` is."""
    yield Text("the kubeconfig", access.kubeconfig)
    yield from _objects(kube, namespaces)
    yield from _logs(kube, namespaces)
    yield from _insides(kube, namespaces)
    yield from _paths(access)


def _objects(kube: Kube, namespaces: Sequence[str]) -> Iterator[Text]:
    """Yield every object of every kind, events among them."""
    for resource in kube.kinds():
        for namespace in [*namespaces, ""] if resource.namespaced else [""]:
            try:
                found = kube.list(resource.api_version, resource.kind, namespace)
            except (Forbidden, NotFound):
                continue
            for obj in found:
                yield Text(f"{resource.kind} {obj.get('metadata', {}).get('name', '')}", str(obj))


def _logs(kube: Kube, namespaces: Sequence[str]) -> Iterator[Text]:
    for namespace in namespaces:
        for pod in _pods(kube, namespace):
            name = pod["metadata"]["name"]
            for previous in (False, True):
                try:
                    yield Text(f"the log of {name}", kube.logs(namespace, name, previous=previous))
                except (NotFound, Invalid, Forbidden):
                    continue


def _insides(kube: Kube, namespaces: Sequence[str]) -> Iterator[Text]:
    """Yield the environment and files of every container that runs."""
    for namespace in namespaces:
        for pod in _pods(kube, namespace):
            for container in _running(pod):
                name, mounts = pod["metadata"]["name"], _mounts(pod, container)
                for script in (ENVIRONMENT, FILES):
                    command = ["sh", "-c", script, "sh", *mounts]
                    with suppress(NotFound, Invalid, Forbidden):  # it ends, or is between two starts
                        _, output = kube.run_command(namespace, name, container, command)
                        yield Text(f"the inside of {name}", output)


def _pods(kube: Kube, namespace: str) -> list[Obj]:
    try:
        return kube.list("v1", "Pod", namespace)
    except Forbidden:  # one of the cluster's namespaces, in which the pack grants other rights
        return []


def _running(pod: Obj) -> list[str]:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return [status["name"] for status in statuses if "running" in status.get("state", {})]


def _mounts(pod: Obj, container: str) -> list[str]:
    spec = next(row for row in pod["spec"]["containers"] if row["name"] == container)
    return [mount["mountPath"] for mount in spec.get("volumeMounts") or []]


def _paths(access: CandidateAccess) -> Iterator[Text]:
    context = ssl.create_default_context(cadata=access.ca_pem)
    for path in OPEN_PATHS:
        request = urllib.request.Request(access.server + path, headers={"Authorization": f"Bearer {access.token}"})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=PATH_TIMEOUT_S, context=context) as answer:  # noqa: S310
                yield Text(path, f"{answer.headers}{answer.read().decode()}")
        except urllib.error.HTTPError as refusal:
            with refusal:
                yield Text(path, f"{refusal.headers}{refusal.read().decode()}")
        except OSError as exc:
            raise ClusterError(f"{path}: {exc}") from exc
