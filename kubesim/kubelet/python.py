"""``python -c`` for containers: a walk over the syntax tree that knows printing, sleeping, loops and leaving.

What it does not know, it passes over, so a script that only computes ends with success and prints what it can.
"""

from __future__ import annotations

import ast
import operator
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from kubesim.kubelet.programs import Exit, Halt, Line, Output, Run, Watch, buffered

_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_HEADER = 'Traceback (most recent call last):\n  File "<string>", line {line}, in <module>\n{error}'
LARGEST = 10**6
MOST_POWER = 64
MOST_MADE = 8 << 20
"""How many characters and elements the operators of one program may make."""
_WIDE = re.compile(r"\d{5}|\*")
"""A width or precision that is beyond every screen, or given by an argument."""


class _Unknown(Exception):
    """An expression beyond this interpreter."""


def script(
    text: str, modules: frozenset[str], env: Mapping[str, str], *, unbuffered: bool = False, memory: int = 0
) -> Run:
    """Return the run of ``python -c text`` where ``modules`` are installed beside the standard library.

    ``memory`` is what it may hold, in bytes; 0: no limit.
    """

    def run(horizon: float, limit: int) -> Iterator[Output]:
        watch = Watch(horizon, limit, at=0.03, memory=memory)
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            yield from _syntax_error(text, error, watch)
            return
        except (MemoryError, RecursionError):
            yield from _too_deep(watch)
            return
        try:
            yield from _Walk(watch, modules).block(tree.body)
        except RecursionError:
            yield from _too_deep(watch)
            return
        except Halt as halt:
            if halt.code is not None:
                yield Exit(watch.at, halt.code, halt.reason)
            return
        yield Exit(watch.at, 0)

    return run if unbuffered or env.get("PYTHONUNBUFFERED") else buffered(run)


def _too_deep(watch: Watch) -> Iterator[Output]:
    """End as CPython does where its parser's stack is not deep enough."""
    yield Line(watch.at, "s_push: parser stack overflow", "stderr")
    yield Line(watch.at, "MemoryError", "stderr")
    yield Exit(watch.at, 1)


def _syntax_error(text: str, error: Exception, watch: Watch) -> Iterator[Output]:
    line = getattr(error, "lineno", 1) or 1
    source = (text.splitlines() or [""])[min(line, len(text.splitlines()) or 1) - 1]
    column = (getattr(error, "offset", 1) or 1) - 1
    detail = getattr(error, "msg", str(error))
    for part in (
        f'  File "<string>", line {line}',
        f"    {source}",
        f"    {' ' * column}^",
        f"SyntaxError: {detail}",
    ):
        yield Line(watch.at, part, "stderr")
    yield Exit(watch.at, 1)


class _Walk:
    """Interprets statements in order, yielding what they print."""

    def __init__(self, watch: Watch, modules: frozenset[str]) -> None:
        self.watch = watch
        self.modules = modules
        self.names: dict[str, Any] = {}
        self.made = 0

    def block(self, body: list[ast.stmt]) -> Iterator[Output]:
        """Run statements."""
        for statement in body:
            self.watch.spend()
            yield from self._statement(statement)

    def _statement(self, node: ast.stmt) -> Iterator[Output]:
        try:
            if isinstance(node, ast.Expr):
                yield from self._expression(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._import(node)
            elif isinstance(node, ast.Assign | ast.AugAssign):
                self._assign(node)
            elif isinstance(node, ast.For | ast.While):
                yield from self._loop(node)
            elif isinstance(node, ast.If):
                yield from self.block(node.body if self.value(node.test) else node.orelse)
            elif isinstance(node, ast.Raise):
                yield from self._raise(node)
        except (_Unknown, TypeError, ValueError, OverflowError):
            return

    def _expression(self, node: ast.Expr) -> Iterator[Output]:
        call = node.value
        if not isinstance(call, ast.Call):
            return
        name = ast.unparse(call.func)
        if name == "print":
            words = " ".join(str(self.value(argument)) for argument in call.args)
            yield from (Line(self.watch.at, line) for line in words.split("\n"))
        elif name.endswith((".append", ".extend", ".write")) and call.args:
            self._hold(name.rpartition(".")[0], call.args[0], more=True)
        elif name in ("time.sleep", "sleep") and call.args:
            self.watch.spend(float(self.value(call.args[0])))
        elif name in ("sys.exit", "exit", "quit", "os._exit"):
            code = self.value(call.args[0]) if call.args else 0
            if isinstance(code, str):
                yield Line(self.watch.at, code, "stderr")
            raise Halt(1 if isinstance(code, str) else int(code or 0) % 256)

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Output]:
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = [alias.name for alias in node.names]
        for name in names:
            root = name.split(".")[0]
            if root not in sys.stdlib_module_names and root not in self.modules:
                yield from self._traceback(node, f"ModuleNotFoundError: No module named '{root}'")

    def _raise(self, node: ast.Raise) -> Iterator[Output]:
        call = node.exc
        if isinstance(call, ast.Call):
            words = ", ".join(str(self.value(argument)) for argument in call.args)
            yield from self._traceback(
                node, f"{ast.unparse(call.func)}: {words}" if words else ast.unparse(call.func)
            )
        else:
            yield from self._traceback(
                node, ast.unparse(call) if call else "RuntimeError: No active exception to reraise"
            )

    def _traceback(self, node: ast.stmt, error: str) -> Iterator[Output]:
        for line in _HEADER.format(line=node.lineno, error=error).split("\n"):
            yield Line(self.watch.at, line, "stderr")
        raise Halt(1)

    def _hold(self, name: str, node: ast.expr, *, more: bool = False) -> None:
        """Count a large value that a variable takes, or that is added to it."""
        size = self._size(node)
        if size:
            self.watch.hold(name, size + (self.watch.held.get(name, 0) if more else 0))

    def _size(self, node: ast.expr) -> int:
        """Return the bytes of ``"x" * n``, ``[0] * n``, ``bytearray(n)``, or a list of such; 0 for what is small."""
        if isinstance(node, ast.List | ast.Tuple):
            return sum(map(self._size, node.elts))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("bytearray", "bytes") and node.args:
            return max(self._number(node.args[0]), 0)
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            return self.watch.held.get(node.id, 0) if isinstance(node, ast.Name) else 0
        for value, count in ((node.left, node.right), (node.right, node.left)):
            one = self._size(value) or self._unit(value)
            if one:
                return one * max(self._number(count), 0)
        return 0

    @staticmethod
    def _unit(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            return len(node.value)
        return 8 * len(node.elts) if isinstance(node, ast.List | ast.Tuple) else 0

    def _number(self, node: ast.expr) -> int:
        """Return an integer, which may be a large power; 0 for anything else."""
        if isinstance(node, ast.BinOp):
            left, right = self._number(node.left), self._number(node.right)
            if isinstance(node.op, ast.Pow):
                return left**right if 0 <= right <= MOST_POWER and 0 <= left <= LARGEST else 0
            if isinstance(node.op, ast.LShift):
                return left << right if 0 <= right <= MOST_POWER and 0 <= left <= LARGEST else 0
            return left * right if isinstance(node.op, ast.Mult) else 0
        try:
            found = self.value(node)
        except _Unknown:
            return 0
        return found if isinstance(found, int) else 0

    def _assign(self, node: ast.Assign | ast.AugAssign) -> None:
        for target in [node.target] if isinstance(node, ast.AugAssign) else node.targets:
            self._hold(ast.unparse(target), node.value, more=isinstance(node, ast.AugAssign))
        if isinstance(node, ast.AugAssign):
            value = self._operate(node.op, self.value(node.target), self.value(node.value))
            targets: list[ast.expr] = [node.target]
        else:
            value, targets = self.value(node.value), node.targets
        for target in targets:
            if isinstance(target, ast.Name):
                self.names[target.id] = value

    def _loop(self, node: ast.For | ast.While) -> Iterator[Output]:
        if isinstance(node, ast.While):
            while self.value(node.test):
                self.watch.spend()
                yield from self.block(node.body)
            return
        for item in self.value(node.iter):
            if isinstance(node.target, ast.Name):
                self.names[node.target.id] = item
            yield from self.block(node.body)

    def value(self, node: ast.expr) -> Any:
        """Return the value of a simple expression; raises ``_Unknown`` for any other."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and node.id in self.names:
            return self.names[node.id]
        if isinstance(node, ast.JoinedStr):
            return "".join(self._piece(piece) for piece in node.values)
        if isinstance(node, ast.BinOp):
            return self._operate(node.op, self.value(node.left), self.value(node.right))
        if isinstance(node, ast.List | ast.Tuple):
            items = [self.value(element) for element in node.elts]
            return tuple(items) if isinstance(node, ast.Tuple) else items
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
            return _COMPARISONS[type(node.ops[0])](self.value(node.left), self.value(node.comparators[0]))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            return range(*(int(self.value(argument)) for argument in node.args))
        raise _Unknown

    def _piece(self, node: ast.expr) -> str:
        if isinstance(node, ast.FormattedValue):
            spec = self.value(node.format_spec) if node.format_spec else ""
            if _WIDE.search(spec):
                raise _Unknown
            return format(self.value(node.value), spec)
        return str(self.value(node))

    def _operate(self, op: ast.operator, left: Any, right: Any) -> Any:
        if type(op) not in _OPERATORS:
            raise _Unknown
        for side in (left, right):
            if isinstance(side, str) and isinstance(op, ast.Mult) or isinstance(side, int) and abs(side) > LARGEST:
                raise _Unknown
        self._make(op, left, right)
        try:
            return _OPERATORS[type(op)](left, right)
        except (TypeError, ValueError, ZeroDivisionError) as error:
            raise _Unknown from error

    def _make(self, op: ast.operator, left: Any, right: Any) -> None:
        """Count what an operator is about to make; raises ``_Unknown`` for too much of it."""
        if isinstance(op, ast.Mod) and isinstance(left, str | bytes) and _WIDE.search(str(left)):
            raise _Unknown
        sizes = [len(side) for side in (left, right) if isinstance(side, str | bytes | list | tuple)]
        counts = [side for side in (left, right) if isinstance(side, int)] if isinstance(op, ast.Mult) else []
        self.made += sum(sizes) * max([1, *counts])
        if self.made > MOST_MADE:
            raise _Unknown
