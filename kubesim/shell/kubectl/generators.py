"""The objects that ``kubectl create KIND`` makes of flags: one function for each kind."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory, File
from kubesim.shell.kubectl.client import Client, KubectlError, Obj
from kubesim.shell.kubectl.flags import TEXTS, Flags, number
from kubesim.shell.kubectl.rights import SPECIAL
from kubesim.shell.machine import Process

Generator = Callable[[Process, Client, Flags], Awaitable[Obj]]
RBAC = "rbac.authorization.k8s.io"
KEY = re.compile(r"[-._a-zA-Z0-9]+")


def wrong(text: str) -> KubectlError:
    """Return a refusal of kubectl's own."""
    return KubectlError(f"error: {text}")


def made(api_version: str, kind: str, name: str, **parts: Any) -> Obj:
    """Return an object without what is None."""
    found = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **parts}
    return {key: value for key, value in found.items() if value is not None}


def container(name: str, image: str, **more: Any) -> Obj:
    """Return a container without what is empty, as clients write one."""
    return {"name": name, "image": image, "resources": {}, **{key: value for key, value in more.items() if value}}


def subjects(opts: Flags) -> list[Obj]:
    """Return whom the flags name. Raises KubectlError."""
    found: list[Obj] = [
        {"apiGroup": RBAC, "kind": kind, "name": name}
        for kind, flag in (("User", "user"), ("Group", "group"))
        for name in opts.words(flag)
    ]
    for text in opts.words("serviceaccount"):
        space, colon, name = text.partition(":")
        if not colon or not name or ":" in name:
            raise wrong("serviceaccount must be <namespace>:<name>")
        found.append({"kind": "ServiceAccount", "name": name, "namespace": space})
    return found


async def deployment(process: Process, client: Client, opts: Flags) -> Obj:
    """Return a deployment."""
    name, images = opts.args[0], opts.words("image")
    if len(images) > 1 and opts.after:
        raise wrong("cannot specify multiple --image options and command")
    port = number(opts, "port")
    labels = {"app": name}
    containers = [container(_short(image), image, command=opts.after) for image in images]
    if port:
        containers[0]["ports"] = [{"containerPort": port}]
    spec = {
        "replicas": number(opts, "replicas") if "replicas" in opts else 1,
        "selector": {"matchLabels": labels},
        "strategy": {},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
    }
    found = made("apps/v1", "Deployment", name, spec=spec, status={})
    found["metadata"]["labels"] = labels
    return found


def _short(image: str) -> str:
    """Return the name of a container that is made of its image's."""
    text = re.split(r"[:@]", image.rpartition("/")[2])[0]
    return re.sub(r"[^-a-z0-9]", "-", text.lower())


async def job(process: Process, client: Client, opts: Flags) -> Obj:
    """Return a job of an image or a cron job."""
    name = opts.args[0]
    if not opts.get("from"):
        pod = {"containers": [container(name, opts.get("image"), command=opts.after)], "restartPolicy": "Never"}
        return made("batch/v1", "Job", name, spec={"template": {"metadata": {}, "spec": pod}}, status={})
    word, slash, source = opts.get("from").partition("/")
    if not slash:
        raise wrong("there is no need to specify a resource type as a separate argument")
    kind = await client.resource(word)
    obj = await client.request("GET", kind.path(client.namespace, source))
    if kind.kind != "CronJob":
        raise wrong(f"unknown object type *{kind.version}.{kind.kind}")
    return _of_cron_job(name, obj)


def _of_cron_job(name: str, obj: Obj) -> Obj:
    template = obj["spec"]["jobTemplate"]
    found = made("batch/v1", "Job", name, spec=template["spec"], status={})
    marks = template.get("metadata") or {}
    owner = {"apiVersion": "batch/v1", "controller": True, "kind": "CronJob"}
    found["metadata"] |= {
        "annotations": {"cronjob.kubernetes.io/instantiate": "manual", **(marks.get("annotations") or {})},
        **({"labels": marks["labels"]} if marks.get("labels") else {}),
        "ownerReferences": [owner | {key: obj["metadata"][key] for key in ("name", "uid")}],
    }
    return found


async def _data(process: Process, opts: Flags, form: str) -> dict[str, bytes]:
    """Return the values of ``--from-literal``, ``--from-file`` and ``--from-env-file``."""
    found: dict[str, bytes] = {}
    for text in opts.all("from-file"):
        key, equals, path = text.rpartition("=")
        for name, data in _read(process, path, key).items():
            _keep(found, name if not equals else key, data, opts, form)
    for text in opts.all("from-literal"):
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise wrong(f"invalid literal source {text}, expected key=value")
        _keep(found, key, value.strip("\"'").encode("utf-8", "surrogateescape"), opts, form)
    for path in opts.all("from-env-file"):
        for line in _read(process, path, "x").popitem()[1].decode("utf-8", "replace").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                key, _, value = line.strip().partition("=")
                _keep(found, key, value.encode(), opts, form)
    return found


def _read(process: Process, path: str, key: str) -> dict[str, bytes]:
    try:
        node = process.view.node(path)
        if isinstance(node, Directory):
            if key:
                raise wrong("cannot give a key name for a directory path")
            below = {name: node.get(name) for name in node.names()}
            return {name: bytes(each.content()) for name, each in below.items() if isinstance(each, File)}
        return {path.rpartition("/")[2]: process.view.read(path)}
    except FileError as error:
        raise wrong(f"error reading {path}: {error.text.lower()}") from error


def _keep(found: dict[str, bytes], key: str, data: bytes, opts: Flags, form: str) -> None:
    if not KEY.fullmatch(key):
        kind = "a valid key name for a ConfigMap:" if form == "configmap" else "valid key name for a Secret"
        raise wrong(f"{json.dumps(key)} is not {kind} {TEXTS['wrong key']}")
    if key in found:
        raise wrong(
            f'cannot add key "{key}", another key by that name already exists in Data for ConfigMap "{opts.args[0]}"'
            if form == "configmap"
            else f"cannot add key {key}, another key by that name already exists"
        )
    found[key] = data


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def config_map(process: Process, client: Client, opts: Flags) -> Obj:
    """Return a config map."""
    name = opts.args[0]
    texts: dict[str, str] = {}
    binary: dict[str, str] = {}
    for key, data in (await _data(process, opts, "configmap")).items():
        try:
            texts[key] = data.decode()
        except UnicodeDecodeError:
            binary[key] = _encoded(data)
    return made("v1", "ConfigMap", name, data=texts or None, binaryData=binary or None)


async def secret(process: Process, client: Client, opts: Flags) -> Obj:
    """Return a secret of literals and files."""
    name = opts.args[0]
    data = {key: _encoded(value) for key, value in (await _data(process, opts, "secret")).items()}
    return made("v1", "Secret", name, data=data or None, type=opts.get("type") or None)


async def namespace(process: Process, client: Client, opts: Flags) -> Obj:
    """Return a namespace."""
    return made("v1", "Namespace", opts.args[0], spec={}, status={})


async def service_account(process: Process, client: Client, opts: Flags) -> Obj:
    """Return a service account."""
    return made("v1", "ServiceAccount", opts.args[0])


VERBS = SPECIAL | {"*", "request"}


async def _rules(client: Client, opts: Flags) -> list[Obj]:
    verbs = list(dict.fromkeys(opts.words("verb")))
    verbs = ["*"] if "*" in verbs else verbs
    for verb in verbs:
        if verb not in VERBS:
            await client.process.error(f"Warning: '{verb}' is not a standard resource verb\n")
    urls, names = opts.words("non-resource-url"), opts.words("resource-name")
    groups: dict[str, list[str]] = {}
    for word in opts.words("resource"):
        text, _, below = word.partition("/")
        if text == "*":
            groups.setdefault("", []).append(word)
            continue
        try:
            kind = await client.resource(text)
        except KubectlError as error:
            raise KubectlError(error.message) from error
        groups.setdefault(kind.group, []).append(kind.plural + (f"/{below}" if below else ""))
    rules: list[Obj] = [
        {"apiGroups": [group], "resources": plurals, **({"resourceNames": names} if names else {}), "verbs": verbs}
        for group, plurals in sorted(groups.items())
    ]
    return [*rules, *([{"nonResourceURLs": urls, "verbs": verbs}] if urls else [])]


async def role(process: Process, client: Client, opts: Flags) -> Obj:
    """Return a role or cluster role."""
    name = opts.args[0]
    kind = "ClusterRole" if opts.command == "create clusterrole" else "Role"
    return made(f"{RBAC}/v1", kind, name, rules=await _rules(client, opts))


async def binding(process: Process, client: Client, opts: Flags) -> Obj:
    """Return a role binding or cluster role binding."""
    name = opts.args[0]
    cluster = opts.command == "create clusterrolebinding"
    kind = "Role" if opts.get("role") else "ClusterRole"
    ref = {"apiGroup": RBAC, "kind": kind, "name": opts.get("role") or opts.get("clusterrole")}
    sort = "ClusterRoleBinding" if cluster else "RoleBinding"
    return made(f"{RBAC}/v1", sort, name, roleRef=ref, subjects=subjects(opts) or None)


GENERATORS: dict[str, tuple[Generator, str]] = {
    "deployment": (deployment, "deployment:"),
    "job": (job, "job:"),
    "configmap": (config_map, "configmap:"),
    "secret generic": (secret, "secret"),
    "namespace": (namespace, ""),
    "serviceaccount": (service_account, "serviceaccount:"),
    "role": (role, ""),
    "clusterrole": (role, ""),
    "rolebinding": (binding, "rolebinding:"),
    "clusterrolebinding": (binding, "clusterrolebinding:"),
}
"""What makes an object, and what a refusal says could not be created; "" where only the refusal is shown."""
