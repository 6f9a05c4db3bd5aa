"""kubectl set: images, variables and resources of what is there."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from urllib.parse import urlencode

from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.objects import BAD_QUANTITY, QUANTITY
from kubesim.shell.kubectl.patches import difference, shape_of
from kubesim.shell.kubectl.results import complain, dry, report
from kubesim.shell.kubectl.targets import MERGE, NOTHING, STRATEGIC, chosen, place
from kubesim.shell.machine import Process

PLACES = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job", "ReplicationController"),
        ("spec", "template", "spec"),
    ),
}
"""Where in an object the pod's spec is."""
NAMED = "one or more resources must be specified as <resource> <name> or <resource>/<name>"
Change = Callable[[Obj], object]


def pod_spec(kind: Resource, obj: Obj) -> Obj:
    """Return the part of an object that describes pods. Raises KubectlError."""
    if kind.kind not in PLACES:
        text = f"the object is not a pod or does not have a pod template: *{kind.version}.{kind.kind}"
        raise KubectlError(f"error: {kind.plural}/{obj['metadata']['name']} {text}")
    found = obj
    for key in PLACES[kind.kind]:
        found = found.setdefault(key, {})
    return found


async def _send(
    process: Process, client: Client, opts: Flags, kind: Resource, before: Obj, after: Obj, done: str, failed: str
) -> None:
    """Send the difference between two states of an object, and say that it is done."""
    shape = shape_of(kind)
    patch = difference(before, after, shape)
    if not patch:
        return
    if dry(opts) == "client" or opts.on("local"):
        await report(process, opts, kind, after, done)
        return
    pairs = {"fieldManager": opts.get("field-manager") or "kubectl-set", **({"dryRun": "All"} if dry(opts) else {})}
    sort = STRATEGIC if shape is not None else MERGE
    try:
        path = f"{place(client, kind, before)}?{urlencode(pairs)}"
        found = await client.request("PATCH", path, body=patch, sort=sort)
    except KubectlError as error:
        raise KubectlError(
            f"error: {failed} {error.message}" if failed else error.text, reason=error.reason
        ) from error
    await report(process, opts, kind, found, done)


async def _each(
    process: Process, client: Client, opts: Flags, words: list[str], change: Change, done: str, failed: str
) -> int:
    """Change the pods' part of every object that is meant."""
    status = 0
    for kind, obj in await chosen(process, client, opts, words):
        try:
            after = copy.deepcopy(obj)
            change(pod_spec(kind, after))
            await _send(process, client, opts, kind, obj, after, done, failed)
        except KubectlError as error:
            status = await complain(process, error)
    return status


def _parted(opts: Flags, pattern: str) -> tuple[list[str], list[str]]:
    """Return what names objects and what says how they change."""
    changes = [word for word in opts.args if re.fullmatch(pattern, word, re.DOTALL)]
    words = [word for word in opts.args if word not in changes]
    if not words and not opts.files:
        raise KubectlError(f"error: {NAMED if changes else NOTHING}")
    return words, changes


async def image(process: Process, client: Client, opts: Flags) -> int:
    """Set the images of containers."""
    words, changes = _parted(opts, r"[^=]+=.*")
    if not changes:
        await chosen(process, client, opts, words)
        raise KubectlError("error: at least one image update is required")
    wanted = dict(word.partition("=")[::2] for word in changes)
    if "*" in wanted and len(wanted) > 1:
        raise KubectlError(
            "error: all containers are already specified by *, but saw more than one "
            "container_name=container_image pairs"
        )

    def change(spec: Obj) -> None:
        for name, value in wanted.items():
            found = [each for each in _containers(spec) if name in ("*", each["name"])]
            if not found:
                raise KubectlError(f'error: unable to find container named "{name}"')
            for each in found:
                each["image"] = value

    failed = "failed to patch image update to pod template:"
    return await _each(process, client, opts, words, change, "image updated", failed)


def _containers(spec: Obj) -> list[Obj]:
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


async def resources(process: Process, client: Client, opts: Flags) -> int:
    """Set the requests and limits of containers."""
    if not opts.args and not opts.files:
        raise KubectlError(f"error: {NAMED}")
    if not opts.get("limits") and not opts.get("requests"):
        raise KubectlError(
            "error: you must specify an update to requests or limits (in the form of --requests/--limits)"
        )
    wanted = {key: _amounts(opts, key) for key in ("limits", "requests") if opts.get(key)}
    name = opts.get("containers") or "*"

    def change(spec: Obj) -> None:
        found = [each for each in spec.get("containers") or [] if name in ("*", each["name"])]
        if not found:
            raise KubectlError(f"error: unable to find container named {name}")
        for each in found:
            mine = each.setdefault("resources", {})
            for key, amounts in wanted.items():
                mine[key] = {**(mine.get(key) or {}), **amounts}

    failed = "failed to patch resources update to pod template"
    return await _each(process, client, opts, opts.args, change, "resource requirements updated", failed)


def _amounts(opts: Flags, flag: str) -> dict[str, str]:
    found = {}
    for text in opts.words(flag):
        key, equals, value = text.partition("=")
        if not equals:
            raise KubectlError(f"error: invalid argument syntax {text}, expected <resource>=<value>")
        if not QUANTITY.fullmatch(value):
            raise KubectlError(f"error: {BAD_QUANTITY}")
        found[key] = value
    return found


async def env(process: Process, client: Client, opts: Flags) -> int:
    """Set, take away or list the variables of containers."""
    words, changes = _parted(opts, r"[^=]+=.*|.+-")
    changes += opts.all("env")
    brought = await _brought(process, client, opts)
    if not changes and not brought and not opts.on("list"):
        raise KubectlError("error: at least one environment variable must be provided")
    if opts.on("list"):
        return await _listed(process, client, opts, words)

    def change(spec: Obj) -> None:
        for each in _containers(spec):
            if opts.get("containers", "*") in ("*", each["name"]):
                _apply(each, changes, brought, opts.on("overwrite", True))

    return await _each(
        process, client, opts, words, change, "env updated", "failed to patch env update to pod template:"
    )


def _apply(container: Obj, changes: list[str], brought: list[Obj], overwrite: bool) -> None:
    items: list[Obj] = list(container.get("env") or [])
    news = [*brought]
    for word in changes:
        key, equals, value = word.partition("=")
        if equals:
            news.append({"name": key, "value": value})
        else:
            items = [item for item in items if item["name"] != word[:-1]]
    for new in news:
        at = next((at for at, item in enumerate(items) if item["name"] == new["name"]), None)
        if at is None:
            items.append(new)
        elif not overwrite:
            raise KubectlError(
                f"error: '{new['name']}' already has a value ({items[at].get('value', '')}), and --overwrite is false"
            )
        else:
            items[at] = new
    if items or container.get("env"):
        container["env"] = items
    if not items:
        container.pop("env", None)


async def _brought(process: Process, client: Client, opts: Flags) -> list[Obj]:
    """Return variables for the keys of a config map or secret."""
    if not opts.get("from"):
        return []
    word, _, name = opts.get("from").partition("/")
    kind = await client.resource(word)
    if kind.kind not in ("ConfigMap", "Secret"):
        raise KubectlError("error: unsupported resource specified in --from")
    found = await client.request("GET", kind.path(client.namespace, name))
    field = "configMapKeyRef" if kind.kind == "ConfigMap" else "secretKeyRef"
    wanted = opts.words("keys")
    made = []
    for key in sorted(found.get("data") or {}):
        if wanted and key not in wanted:
            continue
        plain = re.sub(r"[^A-Za-z0-9_]", "_", key).upper()
        variable = opts.get("prefix") + plain
        if plain != key:
            await process.error(f"Warning: key {key} transferred to {plain}\n")
        made.append({"name": variable, "valueFrom": {field: {"key": key, "name": name}}})
    return made


async def _listed(process: Process, client: Client, opts: Flags, words: list[str]) -> int:
    for kind, obj in await chosen(process, client, opts, words):
        for each in _containers(pod_spec(kind, obj)):
            await process.write(f"# {kind.kind} {obj['metadata']['name']}, container {each['name']}\n")
            for item in each.get("env") or []:
                if "valueFrom" in item:
                    await process.write(f"# {item['name']} from {_reference(item['valueFrom'])}\n")
                else:
                    await process.write(f"{item['name']}={item.get('value', '')}\n")
    return 0


def _reference(source: Obj) -> str:
    if found := source.get("configMapKeyRef"):
        return f"configmap {found.get('name', '')}, key {found.get('key', '')}"
    if found := source.get("secretKeyRef"):
        return f"secret {found.get('name', '')}, key {found.get('key', '')}"
    if found := source.get("fieldRef"):
        return f"field path {found.get('fieldPath', '')}"
    if found := source.get("resourceFieldRef"):
        prefix = f"{found['containerName']}/" if found.get("containerName") else ""
        return f"resource field {prefix}{found.get('resource', '')}"
    return "invalid valueFrom"
