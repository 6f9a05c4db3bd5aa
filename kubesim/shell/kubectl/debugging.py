"""kubectl debug: a container beside others, or a pod that sees a whole node."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import AsyncIterator

from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import PROFILES, TEXTS, Flags
from kubesim.shell.kubectl.patches import difference, shape_of
from kubesim.shell.kubectl.streams import enter
from kubesim.shell.kubectl.targets import STRATEGIC, kinds_and_names
from kubesim.shell.machine import Process

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
IMAGE = re.compile(r"[a-zA-Z0-9](?:[\w.:/@-]*\w)?")
WITHOUT_HOST, WITHOUT_DISK = ("baseline", "restricted"), ("baseline", "restricted", "netadmin")
"""Profiles whose pods on a node are in namespaces of their own, and those that do not see its disk."""
_random = random.Random(4177)


async def debug(process: Process, client: Client, opts: Flags) -> int:
    """Look into pods and nodes."""
    await _check(process, opts)
    status = 0
    async for kind, obj in _targets(client, opts):
        if kind.kind not in ("Node", "Pod") or kind.group:
            shown = f"{kind.group}/{kind.version}, Kind={kind.kind}"
            raise KubectlError(f'error: "{shown}" not supported by debug')
        look = _on_node if kind.kind == "Node" else _beside
        pod, container = await look(process, client, opts, obj)
        if opts.on("attach", opts.on("stdin")):
            status = await enter(process, client, opts, pod, container)
    return status


async def _targets(client: Client, opts: Flags) -> AsyncIterator[tuple[Resource, Obj]]:
    for word in opts.args:
        pairs = await kinds_and_names(client, [word]) if "/" in word else [(await client.resource("pods"), word)]
        for kind, name in pairs:
            yield kind, await client.request("GET", kind.path(client.namespace, name))


async def _check(process: Process, opts: Flags) -> None:
    """Refuse what does not go together, in kubectl's order. Raises KubectlError."""
    if not IMAGE.fullmatch(opts.get("image")):
        raise KubectlError(f'error: invalid image name "{opts.get("image")}": invalid reference format')
    if opts.get("target"):
        await _tell(process, opts, TEXTS["target"].format(opts.get("target")))
    if opts.on("tty") and not opts.on("stdin"):
        raise KubectlError("error: -i/--stdin is required for containers with -t/--tty=true")
    if opts.get("profile", "legacy") == "legacy":
        await process.error(TEXTS["legacy profile"])


async def _tell(process: Process, opts: Flags, text: str) -> None:
    if not opts.on("quiet"):
        await process.write(text)
        await process.flush()


def _container(opts: Flags, name: str, *, on_node: bool) -> Obj:
    """Return the container that looks."""
    profile = opts.get("profile", "legacy")
    rights = {} if on_node and profile == "general" else PROFILES[profile]
    key = "args" if opts.on("arguments-only") else "command"
    found: Obj = {"name": name, "terminationMessagePolicy": "File", "image": opts.get("image")}
    found |= {key: opts.after} if opts.after else {}
    found |= {flag: True for flag in ("stdin", "tty") if opts.on(flag)}
    return found | ({"securityContext": rights} if rights else {})


async def _beside(process: Process, client: Client, opts: Flags, pod: Obj) -> tuple[Obj, str]:
    name = opts.get("container")
    if not name:
        name = "debugger-" + "".join(_random.choices(LETTERS, k=5))
        await _tell(process, opts, f"Defaulting debug container name to {name}.\n")
    target = {"targetContainerName": opts.get("target")} if opts.get("target") else {}
    after = copy.deepcopy(pod)
    after["spec"].setdefault("ephemeralContainers", []).append(_container(opts, name, on_node=False) | target)
    pods = await client.resource("pods")
    path = pods.path(pod["metadata"]["namespace"], pod["metadata"]["name"]) + "/ephemeralcontainers"
    body = difference(pod, after, shape_of(pods))
    return await client.request("PATCH", path, body=body, sort=STRATEGIC), name


async def _on_node(process: Process, client: Client, opts: Flags, node: Obj) -> tuple[Obj, str]:
    name = node["metadata"]["name"]
    pod_name = f"node-debugger-{name}-" + "".join(_random.choices(LETTERS, k=5))
    container = _container(opts, opts.get("container") or "debugger", on_node=True)
    told = f"Creating debugging pod {pod_name} with container {container['name']} on node {name}.\n"
    await _tell(process, opts, told)
    spec: Obj = {"nodeName": name, "restartPolicy": "Never", "tolerations": [{"operator": "Exists"}]}
    spec |= {"containers": [container]}
    if opts.get("profile") not in WITHOUT_HOST:
        spec |= {"hostNetwork": True, "hostPID": True, "hostIPC": True}
    if opts.get("profile") not in WITHOUT_DISK:
        spec["volumes"] = [{"name": "host-root", "hostPath": {"path": "/"}}]
        container["volumeMounts"] = [{"name": "host-root", "mountPath": "/host"}]
    labels = {"app.kubernetes.io/managed-by": "kubectl-debug"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod_name, "labels": labels}, "spec": spec}
    made = await client.request("POST", f"/api/v1/namespaces/{client.namespace}/pods", body=body)
    return made, str(container["name"])
