"""kubectl create and run: new objects, of manifests and of flags."""

from __future__ import annotations

import json
import re

from kubesim.api.patch import merge_patch
from kubesim.errors import ApiError
from kubesim.shell.kubectl.applying import configured
from kubesim.shell.kubectl.client import Client, KubectlError, Obj
from kubesim.shell.kubectl.deleting import remove
from kubesim.shell.kubectl.flags import Flags, number
from kubesim.shell.kubectl.generators import GENERATORS, container, made
from kubesim.shell.kubectl.results import dry, for_each, report, send, validation
from kubesim.shell.kubectl.streams import enter
from kubesim.shell.kubectl.targets import located, sources
from kubesim.shell.machine import Process

POLL_S = 0.2


async def make(process: Process, client: Client, opts: Flags, obj: Obj) -> None:
    """Create an object and say so."""
    kind = await client.of_object(obj)
    if opts.on("save-config"):
        obj = configured(obj)
    after = obj
    if dry(opts) == "client":
        if kind.namespaced and client.chosen:
            after = located(client, kind, obj)
    else:
        metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "resourceVersion"}
        obj = {**obj, "metadata": metadata}
        path = kind.path(metadata.get("namespace") or client.namespace)
        after = await send(client, opts, "POST", path, obj, fieldValidation=validation(opts))
    await report(process, opts, kind, after, "created")


async def create(process: Process, client: Client, opts: Flags) -> int:
    """Make objects of manifests."""

    async def act(obj: Obj, source: str) -> None:
        kind = await client.of_object(obj, source)
        try:
            await make(process, client, opts, located(client, kind, obj))
        except KubectlError as error:
            raise error.during("creating", source) from error

    return await for_each(process, await sources(process, opts), act)


async def generate(process: Process, client: Client, opts: Flags) -> int:
    """Make an object of flags."""
    generator, failed = GENERATORS[opts.command.removeprefix("create ")]
    obj = await generator(process, client, opts)
    try:
        await make(process, client, opts, obj)
    except KubectlError as error:
        if failed and error.reason:
            raise KubectlError(f"error: failed to create {failed} {error.message}", reason=error.reason) from error
        raise
    return 0


def _pod(opts: Flags, name: str) -> Obj:
    """Return the pod of ``kubectl run``."""
    policy = opts.get("restart") or "Always"
    if policy not in ("Always", "OnFailure", "Never"):
        text = f"invalid restart policy: {policy}\nSee 'kubectl run -h' for help and examples"
        raise KubectlError(f"error: {text}")
    pairs = [text.partition("=") for text in opts.all("env")]
    for key, equals, _ in pairs:
        if not equals:
            raise KubectlError(f"error: invalid env: {key}")
    words = opts.after if opts.after is not None else opts.args[1:]
    main = container(
        name,
        opts.get("image"),
        **{"command" if opts.on("command") else "args": words},
        env=[{"name": key, "value": value} for key, _, value in pairs],
        ports=[{"containerPort": number(opts, "port")}] if number(opts, "port") else [],
        imagePullPolicy=opts.get("image-pull-policy"),
        securityContext={"privileged": True} if opts.on("privileged") else {},
        stdin=opts.on("stdin"),
        stdinOnce=opts.on("stdin"),
        tty=opts.on("tty"),
    )
    spec = {"containers": [main], "dnsPolicy": "ClusterFirst", "restartPolicy": policy}
    found = made("v1", "Pod", name, spec=spec, status={})
    labels = dict(word.partition("=")[::2] for word in opts.words("labels"))
    found["metadata"]["labels"] = labels or {"run": name}
    notes = dict(text.partition("=")[::2] for text in opts.all("annotations"))
    found["metadata"] |= {"annotations": notes} if notes else {}
    if opts.get("overrides"):
        found = _overridden(opts, found)
    return found


def _overridden(opts: Flags, obj: Obj) -> Obj:
    try:
        patched: Obj = merge_patch(obj, json.loads(opts.get("overrides")))
    except (ValueError, ApiError) as error:
        raise KubectlError(f"error: Invalid JSON Patch: {error}") from error
    return patched


async def run(process: Process, client: Client, opts: Flags) -> int:
    """Start a pod, and join it where that is asked."""
    name = opts.args[0]
    if not re.fullmatch(r"[\w][\w.:/@-]*", opts.get("image")):
        raise KubectlError(f'error: Invalid image name "{opts.get("image")}": invalid reference format')
    joining = opts.on("attach", opts.on("stdin") or opts.on("tty"))
    if not joining:
        await make(process, client, opts, _pod(opts, name))
        return 0
    kind = await client.resource("pods")
    pod = await send(client, opts, "POST", kind.path(client.namespace), _pod(opts, name))
    try:
        await enter(process, client, opts, pod, name)
        return 0 if pod["spec"].get("restartPolicy") == "Always" else await _code(process, client, pod)
    finally:
        if opts.on("rm"):
            flags = Flags("delete", {"quiet": ["true"]} if opts.on("quiet") else {})
            await remove(process, client, flags, kind, kind.path(client.namespace, name), missing_ok=True)


async def _code(process: Process, client: Client, pod: Obj) -> int:
    """Return the exit code of a pod's first container when the pod is over. Raises KubectlError."""
    path = f"/api/v1/namespaces/{client.namespace}/pods/{pod['metadata']['name']}"
    while True:
        found = await client.request("GET", path)
        status = found.get("status") or {}
        if status.get("phase") == "Succeeded":
            return 0
        if status.get("phase") == "Failed":
            ended = (status.get("containerStatuses") or [{}])[0].get("state", {}).get("terminated") or {}
            name = f"{client.namespace}/{pod['metadata']['name']}"
            text = f"pod {name} terminated ({ended.get('reason', '')})"
            more = f"\n{ended['message']}" if ended.get("message") else ""
            raise KubectlError(text + more, int(ended.get("exitCode") or 1))
        await process.sleep(POLL_S)
