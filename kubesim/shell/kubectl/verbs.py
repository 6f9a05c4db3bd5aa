"""kubectl's verbs by name, and how one is run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kubesim.shell.kubectl import about, describe, get, logs, manage, nodes, rollout
from kubesim.shell.kubectl.client import Client, KubectlError
from kubesim.shell.kubectl.flags import Flags, parse
from kubesim.shell.machine import Process

Verb = Callable[[Process, Client, Flags], Awaitable[int]]
VERBS: dict[str, Verb] = {
    "get": get.get,
    "events": get.events,
    "describe": describe.describe,
    "logs": logs.logs,
    "apply": manage.apply,
    "create": manage.create,
    "delete": manage.delete,
    "scale": manage.scale,
    "label": manage.label,
    "annotate": manage.label,
    "patch": manage.patch,
    "cordon": nodes.cordon,
    "uncordon": nodes.cordon,
    "drain": nodes.drain,
    "taint": nodes.taint,
    "rollout status": rollout.status,
    "rollout restart": rollout.restart,
    "rollout pause": rollout.pause,
    "rollout resume": rollout.pause,
    "rollout history": rollout.history,
    "rollout undo": rollout.undo,
    "auth can-i": about.can_i,
    "auth whoami": about.whoami,
    "api-resources": about.api_resources,
    "api-versions": about.api_versions,
    "version": about.version,
    "config view": about.config_view,
    "config current-context": about.current_context,
    "config get-contexts": about.get_contexts,
    "cluster-info": about.cluster_info,
    "top pod": about.top,
    "top node": about.top,
}
HELP = (
    "kubectl controls the Kubernetes cluster manager.\n\n"
    " Find more information at: https://kubernetes.io/docs/reference/kubectl/\n"
)


async def run(process: Process) -> int:
    """Run a command line."""
    try:
        opts = parse(process.argv[1:])
        if opts.command not in VERBS:
            await process.write(HELP)
            return 0
        return await VERBS[opts.command](process, _client(process, opts), opts)
    except KubectlError as error:
        await process.flush()
        await process.error(error.text + "\n")
        return error.status


def _client(process: Process, opts: Flags) -> Client:
    """Return the way to the server; in a pod there is no configuration to choose from."""
    if opts.get("context"):
        raise KubectlError(f'error: context "{opts.get("context")}" does not exist')
    for name, shown in (("cluster", "cluster"), ("user", "auth info")):
        if opts.get(name):
            raise KubectlError(f'error: {shown} "{opts.get(name)}" does not exist')
    return Client(process, opts.get("namespace"), opts.get("token"))
