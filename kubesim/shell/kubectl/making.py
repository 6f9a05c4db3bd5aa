"""kubectl create, run, expose and autoscale: new objects, of manifests and of flags."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from kubesim.api.patch import json_patch, merge_patch, strategic_patch
from kubesim.errors import ApiError
from kubesim.schema.kinds import registry
from kubesim.shell.errors import FileError
from kubesim.shell.kubectl.applying import configured
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.debugging import joined, started
from kubesim.shell.kubectl.deleting import remove
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.generators import GENERATORS
from kubesim.shell.kubectl.objects import container, made, name_of, number
from kubesim.shell.kubectl.results import check_raw, complain, dry, report, validation
from kubesim.shell.kubectl.targets import chosen, located, seconds, sources
from kubesim.shell.machine import Process

POLL_S = 0.2


async def make(process: Process, client: Client, opts: Flags, obj: Obj, manager: str, done: str = "created") -> Obj:
    """Create an object and say so."""
    kind = await client.of_object(obj)
    if opts.on("save-config"):
        obj = configured(obj)
    after = obj
    if dry(opts) == "client":
        if kind.namespaced and client.chosen:
            after = located(client, kind, obj)
    else:
        pairs = {"fieldManager": opts.get("field-manager") or manager, "fieldValidation": validation(opts)}
        pairs |= {"dryRun": "All"} if dry(opts) else {}
        metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "resourceVersion"}
        obj = {**obj, "metadata": metadata}
        path = kind.path(metadata.get("namespace") or client.namespace)
        after = await client.request("POST", f"{path}?{urlencode(pairs)}", body=obj)
    await report(process, opts, kind, after, done)
    return after


async def create(process: Process, client: Client, opts: Flags) -> int:
    """Make objects of manifests."""
    if opts.args:
        raise KubectlError(
            f"error: Unexpected args: [{' '.join(opts.args)}]\nSee 'kubectl create -h' for help and examples"
        )
    if opts.get("raw"):
        check_raw(opts)
        name = opts.get("filename")
        try:
            body = process.view.read(name) if name and name != "-" else b""
        except FileError as error:
            raise KubectlError(f"error: open {name}: {error.text.lower()}") from error
        await process.write(await client.raw("POST", opts.get("raw"), body))
        return 0
    if not opts.files:
        raise KubectlError("error: must specify one of -f and -k\n")
    status = 0
    for obj, source in await sources(process, opts):
        try:
            kind = await client.of_object(obj, source)
            try:
                await make(process, client, opts, located(client, kind, obj), "kubectl-create")
            except KubectlError as error:
                raise error.during("creating", source) from error
        except KubectlError as error:
            status = await complain(process, error)
    return status


async def generate(process: Process, client: Client, opts: Flags) -> int:
    """Make an object of flags."""
    generator, failed = GENERATORS[opts.command.removeprefix("create ")]
    obj = await generator(process, client, opts)
    try:
        await make(process, client, opts, obj, "kubectl-create")
    except KubectlError as error:
        if failed and error.reason:
            raise KubectlError(f"error: failed to create {failed} {error.message}", reason=error.reason) from error
        raise
    return 0


async def token(process: Process, client: Client, opts: Flags) -> int:
    """Ask for a token of a service account."""
    name = name_of(opts)
    spec: Obj = {"audiences": opts.words("audience")} if opts.words("audience") else {}
    kind, bound = opts.get("bound-object-kind"), opts.get("bound-object-name")
    known = {"Node": "v1", "Pod": "v1", "Secret": "v1"}
    if bound and not kind:
        raise KubectlError("error: --bound-object-name can only be set if --bound-object-kind is provided")
    if kind and kind not in known:
        raise KubectlError(f"error: supported --bound-object-kind values are {', '.join(known)}")
    if kind and not bound:
        raise KubectlError("error: --bound-object-name is required if --bound-object-kind is provided")
    if kind:
        uid = {"uid": opts.get("bound-object-uid")} if opts.get("bound-object-uid") else {}
        spec["boundObjectRef"] = {"apiVersion": known[kind], "kind": kind, "name": bound, **uid}
    if "duration" in opts:
        spec["expirationSeconds"] = int(seconds(opts, "duration", 0.0))
        if spec["expirationSeconds"] < 0:
            raise KubectlError("error: --duration must be greater than or equal to 0")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{client.namespace}/serviceaccounts/{name}/token"
    try:
        found = await client.request("POST", path, body=body)
    except KubectlError as error:
        raise KubectlError(f"error: failed to create token: {error.message}", reason=error.reason) from error
    if opts.get("output"):
        made_of = Resource("authentication.k8s.io", "v1", "tokenrequests", "tokenrequest", "TokenRequest", True, ())
        await report(process, opts, made_of, found, "")
    else:
        await process.write(found["status"]["token"] + ("\n" if process.tty(1) else ""))
    return 0


def _pod(opts: Flags, name: str) -> Obj:
    """Return the pod of ``kubectl run``."""
    policy = opts.get("restart") or "Always"
    if policy not in ("Always", "OnFailure", "Never"):
        raise _usage(opts, f"invalid restart policy: {policy}")
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
        stdinOnce=opts.on("stdin") and not opts.on("leave-stdin-open"),
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
        patch = json.loads(opts.get("overrides"))
    except ValueError as error:
        raise KubectlError(f"error: Invalid JSON Patch: {error}") from error
    sort = opts.get("override-type") or "merge"
    if sort not in OVERRIDES:
        raise KubectlError(f"error: invalid override type: {sort}")
    try:
        return OVERRIDES[sort](obj, patch)
    except ApiError as error:
        raise KubectlError(f"error: {error.message}") from error


def _strategic(obj: Obj, patch: Obj) -> Obj:
    return strategic_patch(obj, patch, registry.by_kind(obj["apiVersion"], obj["kind"]).shape)


OVERRIDES: dict[str, Callable[[Obj, Any], Obj]] = {"merge": merge_patch, "json": json_patch, "strategic": _strategic}


def _usage(opts: Flags, text: str) -> KubectlError:
    return KubectlError(f"error: {text}\nSee 'kubectl {opts.command} -h' for help and examples")


async def run(process: Process, client: Client, opts: Flags) -> int:
    """Start a pod, and join it where that is asked."""
    if not opts.args:
        raise _usage(opts, "NAME is required for run")
    name = opts.args[0]
    if not re.fullmatch(r"[\w][\w.:/@-]*", opts.get("image")):
        raise KubectlError(f'error: Invalid image name "{opts.get("image")}": invalid reference format')
    joining = opts.on("attach", opts.on("stdin") or opts.on("tty"))
    if opts.on("tty") and not opts.on("stdin"):
        raise _usage(opts, "-i/--stdin is required for containers with -t/--tty=true")
    if opts.on("rm") and not joining:
        raise _usage(opts, "--rm should only be used for attached containers")
    if joining and dry(opts):
        raise _usage(
            opts,
            "--dry-run=[server|client] can't be used with attached containers options (--attach, --stdin, or --tty)",
        )
    if opts.on("expose") and not opts.get("port"):
        raise _usage(opts, "--port must be set when exposing a service")
    obj = _pod(opts, name)
    if not joining:
        await make(process, client, opts, obj, "kubectl-run")
        await _exposed(process, client, opts, name)
        return 0
    kind = await client.resource("pods")
    pod = await client.request("POST", f"{kind.path(client.namespace)}?fieldManager=kubectl-run", body=obj)
    try:
        return await _join(process, client, opts, pod, name)
    finally:
        if opts.on("rm"):
            flags = Flags("delete", {"quiet": ["true"]} if opts.on("quiet") else {})
            await remove(process, client, flags, kind, kind.path(client.namespace, name), missing_ok=True)


async def _exposed(process: Process, client: Client, opts: Flags, name: str) -> None:
    if opts.on("expose"):
        port = number(opts, "port")
        spec = {"ports": [{"port": port, "protocol": "TCP", "targetPort": port}], "selector": {"run": name}}
        await make(process, client, opts, made("v1", "Service", name, spec=spec), "kubectl-run")


async def _join(process: Process, client: Client, opts: Flags, pod: Obj, name: str) -> int:
    main = pod["spec"]["containers"][0]["name"]
    pod, state = await started(process, client, pod, main, quiet=True)
    await joined(process, client, opts, pod, main, over="running" not in state)
    if pod["spec"].get("restartPolicy") == "Always":
        if not opts.on("rm") and not opts.on("quiet"):
            await process.write(
                f"Session ended, resume using '{process.name} attach {name} -c {main} -i -t' command when the pod is "
                "running\n"
            )
        return 0
    return await _code(process, client, pod)


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


async def expose(process: Process, client: Client, opts: Flags) -> int:
    """Make a service for what an object selects."""
    for kind, obj in await chosen(process, client, opts, opts.args):
        if kind.kind not in ("Pod", "Service", "Deployment", "ReplicaSet", "ReplicationController"):
            raise KubectlError(f"error: cannot expose a {kind.kind}{'.' + kind.group if kind.group else ''}")
        spec = _service(opts, kind.kind, obj)
        name = opts.get("name") or obj["metadata"]["name"][:63]
        service = made("v1", "Service", name, spec=spec, status={"loadBalancer": {}})
        labels = dict(word.partition("=")[::2] for word in opts.words("labels")) or obj["metadata"].get("labels")
        if labels:
            service["metadata"]["labels"] = labels
        if opts.get("overrides"):
            service = _overridden(opts, service)
        await make(process, client, opts, service, "kubectl-expose", "exposed")
    return 0


def _service(opts: Flags, kind: str, obj: Obj) -> Obj:
    labels = _selected(opts, kind, obj)
    found = _found_ports(kind, obj)
    wanted = opts.words("port") or [str(port) for port, _ in found]
    if not wanted and opts.get("cluster-ip") != "None":
        raise KubectlError("error: couldn't find port via --port flag or introspection")
    protocols = dict(found)
    ports = []
    for number_, text in enumerate(wanted):
        if not text.isdecimal():
            raise KubectlError(f'error: strconv.Atoi: parsing "{text}": invalid syntax')
        target: Any = opts.get("target-port") or text
        target = int(target) if target.isdecimal() else target
        protocol = opts.get("protocol") or protocols.get(int(text), "TCP")
        named = {"name": f"port-{number_ + 1}"} if len(wanted) > 1 else {}
        ports.append({**named, "port": int(text), "protocol": protocol, "targetPort": target})
    spec: Obj = {"ports": ports, "selector": labels} if ports else {"selector": labels}
    for flag, key in (
        ("type", "type"), ("session-affinity", "sessionAffinity"), ("load-balancer-ip", "loadBalancerIP"),
        ("cluster-ip", "clusterIP"),
    ):  # fmt: skip
        spec |= {key: opts.get(flag)} if opts.get(flag) else {}
    return spec | ({"externalIPs": opts.words("external-ip")} if opts.get("external-ip") else {})


def _selected(opts: Flags, kind: str, obj: Obj) -> dict[str, str]:
    if opts.get("selector"):
        return dict(word.partition("=")[::2] for word in opts.words("selector"))
    spec = obj.get("spec") or {}
    if kind == "Pod":
        labels = obj["metadata"].get("labels") or {}
    elif kind in ("Service", "ReplicationController"):
        labels = spec.get("selector") or {}
    else:
        labels = (spec.get("selector") or {}).get("matchLabels") or {}
    if not labels:
        head = "couldn't retrieve selectors via --selector flag or introspection"
        reason = (
            "the pod has no labels and cannot be exposed" if kind == "Pod" else "the service has no pod selector set"
        )
        raise KubectlError(f"error: {head}: {reason}")
    return dict(labels)


def _found_ports(kind: str, obj: Obj) -> list[tuple[int, str]]:
    spec = obj.get("spec") or {}
    if kind == "Service":
        return [(each["port"], each.get("protocol", "TCP")) for each in spec.get("ports") or []]
    pod = spec if kind == "Pod" else (spec.get("template") or {}).get("spec") or {}
    return [
        (each["containerPort"], each.get("protocol", "TCP"))
        for one in pod.get("containers") or []
        for each in one.get("ports") or []
    ]
