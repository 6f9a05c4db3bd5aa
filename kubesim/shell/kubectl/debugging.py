"""kubectl debug: a container beside others, a copy of a pod, or a pod that sees a whole node."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from kubesim.shell.kubectl import debug_profiles as profiles
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.debug_profiles import Profile
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.logs import follow
from kubesim.shell.kubectl.patches import difference, shape_of
from kubesim.shell.kubectl.streams import attached
from kubesim.shell.kubectl.targets import STRATEGIC, kinds_and_names, manifests, place
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
ROOTLESS = (
    "Warning: Non-root user is configured for the entire target Pod, and some capabilities granted by debug profile "
    'may not work. Please consider using "--custom" with a custom profile that specifies '
    '"securityContext.runAsUser: 0".\n'
)
IMAGE = re.compile(r"[a-zA-Z0-9](?:[\w.:/@-]*\w)?")
PULLS = ("", "Always", "IfNotPresent", "Never")
POLL_S = 0.2
_random = random.Random(4177)


async def debug(process: Process, client: Client, opts: Flags) -> int:
    """Look into pods and nodes."""
    way = Way(process, client, opts, profiles.named(opts))
    await _check(way)
    status = 0
    async for kind, obj in _targets(process, client, opts):
        if kind.kind == "Node" and not kind.group:
            pod, container = await _on_node(way, obj)
        elif kind.kind != "Pod" or kind.group:
            shown = f"{kind.group}/{kind.version}, Kind={kind.kind}"
            raise KubectlError(f'error: "{shown}" not supported by debug')
        else:
            pod, container = await _beside(way, obj)
        if opts.on("attach", opts.on("stdin")) and container:
            status = await _enter(process, client, opts, pod, container)
    return status


@dataclass(frozen=True)
class Way:
    """Options of the command line."""

    process: Process
    client: Client
    opts: Flags
    profile: Profile

    async def says(self, text: str) -> None:
        """Tell of something, unless it is to be quiet."""
        if not self.opts.on("quiet"):
            await self.process.write(text)
            await self.process.flush()


async def _targets(process: Process, client: Client, opts: Flags) -> AsyncIterator[tuple[Resource, Obj]]:
    for obj in await manifests(process, opts) if opts.files else []:
        kind = await client.of_object(obj)
        yield kind, await client.request("GET", place(client, kind, obj))
    for word in opts.args:
        pairs = await kinds_and_names(client, [word]) if "/" in word else [(await client.resource("pods"), word)]
        for kind, name in pairs:
            yield kind, await client.request("GET", kind.path(client.namespace, name))


async def _check(way: Way) -> None:
    """Refuse what does not go together, in kubectl's order. Raises KubectlError."""
    opts = way.opts
    _pairs(opts, "env")
    if opts.on("attach") and not (opts.get("image") or opts.get("container")):
        raise KubectlError(
            "error: you must specify --container or create a new container using --image in order to attach."
        )
    if not opts.get("image"):
        raise KubectlError("error: you must specify --image when not using --copy-to.")
    if not IMAGE.fullmatch(opts.get("image")):
        raise KubectlError(f'error: invalid image name "{opts.get("image")}": invalid reference format')
    if not opts.args and not opts.files:
        raise KubectlError("error: NAME or filename is required for debug")
    if opts.get("image-pull-policy") not in PULLS:
        raise KubectlError(f"error: invalid image pull policy: {opts.get('image-pull-policy')}")
    if opts.get("target"):
        await way.says(TARGETING.format(opts.get("target")))
    if opts.on("tty") and not opts.on("stdin"):
        raise KubectlError("error: -i/--stdin is required for containers with -t/--tty=true")
    if way.profile.legacy:
        await way.process.error(LEGACY)


def _container(opts: Flags, name: str) -> Obj:
    """Return a new container."""
    key = "args" if opts.on("arguments-only") else "command"
    found: Obj = {"name": name, "terminationMessagePolicy": "File"}
    found |= {"image": opts.get("image")} if opts.get("image") else {}
    found |= {key: opts.after} if opts.after else {}
    found |= {flag: True for flag in ("stdin", "tty") if opts.on(flag)}
    found |= {"imagePullPolicy": opts.get("image-pull-policy")} if opts.get("image-pull-policy") else {}
    pairs = _pairs(opts, "env")
    return found | ({"env": [{"name": key, "value": value} for key, value in pairs.items()]} if pairs else {})


def _pairs(opts: Flags, flag: str) -> dict[str, str]:
    """Return what a flag of pairs says: with one equal sign all of it is one pair. Raises KubectlError."""
    found = {}
    for text in opts.all(flag):
        for part in [text] if text.count("=") == 1 else text.split(","):
            key, equals, value = part.partition("=")
            if not equals:
                raise KubectlError(
                    f'error: invalid argument "{text}" for "--{flag}" flag: {part} must be formatted as key=value\n'
                    "See 'kubectl debug --help' for usage."
                )
            found[key] = value
    return found


async def _name(way: Way, pod: Obj) -> str:
    """Return the name of the new container, made up where none is given."""
    if way.opts.get("container"):
        return way.opts.get("container")
    name = "debugger-" + "".join(_random.choices(LETTERS, k=5))
    await way.says(f"Defaulting debug container name to {name}.\n")
    return name


async def _warn(way: Way, container: Obj, pod: Obj) -> None:
    """Tell of rights that a user other than root cannot use."""
    user = (pod["spec"].get("securityContext") or {}).get("runAsUser")
    own = container.get("securityContext") or {}
    strong = own.get("privileged") or (own.get("capabilities") or {}).get("add")
    if user and own.get("runAsUser") != 0 and strong:
        await way.process.error(ROOTLESS)


async def _beside(way: Way, pod: Obj) -> tuple[Obj, str]:
    client, name = way.client, await _name(way, pod)
    made = _container(way.opts, name)
    made |= {"targetContainerName": way.opts.get("target")} if way.opts.get("target") else {}
    after = copy.deepcopy(pod)
    known = after["spec"].setdefault("ephemeralContainers", [])
    namesake = next((each for each in known if each["name"] == name), None)
    profiles.granted(way.profile, namesake or made)
    if namesake is None:
        known.append(made)
    await _warn(way, made, pod)
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/ephemeralcontainers"
    body = difference(pod, after, shape_of(await client.resource("pods")))
    return await client.request("PATCH", path, body=body, sort=STRATEGIC), name


async def _on_node(way: Way, node: Obj) -> tuple[Obj, str]:
    name = node["metadata"]["name"]
    pod_name = f"node-debugger-{name}-" + "".join(_random.choices(LETTERS, k=5))
    container = _container(way.opts, way.opts.get("container") or "debugger")
    await way.says(f"Creating debugging pod {pod_name} with container {container['name']} on node {name}.\n")
    spec: Obj = {
        "nodeName": name,
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    profiles.granted(way.profile, container, on_node=True)
    profiles.on_host(way.profile, spec)
    labels = {"app.kubernetes.io/managed-by": "kubectl-debug"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod_name, "labels": labels}, "spec": spec}
    made = await way.client.request("POST", f"/api/v1/namespaces/{way.client.namespace}/pods", body=body)
    return made, str(container["name"])


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
