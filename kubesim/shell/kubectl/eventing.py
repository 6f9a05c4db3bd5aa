"""kubectl events."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode

from kubesim.api.durations import since
from kubesim.shell.kubectl import printing
from kubesim.shell.kubectl.client import Client, KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.results import headless
from kubesim.shell.kubectl.tabs import table
from kubesim.shell.kubectl.targets import kinds_and_names
from kubesim.shell.machine import Process

HEAD = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]


async def events(process: Process, client: Client, opts: Flags) -> int:
    """Show what has happened, the latest last."""
    types = [word.lower() for word in opts.words("types")]
    if any(word not in ("normal", "warning") for word in types):
        raise KubectlError("error: valid --types are Normal or Warning")
    everywhere = opts.on("all-namespaces")
    space = "" if everywhere else f"/namespaces/{client.namespace}"
    query = {"limit": "500"}
    if opts.get("for"):
        if "/" not in opts.get("for"):
            raise KubectlError("error: --for must be in resource/name form")
        kind, name = (await kinds_and_names(client, [opts.get("for")]))[0]
        query["fieldSelector"] = f"involvedObject.kind={kind.kind},involvedObject.name={name}"
    path = f"/api/v1{space}/events?"
    found = await client.request("GET", path + urlencode(query))
    items = [each for each in found.get("items") or [] if not types or each.get("type", "").lower() in types]
    if not items and not opts.on("watch"):
        await process.error(
            "No events found.\n" if everywhere else f"No events found in {client.namespace} namespace.\n"
        )
        return 0
    items.sort(key=_last)
    if opts.get("output") == "name":
        return 0
    if opts.get("output"):
        listed = [headless({"apiVersion": "v1", "kind": "Event", **each}) for each in items]
        whole = {"apiVersion": "v1", "items": listed, "kind": "List", "metadata": {"resourceVersion": ""}}
        await process.write(printing.formatted(opts.get("output"), whole))
        return 0
    widths: list[int] = []
    head = [] if opts.on("no-headers") else [["NAMESPACE"] * everywhere + HEAD]
    now = process.machine.clock.now
    await process.write(table(head + [_row(each, now(), everywhere) for each in items], widths))
    if opts.on("watch"):
        query |= {"watch": "true", "resourceVersion": (found.get("metadata") or {}).get("resourceVersion", "")}
        query.pop("limit")
        await process.flush()
        async for event in client.events(path + urlencode(query)):
            each = event["object"]
            if event["type"] != "DELETED" and (not types or each.get("type", "").lower() in types):
                await process.write(table([_row(each, now(), everywhere)], widths))
                await process.flush()
    return 0


def _last(event: Obj) -> str:
    series = event.get("series") or {}
    stamp = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or ""
    return str(stamp).removesuffix("Z")


def _row(event: Obj, now: datetime, everywhere: bool) -> list[str]:
    about = event.get("involvedObject") or {}
    shown = f"{about.get('kind', '')}/{about.get('name', '')}"
    space = [event["metadata"].get("namespace", "")] * everywhere
    text = str(event.get("message", "")).strip()
    return [
        *space,
        _age(event, now),
        *map(printing.safe, (event.get("type", ""), event.get("reason", ""), shown, text)),
    ]


def _age(event: Obj, now: datetime) -> str:
    def ago(stamp: str | None) -> str:
        return since(stamp, now) if stamp else "<unknown>"

    first = ago(event.get("eventTime") or event.get("firstTimestamp"))
    series = event.get("series")
    if series:
        return f"{ago(series.get('lastObservedTime'))} (x{series.get('count', 0)} over {first})"
    if event.get("count", 0) > 1:
        return f"{ago(event.get('lastTimestamp'))} (x{event['count']} over {first})"
    return first
