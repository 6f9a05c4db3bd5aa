"""kubectl's verbs by name, and how one is run."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from kubesim.shell.errors import NetworkError
from kubesim.shell.kubectl import (
    about,
    applying,
    changing,
    configuring,
    debugging,
    deleting,
    describe,
    editing,
    get,
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
from kubesim.shell.kubectl.client import REFUSED, Client, KubectlError, Obj
from kubesim.shell.kubectl.configuring import Kubeconfig, load
from kubesim.shell.kubectl.flags import GROUPS, TEXTS, Flags, check, parse
from kubesim.shell.kubectl.generators import GENERATORS
from kubesim.shell.machine import Process
from kubesim.times import parse_go_duration

ZONE = "cluster.local"
Verb = Callable[[Process, Client, Flags], Awaitable[int]]
VERBS: dict[str, Verb] = {
    "get": get.get,
    "describe": describe.describe,
    "logs": logs.logs,
    "exec": streams.exec_,
    "debug": debugging.debug,
    "apply": applying.apply,
    "apply view-last-applied": applying.view_last_applied,
    "replace": applying.replace,
    "create": making.create,
    **{f"create {kind}": making.generate for kind in GENERATORS},
    "run": making.run,
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
    "cordon": nodes.cordon,
    "uncordon": nodes.cordon,
    "drain": nodes.drain,
    "taint": nodes.taint,
    "rollout status": rollout.status,
    "rollout restart": rollout.restart,
    "rollout history": rollout.history,
    "rollout undo": rollout.undo,
    "auth can-i": rights.can_i,
    "auth whoami": rights.whoami,
    "api-resources": about.api_resources,
    "api-versions": about.api_versions,
    "version": about.version,
    "cluster-info": about.cluster_info,
    "top pod": usage.top,
    "top node": usage.top,
}
LOCAL: dict[str, Callable[[Process, Flags], Awaitable[int]]] = {
    "config view": configuring.view,
    "config current-context": configuring.current_context,
    "config get-contexts": configuring.get_contexts,
    "config use-context": configuring.use_context,
    "config set-context": configuring.set_context,
    "completion": about.completion,
}
"""The verbs that ask no server."""
MISSHAPEN = (AttributeError, KeyError, TypeError, ValueError, IndexError)
"""What comes of objects that are not what their kind says: custom ones, answers of servers that others register."""


async def run(process: Process) -> int:
    """Run a command line."""
    try:
        opts = parse(process.argv[1:])
        if opts.command not in {*VERBS, *LOCAL} or opts.on("help"):
            await process.write(about.usage_of(" ".join(opts.args) if opts.command == "help" else opts.command))
            return int(opts.command in GROUPS and not opts.on("help"))
        check(opts)
        results.check_format(opts)
        if opts.command in LOCAL:
            return await LOCAL[opts.command](process, opts)
        client = _client(process, opts)
        return await VERBS[opts.command](process, client, opts)
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
    """Return the way to the server: the pod's own, as the context in force says. Raises KubectlError."""
    config = load(process, opts)
    context = _context(config, opts)
    user = config.parts["users"].get(opts.get("user") or str(context.get("user") or ""), {})
    token = opts.get("token") or str(user.get("token") or "")
    extra = {"Authorization": f"Bearer {token}"} if token else {}
    extra |= {"Impersonate-User": opts.get("as")} if opts.get("as") else {}
    extra |= {"Impersonate-Group": ",".join(opts.words("as-group"))} if opts.get("as-group") else {}
    extra |= {"Impersonate-Uid": opts.get("as-uid")} if opts.get("as-uid") else {}
    client = Client(process, opts.get("namespace") or str(context.get("namespace") or ""), extra)
    client.chosen = bool(opts.get("namespace"))
    _reach(client, opts.get("server") or _server(config, context, opts))
    client.limit = _limit(opts.get("request-timeout"))
    return client


def _context(config: Kubeconfig, opts: Flags) -> Obj:
    wanted = opts.get("context") or config.current
    known = config.parts["contexts"]
    if wanted and wanted not in known:
        if not known and opts.get("context"):
            raise KubectlError(f'error: context "{wanted}" does not exist')
        raise KubectlError(f"Error in configuration: context was not found for specified context: {wanted}")
    if (name := opts.get("cluster")) and name not in config.parts["clusters"]:
        empty = not config.parts["clusters"]
        raise KubectlError(
            f'error: cluster "{name}" does not exist' if empty else f'error: no server found for cluster "{name}"'
        )
    if (name := opts.get("user")) and not opts.command.endswith("binding") and name not in config.parts["users"]:
        raise KubectlError(f'error: auth info "{name}" does not exist')
    return known.get(wanted, {})


def _server(config: Kubeconfig, context: Obj, opts: Flags) -> str:
    name = opts.get("cluster") or str(context.get("cluster") or "")
    return str(config.parts["clusters"].get(name, {}).get("server") or "")


def _reach(client: Client, server: str) -> None:
    """Let only the server that there is be reached. Raises KubectlError where another is named."""
    place = urlsplit(server if "//" in server or not server else f"http://{server}")
    own = urlsplit(client.kube.server)
    name = "kubernetes.default.svc"
    here = {own.hostname, "kubernetes", "kubernetes.default", name, f"{name}.{ZONE}"}
    if not server or place.hostname in here and (place.port or 443) == (own.port or 443):
        return
    name = place.hostname or ""
    if name.replace(".", "").isdigit() or name == "localhost":
        shown = f"{name}:{place.port}" if place.port else name
        raise KubectlError(REFUSED.format(shown))
    raise KubectlError(f"Unable to connect to the server: dial tcp: lookup {name}: no such host")


def _limit(text: str) -> float:
    """Return the seconds after which a request ends, 0 for never. Raises KubectlError."""
    if not re.fullmatch(r"(\d+(\.\d+)?(h|ms|m|s)?)?", text):
        raise KubectlError(TEXTS["wrong timeout"])
    return parse_go_duration(text if text[-1:].isalpha() else f"{text or 0}s")


TOOLS = {"kubectl": run}
