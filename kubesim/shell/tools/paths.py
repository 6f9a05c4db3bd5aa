"""Programs about paths: basename, dirname, realpath, readlink, which, du, df, mount, find, xargs."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from kubesim.shell import patterns
from kubesim.shell.errors import FileError, StartError
from kubesim.shell.files import Directory, File, Link, Node
from kubesim.shell.handles import Bytes
from kubesim.shell.machine import DEFAULT_PATH, Process, Tool
from kubesim.shell.programs import search
from kubesim.shell.tools import kit, ls
from kubesim.shell.tools.users import name_of

DISK = 100 << 30
MOST_ARGUMENTS = 5000


async def basename(process: Process) -> int:
    """Print the last part of a path."""
    opts = await kit.options(process, "as:z", stop=True)
    if not opts.args:
        await kit.usage(process, "missing operand")
    names = opts.args if opts.any("as") else opts.args[:1]
    suffix = opts.get("s") or (opts.args[1] if len(opts.args) > 1 and not opts.any("as") else "")
    for name in names:
        found = name.rstrip("/").rsplit("/", 1)[-1] or "/"
        await process.write((found.removesuffix(suffix) if found != suffix else found) + "\n")
    return 0


async def dirname(process: Process) -> int:
    """Print all but the last part of a path."""
    if len(process.argv) < 2:
        await kit.usage(process, "missing operand")
    for name in process.argv[1:]:
        head, slash, _ = name.rstrip("/").rpartition("/")
        await process.write((head.rstrip("/") or ("/" if slash or name.startswith("/") else ".")) + "\n")
    return 0


async def realpath(process: Process) -> int:
    """Print the path without links."""
    opts = await kit.options(process, "emsqzLP", {"relative-to=": "rel"})
    status = 0
    for name in opts.args:
        try:
            place = process.view.place(name)
            if place.node is None and ("e" in opts or process.busybox):
                raise FileError("ENOENT", name)
            await process.write(place.path + "\n")
        except FileError as error:
            if "m" in opts:
                await process.write(posixpath.normpath(posixpath.join(process.cwd, name)) + "\n")
            elif "q" not in opts:
                status = await process.fail(f"{name}: {error.text}")
    return status


async def readlink(process: Process) -> int:
    """Print where a link leads."""
    opts = await kit.options(process, "fenmqsvz", {"canonicalize": "f"})
    status = 0
    for name in opts.args:
        try:
            if opts.any("fem"):
                shown = process.view.place(name).path
            else:
                node = process.view.node(name, follow=False)
                if not isinstance(node, Link):
                    status = 1
                    continue
                shown = node.target
            await process.write(shown + ("" if "n" in opts else "\n"))
        except FileError:
            status = 1
    return status


async def which(process: Process) -> int:
    """Print where programs are."""
    status = 0
    for name in process.argv[1:]:
        try:
            path = search(process.view, name, process.env.get("PATH", DEFAULT_PATH)) if "/" not in name else name
            node = process.view.node(path)
            if not process.view.may(node, 1):
                raise FileError("EACCES", path)
            await process.write(path + "\n")
        except FileError:
            status = 1
    return status


async def pwd(process: Process) -> int:
    """Print the working directory."""
    await process.write(process.cwd + "\n")
    return 0


async def du(process: Process) -> int:
    """Show how much space trees take."""
    opts = await kit.options(
        process, "abcd:hkmsx", {"max-depth=": "d", "summarize": "s", "human-readable": "h", "all": "a"}
    )
    status = total = 0
    for name in opts.args or ["."]:
        if process.view.find(name, follow=False) is None:
            text = f"{name}" if process.busybox else f"cannot access '{name}'"
            status = await process.fail(f"{text}: No such file or directory")
            continue
        total += await _du(process, name, opts, 0)
    if "c" in opts:
        await process.write(f"{_du_size(total, opts)}\ttotal\n")
    return status


def _du_size(kib: int, opts: kit.Options) -> str:
    if "h" in opts:
        return ls.human(kib * 1024) if kib else "0"
    return str(-(-kib // 1024) if "m" in opts else kib * 1024 if "b" in opts else kib)


async def _du(process: Process, path: str, opts: kit.Options, depth: int) -> int:
    await process.tick()
    node = process.view.find(path, follow=False)
    if node is None or depth > 64:
        return 0
    total = ls.size(node) // 1024 if "b" in opts else ls.blocks(node)
    if isinstance(node, Directory):
        for name in node.names():
            total += await _du(process, f"{path.rstrip('/')}/{name}", opts, depth + 1)
    limit = 0 if "s" in opts else int(opts.get("d") or 999)
    if depth <= limit and (isinstance(node, Directory) or "a" in opts or depth == 0):
        await process.write(f"{_du_size(total, opts)}\t{path}\n")
    return total


async def df(process: Process) -> int:
    """Show how full file systems are."""
    opts = await kit.options(process, "hkmPTaiH", {"human-readable": "h", "print-type": "T"})
    files = process.view.files
    rows = [("overlay", "overlay", DISK, 37 << 30, "/"), ("tmpfs", "tmpfs", 64 << 20, 0, "/dev")]
    rows += [(m.source, m.kind, DISK, 37 << 30, path) for path, m in files.mounts.items() if path != "/proc"]
    if opts.args:
        paths = [process.view.place(name).path for name in opts.args if process.view.find(name)]
        rows = [
            max((row for row in rows if f"{path}/".startswith(row[4].rstrip("/") + "/")), key=lambda row: len(row[4]))
            for path in paths
        ]
    human = "h" in opts
    kinds = " Type    " if "T" in opts else ""
    sizes = "Size  Used Avail Use%" if human else "1K-blocks     Used Available Use%"
    source = max([15, *(len(row[0]) for row in rows)]) if not human else max([10, *(len(row[0]) for row in rows)])
    await process.write(f"{'Filesystem':<{source}}{kinds} {' ' if human else ''}{sizes} Mounted on\n")
    for name, kind, size, used, place in rows:
        used += files.used if place == "/" else 0
        free = size - used
        shown = [ls.human(value) if human else str(value // 1024) for value in (size, used, free)]
        wide = (5, 5, 5) if human else (9, 8, 9)
        numbers = " ".join(f"{value:>{width}}" for value, width in zip(shown, wide, strict=True))
        percent = f"{-(-used * 100 // size)}%"
        await process.write(f"{name:<{source}}{f' {kind:<8}' if kinds else ''} {numbers} {percent:>4} {place}\n")
    return 0


async def mount(process: Process) -> int:
    """Show what is mounted; mounting is not allowed."""
    if len(process.argv) > 1 and not process.argv[1].startswith("-t"):
        return await process.fail(
            "permission denied (are you root?)" if process.busybox else "only root can do that", 1
        )
    await process.write(_mounts(process, "{source} on {path} type {kind} ({flags})\n"))
    return 0


def _mounts(process: Process, form: str) -> str:
    out = form.format(source="overlay", path="/", kind="overlay", flags="rw,relatime")
    out += form.format(source="proc", path="/proc", kind="proc", flags="rw,nosuid,nodev,noexec,relatime")
    for path, mounted in process.view.files.mounts.items():
        flags = "ro,relatime" if mounted.readonly else "rw,relatime"
        if path != "/proc":
            out += form.format(source=mounted.source, path=path, kind=mounted.kind, flags=flags)
    return out


# find

Test = tuple[str, list[str]]
_TAKES = {
    "name",
    "iname",
    "path",
    "ipath",
    "wholename",
    "type",
    "size",
    "mtime",
    "mmin",
    "newer",
    "maxdepth",
    "mindepth",
    "user",
    "group",
    "perm",
    "printf",
    "regex",
    "links",
    "uid",
    "gid",
    "atime",
    "ctime",
    "lname",
}
_FLAGS = {
    "print",
    "print0",
    "delete",
    "empty",
    "prune",
    "ls",
    "quit",
    "true",
    "false",
    "executable",
    "readable",
    "writable",
    "not",
    "depth",
    "xdev",
    "mount",
    "nouser",
    "follow",
}


class FindError(Exception):
    """A wrong expression."""


class _Find:
    """An expression of find: alternatives of terms, each negated or not."""

    def __init__(self, process: Process, words: list[str]) -> None:
        self.process = process
        self.words = words
        self.at = 0
        self.depths = {"maxdepth": 64, "mindepth": 0}
        self.depth_first = "-delete" in words or "-depth" in words
        self.acts = any(
            word in ("-print", "-print0", "-exec", "-delete", "-ls", "-printf", "-ok", "-execdir") for word in words
        )
        self.batches: dict[int, tuple[list[str], list[str]]] = {}
        self.status = 0
        self.nested = 0
        self.tree = self._or()
        if self.at < len(words):
            raise FindError(f"paths must precede expression: `{words[self.at]}'")

    def _peek(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def _or(self) -> tuple[str, object]:
        self.nested += 1
        if self.nested > 30:
            raise FindError("expression is too complicated")
        choices = [self._and()]
        while self._peek() in ("-o", "-or"):
            self.at += 1
            choices.append(self._and())
        self.nested -= 1
        return "or", choices

    def _and(self) -> list[tuple[str, object]]:
        terms = []
        while self._peek() and self._peek() not in ("-o", "-or", ")"):
            if self._peek() in ("-a", "-and"):
                self.at += 1
                continue
            terms.append(self._term())
        return terms

    def _term(self) -> tuple[str, object]:
        word = self.words[self.at]
        self.at += 1
        if word in ("!", "-not"):
            return "not", self._term()
        if word == "(":
            inner = self._or()
            if self._peek() != ")":
                raise FindError("invalid expression; I was expecting to find a ')' somewhere but did not see one.")
            self.at += 1
            return inner
        name = word[1:]
        if word.startswith("-") and name in _TAKES:
            if self.at >= len(self.words):
                raise FindError(f"missing argument to `{word}'")
            self.at += 1
            return self._with_value(name, self.words[self.at - 1])
        if word in ("-exec", "-ok", "-execdir"):
            return self._exec()
        if word.startswith("-") and name in _FLAGS:
            return name, None
        if word.startswith("-"):
            text = f"unrecognized: {word}" if self.process.busybox else f"unknown predicate `{word}'"
            raise FindError(text)
        raise FindError(f"paths must precede expression: `{word}'")

    def _with_value(self, name: str, value: str) -> tuple[str, object]:
        if name in self.depths:
            if not value.isdecimal():
                raise FindError(f"Expected a positive decimal integer argument to -{name}, but got '{value}'")
            self.depths[name] = min(int(value), 64)
            return "true", None
        if name == "type" and not set(value) <= set("fdlcbps,"):
            raise FindError(f"Unknown argument to -type: {value}")
        if name in ("size", "mtime", "mmin", "links", "uid", "gid", "atime", "ctime") and not re.fullmatch(
            r"[+-]?\d{1,18}[bcwkMG]?", value
        ):
            raise FindError(f"invalid argument `{value}' to `-{name}'")
        return name, value

    def _exec(self) -> tuple[str, object]:
        start = self.at
        while self._peek() not in (";", "") and not (self._peek() == "+" and self.words[self.at - 1] == "{}"):
            self.at += 1
        if not self._peek():
            raise FindError("missing argument to `-exec'")
        command, end = self.words[start : self.at], self._peek()
        self.at += 1
        if end == "+":
            self.batches[start] = (command[:-1], [])
        return "exec", (start, command, end)

    async def matches(self, tree: Any, path: str, node: Node) -> bool:
        kind, value = tree
        if kind == "or":
            for terms in value:
                hit = True
                for term in terms:
                    if not await self.matches(term, path, node):
                        hit = False
                        break
                if hit:
                    return True
            return False
        if kind == "not":
            return not await self.matches(value, path, node)
        if kind in ("exec", "print", "print0", "delete", "ls", "printf", "prune"):
            return await self._act(kind, value, path, node)
        return self._about(kind, value, path, node)

    def _about(self, kind: str, value: str, path: str, node: Node) -> bool:
        name = path.rstrip("/").rsplit("/", 1)[-1] or "/"
        if kind in ("name", "iname", "path", "ipath", "wholename", "lname"):
            text = path if "path" in kind or kind == "wholename" else name
            if kind == "lname":
                text = node.target if isinstance(node, Link) else ""
            if kind.startswith("i"):
                text, value = text.lower(), value.lower()
            return patterns.matches(((value, False),), text)
        if kind == "type":
            return {"-": "f"}.get(ls.kind(node), ls.kind(node)) in value.split(",")
        if kind == "empty":
            return not node.names() if isinstance(node, Directory) else isinstance(node, File) and not node.content()
        if kind in ("executable", "readable", "writable"):
            return self.process.view.may(node, {"executable": 1, "readable": 4, "writable": 2}[kind])
        if kind == "newer":
            other = self.process.view.find(value)
            return other is not None and node.mtime > other.mtime
        if kind == "user":
            return value in (str(node.uid), name_of(self.process.view, node.uid))
        if kind == "perm":
            wanted = int(value.lstrip("-/"), 8) if re.fullmatch(r"[-/]?[0-7]{1,4}", value) else 0
            return (
                node.mode & wanted == wanted
                if value[0] == "-"
                else bool(node.mode & wanted)
                if value[0] == "/"
                else node.mode & 0o7777 == wanted
            )
        if kind == "regex":
            return patterns.matches(((value.replace(".*", "*"), False),), path)
        return self._number(kind, value, node) if value is not None else kind != "false"

    def _number(self, kind: str, value: str, node: Node) -> bool:
        age = self.process.machine.now() - node.mtime
        unit = 512
        if kind == "size" and value[-1:] in "bcwkMG":
            unit = {"b": 512, "c": 1, "w": 2, "k": 1024, "M": 1 << 20, "G": 1 << 30}[value[-1]]
            value = value[:-1]
        actual = {
            "size": -(-ls.size(node) // unit),
            "mmin": -(-age // 60),
            "links": node.links,
            "uid": node.uid,
            "gid": node.gid,
        }.get(kind, age // 86400)
        if kind == "mmin" and value[0] not in "+-":
            actual = age // 60
        wanted = int(value.lstrip("+-"))
        return actual > wanted if value[0] == "+" else actual < wanted if value[0] == "-" else actual == wanted

    async def _act(self, kind: str, value: object, path: str, node: Node) -> bool:
        process = self.process
        if kind == "print":
            await process.write(path + "\n")
        elif kind == "print0":
            await process.write(path + "\0")
        elif kind == "ls":
            await process.write(
                f"{node.number:9d} {ls.blocks(node):6d} {ls.mode(node)} {node.links:3d} "
                f"{name_of(process.view, node.uid):<8} {name_of(process.view, node.gid, '/etc/group'):<8} "
                f"{ls.size(node):8d} {ls.when(process, node.mtime)} {path}\n"
            )
        elif kind == "printf":
            await process.write(self._formatted(str(value), path, node))
        elif kind == "delete":
            return await self._delete(path, node)
        elif kind == "exec":
            return await self._run(value, path)
        return True

    def _formatted(self, form: str, path: str, node: Node) -> str:
        name = path.rstrip("/").rsplit("/", 1)[-1]
        values = {
            "p": path,
            "f": name,
            "s": str(ls.size(node)),
            "m": f"{node.mode & 0o7777:o}",
            "M": ls.mode(node),
            "h": path.rpartition("/")[0] or ".",
            "u": name_of(self.process.view, node.uid),
            "%": "%",
            "y": {"-": "f"}.get(ls.kind(node), ls.kind(node)),
            "T@": f"{node.mtime:.10f}",
        }
        text = re.sub(r"%(T@|.)", lambda match: values.get(match[1], match[0]), form)
        return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0")

    async def _delete(self, path: str, node: Node) -> bool:
        try:
            self.process.view.remove(path, directory=isinstance(node, Directory))
        except FileError as error:
            self.status = await self.process.fail(f"cannot delete '{path}': {error.text}")
            return False
        return True

    async def _run(self, value: Any, path: str) -> bool:
        start, command, end = value
        if end == "+":
            self.batches[start][1].append(path)
            return True
        return await run(self.process, [word.replace("{}", path) for word in command]) == 0


async def run(process: Process, argv: list[str], stdin: bytes | None = None) -> int:
    """Run a program in front and return its status, 127 after a message where there is none."""
    await process.flush()
    try:
        fds = dict(process.fds)
        if stdin is not None:
            fds[0] = Bytes(stdin)
        return await process.run(argv, fds=fds).wait()
    except StartError as error:
        form = f"{argv[0]}: {error.text}" if process.busybox else f"'{argv[0]}': {error.text}"
        return await process.fail(form if process.name == "find" else f"{argv[0]}: {error.text}", error.code)
    except FileError as error:
        return await process.fail(f"cannot fork: {error.text}", 1)


async def find(process: Process) -> int:
    """Walk trees and test what is there."""
    words = process.argv[1:]
    while words[:1] and words[0] in ("-L", "-H", "-P"):
        words = words[1:]
    split = next((at for at, word in enumerate(words) if word[:1] == "-" or word in ("(", "!")), len(words))
    try:
        expression = _Find(process, words[split:])
    except FindError as error:
        return await process.fail(str(error))
    for start in words[:split] or ["."]:
        node = process.view.find(start, follow=False)
        if node is None:
            text = f"{start}" if process.busybox else f"'{start}'"
            expression.status = await process.fail(f"{text}: No such file or directory")
        else:
            await _descend(expression, start, node, 0)
    for command, paths in expression.batches.values():
        for at in range(0, len(paths), MOST_ARGUMENTS):
            await run(process, [*command, *paths[at : at + MOST_ARGUMENTS]])
    return expression.status


async def _descend(expression: _Find, path: str, node: Node, depth: int) -> None:
    process = expression.process
    await process.tick()
    if not expression.depth_first:
        await _visit(expression, path, node, depth)
    pruned = "-prune" in expression.words and await expression.matches(expression.tree, path, node)
    if isinstance(node, Directory) and depth < expression.depths["maxdepth"] and not pruned:
        if not process.view.may(node, 4):
            expression.status = await process.fail(f"'{path}': Permission denied")
        for name in node.names() if process.view.may(node, 4) else []:
            below = process.view.find(f"{path.rstrip('/')}/{name}", follow=False)
            if below is not None:
                await _descend(expression, f"{path.rstrip('/')}/{name}", below, depth + 1)
    if expression.depth_first:
        await _visit(expression, path, node, depth)


async def _visit(expression: _Find, path: str, node: Node, depth: int) -> None:
    if depth < expression.depths["mindepth"]:
        return
    if await expression.matches(expression.tree, path, node) and not expression.acts:
        await expression.process.write(path + "\n")


# xargs


async def xargs(process: Process) -> int:
    """Run programs with words of standard input as arguments."""
    opts = await kit.options(
        process,
        "0d:E:I:i::L:n:P:prs:tx",
        {"null": "0", "delimiter=": "d", "max-args=": "n", "no-run-if-empty": "r", "max-procs=": "P", "verbose": "t"},
        stop=True,
    )
    text = kit.text(await kit.everything(process, process.fds[0]))
    replace = opts.get("I") or ("{}" if "i" in opts else "")
    words = await _xargs_words(process, text, opts, lines=bool(replace) or "L" in opts)
    command = opts.args or ["echo"]
    status = 0
    for group in _groups(words, opts, replace):
        argv = [word.replace(replace, group[0]) for word in command] if replace else [*command, *group]
        if "t" in opts:
            await process.error(" ".join(argv) + "\n")
        code = await run(process, argv, b"")
        if code in (126, 127):
            return code
        if code == 255:
            await process.fail(f"{command[0]}: exited with status 255; aborting")
            return 124
        status = 123 if code else status
    return status


def _groups(words: list[str], opts: kit.Options, replace: str) -> list[list[str]]:
    size = 1 if replace else int(opts.get("n") or opts.get("L") or MOST_ARGUMENTS)
    if not words:
        return [] if "r" in opts or replace else [[]]
    size = max(size, 1)
    return [words[at : at + size] for at in range(0, len(words), size)]


async def _xargs_words(process: Process, text: str, opts: kit.Options, *, lines: bool) -> list[str]:
    if "0" in opts:
        return text.split("\0")[:-1] if text.endswith("\0") else [piece for piece in text.split("\0") if piece]
    if "d" in opts:
        delimiter = opts.get("d").replace("\\n", "\n").replace("\\t", "\t") or "\n"
        return text.removesuffix(delimiter).split(delimiter) if text else []
    if lines:
        found = [line.strip() for line in text.splitlines() if line.strip()]
        return [re.sub(r"(['\"])(.*?)\1", r"\2", line) for line in found] if "L" not in opts else found
    words, at = [], 0
    pattern = re.compile(r"""(?:[^\s"'\\]|\\[\s\S]|"[^"\n]*"|'[^'\n]*')+""")
    while match := pattern.search(text, at):
        if "'" in text[at : match.start()] or '"' in text[at : match.start()]:
            break
        words.append(
            re.sub(r"""\\([\s\S])|"([^"\n]*)"|'([^'\n]*)'""", lambda m: m[1] or m[2] or m[3] or "", match[0])
        )
        at = match.end()
        await process.tick()
    left = text[at:].strip()
    if left[:1] in ("'", '"') and left:
        kind = "single" if left[0] == "'" else "double"
        text = f"unmatched {kind} quote; by default quotes are special to xargs unless you use the -0 option"
        await process.fail(text)
    return words


TOOLS: dict[str, Tool] = {
    "basename": basename,
    "dirname": dirname,
    "realpath": realpath,
    "readlink": readlink,
    "which": which,
    "pwd": pwd,
    "du": du,
    "df": df,
    "mount": mount,
    "find": find,
    "xargs": xargs,
}
