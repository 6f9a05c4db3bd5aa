"""jq's interpreter: assignments, calls, and the functions that need more than values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import cmp_to_key
from typing import Any

from kubesim.shell.tools import jq_functions
from kubesim.shell.tools.jq_eval import Evaluator
from kubesim.shell.tools.jq_names import Break, Env, Path, Stream
from kubesim.shell.tools.jq_parse import Node
from kubesim.shell.tools.jq_values import JqError, compare, describe, dumps, kind, limited, put, remove, truth


def _compare_first(left: tuple[Any, Any], right: tuple[Any, Any]) -> int:
    return compare(left[0], right[0])


SHALLOW = frozenset({"length", "type", "keys", "keys_unsorted", "has"})
"""Functions that look at no more than a value's own elements."""
_FIRST = cmp_to_key(_compare_first)


def _applied(function: Callable[..., Any], name: str, value: Any, *given: Any) -> Any:
    """Return what a function makes of values; raises JqError for kinds that it is not made for."""
    try:
        return function(value, *given)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise JqError(f"{describe(value)} cannot be given to {name}") from error


class Runner(Evaluator):
    """Runs filters for one process."""

    # assignment

    async def paths(self, node: Node, value: Any, env: Env) -> list[tuple[Any, ...]]:
        """Return the paths that a filter yields; raises JqError for one that is no path."""
        found = []
        async for result, where in self.eval(node, value, (), env):
            if where is None:
                raise JqError(f"Invalid path expression with result {dumps(result)[:30]}")
            found.append(where)
            self._bound(1)
        return found

    async def _assign(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        _, op, target, source = node
        if op == "|=":
            yield await self._update(target, source, value, env), None
            return
        async for right in self.values(source, value, env):
            result = value
            for where in await self.paths(target, value, env):
                old = jq_functions.getpath(result, where)
                if op == "=":
                    new = right
                elif op == "//=":
                    new = old if truth(old) else right
                else:
                    new = jq_functions.operate(op[:-1], old, right)
                result = put(result, where, new)
            yield result, None

    async def _update(self, target: Node, source: Node, value: Any, env: Env) -> Any:
        gone = []
        for where in await self.paths(target, value, env):
            old = jq_functions.getpath(value, where)
            async with aclosing(self.stream(source, old, None, env)) as stream:
                async for found, _ in stream:
                    value = put(value, where, found)
                    break
                else:
                    gone.append(where)
        for path in sorted(map(list, gone), key=cmp_to_key(compare), reverse=True):
            value = remove(value, tuple(path))
        return value

    # calls

    async def _call(self, node: Node, value: Any, path: Path, env: Env) -> Stream:
        _, name, args = node
        function = env.function(name, len(args))
        if name == "break":
            raise Break(env.variable("*label*" + args[0][1]))
        if function is None:
            special = getattr(self, f"_call_{name}_{len(args)}", None)
            if special:
                async for found in special(args, value, path, env):
                    yield found
                return
            async for result in self._native(name, args, value, env):
                yield result, None
            return
        params, body, home = function
        inner = Env(home)
        if (name, len(args)) not in home.functions:
            inner.functions[name, len(args)] = function
        async for bound in self._arguments(params, args, 0, value, env, inner):
            async for found in self.eval(body, value, path, bound):
                yield found

    async def _arguments(
        self, params: list[str], args: list[Node], at: int, value: Any, env: Env, inner: Env
    ) -> AsyncIterator[Env]:
        if at >= len(params):
            yield inner
        elif params[at].startswith("$"):
            async for found in self.values(args[at], value, env):
                below = Env(inner)
                below.variables[params[at][1:]] = found
                below.functions[params[at][1:], 0] = ([], ("literal", found), env)
                async for bound in self._arguments(params, args, at + 1, value, env, below):
                    yield bound
        else:
            inner.functions[params[at], 0] = ([], args[at], env)
            async for bound in self._arguments(params, args, at + 1, value, env, inner):
                yield bound

    async def _native(self, name: str, args: list[Node], value: Any, env: Env) -> AsyncIterator[Any]:
        function = jq_functions.TABLE.get((name, len(args)))
        if function is None:
            raise JqError(f"{name}/{len(args)} is not defined")
        if name not in SHALLOW:
            limited(value)
        if not args:
            yield _applied(function, name, value)
            return
        async for given in self._product(args, 0, value, env):
            limited(*given)
            yield _applied(function, name, value, *given)

    async def _product(self, args: list[Node], at: int, value: Any, env: Env) -> AsyncIterator[list[Any]]:
        if at >= len(args):
            yield []
            return
        async for rest in self._product(args, at + 1, value, env):
            async for found in self.values(args[at], value, env):
                yield [found, *rest]

    async def _call_empty_0(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        nothing: tuple[tuple[Any, Path], ...] = ()
        for each in nothing:
            yield each

    async def _call_not_0(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        yield not truth(value), None

    async def _call_path_1(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        for where in await self.paths(args[0], value, env):
            yield list(where), None

    async def _call_getpath_1(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        async for where in self.values(args[0], value, env):
            yield jq_functions.getpath(value, tuple(where)), None if path is None else (*path, *where)

    async def _call_first_1(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        async with aclosing(self.stream(args[0], value, path, env)) as stream:
            async for found in stream:
                yield found
                return

    async def _call_limit_2(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        async for most in self.values(args[0], value, env):
            left = int(most)
            if left <= 0:
                continue
            async with aclosing(self.stream(args[1], value, path, env)) as stream:
                async for found in stream:
                    yield found
                    left -= 1
                    if left <= 0:
                        break

    async def _call_range_1(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        async for end in self.values(args[0], value, env):
            async for found in self._span(0, end, 1):
                yield found, None

    async def _call_range_2(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        async for given in self._product(args, 0, value, env):
            async for found in self._span(given[0], given[1], 1):
                yield found, None

    async def _call_range_3(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        async for given in self._product(args, 0, value, env):
            async for found in self._span(given[0], given[1], given[2]):
                yield found, None

    async def _span(self, start: Any, end: Any, step: Any) -> AsyncIterator[Any]:
        if any(kind(each) != "number" for each in (start, end, step)):
            raise JqError("Range bounds must be numeric")
        at = start
        while step > 0 and at < end or step < 0 and at > end:
            await self.process.tick()
            yield at
            at += step

    async def _keyed(self, node: Node, value: Any, env: Env) -> list[tuple[Any, Any]]:
        if not isinstance(value, list):
            raise JqError(f"Cannot index {kind(value)} with number")
        rows = [(await self.collect(node, item, env), item) for item in value]
        limited([key for key, _ in rows])
        return rows

    async def _call_sort_by_1(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        rows = await self._keyed(args[0], value, env)
        rows.sort(key=_FIRST)
        yield [item for _, item in rows], None

    async def _call_group_by_1(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        rows = await self._keyed(args[0], value, env)
        rows.sort(key=_FIRST)
        groups: list[tuple[Any, list[Any]]] = []
        for key, item in rows:
            if groups and compare(groups[-1][0], key) == 0:
                groups[-1][1].append(item)
            else:
                groups.append((key, [item]))
        yield [items for _, items in groups], None

    async def _call__by_2(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        rows = await self._keyed(args[0], value, env)
        rows.sort(key=_FIRST)
        if not rows:
            yield None, None
        elif args[1] == ("literal", "max"):
            yield rows[-1][1], None
        else:
            yield rows[0][1], None

    async def _call_input_0(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        if not self.inputs:
            raise JqError("No more inputs")
        yield self.inputs.pop(0), None

    async def _call_debug_0(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        await self.process.error(f'["DEBUG:",{dumps(value)}]\n')
        yield value, path

    async def _call_sub_3(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        async for given in self._product([args[0], args[2]], 0, value, env):
            text, out, at = value, "", 0
            for match in jq_functions.matches(value, given[0], given[1]):
                names = {each["name"]: each["string"] for each in match["captures"] if each["name"]}
                new = await self.collect(args[1], names, env)
                out += text[at : match["offset"]] + "".join(str(each) for each in new[:1])
                at = match["offset"] + match["length"]
                self._bound(len(out) >> 8)
            yield out + text[at:], None

    async def _call_now_0(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        yield self.process.machine.now(), None

    async def _call_input_filename_0(self, args: list[Node], value: Any, path: Path, env: Env) -> Stream:
        yield None, None
