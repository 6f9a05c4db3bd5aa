"""crictl: the container runtime of a node."""

from __future__ import annotations

from datetime import datetime

from kubesim.shell.hostside import HostSide, Ran, sandbox
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.hosts import host_of

SHOWN_ID = 13


def _human(seconds: float) -> str:
    """Return a time span as crictl words it."""
    if seconds < 60:
        return "Less than a second ago" if seconds < 1 else f"{int(seconds)} seconds ago"
    for size, one, many in (
        (60, "About a minute ago", "minutes"),
        (3600, "About an hour ago", "hours"),
        (86400, "", "days"),
    ):
        count = int(seconds // size)
        limit = {60: 60, 3600: 48, 86400: 1 << 30}[size]
        if count < limit:
            return one if count == 1 and one else f"{count} {many} ago"
    return ""


async def crictl(process: Process) -> int:
    """Ask the node's container runtime."""
    side, opts = host_of(process), await kit.options(process)
    if "v" in opts:
        await process.write("crictl version v1.34.0\n")
        return 0
    if not opts.args:
        await process.write(kit.told("crictl_usage"))
        return 0
    if side is None or not side.services.runs("containerd"):
        await process.error(kit.told("crictl_no_runtime"))
        return 1
    verb = opts.args[0]
    if verb not in VERBS:
        await process.write(f"No help topic for '{verb}'\n")
        return 3
    return await VERBS[verb](process, side, opts)


def _table(rows: list[list[str]]) -> str:
    """Return rows as Go's tabwriter with columns of at least twenty does."""
    widths = [max(20, *(len(row[at]) + 3 for row in rows)) for at in range(len(rows[0]))]
    return "".join("".join(cell.ljust(widths[at]) for at, cell in enumerate(row)).rstrip(" ") + "\n" for row in rows)


async def _ps(process: Process, side: HostSide, opts: kit.Options) -> int:
    state = (opts.get("s") or ("" if "a" in opts else "running")).lower()
    found = [each for each in await side.containers() if opts.get("name") in each.spec["name"]]
    found = [
        each for each in found if sandbox(each.pod).startswith(opts.get("p")) and state in ("", each.state.lower())
    ]
    if "q" in opts:
        await process.write("".join(each.id + "\n" for each in found))
        return 0
    now = process.machine.clock.now()
    rows = [["CONTAINER", "IMAGE", "CREATED", "STATE", "NAME", "ATTEMPT", "POD ID", "POD", "NAMESPACE"]]
    for each in found:
        meta, age = each.pod["metadata"], _human((now - each.at).total_seconds())
        rows.append([
            each.id[:SHOWN_ID], _image_of(side, each)[:SHOWN_ID], age, each.state, each.spec["name"],
            str(each.status.get("restartCount", 0)), sandbox(each.pod)[:SHOWN_ID], meta["name"], meta["namespace"],
        ])  # fmt: skip
    await process.write(_table(rows))
    return 0


def _image_of(side: HostSide, container: Ran) -> str:
    """Return the id of a container's image."""
    found = side.images.find(str(container.status.get("image") or container.spec["image"]))
    return found.id.removeprefix("sha256:") if found is not None else container.image


async def _pods(process: Process, side: HostSide, opts: kit.Options) -> int:
    now = process.machine.clock.now()
    rows = [["POD ID", "CREATED", "STATE", "NAME", "NAMESPACE", "ATTEMPT", "RUNTIME"]]
    for pod in await side.pods():
        meta, status = pod["metadata"], pod.get("status") or {}
        start = datetime.fromisoformat((status.get("startTime") or meta["creationTimestamp"]).replace("Z", "+00:00"))
        state = "NotReady" if status.get("phase") in ("Succeeded", "Failed") else "Ready"
        age = _human((now - start).total_seconds())
        rows.append([sandbox(pod)[:SHOWN_ID], age, state, meta["name"], meta["namespace"], "0", "(default)"])
    await process.write(_table(rows))
    return 0


async def _images(process: Process, side: HostSide, opts: kit.Options) -> int:
    """List the images of the node, as its status and its pulls tell of them."""
    every = side.images.every()
    if "q" in opts:
        await process.write("".join(f"{ident}\n" for ident in every))
        return 0
    table = [["IMAGE", "TAG", "IMAGE ID", "SIZE"]]
    for ident, found in every.items():
        for each in found:
            name = [each.reference.repository, each.reference.tag if not each.reference.digest else "<none>"]
            table.append([*name, ident.removeprefix("sha256:")[:SHOWN_ID], _bytes(each.size)])
    await process.write(_table([table[0], *sorted(table[1:])]))
    return 0


async def _logs(process: Process, side: HostSide, opts: kit.Options) -> int:
    wanted, tail = "".join(opts.args[1:2]), opts.get("n")
    found = next((each for each in await side.containers() if wanted and each.id.startswith(wanted)), None)
    if found is None:
        await process.error(kit.told("crictl_no_container", at=process.machine.clock.now(), id=wanted))
        return 1
    meta = found.pod["metadata"]
    query = f"?tailLines={tail}" if tail.isdecimal() else ""
    _, data = await side.ask(f"/containerLogs/{meta['namespace']}/{meta['name']}/{found.spec['name']}{query}")
    await process.write(data)
    return 0


def _bytes(size: float) -> str:
    """Return a size in decimal units, as crictl has it."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g}{unit}"


VERBS = {**dict.fromkeys(("images", "image", "img"), _images), "ps": _ps, "pods": _pods, "logs": _logs}
TOOLS: dict[str, Tool] = {"crictl": crictl}
