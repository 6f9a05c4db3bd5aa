"""The names a jq filter sees: variables, functions, and the functions that jq defines in itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from kubesim.shell.tools.jq_parse import Node, Parser
from kubesim.shell.tools.jq_values import JqError

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


LIBRARY_NAMES = library()
