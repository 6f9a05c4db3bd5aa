"""kubectl's verbs by name, and how one is run."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from kubesim.shell.errors import NetworkError
from kubesim.shell.kubectl import (
    about,
    applying,
    changing,
    copying,
    debugging,
    deleting,
    describe,
    editing,
    eventing,
    explaining,
    forwarding,
    get,
    kustomizing,
    logs,
    making,
    nodes,
    results,
    rights,
    rollout,
    setting,
    streams,
    usage,
    waiting,
)
from kubesim.shell.kubectl.client import Client, KubectlError
from kubesim.shell.kubectl.flags import Flags, parse
from kubesim.shell.kubectl.generators import GENERATORS
from kubesim.shell.kubectl.targets import duration
from kubesim.shell.machine import Process

Verb = Callable[[Process, Client, Flags], Awaitable[int]]
VERBS: dict[str, Verb] = {
    "get": get.get,
    "events": eventing.events,
    "describe": describe.describe,
    "explain": explaining.explain,
    "logs": logs.logs,
    "exec": streams.exec_,
    "attach": streams.attach,
    "cp": copying.cp,
    "port-forward": forwarding.port_forward,
    "debug": debugging.debug,
    "apply": applying.apply,
    "apply view-last-applied": applying.view_last,
    "apply set-last-applied": applying.set_last,
    "replace": applying.replace,
    "diff": applying.diff,
    "create": making.create,
    **{f"create {kind}": making.generate for kind in GENERATORS},
    "create token": making.token,
    "run": making.run,
    "expose": making.expose,
    "autoscale": making.autoscale,
    "delete": deleting.delete,
    "edit": editing.edit,
    "scale": changing.scale,
    "label": changing.label,
    "annotate": changing.label,
    "patch": changing.patch,
    "wait": waiting.wait,
    "set image": setting.image,
    "set env": setting.env,
    "set resources": setting.resources,
    "set serviceaccount": setting.service_account,
    "set selector": setting.selector,
    "set subject": setting.subject,
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
    "auth can-i": rights.can_i,
    "auth whoami": rights.whoami,
    "certificate approve": rights.certify,
    "certificate deny": rights.certify,
    "api-resources": about.api_resources,
    "api-versions": about.api_versions,
    "version": about.version,
    "config view": about.config_view,
    "config current-context": about.current_context,
    "config get-contexts": about.get_contexts,
    "kustomize": kustomizing.kustomize,
    "cluster-info": about.cluster_info,
    "top pod": usage.top,
    "top node": usage.top,
}
MISSHAPEN = (AttributeError, KeyError, TypeError, ValueError, IndexError)
"""What comes of objects that are not what their kind says: custom ones, answers of servers that others register."""


async def run(process: Process) -> int:
    """Run a command line."""
    try:
        opts = parse(process.argv[1:])
        if opts.command not in VERBS or opts.on("help"):
            await process.write(about.usage_of(opts.command))
            return 0
        results.settle(process, opts)
        return await VERBS[opts.command](process, _client(process, opts), opts)
    except KubectlError as error:
        await process.write(error.printed)
        await process.flush()
        await process.error(error.text + "\n")
        return error.status
    except NetworkError as error:
        await process.flush()
        await process.error(f"error: {error.kind}\n")
        return 1
    except MISSHAPEN as error:
        await process.flush()
        await process.error(f"error: unable to decode an object of an unexpected shape: {error}\n")
        return 1


def _client(process: Process, opts: Flags) -> Client:
    """Return the way to the server; in a pod there is no configuration to choose from."""
    if opts.get("context"):
        raise KubectlError(f'error: context "{opts.get("context")}" does not exist')
    for name, shown in (("cluster", "cluster"), ("user", "auth info")):
        if opts.get(name):
            raise KubectlError(f'error: {shown} "{opts.get(name)}" does not exist')
    extra = {"Authorization": f"Bearer {opts.get('token')}"} if opts.get("token") else {}
    extra |= {"Impersonate-User": opts.get("as")} if opts.get("as") else {}
    extra |= {"Impersonate-Group": ",".join(opts.words("as-group"))} if opts.get("as-group") else {}
    client = Client(process, opts.get("namespace"), extra)
    client.limit = _limit(opts.get("request-timeout"))
    return client


def _limit(text: str) -> float:
    """Return the seconds after which a request ends, 0 for never. Raises KubectlError."""
    if not re.fullmatch(r"(\d+(\.\d+)?(h|ms|m|s)?)?", text):
        raise KubectlError(
            "error: Invalid timeout value. Timeout must be a single integer in seconds, or an integer followed by a "
            "corresponding time unit (e.g. 1s | 2m | 3h)"
        )
    return duration(text + ("" if text[-1:].isalpha() or not text else "s"))
