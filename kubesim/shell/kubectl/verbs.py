"""kubectl's verbs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import yaml

from kubesim.shell.errors import FileError
from kubesim.shell.kubectl import printing
from kubesim.shell.kubectl.client import TABLE, Client, KubectlError, Obj, Resource
from kubesim.shell.machine import Process
from kubesim.shell.tools import kit
from kubesim.shell.tools.jq import documents

ALL = "pods,services,daemonsets,deployments,replicasets,statefulsets,horizontalpodautoscalers,cronjobs,jobs"
MERGE, STRATEGIC, JSON = (f"application/{kind}-patch+json" for kind in ("merge", "strategic-merge", "json"))
APPLY = "application/apply-patch+yaml"
Verb = Callable[[Process, Client, kit.Options], Awaitable[int]]


def _needs(opts: kit.Options, count: int, text: str) -> None:
    if len(opts.args) < count:
        raise KubectlError(f"error: {text}")


async def _targets(client: Client, words: list[str]) -> list[tuple[Resource, str]]:
    """Return kinds and names of ``pod a b``, ``pod/a deploy/b`` or ``pods,svc``; no name means all."""
    if any("/" in word for word in words):
        pairs = [word.partition("/")[::2] for word in words]
        return [(await client.resource(kind), name) for kind, name in pairs]
    kinds = ALL if words[0] == "all" else words[0]
    found = [await client.resource(kind) for kind in kinds.split(",") if kind]
    return [(kind, name) for kind in found for name in words[1:] or [""]]


def _query(opts: kit.Options) -> str:
    pairs = {"labelSelector": opts.get("l"), "fieldSelector": opts.get("field")}
    text = urlencode({key: value for key, value in pairs.items() if value})
    return f"?{text}" if text else ""


async def get(process: Process, client: Client, opts: kit.Options) -> int:
    """Show objects."""
    _needs(
        opts,
        1,
        'You must specify the type of resource to get. Use "kubectl api-resources" for a complete list of supported '
        "resources.",
    )
    targets = await _targets(client, opts.args)
    form = opts.get("o")
    if form not in ("", "wide"):
        return await _get_objects(process, client, opts, targets)
    several = len({kind for kind, _ in targets}) > 1
    status, shown = 0, False
    for kind in dict.fromkeys(kind for kind, _ in targets):
        lines: list[list[str]] = []
        for name in [name for each, name in targets if each == kind]:
            everywhere = "A" in opts and kind.namespaced
            path = kind.path("" if everywhere else client.namespace, name) + ("" if name else _query(opts))
            try:
                answer = await client.request("GET", path, accept=TABLE)
            except KubectlError as error:
                status = error.status
                await process.error(error.text + "\n")
                continue
            if answer.get("kind") != "Table":
                continue
            more = printing.rows(
                answer,
                wide=form == "wide",
                namespaces=everywhere,
                prefix=kind.qualified if several else "",
                labels="labels" in opts,
                headers="nohead" not in opts and not lines,
            )
            lines += more if answer.get("rows") else []
        if lines:
            await process.write(("\n" if shown and several else "") + printing.table(lines))
            shown = True
    if not shown and not status:
        place = "" if "A" in opts or not targets[0][0].namespaced else f" in {client.namespace} namespace"
        await process.error(f"No resources found{place}{'.' if place else ''}\n")
    return status


async def _get_objects(
    process: Process, client: Client, opts: kit.Options, targets: list[tuple[Resource, str]]
) -> int:
    items: list[tuple[Resource, Obj]] = []
    for kind, name in targets:
        everywhere = "A" in opts and kind.namespaced
        found = await client.request(
            "GET", kind.path("" if everywhere else client.namespace, name) + ("" if name else _query(opts))
        )
        if name:
            items.append((kind, found))
        else:
            head = {"apiVersion": f"{kind.group}/{kind.version}".lstrip("/"), "kind": kind.kind}
            items += [(kind, {**head, **each}) for each in found.get("items", [])]
    form = opts.get("o")
    if form == "name":
        for kind, obj in items:
            await process.write(f"{kind.qualified}/{obj['metadata']['name']}\n")
        return 0
    for _, obj in items:
        if "managed" not in opts:
            obj.get("metadata", {}).pop("managedFields", None)
    single = len(targets) == 1 and targets[0][1]
    whole = (
        items[0][1]
        if single
        else {
            "apiVersion": "v1",
            "items": [obj for _, obj in items],
            "kind": "List",
            "metadata": {"resourceVersion": ""},
        }
    )
    await process.write(await printing.formatted(process, form, whole, ""))
    return 0


async def logs(process: Process, client: Client, opts: kit.Options) -> int:
    """Show or follow a container's log."""
    _needs(
        opts,
        1,
        "expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'.\n"
        "POD or TYPE/NAME is a required argument for the logs command",
    )
    word = opts.args[0].removeprefix("pod/").removeprefix("pods/")
    if "/" in word:
        word = await _pod_of(client, word)
    container = opts.get("c") or (opts.args[1] if len(opts.args) > 1 else "")
    pairs = {
        "container": container,
        "previous": "true" if "p" in opts else "",
        "tailLines": opts.get("tail").lstrip("-"),
        "timestamps": "true" if "timestamps" in opts else "",
        "follow": "true" if "f" in opts else "",
    }
    if opts.get("tail") == "-1":
        pairs["tailLines"] = ""
    path = f"/api/v1/namespaces/{client.namespace}/pods/{word}/log?" + urlencode(
        {k: v for k, v in pairs.items() if v}
    )
    if "f" in opts:
        async for piece in client.kube.stream(path):
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


async def _manifests(process: Process, opts: kit.Options) -> list[Obj]:
    if not opts.all("f"):
        raise KubectlError("error: must specify one of -f and -k")
    found: list[Any] = []
    for name in opts.all("f"):
        try:
            handle = process.fds[0] if name == "-" else process.open(name)
            text = kit.text(await kit.everything(process, handle))
            found += documents(text)
        except FileError as error:
            raise KubectlError(
                f'error: the path "{name}" does not exist' if error.code == "ENOENT" else f"error: {error}"
            ) from error
        except (yaml.YAMLError, ValueError) as error:
            raise KubectlError(
                f"error: error parsing {name}: error converting YAML to JSON: {str(error)[:200]}"
            ) from error
    objects = [each for each in found if isinstance(each, dict)]
    flat = [item for each in objects for item in (each.get("items", []) if each.get("kind") == "List" else [each])]
    if not flat:
        raise KubectlError("error: no objects passed to apply")
    return flat


async def apply(process: Process, client: Client, opts: kit.Options) -> int:
    """Bring objects to what manifests say."""
    dry = "&dryRun=All" if opts.get("dry") == "server" else ""
    for obj in await _manifests(process, opts):
        kind = await client.of_object(obj)
        name = obj.get("metadata", {}).get("name", "")
        path = kind.path(obj.get("metadata", {}).get("namespace") or client.namespace, name)
        before: Obj | None = None
        try:
            before = await client.request("GET", path)
        except KubectlError as error:
            if "(NotFound)" not in error.text:
                raise
        after = await client.request("PATCH", f"{path}?fieldManager=kubectl&force=true{dry}", body=obj, sort=APPLY)
        same = before is not None and before["metadata"].get("resourceVersion") == after["metadata"].get(
            "resourceVersion"
        )
        await process.write(
            f"{kind.qualified}/{name} {'created' if before is None else 'unchanged' if same else 'configured'}\n"
        )
    return 0


async def create(process: Process, client: Client, opts: kit.Options) -> int:
    """Make objects of manifests."""
    for obj in await _manifests(process, opts):
        kind = await client.of_object(obj)
        path = kind.path(obj.get("metadata", {}).get("namespace") or client.namespace)
        made = await client.request("POST", f"{path}?fieldManager=kubectl-create", body=obj)
        await process.write(f"{kind.qualified}/{made['metadata']['name']} created\n")
    return 0


async def delete(process: Process, client: Client, opts: kit.Options) -> int:
    """Delete objects."""
    if opts.all("f"):
        objects = await _manifests(process, opts)
        targets = [(await client.of_object(obj), obj["metadata"]["name"]) for obj in objects]
    else:
        _needs(opts, 1, "You must provide one or more resources by argument or filename.")
        targets = await _targets(client, opts.args)
        if any(not name for _, name in targets) and not ("all" in opts or "l" in opts):
            raise KubectlError("error: resource(s) were provided, but no name was specified")
    status = 0
    grace = {"gracePeriodSeconds": int(opts.get("grace"))} if opts.get("grace").isdecimal() else {}
    body = {"propagationPolicy": "Background", **grace}
    for kind, given in targets:
        names = [given] if given else await _all_names(client, kind, opts)
        for name in names:
            try:
                await client.request("DELETE", kind.path(client.namespace, name), body=body)
            except KubectlError as error:
                status = 1
                await process.error(error.text + "\n")
                continue
            scope = f" from {client.namespace} namespace" if kind.namespaced else ""
            await process.write(f'{kind.qualified} "{name}" deleted{scope}\n')
    return status


async def _all_names(client: Client, kind: Resource, opts: kit.Options) -> list[str]:
    found = await client.request("GET", kind.path(client.namespace) + _query(opts))
    return [item["metadata"]["name"] for item in found.get("items", [])]


async def _patch_each(
    process: Process, client: Client, targets: list[tuple[Resource, str]], body: Any, done: str, sort: str = MERGE
) -> int:
    for kind, name in targets:
        await client.request(
            "PATCH",
            f"{kind.path(client.namespace, name)}?fieldManager=kubectl-{done.split()[0]}",
            body=body,
            sort=sort,
        )
        await process.write(f"{kind.qualified}/{name} {done}\n")
    return 0


async def scale(process: Process, client: Client, opts: kit.Options) -> int:
    """Set the number of replicas."""
    if not opts.get("replicas").isdecimal():
        raise KubectlError(
            "error: The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0"
        )
    targets = await _targets(client, opts.args)
    return await _patch_each(process, client, targets, {"spec": {"replicas": int(opts.get("replicas"))}}, "scaled")


async def label(process: Process, client: Client, opts: kit.Options) -> int:
    """Set labels; annotate sets annotations."""
    field, done = (
        ("labels", "labeled")
        if process.argv[1:2] == ["label"] or "label" in process.argv
        else ("annotations", "annotated")
    )
    changes: dict[str, str | None] = {}
    words: list[str] = []
    for word in opts.args:
        if re.fullmatch(r"[^/=]*(/[^=]*)?=.*", word):
            changes[word.partition("=")[0]] = word.partition("=")[2]
        elif word.endswith("-") and words:
            changes[word[:-1]] = None
        else:
            words.append(word)
    if not changes or not words:
        raise KubectlError(f"error: at least one {field[:-1]} update is required")
    return await _patch_each(process, client, await _targets(client, words), {"metadata": {field: changes}}, done)


async def patch(process: Process, client: Client, opts: kit.Options) -> int:
    """Change fields."""
    if not opts.get("p"):
        raise KubectlError("error: must specify --patch or --patch-file containing the contents of the patch")
    try:
        body = yaml.safe_load(opts.get("p"))
    except yaml.YAMLError as error:
        raise KubectlError(f"error: unable to parse {opts.get('p')!r}: {str(error)[:100]}") from error
    sort = {"merge": MERGE, "json": JSON}.get(opts.get("type"), STRATEGIC)
    return await _patch_each(process, client, await _targets(client, opts.args), body, "patched", sort)


async def cordon(process: Process, client: Client, opts: kit.Options) -> int:
    """Mark nodes unschedulable, or with uncordon schedulable."""
    verb = "uncordon" if "uncordon" in process.argv else "cordon"
    node = await client.resource("nodes")
    for name in opts.args:
        before = await client.request("GET", node.path("", name))
        marked = bool(before.get("spec", {}).get("unschedulable"))
        if marked == (verb == "cordon"):
            await process.write(f"node/{name} already {verb}ed\n")
            continue
        await _patch_each(
            process,
            client,
            [(node, name)],
            {"spec": {"unschedulable": True if verb == "cordon" else None}},
            f"{verb}ed",
        )
    return 0


async def rollout(process: Process, client: Client, opts: kit.Options) -> int:
    """Restart workloads or tell how far they are."""
    _needs(opts, 2, "required resource not specified")
    action = opts.args[0]
    targets = await _targets(client, opts.args[1:])
    if action == "restart":
        now = process.machine.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": now}}}}}
        return await _patch_each(process, client, targets, body, "restarted")
    if action != "status":
        raise KubectlError(f"error: unknown command \"{action}\"\nSee 'kubectl rollout -h' for help and examples")
    for kind, name in targets:
        await _wait_rollout(process, client, kind, name)
    return 0


async def _wait_rollout(process: Process, client: Client, kind: Resource, name: str) -> None:
    last = ""
    while True:
        obj = await client.request("GET", kind.path(client.namespace, name))
        want = obj.get("spec", {}).get("replicas", 1)
        state = obj.get("status", {})
        updated, ready = state.get("updatedReplicas", 0), state.get("availableReplicas", 0)
        if (
            updated >= want
            and ready >= want
            and state.get("observedGeneration", 0) >= obj["metadata"].get("generation", 0)
        ):
            await process.write(f'{kind.singular} "{name}" successfully rolled out\n')
            return
        text = f"{ready} of {want} updated replicas are available"
        if updated < want:
            text = f"{updated} out of {want} new replicas have been updated"
        if text != last:
            await process.write(f'Waiting for {kind.singular} "{name}" rollout to finish: {text}...\n')
        last = text
        await process.sleep(1)


async def api_resources(process: Process, client: Client, opts: kit.Options) -> int:
    """List the kinds."""
    found = [["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]]
    for each in sorted(await client.resources(), key=lambda kind: (kind.group, kind.plural)):
        version = f"{each.group}/{each.version}".lstrip("/")
        found.append([each.plural, ",".join(each.short), version, str(each.namespaced).lower(), each.kind])
    await process.write(printing.table(found))
    return 0


async def version(process: Process, client: Client, opts: kit.Options) -> int:
    """Show versions."""
    server = await client.request("GET", "/version")
    await process.write(
        f"Client Version: v1.34.4\nKustomize Version: v5.7.1\nServer Version: {server.get('gitVersion', '')}\n"
    )
    return 0


async def auth(process: Process, client: Client, opts: kit.Options) -> int:
    """Ask what this account may do, or who it is."""
    if opts.args[:1] == ["whoami"]:
        found = await client.request(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        )
        user = found.get("status", {}).get("userInfo", {})
        pairs = [
            ["ATTRIBUTE", "VALUE"],
            ["Username", user.get("username", "")],
            ["Groups", f"[{' '.join(user.get('groups', []))}]"],
        ]
        await process.write(printing.table(pairs))
        return 0
    _needs(opts, 3, "you must specify two arguments: verb resource or verb resource/resourceName.")
    kind, _, name = opts.args[2].partition("/")
    resource = await client.resource(kind)
    attributes = {
        "namespace": "" if "A" in opts else client.namespace,
        "verb": opts.args[1],
        "group": resource.group,
        "resource": resource.plural,
        "name": name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    found = await client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=body)
    allowed = bool(found.get("status", {}).get("allowed"))
    await process.write("yes\n" if allowed else "no\n")
    return int(not allowed)


async def events(process: Process, client: Client, opts: kit.Options) -> int:
    """Show events."""
    opts.args = ["events"]
    return await get(process, client, opts)


VERBS: dict[str, Verb] = {
    "get": get,
    "logs": logs,
    "apply": apply,
    "create": create,
    "delete": delete,
    "scale": scale,
    "label": label,
    "annotate": label,
    "patch": patch,
    "cordon": cordon,
    "uncordon": cordon,
    "rollout": rollout,
    "auth": auth,
    "api-resources": api_resources,
    "version": version,
    "events": events,
}
