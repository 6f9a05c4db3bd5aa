"""jq's interpreter: every filter is a stream of values with the paths they came from."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import cmp_to_key
from typing import Any, cast

from kubesim.shell.machine import Process
from kubesim.shell.tools import jq_functions
from kubesim.shell.tools.jq_parse import Node, Parser
from kubesim.shell.tools.jq_values import JqError, compare, describe, dumps, get, kind, put, remove, truth

DEEPEST = 300
MOST_VALUES = 500_000
Path = tuple[Any, ...] | None
Stream = AsyncIterator[tuple[Any, Path]]

LIBRARY = """
def map(f): [.[] | f]; def select(f): if f then . else empty end; def recurse(f): def r: ., (f | r); r;
def recurse: recurse(.[]?); def recurse(f; c): def r: ., (f | select(c) | r); r; def values: select(. != null);
def nulls: select(. == null); def strings: select(type == "string"); def numbers: select(type == "number");
def arrays: select(type == "array"); def objects: select(type == "object"); def booleans: select(type == "boolean");
def iterables: select(type == "array" or type == "object");
def scalars: select(type != "array" and type != "object");
def to_entries: [keys_unsorted[] as $k | {key: $k, value: .[$k]}];
def from_entries: reduce .[] as $x ({}; . + {($x | if .key == null then .k // .name // .Name // .K // .Key else
  .key end | if type == "string" then . else tojson end): ($x | if has("value") then .value elif has("v") then .v
  else .Value end)}); def with_entries(f): to_entries | map(f) | from_entries; def map_values(f): .[] |= f;
def add(f): reduce f as $x (null; . + $x); def any: any(.[]; .); def all: all(.[]; .); def any(f): any(.[]; f);
def all(f): all(.[]; f); def any(g; c): isvalid(first(g | c | select(.)));
def all(g; c): isvalid(first(g | c | select(. | not))) | not;
def isvalid(f): [first(try f catch empty | [1])] | length > 0; def first: .[0]; def last: .[-1];
def last(f): reduce f as $x (null; $x); def nth($n): .[$n]; def in(x): . as $k | x | has($k);
def inside(x): . as $v | x | contains($v); def while(c; u): def w: if c then ., (u | w) else empty end; w;
def until(c; u): def w: if c then . else (u | w) end; w; def repeat(f): def r: ., (f | r); r;
def del(f): delpaths([path(f)]); def paths: path(..) | select(length > 0); def leaf_paths: paths(scalars);
def paths(f): path(.. | select(f)) | select(length > 0); def todate: strftime("%Y-%m-%dT%H:%M:%SZ");
def fromdate: fromdateiso8601; def now_date: now | todate; def ascii(f): f; def halt_error: halt_error(5);
def walk(f): def w: if type == "object" then map_values(w) elif type == "array" then map(w) else . end | f; w;
def sub(r; s): sub(r; s; ""); def gsub(r; s): sub(r; s; "g"); def test(r): test(r; null);
def match(r): match(r; null); def capture(r): capture(r; null); def scan(r): scan(r; null);
def splits(r): splits(r; null); def splits(r; f): split(r; f) | .[];
def capture(r; f): match(r; f) | [.captures[] | select(.name != null) | {key: .name, value: .string}] |
  from_entries; def match(r; f): _match(r; f) | .[]; def scan(r; f): _scan(r; f) | .[];
def unique_by(f): [group_by(f)[] | .[0]];
def combinations: if length == 0 then [] else .[0][] as $x | (.[1:] | combinations) as $w | [$x] + $w end;
def inputs: repeat(input)?; def finites: select(isinfinite or isnan | not); def normals: select(isnormal);
def getpath_or(p; d): getpath(p) // d;
def pick(f): . as $t | reduce path(f) as $p (null; setpath($p; $t | getpath($p)));
def debug(f): (f | debug | empty), .; def abs: if . < 0 then -. else . end;
def toarray: if type == "array" then . else [.] end; def env: $ENV; def input_line_number: 1;
def objects_or_arrays: iterables; def ascii: [.] | implode; def min_by(f): _by(f; "min");
def max_by(f): _by(f; "max");
"""


def _compare_first(left: tuple[Any, Any], right: tuple[Any, Any]) -> int:
    return compare(left[0], right[0])


_FIRST = cmp_to_key(_compare_first)


class Break(Exception):
    """``break $label``."""

    def __init__(self, label: object) -> None:
        super().__init__()
        self.label = label


class Env:
    """Names in sight: variables and functions with what they see themselves."""

    __slots__ = ("functions", "parent", "variables")

    def __init__(self, parent: Env | None = None) -> None:
        self.parent = parent
        self.variables: dict[str, Any] = {}
        self.functions: dict[tuple[str, int], tuple[list[str], Node, Env]] = {}

    def variable(self, name: str) -> Any:
        """Return a variable; raises JqError where there is none."""
        env: Env | None = self
        while env:
            if name in env.variables:
                return env.variables[name]
            env = env.parent
        raise JqError(f"${name} is not defined")

    def function(self, name: str, count: int) -> tuple[list[str], Node, Env] | None:
        """Return a function by its name and number of arguments."""
        env: Env | None = self
        while env:
            if (name, count) in env.functions:
                return env.functions[name, count]
            env = env.parent
        return None


def library() -> Env:
    """Return what is defined in jq itself."""
    env = Env()
    parser = Parser(LIBRARY + " .")
    node = parser.parse()
    while node[0] == "def":
        _, name, params, body, node = node
        env.functions[name, len(params)] = (params, body, env)
    return env


_LIBRARY = library()


class Runner:
    """Runs filters for one process."""

    def __init__(self, process: Process, variables: dict[str, Any]) -> None:
        self.process = process
        self.root = Env(_LIBRARY)
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
        if not args:
            yield function(value)
            return
        async for given in self._product(args, 0, value, env):
            yield function(value, *given)

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
        return [(await self.collect(node, item, env), item) for item in value]

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
