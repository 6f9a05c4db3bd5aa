"""kubectl logs."""

from __future__ import annotations

from urllib.parse import urlencode

from kubesim.shell.kubectl.client import Client, KubectlError
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.targets import needs
from kubesim.shell.machine import Process


async def logs(process: Process, client: Client, opts: Flags) -> int:
    """Show or follow a container's log."""
    needs(
        opts,
        1,
        "expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'.\n"
        "POD or TYPE/NAME is a required argument for the logs command",
    )
    word = opts.args[0].removeprefix("pod/").removeprefix("pods/")
    if "/" in word:
        word = await _pod_of(client, word)
    container = opts.get("container") or (opts.args[1] if len(opts.args) > 1 else "")
    pairs = {
        "container": container,
        "previous": "true" if opts.on("previous") else "",
        "tailLines": opts.get("tail").lstrip("-"),
        "timestamps": "true" if opts.on("timestamps") else "",
        "follow": "true" if opts.on("follow") else "",
    }
    if opts.get("tail") == "-1":
        pairs["tailLines"] = ""
    path = f"/api/v1/namespaces/{client.namespace}/pods/{word}/log?" + urlencode(
        {k: v for k, v in pairs.items() if v}
    )
    if opts.on("follow"):
        async for piece in client.kube.stream(path, headers=client.headers({})):
            await process.write(piece)
            await process.flush()
        return 0
    await process.write(await client.text(path))
    return 0


async def _pod_of(client: Client, word: str) -> str:
    """Return a pod of a workload."""
    kind, name = word.split("/", 1)
    obj = await client.request("GET", (await client.resource(kind)).path(client.namespace, name))
    labels = obj.get("spec", {}).get("selector", {}).get("matchLabels", {})
    query = urlencode({"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())})
    pods = await client.request("GET", f"/api/v1/namespaces/{client.namespace}/pods?{query}")
    if not pods.get("items"):
        raise KubectlError("error: timed out waiting for the condition")
    return str(pods["items"][0]["metadata"]["name"])
