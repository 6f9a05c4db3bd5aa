"""kubectl."""

from __future__ import annotations

from kubesim.shell.kubectl.client import Client, KubectlError
from kubesim.shell.kubectl.verbs import VERBS
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

LONG = {
    "namespace=": "n",
    "all-namespaces": "A",
    "output=": "o",
    "selector=": "l",
    "filename=": "f",
    "follow": "f",
    "previous": "p",
    "container=": "c",
    "replicas=": "replicas",
    "tail=": "tail",
    "show-labels": "labels",
    "no-headers": "nohead",
    "field-selector=": "field",
    "all": "all",
    "force": "force",
    "grace-period=": "grace",
    "dry-run=": "dry",
    "type=": "type",
    "patch=": "p",
    "overwrite": "overwrite",
    "server-side": "server",
    "ignore-not-found": "ignore",
    "timestamps": "timestamps",
    "wait=": "wait",
    "now": "now",
    "show-managed-fields": "managed",
    "context=": "context",
    "kubeconfig=": "config",
    "sort-by=": "sort",
    "timeout=": "timeout",
    "client": "client",
    "token=": "token",
    "server=": "s",
    "v=": "v",
}


async def kubectl(process: Process) -> int:
    """Talk to the API server."""
    verb = next((word for word in process.argv[1:] if word in VERBS), "")
    short = "n:Ao:l:f:c:p:v:s:" if verb == "patch" else "n:Ao:l:fc:pv:s:" if verb == "logs" else "n:Ao:l:f:c:pv:s:w"
    opts = await kit.options(process, short, LONG)
    if not opts.args:
        await process.error(
            "kubectl controls the Kubernetes cluster manager.\n\n Find more information at: https://kubernetes.io/docs/reference/kubectl/\n"
        )
        return 0
    word = opts.args.pop(0)
    try:
        if word not in VERBS:
            raise KubectlError(f'error: unknown command "{word}" for "kubectl"')
        return await VERBS[word](process, Client(process, opts.get("n")), opts)
    except KubectlError as error:
        await process.flush()
        await process.error(error.text + "\n")
        return error.status


TOOLS: dict[str, Tool] = {"kubectl": kubectl}
