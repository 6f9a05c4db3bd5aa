"""kubectl wait: until a condition holds, a value is there, or an object is gone or made."""

from __future__ import annotations

import re
from collections.abc import Callable

from kubesim.shell.kubectl import jsonpath
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import TEXTS, Flags
from kubesim.shell.kubectl.results import report
from kubesim.shell.kubectl.targets import paths, seconds
from kubesim.shell.machine import Process

POLL_S = 0.2
WEEK_S = 7 * 24 * 3600.0
Holds = Callable[[Obj], bool]


async def wait(process: Process, client: Client, opts: Flags) -> int:
    """Wait for objects, one after another."""
    wanted = opts.get("for")
    kind_of_wait, holds = _wanted(wanted)
    limit = seconds(opts, "timeout", 30.0)
    limit = WEEK_S if limit < 0 else limit
    found = await paths(process, client, opts)
    end = process.machine.now() + limit
    while not found and kind_of_wait == "create" and process.machine.now() < end:
        await process.sleep(POLL_S)
        found = await paths(process, client, opts)
    if not found and kind_of_wait != "delete":
        late = kind_of_wait == "create"
        raise KubectlError(
            "error: " + ("timed out waiting for the condition" if late else "no matching resources found")
        )
    wrong: list[KubectlError] = []
    for kind, path in found:
        try:
            await _one(process, client, opts, kind, path, kind_of_wait, holds, end if limit else 0.0)
        except KubectlError as error:
            wrong.append(error)
    for each in wrong:
        await process.error((each.text.removeprefix("error: ") if len(wrong) > 1 else each.text) + "\n")
    return int(bool(wrong))


def _wanted(text: str) -> tuple[str, Holds]:
    """Return delete, create or condition, and what must hold of an object. Raises KubectlError."""
    if text.lower() in ("delete", "create"):
        return text.lower(), lambda obj: True
    head, _, rest = text.partition("=")
    if head == "condition" and text != head:
        name, _, value = rest.partition("=")
        return "condition", lambda obj: _condition(obj, name, value or "true")
    if head == "jsonpath":
        return "condition", _path(rest)
    raise KubectlError(f'error: unrecognized condition: "{text}"')


def _condition(obj: Obj, name: str, value: str) -> bool:
    for each in (obj.get("status") or {}).get("conditions") or []:
        if str(each.get("type", "")).lower() != name.lower():
            continue
        seen = each.get("observedGeneration", (obj.get("status") or {}).get("observedGeneration"))
        if seen is not None and seen < obj["metadata"].get("generation", 0):
            return False
        return str(each.get("status", "")).lower() == value.lower()
    return False


def _path(text: str) -> Holds:
    if not text:
        raise KubectlError("error: jsonpath expression cannot be empty")
    text = text.strip("'\"")
    match = re.fullmatch(r"('?\{.*\}'?|[^=]*)(?:=([^=].*))?", text, re.DOTALL)
    if not match:
        raise KubectlError(f"error: {TEXTS['wait format']}")
    path, wanted = jsonpath.relaxed(match[1].strip("'")), match[2]

    def holds(obj: Obj) -> bool:
        found = jsonpath.values(path, obj)
        if not found:
            return False
        if len(found) > 1:
            raise KubectlError("error: given jsonpath expression matches more than one value")
        if isinstance(found[0], dict | list) and wanted is not None:
            raise KubectlError("error: jsonpath leads to a nested object or list which is not supported")
        shown = str(found[0]).lower() if isinstance(found[0], bool) else str(found[0])
        return wanted is None or shown == wanted.strip("'\"")

    return holds


async def _one(
    process: Process, client: Client, opts: Flags, kind: Resource, path: str, how: str, holds: Holds, end: float
) -> None:
    """Wait for one object; ``end`` is a time on the machine's clock, 0 to look only once. Raises KubectlError."""
    name = path.rpartition("/")[2]
    uid = ""
    while True:
        obj: Obj | None = None
        try:
            obj = await client.request("GET", path)
        except KubectlError as error:
            if error.reason != "NotFound" or how == "condition":
                raise
        if how == "delete":
            uid = uid or (obj or {}).get("metadata", {}).get("uid", "")
            done = obj is None or obj["metadata"]["uid"] != uid
        else:
            done = obj is not None and holds(obj)
        if done:
            shown = obj or {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
            if how != "delete" or uid:
                await report(process, opts, kind, shown, "condition met")
            return
        if process.machine.now() >= end:
            if how == "create":
                raise KubectlError("error: timed out waiting for the condition")
            text = "condition not met for" if not end else "timed out waiting for the condition on"
            raise KubectlError(f"error: {text} {kind.plural}/{name}")
        await process.sleep(min(POLL_S, max(end - process.machine.now(), 0.01)))
