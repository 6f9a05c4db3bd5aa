"""kubectl debug: a container beside others, a copy of a pod, or a pod that sees a whole node."""

from __future__ import annotations

import copy
import random

from kubesim.shell.kubectl.client import Client, KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.logs import follow
from kubesim.shell.kubectl.patches import difference, shape_of
from kubesim.shell.kubectl.streams import attached
from kubesim.shell.kubectl.targets import STRATEGIC, kinds_and_names
from kubesim.shell.machine import Process

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
LEGACY = (
    "--profile=legacy is deprecated and will be removed in the future. It is recommended to explicitly specify "
    "a profile, "
    'for example "--profile=general".\n'
)
TARGETING = (
    'Targeting container "{}". If you don\'t see processes from this container it may be because the container '
    "runtime "
    "doesn't support this feature.\n"
)
PROFILES = ("legacy", "general", "baseline", "netadmin", "restricted", "sysadmin")
CONTEXTS: dict[str, Obj] = {
    "sysadmin": {"privileged": True},
    "general": {"capabilities": {"add": ["SYS_PTRACE"]}},
    "netadmin": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
    "restricted": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}
POLL_S = 0.2
_random = random.Random(4177)


async def debug(process: Process, client: Client, opts: Flags) -> int:
    """Look into pods and nodes."""
    await _check(process, opts)
    word = opts.args[0]
    kind, name = (await kinds_and_names(client, [word]))[0] if "/" in word else (await client.resource("pods"), word)
    obj = await client.request("GET", kind.path(client.namespace, name))
    if kind.kind not in ("Pod", "Node") or kind.group:
        raise KubectlError(f'error: "{kind.group}/{kind.version}, Kind={kind.kind}" not supported by debug')
    if kind.kind == "Node":
        pod, container = await _on_node(process, client, opts, obj)
    elif opts.get("copy-to"):
        pod, container = await _copied(process, client, opts, obj)
    else:
        pod, container = await _beside(process, client, opts, obj)
    if not opts.on("attach", opts.on("stdin")) or not container:
        return 0
    return await _enter(process, client, opts, pod, container)


async def _check(process: Process, opts: Flags) -> None:
    copying = bool(opts.get("copy-to"))
    if not opts.args and opts.get("image"):
        raise KubectlError("error: NAME or filename is required for debug")
    if not copying:
        for flag in ("replace", "same-node", "set-image"):
            if flag in opts:
                raise KubectlError(f"error: --{flag} may only be used with --copy-to.")
        if not opts.get("image"):
            raise KubectlError("error: you must specify --image when not using --copy-to.")
    elif not (opts.get("image") or opts.get("set-image") or opts.after):
        raise KubectlError("error: you must specify --image, --set-image or command arguments.")
    if opts.get("target"):
        if copying:
            raise KubectlError("error: --target is incompatible with --copy-to. Use --share-processes instead.")
        if not opts.on("quiet"):
            await process.write(TARGETING.format(opts.get("target")))
    if opts.on("tty") and not opts.on("stdin"):
        raise KubectlError("error: -i/--stdin is required for containers with -t/--tty=true")
    profile = opts.get("profile") or "legacy"
    if profile not in PROFILES:
        raise KubectlError(f"error: unknown profile: {profile}")
    if profile == "legacy":
        await process.error(LEGACY)


def _container(opts: Flags, name: str) -> Obj:
    words = opts.after or opts.args[1:]
    key = "args" if opts.on("arguments-only") else "command"
    found: Obj = {"name": name, "image": opts.get("image"), "terminationMessagePolicy": "File"}
    found |= {key: words} if words else {}
    found |= {"stdin": True} if opts.on("stdin") else {}
    found |= {"tty": True} if opts.on("tty") else {}
    found |= {"imagePullPolicy": opts.get("image-pull-policy")} if opts.get("image-pull-policy") else {}
    pairs = [text.partition("=") for text in opts.all("env")]
    return found | ({"env": [{"name": key, "value": value} for key, _, value in pairs]} if pairs else {})


def _profile(opts: Flags) -> Obj:
    context = CONTEXTS.get(opts.get("profile"))
    return {"securityContext": copy.deepcopy(context)} if context else {}


async def _name(process: Process, opts: Flags, pod: Obj) -> str:
    """Return the name of the new container, made up where none is given."""
    if opts.get("container"):
        return opts.get("container")
    name = "debugger-" + "".join(_random.choices(LETTERS, k=5))
    if not opts.on("quiet"):
        await process.write(f"Defaulting debug container name to {name}.\n")
    await process.flush()
    return name


async def _beside(process: Process, client: Client, opts: Flags, pod: Obj) -> tuple[Obj, str]:
    name = await _name(process, opts, pod)
    made = {**_container(opts, name), **_profile(opts)}
    made |= {"targetContainerName": opts.get("target")} if opts.get("target") else {}
    path = f"/api/v1/namespaces/{client.namespace}/pods/{pod['metadata']['name']}/ephemeralcontainers"
    after = copy.deepcopy(pod)
    after["spec"]["ephemeralContainers"] = [*(pod["spec"].get("ephemeralContainers") or []), made]
    body = difference(pod, after, shape_of(await client.resource("pods")))
    return await client.request("PATCH", path, body=body, sort=STRATEGIC), name


async def _on_node(process: Process, client: Client, opts: Flags, node: Obj) -> tuple[Obj, str]:
    name = node["metadata"]["name"]
    pod_name = f"node-debugger-{name}-" + "".join(_random.choices(LETTERS, k=5))
    container = {**_container(opts, opts.get("container") or "debugger"), **_on_host(opts)}
    if not opts.on("quiet"):
        await process.write(f"Creating debugging pod {pod_name} with container {container['name']} on node {name}.\n")
    spec: Obj = {
        "nodeName": name,
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    if (opts.get("profile") or "legacy") not in ("baseline", "restricted"):
        spec |= {"hostNetwork": True, "hostPID": True, "hostIPC": True}
    if opts.get("profile") != "netadmin" and "hostNetwork" in spec:
        spec["volumes"] = [{"name": "host-root", "hostPath": {"path": "/"}}]
        container["volumeMounts"] = [{"name": "host-root", "mountPath": "/host"}]
    if "hostNetwork" in spec and opts.get("profile") == "netadmin":
        del spec["hostIPC"]
    labels = {"app.kubernetes.io/managed-by": "kubectl-debug"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod_name, "labels": labels}, "spec": spec}
    made = await client.request("POST", f"/api/v1/namespaces/{client.namespace}/pods", body=body)
    return made, str(container["name"])


def _on_host(opts: Flags) -> Obj:
    return {} if opts.get("profile") == "general" else _profile(opts)


async def _copied(process: Process, client: Client, opts: Flags, pod: Obj) -> tuple[Obj, str]:
    spec = copy.deepcopy(pod["spec"])
    for key in ("ephemeralContainers", *(() if opts.on("same-node") else ("nodeName",))):
        spec.pop(key, None)
    if "share-processes" in opts or opts.get("profile") in ("general", "sysadmin", "baseline"):
        spec["shareProcessNamespace"] = opts.on("share-processes", True)
    images = dict(word.partition("=")[::2] for word in opts.words("set-image"))
    for each in spec["containers"]:
        each["image"] = images.get(each["name"]) or images.get("*") or each["image"]
    name = opts.get("container")
    known = next((each for each in spec["containers"] if each["name"] == name), None)
    if known is None and (opts.get("image") or not images):
        if not opts.get("image"):
            raise KubectlError("error: you must specify image when creating new container")
        name = await _name(process, opts, pod)
        known = {"name": name}
        spec["containers"].append(known)
    if known is not None:
        known |= {key: value for key, value in _container(opts, name).items() if value or key == "name"}
        if opts.after and not opts.on("arguments-only"):
            known.pop("args", None)
    if opts.on("replace"):
        await client.request("DELETE", f"/api/v1/namespaces/{client.namespace}/pods/{pod['metadata']['name']}")
    metadata: Obj = {"name": opts.get("copy-to")}
    if pod["metadata"].get("annotations"):
        metadata["annotations"] = pod["metadata"]["annotations"]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    made = await client.request("POST", f"/api/v1/namespaces/{client.namespace}/pods", body=body)
    return made, name if known is not None else ""


async def _enter(process: Process, client: Client, opts: Flags, pod: Obj, container: str) -> int:
    pod, state = await started(process, client, pod, container, quiet=opts.on("quiet"))
    return await joined(process, client, opts, pod, container, over="terminated" in state)


async def joined(process: Process, client: Client, opts: Flags, pod: Obj, container: str, *, over: bool) -> int:
    """Join a container, or show its log where it is over."""
    if over:
        return await follow(process, client, pod, container)
    try:
        return await attached(process, client, opts, pod, container)
    except KubectlError as error:
        name = pod["metadata"]["name"]
        await process.error(
            f"warning: couldn't attach to pod/{name}, falling back to streaming logs: {error.message}\n"
        )
        return await follow(process, client, pod, container)


async def started(process: Process, client: Client, pod: Obj, container: str, *, quiet: bool) -> tuple[Obj, Obj]:
    """Wait until a container runs or has ended; returns its pod and its state. Raises KubectlError."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
    told = ""
    while True:
        pod = await client.request("GET", path)
        status = pod.get("status") or {}
        found = [
            each
            for key in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
            for each in status.get(key) or []
            if each["name"] == container
        ]
        state = found[0].get("state") or {} if found else {}
        if "running" in state or "terminated" in state:
            return pod, state
        text = (state.get("waiting") or {}).get("message", "")
        if text and text != told and not quiet:
            await process.error(f"Warning: container {container}: {text}\n")
        told = text or told
        await process.sleep(POLL_S)
