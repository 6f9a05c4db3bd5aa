"""Completion: commands, files, variables, and kubectl's verbs, kinds and names."""

from __future__ import annotations

import json
import re

from kubesim.shell.errors import FileError, NetworkError
from kubesim.shell.files import Directory, File
from kubesim.shell.interp import Shell

VERBS = [
    "annotate",
    "api-resources",
    "api-versions",
    "apply",
    "attach",
    "auth",
    "autoscale",
    "cluster-info",
    "config",
    "cordon",
    "cp",
    "create",
    "debug",
    "delete",
    "describe",
    "diff",
    "drain",
    "edit",
    "events",
    "exec",
    "explain",
    "expose",
    "get",
    "label",
    "logs",
    "patch",
    "port-forward",
    "replace",
    "rollout",
    "run",
    "scale",
    "set",
    "taint",
    "top",
    "uncordon",
    "version",
    "wait",
]
PATHS = {
    "pods": "/api/v1/namespaces/{ns}/pods",
    "services": "/api/v1/namespaces/{ns}/services",
    "nodes": "/api/v1/nodes",
    "configmaps": "/api/v1/namespaces/{ns}/configmaps",
    "secrets": "/api/v1/namespaces/{ns}/secrets",
    "events": "/api/v1/namespaces/{ns}/events",
    "namespaces": "/api/v1/namespaces",
    "persistentvolumeclaims": "/api/v1/namespaces/{ns}/persistentvolumeclaims",
    "serviceaccounts": "/api/v1/namespaces/{ns}/serviceaccounts",
    "deployments": "/apis/apps/v1/namespaces/{ns}/deployments",
    "daemonsets": "/apis/apps/v1/namespaces/{ns}/daemonsets",
    "replicasets": "/apis/apps/v1/namespaces/{ns}/replicasets",
    "statefulsets": "/apis/apps/v1/namespaces/{ns}/statefulsets",
    "jobs": "/apis/batch/v1/namespaces/{ns}/jobs",
    "cronjobs": "/apis/batch/v1/namespaces/{ns}/cronjobs",
}
SHORT = {
    "po": "pods",
    "pod": "pods",
    "svc": "services",
    "service": "services",
    "no": "nodes",
    "node": "nodes",
    "cm": "configmaps",
    "ns": "namespaces",
    "deploy": "deployments",
    "deployment": "deployments",
    "ds": "daemonsets",
    "rs": "replicasets",
    "sts": "statefulsets",
    "job": "jobs",
    "pvc": "persistentvolumeclaims",
    "sa": "serviceaccounts",
}
PODS_ONLY = {"logs", "exec", "attach", "port-forward", "debug"}


async def complete(shell: Shell, text: str) -> tuple[str, list[str]]:
    """Return the word before the cursor and what it may become."""
    start = max((match.end() for match in re.finditer(r"(?<!\\)[\s;&|()<>`]", text)), default=0)
    word = text[start:]
    before = text[:start].rstrip()
    if word.startswith("$") and "/" not in word:
        return word, sorted("$" + name for name in shell.state.variables if name.startswith(word[1:]))
    first = re.search(r"(?:^|[;&|(`])\s*((?:\w+=\S*\s+)*)([^\s;&|()]+)?[^;&|()`]*$", text[:start])
    command = first[2] if first and first[2] else ""
    if (not before or before[-1] in ";&|(`" or before.endswith((" sudo", "xargs"))) and "/" not in word:
        return word, _commands(shell, word)
    if command in ("kubectl", "k") and shell.process.machine.kube:
        return word, await _kubectl(shell, before.split(), word)
    return word, _files(shell, word, folders=command in ("cd", "rmdir"))


def _commands(shell: Shell, word: str) -> list[str]:
    found = {*shell.builtins.table, *shell.state.functions, *shell.state.aliases}
    for folder in (shell.state.get("PATH") or "").split(":"):
        node = shell.process.view.find(folder)
        if isinstance(node, Directory):
            found.update(node.names())
    return sorted(name for name in found if name.startswith(word) and (word or name.isalnum()))


def _files(shell: Shell, word: str, *, folders: bool) -> list[str]:
    head, slash, tail = word.rpartition("/")
    plain = (head + slash).replace("\\", "")
    folder = plain or "."
    if folder.startswith("~"):
        folder = (shell.state.get("HOME") or "/") + folder[1:]
    try:
        names = shell.process.view.directory(folder).names()
    except FileError:
        return []
    found = []
    for name in names:
        if name.startswith(tail.replace("\\", "")) and (tail or not name.startswith(".")):
            node = shell.process.view.find(f"{folder.rstrip('/')}/{name}" if folder != "." else name)
            if isinstance(node, Directory):
                found.append(head + slash + _escaped(name) + "/")
            elif not folders or not isinstance(node, File):
                found.append(head + slash + _escaped(name))
    return found


def _escaped(name: str) -> str:
    return re.sub(r"([\s'\"\\$&*()\[\]{};<>|?!`])", r"\\\1", name)


async def _kubectl(shell: Shell, words: list[str], word: str) -> list[str]:
    rest = [each for each in words[1:] if not each.startswith("-")]
    if words[-1] in ("-n", "--namespace"):
        choices = await _names(shell, "namespaces", words)
    elif not rest:
        choices = VERBS
    elif rest[0] in PODS_ONLY and len(rest) == 1:
        choices = await _names(shell, "pods", words)
    elif len(rest) == 1:
        choices = sorted(PATHS)
    else:
        choices = await _names(shell, SHORT.get(rest[1], rest[1]), words)
    return [choice for choice in choices if choice.startswith(word)]


async def _names(shell: Shell, kind: str, words: list[str]) -> list[str]:
    kube = shell.process.machine.kube
    if kube is None or kind not in PATHS:
        return []
    namespace = kube.namespace
    for flag in ("-n", "--namespace"):
        if flag in words[:-1]:
            namespace = words[words.index(flag) + 1]
    try:
        status, _, body = await kube.request("GET", PATHS[kind].format(ns=namespace))
        items = json.loads(body).get("items", []) if status == 200 else []
    except (NetworkError, ValueError):
        return []
    return [item["metadata"]["name"] for item in items]
