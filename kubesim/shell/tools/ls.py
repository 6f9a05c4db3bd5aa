"""ls and stat: what entries of directories look like."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from kubesim.shell.errors import FileError
from kubesim.shell.files import Device, Directory, File, Link, Node
from kubesim.shell.machine import Process, Tool
from kubesim.shell.quoting import quote
from kubesim.shell.sparse import space
from kubesim.shell.tools import kit
from kubesim.shell.tools.users import name_of

HALF_YEAR_S = 182 * 86400
COLOURS = {"d": "01;34", "l": "01;36", "c": "40;33;01", "x": "01;32", "t": "30;42"}
Entry = tuple[str, str, Node]  # the name to show, the path, the entry


def kind(node: Node) -> str:
    """Return the first letter of ``ls -l``."""
    return {Directory: "d", Link: "l", Device: "c"}.get(_plain(node), "-")


def _plain(node: Node) -> type[Node]:
    return next((known for known in (Directory, Link, Device) if isinstance(node, known)), File)


def mode(node: Node) -> str:
    """Return ``drwxr-xr-x`` and its like."""
    out = kind(node)
    for shift, special, letter in ((6, 0o4000, "s"), (3, 0o2000, "s"), (0, 0o1000, "t")):
        bits = node.mode >> shift & 7
        last = "x" if bits & 1 else "-"
        if node.mode & special:
            last = letter if bits & 1 else letter.upper()
        out += ("r" if bits & 4 else "-") + ("w" if bits & 2 else "-") + last
    return out


def size(node: Node) -> int:
    """Return a size in bytes as stat gives it."""
    if isinstance(node, File):
        return len(node.data) if not node.make else 0
    if isinstance(node, Link):
        return len(node.target)
    return 4096 if isinstance(node, Directory) else 0


def blocks(node: Node) -> int:
    """Return the KiB that an entry takes on disk."""
    taken = space(node.data) if isinstance(node, File) and not node.make else size(node)
    return (taken + 4095) // 4096 * 4 if isinstance(node, File | Directory) else 0


def human(count: float) -> str:
    """Return bytes as ``ls -h`` shows them."""
    if count < 1024:
        return str(int(count))
    unit = 0
    while count >= 1024 and unit < 5:
        count /= 1024
        unit += 1
    up = -int(-count * 10 // 1) / 10
    letter = "KMGTP"[unit - 1]
    return f"{up:.1f}{letter}" if up < 10 else f"{-int(-count // 1)}{letter}"


async def ls(process: Process) -> int:
    """List directories and files."""
    opts = await kit.options(process)
    status = 0
    files: list[Entry] = []
    folders: list[Entry] = []
    for name in opts.args or ["."]:
        try:
            node = process.view.node(name, follow=not opts.any("ldF") or name.endswith("/"))
        except FileError as error:
            status = await kit.complain(process, name, error, 2)
            continue
        if isinstance(node, Link) and not opts.any("ld") and isinstance(process.view.find(name), Directory):
            node = process.view.node(name)
        (folders if isinstance(node, Directory) and "d" not in opts else files).append((name, name, node))
    await _print(process, ordered(files, opts), opts, total=False)
    titled = len(opts.args) > 1 or "R" in opts
    for index, (name, _, _) in enumerate(ordered(folders, opts)):
        status = await _folder(process, name, opts, titled=titled, first=not index and not files, depth=0) or status
    return status


def ordered(entries: list[Entry], opts: kit.Options) -> list[Entry]:
    """Sort entries as asked."""
    found = sorted(entries, key=lambda entry: entry[0])
    if opts.any("St"):
        found.sort(key=lambda entry: -size(entry[2]) if "S" in opts else -entry[2].mtime)
    if "first" in opts:
        found.sort(key=lambda entry: not isinstance(entry[2], Directory))
    return found[::-1] if "r" in opts else found


async def _folder(process: Process, path: str, opts: kit.Options, *, titled: bool, first: bool, depth: int) -> int:
    await process.tick()
    try:
        directory = process.view.directory(path)
    except FileError as error:
        return await process.fail(f"cannot open directory '{path}': {error.text}", 2)
    if titled:
        await process.write(("" if first else "\n") + f"{path}:\n")
    names = directory.names()
    if "a" in opts:
        names = [".", "..", *names]
    elif "A" not in opts:
        names = [name for name in names if not name.startswith(".")]
    entries = []
    for name in names:
        below = path.rstrip("/") + "/" + name
        node = process.view.find(below, follow=name in (".", ".."))
        if node is not None:
            entries.append((name, below, node))
    await _print(process, ordered(entries, opts), opts, total=True)
    status = 0
    if "R" in opts and depth < 64:
        for name, below, node in ordered(entries, opts):
            if isinstance(node, Directory) and name not in (".", ".."):
                status = await _folder(process, below, opts, titled=True, first=False, depth=depth + 1) or status
    return status


async def _print(process: Process, entries: list[Entry], opts: kit.Options, *, total: bool) -> None:
    terminal = process.tty(1)
    long = opts.any("ln") or "full" in opts
    if total and (long or "s" in opts):
        whole = sum(blocks(node) for _, _, node in entries)
        await process.write(f"total {human(whole * 1024) if 'h' in opts else whole}\n")
    if long:
        await _long(process, entries, opts)
        return
    shown = [_name(process, entry, opts) for entry in entries]
    if not shown:
        return
    if "1" in opts or not (terminal or "C" in opts):
        await process.write("".join(name + "\n" for name in shown))
    else:
        wide = terminal.size[1] if terminal else 80
        plain = [len(_decorated(process, entry, opts)) for entry in entries]
        await process.write(_columns(shown, plain, wide))


def _columns(shown: list[str], widths: list[int], wide: int) -> str:
    count = len(shown)
    for rows in range(1, count + 1):
        columns = [list(range(at, min(at + rows, count))) for at in range(0, count, rows)]
        sizes = [max(widths[index] for index in column) + 2 for column in columns]
        if sum(sizes) - 2 <= wide or rows == count:
            break
    lines = []
    for row in range(rows):
        cells = [(column[row], sizes[at]) for at, column in enumerate(columns) if row < len(column)]
        line = "".join(shown[index] + " " * (size - widths[index]) for index, size in cells[:-1])
        lines.append(line + shown[cells[-1][0]] + "\n" if cells else "")
    return "".join(lines)


def _decorated(process: Process, entry: Entry, opts: kit.Options) -> str:
    name, _, node = entry
    if process.tty(1) and any(char in " '\"$&*()[]{};<>|\\!`" for char in name):
        name = quote(name, always=True)
    if "i" in opts and not opts.any("ln"):
        name = f"{node.number} {name}"
    if "F" in opts or "p" in opts:
        executable = isinstance(node, File) and node.mode & 0o111 and "F" in opts
        links = isinstance(node, Link) and "F" in opts and not opts.any("l")
        name += "/" if isinstance(node, Directory) else "*" if executable else "@" if links else ""
    return name


def _name(process: Process, entry: Entry, opts: kit.Options) -> str:
    text = _decorated(process, entry, opts)
    when = opts.get("color", "never")
    wanted = when in ("", "always") or when == "auto" and process.tty(1)
    if not wanted:
        return text
    node = entry[2]
    colour = COLOURS.get(kind(node), "")
    if isinstance(node, File) and node.mode & 0o111:
        colour = COLOURS["x"]
    if isinstance(node, Directory) and node.mode & 0o1000:
        colour = COLOURS["t"]
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def when(process: Process, moment: float, *, full: bool = False) -> str:
    """Return a time as ``ls -l`` shows it: the year where it is long ago."""
    at = datetime.fromtimestamp(moment, UTC)
    if full:
        return at.strftime("%Y-%m-%d %H:%M:%S.%f000 +0000")
    age = process.machine.now() - moment
    if -3600 < age < HALF_YEAR_S:
        return f"{at:%b} {at.day:2d} {at:%H:%M}"
    return f"{at:%b} {at.day:2d}  {at.year}"


async def _long(process: Process, entries: list[Entry], opts: kit.Options) -> None:
    rows = []
    for entry in entries:
        node = entry[2]
        owner = str(node.uid) if "n" in opts else name_of(process.view, node.uid)
        group = str(node.gid) if "n" in opts else name_of(process.view, node.gid, "/etc/group")
        shown = human(size(node)) if "h" in opts else str(size(node))
        if isinstance(node, Device):
            shown = f"{node.major}, {node.minor:3d}"
        name = _name(process, entry, opts)
        if isinstance(node, Link):
            name += f" -> {node.target}"
        rows.append((entry, mode(node), str(node.links + _below(node)), owner, group, shown, name))
    wide = [max((len(row[column]) for row in rows), default=0) for column in range(1, 6)]
    for entry, shape, links, owner, group, shown, name in rows:
        who = f"{owner:<{wide[2]}} {group:<{wide[3]}}"
        start = f"{entry[2].number:>8} " if "i" in opts else ""
        start += f"{blocks(entry[2]):>3} " if "s" in opts else ""
        date = when(process, entry[2].mtime, full="full" in opts)
        await process.write(f"{start}{shape} {links:>{wide[1]}} {who} {shown:>{wide[4]}} {date} {name}\n")


def _below(node: Node) -> int:
    """Count the directories in a directory: each is a link to it."""
    if not isinstance(node, Directory):
        return 0
    names = node.names()
    return 1 + (sum(isinstance(node.get(name), Directory) for name in names) if len(names) < 200 else 0)


async def stat(process: Process) -> int:
    """Show what the kernel knows of files."""
    opts = await kit.options(process, least=1)
    status = 0
    for name in opts.args:
        try:
            node = process.view.node(name, follow="L" in opts)
        except FileError as error:
            status = await process.fail(f"cannot statx '{name}': {error.text}")
            continue
        quoted, shown = f"'{name}'", name
        if isinstance(node, Link):
            quoted, shown = f"{quoted} -> '{node.target}'", f"{name} -> {node.target}"
        known = {"name": name, "quoted": quoted, "shown": shown, **facts(process, node)}
        form = opts.get("c") or opts.get("printf")
        text = _formatted(form, known) + "\n" * ("c" in opts) if form else kit.told("stat", **known)
        await process.write(text)
    return status


def _kind_name(node: Node) -> str:
    if isinstance(node, File):
        return "regular file" if node.data or node.make else "regular empty file"
    return {"d": "directory", "l": "symbolic link", "c": "character special file"}[kind(node)]


def facts(process: Process, node: Node) -> dict[str, object]:
    """Return what formats of stat and find tell of an entry."""
    return {
        "node": node, "size": size(node), "kind": _kind_name(node), "letter": kind(node).replace("-", "f"),
        "bits": node.mode & 0o7777, "raw": _type_bits(node) | node.mode, "mode": mode(node),
        "owner": name_of(process.view, node.uid), "group": name_of(process.view, node.gid, "/etc/group"),
        "links": node.links + _below(node), "blocks": blocks(node) * 2, "at": when(process, node.mtime, full=True),
        "seconds": int(node.mtime),
    }  # fmt: skip


def _formatted(form: str, known: dict[str, object]) -> str:
    """Fill in a format, whose directives the options' table has."""
    forms: dict[str, str] = kit.table()["stat"]["formats"]
    text = re.sub(r"%(.)", lambda found: forms.get(found[1], forms["other"]).format(**known), form)
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0")


def _type_bits(node: Node) -> int:
    return {"d": 0o040000, "l": 0o120000, "c": 0o020000}.get(kind(node), 0o100000)


TOOLS: dict[str, Tool] = {"ls": ls, "stat": stat}
