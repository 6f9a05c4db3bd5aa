"""find: its expressions, and what they do with a file."""

from __future__ import annotations

import re
from typing import Any

from kubesim.shell import mounts, patterns
from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory, File, Node
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import ls
from kubesim.shell.tools.xargs import MOST_ARGUMENTS, run

MAX_NESTING, MAX_DEPTH = 30, 64
NUMBERS = ("size", "mtime", "mmin")
VALUED = {"name", "iname", "path", "ipath", "type", *NUMBERS, "newer", "maxdepth", "mindepth"}
ACTIONS = {"print", "print0", "delete", "prune"}
PLAIN = {*ACTIONS, "empty", "depth", "xdev", "mount"}
UNITS = {"b": 512, "c": 1, "k": 1024, "M": 1 << 20, "G": 1 << 30}


class FindError(Exception):
    """A wrong expression."""


class _Find:
    """An expression of find: alternatives of terms, each negated or not."""

    def __init__(self, process: Process, words: list[str]) -> None:
        self.process = process
        self.words = words
        self.at = 0
        self.depths = {"maxdepth": MAX_DEPTH, "mindepth": 0}
        self.depth_first = bool({"-delete", "-depth"} & {*words})
        self.acts = bool({"-print", "-print0", "-exec", "-delete"} & {*words})
        apart = {"-xdev", "-mount"} & {*words}
        self.foreign = {row.path for row in mounts.seen(process.machine, process.view.files) if apart}
        self.batches: dict[int, tuple[list[str], list[str]]] = {}
        self.pruned = False
        self.status = 0
        self.nested = 0
        self.tree = self._or()
        if self.at < len(words):
            raise FindError(f"paths must precede expression: `{words[self.at]}'")

    def _peek(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def _or(self) -> tuple[str, object]:
        self.nested += 1
        if self.nested > MAX_NESTING:
            raise FindError("expression is too complicated")
        choices = [self._and()]
        while self._peek() in ("-o", "-or"):
            self.at += 1
            choices.append(self._and())
        self.nested -= 1
        return "or", choices

    def _and(self) -> list[tuple[str, object]]:
        terms = []
        while self._peek() not in ("", "-o", "-or", ")"):
            if self._peek() in ("-a", "-and"):
                self.at += 1
                continue
            terms.append(self._term())
        return terms

    def _term(self) -> tuple[str, object]:
        word = self.words[self.at]
        self.at += 1
        name = word[1:]
        if word in ("!", "-not"):
            return "not", self._term()
        if word == "(":
            inner = self._or()
            if self._peek() != ")":
                raise FindError("invalid expression; I was expecting to find a ')' somewhere but did not see one.")
            self.at += 1
            return inner
        if word[0] != "-":
            raise FindError(f"paths must precede expression: `{word}'")
        if name in VALUED:
            if not self._peek():
                raise FindError(f"missing argument to `{word}'")
            self.at += 1
            return self._with_value(name, self.words[self.at - 1])
        if name == "exec":
            return self._exec()
        if name not in PLAIN:
            raise FindError(f"unknown predicate `{word}'")
        return name, None

    def _with_value(self, name: str, value: str) -> tuple[str, object]:
        if name in self.depths:
            if not value.isdecimal():
                raise FindError(f"Expected a positive decimal integer argument to -{name}, but got '{value}'")
            self.depths[name] = min(int(value), MAX_DEPTH)
            return "depth", None
        if name == "type" and not set(value) <= set("fdlcbps,"):
            raise FindError(f"Unknown argument to -type: {value}")
        unit = f"[{''.join(UNITS)}]?" if name == "size" else ""
        if name in NUMBERS and not re.fullmatch(rf"[+-]?\d{{1,18}}{unit}", value):
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
        """Tell whether a file is meant, doing with it what is to be done on the way."""
        kind, value = tree
        if kind == "or":
            for terms in value:
                hit = True
                for term in terms:
                    hit = hit and await self.matches(term, path, node)
                if hit:
                    return True
            return False
        if kind == "not":
            return not await self.matches(value, path, node)
        if kind in ACTIONS or kind == "exec":
            return await self._act(kind, value, path, node)
        return self._about(kind, value, path, node)

    def _about(self, kind: str, value: Any, path: str, node: Node) -> bool:
        if kind in ("name", "iname", "path", "ipath"):
            text = path if "path" in kind else path.rstrip("/").rsplit("/", 1)[-1] or "/"
            if kind[0] == "i":
                text, value = text.lower(), value.lower()
            return patterns.matches(((value, False),), text)
        if kind == "type":
            return ls.kind(node).replace("-", "f") in value.split(",")
        if kind == "empty":
            return not node.names() if isinstance(node, Directory) else isinstance(node, File) and not node.content()
        if kind == "newer":
            other = self.process.view.find(value)
            return other is not None and node.mtime > other.mtime
        return self._number(kind, value, node) if value is not None else True

    def _number(self, kind: str, value: str, node: Node) -> bool:
        age, wanted = self.process.machine.now() - node.mtime, int(value.strip("+-" + "".join(UNITS)))
        if kind == "size":
            actual: float = -(-ls.size(node) // UNITS.get(value[-1], 512))
        elif kind == "mmin":
            actual = -(-age // 60) if value[0] in "+-" else age // 60
        else:
            actual = age // 86400
        return actual > wanted if value[0] == "+" else actual < wanted if value[0] == "-" else actual == wanted

    async def _act(self, kind: str, value: Any, path: str, node: Node) -> bool:
        process = self.process
        if kind in ("print", "print0"):
            await process.write(path + ("\n" if kind == "print" else "\0"))
        elif kind == "delete":
            try:
                process.view.remove(path, directory=isinstance(node, Directory))
            except FileError as error:
                self.status = await process.fail(f"cannot delete '{path}': {error.text}")
                return False
        elif kind == "prune":
            self.pruned = True
        elif kind == "exec":
            start, command, end = value
            if end == ";":
                return await run(process, [word.replace("{}", path) for word in command]) == 0
            self.batches[start][1].append(path)
        return True


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
            expression.status = await process.fail(f"'{start}': No such file or directory")
        else:
            await _descend(expression, start, node, 0)
    for command, paths in expression.batches.values():
        for at in range(0, len(paths), MOST_ARGUMENTS):
            await run(process, [*command, *paths[at : at + MOST_ARGUMENTS]])
    return expression.status


async def _descend(expression: _Find, path: str, node: Node, depth: int) -> None:
    process = expression.process
    await process.tick()
    expression.pruned = False
    if not expression.depth_first:
        await _visit(expression, path, node, depth)
    apart = (
        depth > 0 and bool(expression.foreign) and process.view.place(path, follow=False).path in expression.foreign
    )
    if isinstance(node, Directory) and depth < expression.depths["maxdepth"] and not expression.pruned | apart:
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


TOOLS: dict[str, Tool] = {"find": find}
