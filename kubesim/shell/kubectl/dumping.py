"""kubectl cluster-info dump: everything that helps to find out what is wrong, on the screen or in files."""

from __future__ import annotations

import posixpath
from urllib.parse import quote

from kubesim.shell.errors import FileError
from kubesim.shell.kubectl import printing
from kubesim.shell.kubectl.client import Client, KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.results import headless
from kubesim.shell.kubectl.texts import to_json
from kubesim.shell.machine import Process

PARTS = {
    "events": "/api/v1/namespaces/{}/events",
    "replication-controllers": "/api/v1/namespaces/{}/replicationcontrollers",
    "services": "/api/v1/namespaces/{}/services",
    "daemonsets": "/apis/apps/v1/namespaces/{}/daemonsets",
    "deployments": "/apis/apps/v1/namespaces/{}/deployments",
    "replicasets": "/apis/apps/v1/namespaces/{}/replicasets",
    "pods": "/api/v1/namespaces/{}/pods",
}
META = (
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers"),
)
ENDINGS = {"json": ".json", "yaml": ".yaml"}


async def dump(process: Process, client: Client, opts: Flags) -> int:
    """Write down nodes, and of namespaces events, workloads and logs."""
    form = opts.get("output") or "json"
    if form == "name":
        raise KubectlError("error: list types are not supported by name printing: *v1.NodeList")
    await _written(process, opts, "nodes", form, await client.request("GET", "/api/v1/nodes"))
    spaces = opts.words("namespaces") or ["kube-system", client.namespace]
    if opts.on("all-namespaces"):
        found = await client.request("GET", "/api/v1/namespaces")
        spaces = [each["metadata"]["name"] for each in found.get("items") or []]
    for space in spaces:
        pods: Obj = {}
        for name, path in PARTS.items():
            pods = await client.request("GET", path.format(quote(space, safe="")))
            await _written(process, opts, f"{space}/{name}", form, pods)
        for pod in pods.get("items") or []:
            await _put(process, opts, f"{space}/{pod['metadata']['name']}/logs.txt", await _logs(client, pod))
    folder = opts.get("output-directory")
    if folder not in ("", "-"):
        await process.write(f"Cluster info dumped to {folder}\n")
    return 0


async def _logs(client: Client, pod: Obj) -> str:
    """Return what every container of a pod has written."""
    space, name, text = pod["metadata"]["namespace"], pod["metadata"]["name"], ""
    for key in ("initContainers", "containers"):
        for container in pod["spec"].get(key) or []:
            about = f"logs for container {container['name']} of pod {space}/{name} ====\n"
            path = f"/api/v1/namespaces/{space}/pods/{name}/log?container={container['name']}"
            try:
                told = (await client.raw("GET", path)).decode("utf-8", "replace")
            except KubectlError as error:
                told = f"Request log error: {error.message}\n"
            text += f"==== START {about}{told}==== END {about}"
    return text


async def _written(process: Process, opts: Flags, name: str, form: str, found: Obj) -> None:
    items = [_ordered(headless(each)) for each in found.get("items") or []]
    whole = {key: found[key] for key in ("kind", "apiVersion", "metadata") if key in found} | {"items": items}
    text = to_json(whole, sort=False) if form == "json" else printing.formatted(form, whole)
    await _put(process, opts, name + ENDINGS.get(form, ".txt"), text)


def _ordered(obj: Obj) -> Obj:
    """Return an object whose metadata follow one another as in Go's type."""
    metadata = obj["metadata"]
    known = {key: metadata[key] for key in META if key in metadata}
    return {**obj, "metadata": known | metadata}


async def _put(process: Process, opts: Flags, name: str, text: str) -> None:
    folder = opts.get("output-directory")
    if folder in ("", "-"):
        await process.write(text)
        return
    path = posixpath.join(folder, name)
    try:
        for at in range(len(posixpath.dirname(path).split("/"))):
            part = "/".join(posixpath.dirname(path).split("/")[: at + 1])
            if part and process.view.find(part) is None:
                process.view.mkdir(part)
        process.view.write(path, text.encode())
    except FileError as error:
        raise KubectlError(f"error: open {path}: {error.text.lower()}") from error
