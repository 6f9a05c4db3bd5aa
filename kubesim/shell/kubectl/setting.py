"""kubectl set image."""

from __future__ import annotations

import copy
import re
from urllib.parse import urlencode

from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import Flags
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
    changes = [word for word in opts.args if re.fullmatch(r"[^=]+=.*", word)]
    words = [word for word in opts.args if word not in changes]
    if not words and not opts.files:
        raise KubectlError(f"error: {NAMED if changes else NOTHING}")
    found = await chosen(process, client, opts, words)
    if not changes:
        raise KubectlError("error: at least one image update is required")
    wanted = dict(word.partition("=")[::2] for word in changes)
    if "*" in wanted and len(wanted) > 1:
        raise KubectlError(
            "error: all containers are already specified by *, but saw more than one "
            "container_name=container_image pairs"
        )
    status = 0
    for kind, obj in found:
        try:
            await _send(process, client, opts, kind, obj, _changed(kind, obj, wanted))
        except KubectlError as error:
            status = await complain(process, error)
    return status


def _changed(kind: Resource, obj: Obj, wanted: dict[str, str]) -> Obj:
    """Return an object whose containers have other images. Raises KubectlError."""
    after = copy.deepcopy(obj)
    spec = pod_spec(kind, after)
    for name, value in wanted.items():
        known = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
        found = [each for each in known if name in ("*", each["name"])]
        if not found:
            raise KubectlError(f'error: unable to find container named "{name}"')
        for each in found:
            each["image"] = value
    return after


async def _send(process: Process, client: Client, opts: Flags, kind: Resource, before: Obj, after: Obj) -> None:
    """Send the difference between two states of an object, and say that it is done."""
    shape = shape_of(kind)
    patch = difference(before, after, shape)
    if not patch:
        return
    if dry(opts) != "client" and not opts.on("local"):
        pairs = {"fieldManager": opts.get("field-manager") or "kubectl-set"} | (
            {"dryRun": "All"} if dry(opts) else {}
        )
        path = f"{place(client, kind, before)}?{urlencode(pairs)}"
        try:
            after = await client.request("PATCH", path, body=patch, sort=MERGE if shape is None else STRATEGIC)
        except KubectlError as error:
            text = f"error: failed to patch image update to pod template: {error.message}"
            raise KubectlError(text, reason=error.reason) from error
    await report(process, opts, kind, after, "image updated")
