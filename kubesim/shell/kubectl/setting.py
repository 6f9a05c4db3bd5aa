"""kubectl set: images, variables and resources of what is there."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import TEXTS, Flags
from kubesim.shell.kubectl.patches import difference, shape_of
from kubesim.shell.kubectl.results import dry, for_each, report, send
from kubesim.shell.kubectl.targets import MERGE, STRATEGIC, chosen, place
from kubesim.shell.machine import Process

TEMPLATED = ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job", "ReplicationController")
PLACES = {"Pod": ("spec",), "CronJob": ("spec", "jobTemplate", "spec", "template", "spec")}
PLACES |= dict.fromkeys(TEMPLATED, ("spec", "template", "spec"))
"""Where in an object the pod's spec is."""
DONE = {"image": "image updated", "env": "env updated", "resources": "resource requirements updated"}
NAMED = "one or more resources must be specified as <resource> <name> or <resource>/<name>"


def pod_spec(kind: Resource, obj: Obj) -> Obj:
    """Return the part of an object that describes pods. Raises KubectlError."""
    if kind.kind not in PLACES:
        text = f"the object is not a pod or does not have a pod template: *{kind.version}.{kind.kind}"
        raise KubectlError(f"error: {kind.plural}/{obj['metadata']['name']} {text}")
    found = obj
    for key in PLACES[kind.kind]:
        found = found.setdefault(key, {})
    return found


async def image(process: Process, client: Client, opts: Flags) -> int:
    """Set the images of containers."""
    words, changes = _parted(opts, r"[^=]+=.*")
    if not changes:
        await chosen(process, client, opts, words)
        raise KubectlError("error: at least one image update is required")
    wanted = dict(word.partition("=")[::2] for word in changes)
    if "*" in wanted and len(wanted) > 1:
        raise KubectlError(TEXTS["all containers"])

    def change(spec: Obj) -> None:
        for name, value in wanted.items():
            for each in _containers(spec, name, f'named "{name}"'):
                each["image"] = value

    return await _each(process, client, opts, words, change, "image")


async def resources(process: Process, client: Client, opts: Flags) -> int:
    """Set the requests and limits of containers."""
    if not opts.args and not opts.files:
        raise KubectlError(f"error: {NAMED}")
    wanted = {key: dict(word.partition("=")[::2] for word in opts.words(key)) for key in ("limits", "requests")}
    if not any(wanted.values()):
        raise KubectlError(
            "error: you must specify an update to requests or limits (in the form of --requests/--limits)"
        )

    def change(spec: Obj) -> None:
        name = opts.get("containers", "*")
        for each in _containers(spec, name, f"named {name}"):
            mine = each.setdefault("resources", {})
            mine |= {key: {**(mine.get(key) or {}), **amounts} for key, amounts in wanted.items() if amounts}

    return await _each(process, client, opts, opts.args, change, "resources")


async def env(process: Process, client: Client, opts: Flags) -> int:
    """Set or take away the variables of containers."""
    words, changes = _parted(opts, r"[^=]+=.*|.+-")
    changes += opts.all("env")
    if not changes:
        raise KubectlError("error: at least one environment variable must be provided")

    def change(spec: Obj) -> None:
        for each in _containers(spec, opts.get("containers", "*"), ""):
            known = {item["name"]: item for item in each.get("env") or []}
            for word in changes:
                key, equals, value = word.partition("=")
                if equals:
                    known[key] = {"name": key, "value": value}
                else:
                    known.pop(key[:-1], None)
            each["env"] = [*known.values()]

    return await _each(process, client, opts, words, change, "env")


def _parted(opts: Flags, pattern: str) -> tuple[list[str], list[str]]:
    """Return the words that name objects and those that say how they change. Raises KubectlError."""
    changes = [word for word in opts.args if re.fullmatch(pattern, word, re.DOTALL)]
    words = [word for word in opts.args if word not in changes]
    if not words and not opts.files:
        raise KubectlError(f"error: {NAMED if changes else TEXTS['nothing named']}")
    return words, changes


def _containers(spec: Obj, name: str, shown: str) -> list[Obj]:
    """Return the containers of a name, ``*`` being all. Raises KubectlError where a ``shown`` one is missing."""
    known = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    found = [each for each in known if name in ("*", each["name"])]
    if shown and not found:
        raise KubectlError(f"error: unable to find container {shown}")
    return found


async def _each(
    process: Process, client: Client, opts: Flags, words: list[str], change: Callable[[Obj], None], what: str
) -> int:
    """Change the pods' part of every object that is meant."""

    async def act(kind: Resource, obj: Obj) -> None:
        after = copy.deepcopy(obj)
        change(pod_spec(kind, after))
        await _send(process, client, opts, kind, obj, after, what)

    return await for_each(process, await chosen(process, client, opts, words), act)


async def _send(
    process: Process, client: Client, opts: Flags, kind: Resource, before: Obj, after: Obj, what: str
) -> None:
    """Send the difference between two states of an object, and say that it is done."""
    shape = shape_of(kind)
    patch = difference(before, after, shape)
    if not patch:
        return
    if dry(opts) != "client" and not opts.on("local"):
        try:
            sort = MERGE if shape is None else STRATEGIC
            after = await send(client, opts, "PATCH", place(client, kind, before), patch, sort)
        except KubectlError as error:
            text = f"error: failed to patch {what} update to pod template: {error.message}"
            raise KubectlError(text, reason=error.reason) from error
    await report(process, opts, kind, after, DONE[what])
