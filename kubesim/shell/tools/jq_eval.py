"""jq's syntax at work: every filter is a stream of values with the paths they came from."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

from kubesim.shell.machine import Process
from kubesim.shell.tools import jq_functions
from kubesim.shell.tools.jq_names import LIBRARY_NAMES, Break, Env, Path, Stream
from kubesim.shell.tools.jq_parse import Node
from kubesim.shell.tools.jq_values import JqError, describe, get, kind, truth

DEEPEST = 300
MOST_VALUES = 500_000


class Evaluator:
    """Runs what jq's grammar knows, for one process."""

    def __init__(self, process: Process, variables: dict[str, Any]) -> None:
        self.process = process
        self.root = Env(LIBRARY_NAMES)
        self.root.variables = variables
        self.depth = 0
        self.count = 0
        self.inputs: list[Any] = []

    async def run(self, node: Node, value: Any) -> AsyncIterator[Any]:
        """Yield the results of a filter."""
        async for found, _ in self.eval(node, value, None, self.root):
            yield found

    async def eval(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        """Yield results with their paths; ``path`` is None where nobody asks for them."""
        await self.process.tick()
        self.depth += 1
        if self.depth > DEEPEST:
            self.depth = 0
            raise JqError("stack overflow")
        try:
            async for found in getattr(self, "_" + node[0])(node, value, path, env):
                yield found
        finally:
            self.depth -= 1

    def stream(self, node: Node, value: Any, path: Path, env: Env) -> AsyncGenerator[tuple[Any, Path], None]:
        """Return ``eval`` as what can be closed before its end."""
        return cast("AsyncGenerator[tuple[Any, Path], None]", self.eval(node, value, path, env))

    async def values(self, node: Node, value: Any, env: Env) -> AsyncIterator[Any]:
        """Yield results without paths."""
        async for found, _ in self.eval(node, value, None, env):
            yield found

    async def collect(self, node: Node, value: Any, env: Env) -> list[Any]:
        """Return all results, of which there may not be too many."""
        out = []
        async for found, _ in self.eval(node, value, None, env):
            out.append(found)
            self._bound(1)
        return out

    def _bound(self, size: int) -> None:
        self.count += size
        if self.count > MOST_VALUES:
            raise JqError("out of memory")

    # simple filters

    async def _identity(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        yield value, path

    async def _literal(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        yield node[1], None

    async def _var(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        if node[1] == "ENV":
            yield dict(self.process.env), None
        elif node[1] == "__prog_args":
            yield [], None
        else:
            yield env.variable(node[1]), None

    async def _format(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        yield jq_functions.formatted(node[1], value), None

    async def _string(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        async for text in self._pieces(node[2], 0, node[1] or "@text", value, env):
            yield text, None

    async def _pieces(self, parts: list[Any], at: int, form: str, value: Any, env: Env) -> AsyncIterator[str]:
        if at >= len(parts):
            yield ""
        elif isinstance(parts[at], str):
            async for rest in self._pieces(parts, at + 1, form, value, env):
                yield parts[at] + rest
        else:
            async for rest in self._pieces(parts, at + 1, form, value, env):
                async for found in self.values(parts[at], value, env):
                    text = jq_functions.formatted(form, found) + rest
                    self._bound(len(text) >> 8)
                    yield text

    async def _array(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        yield await self.collect(node[1], value, env), None

    async def _object(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        async for found in self._pairs(node[1], 0, value, env):
            yield dict(found), None

    async def _pairs(self, pairs: list[Any], at: int, value: Any, env: Env) -> AsyncIterator[list[tuple[str, Any]]]:
        if at >= len(pairs):
            yield []
            return
        async for key in self.values(pairs[at][0], value, env):
            if not isinstance(key, str):
                raise JqError(f"Object keys must be strings, not {describe(key)}")
            async for found in self.values(pairs[at][1], value, env):
                async for rest in self._pairs(pairs, at + 1, value, env):
                    yield [(key, found), *rest]

    async def _index(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        async for base, where in self.eval(node[1], value, path, env):
            async for key in self.values(node[2], value, env):
                yield get(base, key), None if where is None else (*where, key)

    async def _slice(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        async for base, where in self.eval(node[1], value, path, env):
            async for last in self.values(node[3] or ("literal", None), value, env):
                async for first in self.values(node[2] or ("literal", None), value, env):
                    key = {"start": first, "end": last}
                    yield get(base, key), None if where is None else (*where, key)

    async def _iterate(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        async for base, where in self.eval(node[1], value, path, env):
            if isinstance(base, dict):
                for key in list(base):
                    yield base[key], None if where is None else (*where, key)
            elif isinstance(base, list):
                for index, item in enumerate(base):
                    yield item, None if where is None else (*where, index)
            else:
                raise JqError(f"Cannot iterate over {describe(base)}")

    async def _pipe(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        async for middle, where in self.eval(node[1], value, path, env):
            async for found in self.eval(node[2], middle, where, env):
                yield found

    async def _comma(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        for each in node[1:]:
            async for found in self.eval(each, value, path, env):
                yield found

    async def _negate(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        async for found in self.values(node[1], value, env):
            if kind(found) != "number":
                raise JqError(f"{describe(found)} cannot be negated")
            yield -found, None

    async def _binary(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        op = node[1]
        if op in ("and", "or"):
            async for left in self.values(node[2], value, env):
                if truth(left) == (op == "or"):
                    yield op == "or", None
                    continue
                async for right in self.values(node[3], value, env):
                    yield truth(right), None
            return
        async for right in self.values(node[3], value, env):
            async for left in self.values(node[2], value, env):
                found = jq_functions.operate(op, left, right)
                if isinstance(found, str | list):
                    self._bound(len(found) >> 6)
                yield found, None

    async def _alternative(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        some = False
        try:
            async for found in self.eval(node[1], value, path, env):
                if truth(found[0]):
                    some = True
                    yield found
        except JqError:
            pass
        if not some:
            async for found in self.eval(node[2], value, path, env):
                yield found

    async def _if(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        async for condition in self.values(node[1], value, env):
            async for found in self.eval(node[2] if truth(condition) else node[3], value, path, env):
                yield found

    async def _try(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        depth = self.depth
        try:
            async for found in self.eval(node[1], value, path, env):
                yield found
        except JqError as error:
            self.depth = depth
            if error.value == {"__jq": "break"}:
                return
            if node[2]:
                async for found in self.eval(node[2], error.value, None, env):
                    yield found

    async def _def(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        _, name, params, body, rest = node
        inner = Env(env)
        inner.functions[name, len(params)] = (params, body, inner)
        async for found in self.eval(rest, value, path, inner):
            yield found

    async def _label(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        inner = Env(env)
        mark = object()
        inner.variables["*label*" + node[1]] = mark
        try:
            async for found in self.eval(node[2], value, path, inner):
                yield found
        except Break as stop:
            if stop.label is not mark:
                raise

    async def _as(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        async for source in self.values(node[1], value, env):
            async for inner in self._bind(node[2], source, env):
                async for found in self.eval(node[3], value, path, inner):
                    yield found

    async def _bind(self, pattern: Node, value: Any, env: Env) -> AsyncIterator[Env]:
        inner = Env(env)
        if pattern[0] == "var":
            inner.variables[pattern[1]] = value
            yield inner
        elif pattern[0] == "both":
            inner.variables[pattern[1]] = value
            async for found in self._bind(pattern[2], value, inner):
                yield found
        elif pattern[0] == "array":
            for index, each in enumerate(pattern[1]):
                async for found in self._bind(each, get(value, index), inner):
                    inner = found
            yield inner
        else:
            for key, each in pattern[1]:
                async for name in self.values(key, value, inner):
                    async for found in self._bind(each, get(value, name), inner):
                        inner = found
            yield inner

    async def _reduce(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        state: Any = None
        async for start in self.values(node[3][0], value, env):
            state = start
        async for item in self.values(node[1], value, env):
            async for inner in self._bind(node[2], item, env):
                last: Any = None
                async for found in self.values(node[3][1], state, inner):
                    last = found
                state = last
        yield state, None

    async def _foreach(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        parts = node[3]
        async for start in self.values(parts[0], value, env):
            state = start
            async for item in self.values(node[1], value, env):
                async for inner in self._bind(node[2], item, env):
                    async for found in self.values(parts[1], state, inner):
                        state = found
                        async for out in self.values(parts[2] if len(parts) > 2 else ("identity",), state, inner):
                            yield out, None
