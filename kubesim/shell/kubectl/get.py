"""kubectl get: the server's tables, objects as text, watching."""

from __future__ import annotations

from urllib.parse import urlencode

from kubesim.shell.kubectl import printing
from kubesim.shell.kubectl.client import TABLE, Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import Flags, number
from kubesim.shell.kubectl.results import check_raw
from kubesim.shell.kubectl.tabs import table
from kubesim.shell.kubectl.targets import kinds_and_names, manifests, query
from kubesim.shell.machine import Process

Targets = list[tuple[Resource, str]]


async def get(process: Process, client: Client, opts: Flags) -> int:
    """Show objects."""
    number(opts, "chunk-size")
    if opts.get("raw"):
        check_raw(opts)
        await process.write(await client.raw("GET", opts.get("raw")))
        return 0
    if opts.files:
        objects = await manifests(process, opts)
        targets = [(await client.of_object(obj), obj["metadata"]["name"]) for obj in objects]
    else:
        targets = await kinds_and_names(client, opts.args)
    form = opts.get("output")
    if opts.on("watch") or opts.on("watch-only"):
        return await _watch(process, client, opts, targets)
    if form not in ("", "wide"):
        return await _objects(process, client, opts, targets)
    return await _tables(process, client, opts, targets)


def _path(client: Client, opts: Flags, kind: Resource, name: str, **more: str) -> str:
    everywhere = opts.on("all-namespaces") and kind.namespaced
    if name and everywhere:
        raise KubectlError("error: a resource cannot be retrieved by name across all namespaces")
    below = f"/{opts.get('subresource')}" if opts.get("subresource") else ""
    base = kind.path("" if everywhere else client.namespace, name) + (below if name else query(opts))
    return base + (("&" if "?" in base else "?") + urlencode(more) if more else "")


def _cells(opts: Flags, kind: Resource, answer: Obj, several: bool, headers: bool) -> list[list[str]]:
    return printing.rows(
        answer,
        wide=opts.get("output") == "wide",
        namespaces=opts.on("all-namespaces") and kind.namespaced,
        prefix=kind.qualified if several or opts.on("show-kind") else "",
        labels=opts.on("show-labels"),
        columns=opts.words("label-columns"),
        headers=headers and not opts.on("no-headers"),
    )


async def _tables(process: Process, client: Client, opts: Flags, targets: Targets) -> int:
    several = len({kind for kind, _ in targets}) > 1
    status, shown = 0, False
    for kind in dict.fromkeys(kind for kind, _ in targets):
        lines: list[list[str]] = []
        for name in [name for each, name in targets if each == kind]:
            try:
                answer = await _table(client, opts, kind, name)
            except KubectlError as error:
                if not (opts.on("ignore-not-found") and error.reason == "NotFound"):
                    status = error.status
                    await process.error(error.text + "\n")
                continue
            if answer.get("rows"):
                lines += _cells(opts, kind, answer, several, not lines)
        if lines:
            gap = shown and several and not opts.on("no-headers")
            await process.write(("\n" if gap else "") + table(lines))
            shown = True
    if not shown and not status and not opts.on("ignore-not-found"):
        await process.error(_nothing(client, opts, targets[0][0]))
    return status


def _nothing(client: Client, opts: Flags, kind: Resource) -> str:
    local = not opts.on("all-namespaces") and kind.namespaced
    return f"No resources found in {client.namespace} namespace.\n" if local else "No resources found\n"


async def _asked(client: Client, opts: Flags, kind: Resource, name: str, accept: str, more: dict[str, str]) -> Obj:
    path = _path(client, opts, kind, name, **more)
    return await client.request("GET", path, accept=accept)


async def _table(client: Client, opts: Flags, kind: Resource, name: str) -> Obj:
    by = opts.get("sort-by")
    more = {"includeObject": "Object"} if by else {}
    answer = await _asked(client, opts, kind, name, TABLE, more)
    if by and answer.get("rows"):
        try:
            keys = [printing.sort_key(by, row["object"]) for row in answer["rows"]]
            _sortable(by, keys)
        except KubectlError:  # upstream logs it, and shows no row
            return {}
        answer["rows"] = [row for _, row in sorted(zip(keys, answer["rows"], strict=True), key=lambda pair: pair[0])]
    return answer


def _sortable(by: str, keys: list[tuple[int, object]]) -> None:
    if all(rank == 0 for rank, _ in keys):
        path = by if by.startswith("{") else "{" + (by if by.startswith(".") else "." + by) + "}"
        raise KubectlError(f'error: couldn\'t find any field with path "{path}" in the list of objects')


async def _found(
    process: Process, client: Client, opts: Flags, targets: Targets
) -> tuple[list[tuple[Resource, Obj]], int]:
    items: list[tuple[Resource, Obj]] = []
    status = 0
    for kind, name in targets:
        try:
            answer = await _asked(client, opts, kind, name, "application/json", {})
        except KubectlError as error:
            if not (opts.on("ignore-not-found") and error.reason == "NotFound"):
                status = error.status
                await process.error(error.text + "\n")
            continue
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        items += [(kind, answer)] if name else [(kind, {**head, **each}) for each in answer.get("items", [])]
    return items, status


async def _objects(process: Process, client: Client, opts: Flags, targets: Targets) -> int:
    items, status = await _found(process, client, opts, targets)
    by, form = opts.get("sort-by"), opts.get("output")
    if by and items:
        _sortable(by, [printing.sort_key(by, obj) for _, obj in items])
        items.sort(key=lambda pair: printing.sort_key(by, pair[1]))
    if form == "name":
        await process.write("".join(f"{kind.qualified}/{obj['metadata']['name']}\n" for kind, obj in items))
        return status
    for _, obj in items:
        if form in printing.PLAIN and not opts.on("show-managed-fields"):
            obj.get("metadata", {}).pop("managedFields", None)
    single = len(targets) == 1 and targets[0][1]
    if single and not items:
        return status
    listed = {"apiVersion": "v1", "items": [obj for _, obj in items], "kind": "List"}
    whole = items[0][1] if single else {**listed, "metadata": {"resourceVersion": ""}}
    await process.write(printing.formatted(form, whole, headers=not opts.on("no-headers"), allowed=printing.OF_GET))
    return status


async def _watch(process: Process, client: Client, opts: Flags, targets: Targets) -> int:
    if len(targets) != 1:
        raise KubectlError("error: you may only specify a single resource type")
    kind, name = targets[0]
    form = opts.get("output")
    if name:
        opts.given["field-selector"] = [f"metadata.name={name}"]
        await client.request("GET", _path(client, opts, kind, name))
    answer = await client.request("GET", _path(client, opts, kind, ""), accept=TABLE)
    columns, widths = answer["columnDefinitions"], list[int]()
    plain = form in ("", "wide")
    started = bool(answer.get("rows")) and not opts.on("watch-only")
    if started and plain:
        await process.write(table(_cells(opts, kind, answer, False, True), widths))
    elif started:
        listed = await client.request("GET", _path(client, opts, kind, ""))
        for item in listed["items"]:
            await process.write(_one(opts, kind, {"apiVersion": kind.api_version, "kind": kind.kind, **item}))
    await process.flush()
    since = {"watch": "true", "resourceVersion": answer.get("metadata", {}).get("resourceVersion", "")}
    form_of = TABLE if plain else "application/json"
    async for event in client.events(_path(client, opts, kind, "", **since), form_of):
        if event.get("type") == "ERROR":
            raise KubectlError(f"error: {event['object'].get('message', '')}")
        if plain:
            part = {"rows": event["object"].get("rows"), "columnDefinitions": columns}
            cells = _cells(opts, kind, part, False, not started)
            await process.write(table(cells, widths))
            started = True
        else:
            await process.write(_one(opts, kind, event["object"]))
        await process.flush()
    return 0


def _one(opts: Flags, kind: Resource, obj: Obj) -> str:
    if opts.get("output") == "name":
        return f"{kind.qualified}/{obj['metadata']['name']}\n"
    if opts.get("output") in printing.PLAIN and not opts.on("show-managed-fields"):
        obj.get("metadata", {}).pop("managedFields", None)
    return ("---\n" if opts.get("output") == "yaml" else "") + printing.formatted(opts.get("output"), obj)
