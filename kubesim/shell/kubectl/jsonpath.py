"""JSONPath templates as kubectl reads them: text, ``{.a.b[0]}``, ``{range}``, filters.

Source of the language: https://kubernetes.io/docs/reference/kubectl/jsonpath/.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kubesim.goyaml import compact
from kubesim.shell.kubectl.client import KubectlError

_QUOTED = r"""(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_ACTION = re.compile(rf"""([^{{]+)|\{{((?:{_QUOTED}|[^}}"'])*\}}?)""")
_NAME = r"(?:\\.|[^\s.,\[\]$@{}\\])*"
_TOKEN = re.compile(
    rf"""(?P<root>[ @$]) | \[\?\((?P<filter>(?:{_QUOTED}|[^"')])*)\)\] | \.\.(?P<deep>\w*) | \[(?P<inner>[^\]\n]*)\]
    | (?P<text>{_QUOTED}) | \.(?P<field>{_NAME}) | (?P<number>[+-]?\d[\d.]*) | (?P<word>\w{_NAME})""",
    re.VERBOSE,
)
_KEY = re.compile(r"'([^']|\\')*'")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+?)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
DEEPEST = 200
MOST_STEPS = 100_000
"""How much may be looked at: nothing else runs meanwhile."""
Step = tuple[str, Any]


class PathError(Exception):
    """What is wrong with a template or with what it finds, as upstream words it."""


@dataclass
class _Piece:
    """The steps of an action, and what a range repeats for each of its results."""

    steps: list[Step]
    body: list[_Piece] | None = None


def relaxed(text: str) -> str:
    """Return a field as ``--sort-by`` and custom columns accept it: ``x.y``, ``.x.y`` or ``{.x.y}``."""
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    return inner if inner.startswith((".", "[")) else "." + inner


def fill(template: str, obj: Any, *, as_json: bool = False) -> str:
    """Return a template's text for an object. Raises KubectlError with kubectl's words."""
    try:
        pieces = _parsed(template)
    except PathError as error:
        raise KubectlError(f"error: error parsing jsonpath {template}, {error}") from error
    try:
        groups = list(_Walk().results(pieces, [obj]))
    except PathError as error:
        raise KubectlError(
            f"error: error executing jsonpath {json.dumps(template, ensure_ascii=False)}: Error executing template: "
            f"{error}. Printing more information for debugging the template:\n"
            f"\ttemplate was:\n\t\t{template}\n\tobject given to jsonpath engine was:\n\t\t{_syntax(obj)}\n\n"
        ) from error
    if as_json:
        return "".join(json.dumps(group, indent=4, sort_keys=True, ensure_ascii=False) + "\n" for group in groups)
    return "".join(" ".join(_shown(value) for value in group) for group in groups)


def values(path: str, obj: Any) -> list[Any]:
    """Return what a path finds in an object; what is not there is left out. Raises KubectlError."""
    try:
        steps = _steps(path)
    except PathError as error:
        raise KubectlError(f"error: error parsing jsonpath {{{path}}}, {error}") from error
    try:
        return _Walk().along([obj], steps)
    except PathError as error:
        raise KubectlError(f"error: {error}") from error


def _unquoted(text: str) -> str:
    """Return the text of a Go string literal."""

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1 and code[0] in "xuU":
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if code.isdigit() else _ESCAPES.get(code, code)

    return re.sub(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5}|[0-7]{3}|.)", one, text)


def _kind_of(value: Any) -> str:
    """Return a value's type as Go names it."""
    if value is None:
        return "nil"
    names: dict[type, str] = {bool: "bool", int: "int", float: "float64", str: "string"}
    return names.get(type(value)) or ("map[string]interface {}" if isinstance(value, Mapping) else "[]interface {}")


def shown(value: Any) -> str:
    """Return a value as Go's ``%v`` prints it."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        decimal = Decimal(repr(value))
        return format(decimal, "f").removesuffix(".0") if -4 <= decimal.adjusted() < 21 else repr(value)
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{shown(each)}' for key, each in sorted(value.items()))}]"
    return f"[{' '.join(map(shown, value))}]" if isinstance(value, list) else str(value)


def _shown(value: Any) -> str:
    """Return a value as a template prints it."""
    if isinstance(value, dict | list):
        return compact(value)
    return "null" if value is None else shown(value)


def _syntax(value: Any) -> str:
    """Return a value as ``%#v`` prints it: as Go's source would have it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(key)}:{_syntax(each)}" for key, each in sorted(value.items()))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_syntax, value))}}}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return "interface {}(nil)" if value is None else shown(value)


def _parsed(template: str) -> list[_Piece]:
    """Return a template's pieces, each an action or text. Raises PathError."""
    whole: list[_Piece] = []
    open_: list[list[_Piece]] = [whole]
    for text, action in _ACTION.findall(template):
        if text:
            open_[-1].append(_Piece([("text", text)]))
            continue
        if not action.endswith("}"):
            raise PathError("unclosed action")
        steps = _steps(action[:-1])
        if steps == [("word", "end")] and len(open_) > 1:
            open_.pop()
        elif steps[:1] == [("word", "range")]:
            body: list[_Piece] = []
            open_[-1].append(_Piece(steps[1:], body))
            open_.append(body)
            if len(open_) > DEEPEST:
                raise PathError("too many ranges")
        else:
            open_[-1].append(_Piece(steps))
    return whole


def _steps(text: str) -> list[Step]:
    """Return the steps of an action. Raises PathError."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise PathError(_wrong(text, at))
        kind, found = str(match.lastgroup), str(match[str(match.lastgroup)])
        steps += _READ[kind](found)
        at = match.end()
    return steps


def _wrong(text: str, at: int) -> str:
    if text[at] == "[":
        return "unterminated filter" if text.startswith("[?(", at) else "unterminated array"
    if text[at] in "\"'":
        return "unterminated quoted string"
    return f"unrecognized character in action: U+{ord(text[at]):04X} '{text[at]}'"


def _field(name: str) -> list[Step]:
    return [("all", None) if name == "*" else ("field", name.replace("\\", ""))]


def _number(text: str) -> list[Step]:
    try:
        return [("value", float(text) if "." in text else int(text))]
    except ValueError as error:
        raise PathError(f"cannot parse number {text}") from error


def _inner(inner: str) -> list[Step]:
    """Return the step of what stands in brackets: keys, an index, a slice, or several of them."""
    if "," in inner:
        return [("union", [_steps(f"[{part.strip(' ')}]") for part in inner.split(",")])]
    if _KEY.fullmatch(inner):
        return _steps("." + inner[1:-1])
    match = _SLICE.fullmatch(":" if inner == "*" else inner)
    if match is None:
        raise PathError(f"invalid array index {inner}")
    first, last, by = match.groups()
    index = int(first) if first not in ("", "-") else None
    until = (index or 0) + 1 if last is None else int(last[1:]) if last[1:] else None
    return [("array", (index, until, last is None, int(by[1:]) if by and by[1:] else None))]


def _filter(inner: str) -> list[Step]:
    parts = _COMPARISON.fullmatch(inner)
    if parts is None:
        return [("filter", (_steps(inner), "", []))]
    return [("filter", (_steps(parts[1]), parts[2], _steps(parts[3])))]


_READ: dict[str, Callable[[str], list[Step]]] = {
    "root": lambda text: [],
    "filter": _filter,
    "deep": lambda name: [("deep", None), *([("field", name)] if name else [])],
    "inner": _inner,
    "text": lambda text: [("text", _unquoted(text[1:-1]))],
    "field": _field,
    "number": _number,
    "word": lambda word: [("value", word == "true") if word in ("true", "false") else ("word", word)],
}


@dataclass
class _Walk:
    """One evaluation, and how much it has looked at."""

    spent: int = 0

    def results(self, pieces: list[_Piece], current: list[Any]) -> Iterator[list[Any]]:
        """Yield what each piece finds. Raises PathError."""
        for piece in pieces:
            found = self.along(current, piece.steps)
            if piece.body is None:
                yield found
                continue
            for value in found:
                yield from self.results(piece.body, [value])

    def along(self, current: list[Any], steps: list[Step]) -> list[Any]:
        """Return what steps lead to. Raises PathError."""
        for kind, argument in steps:
            current = self._step(current, kind, argument)
            self._spend(1 + len(current))
        return current

    def _spend(self, steps: int) -> None:
        self.spent += steps
        if self.spent > MOST_STEPS:
            raise PathError("too many results")

    def _step(self, current: list[Any], kind: str, argument: Any) -> list[Any]:
        match kind:
            case "text":
                return [argument]
            case "value":
                return [argument for _ in current]
            case "word":
                known = argument == "end"
                raise PathError("not in range, nothing to end" if known else f"unrecognized identifier {argument}")
            case "field":
                return [each[argument] for each in current if isinstance(each, dict) and argument in each]
            case "union":
                return [each for steps in argument for each in self.along(current, steps)]
            case "all":
                return [each for value in current for each in _below(value)]
            case "deep":
                return [each for value in current for each in self._within(value, 0)]
            case "array":
                return [each for value in current if value is not None for each in _sliced(value, *argument)]
        return [each for value in current for each in self._filtered(value, *argument)]

    def _within(self, value: Any, depth: int) -> Iterator[Any]:
        if depth > DEEPEST or not (inner := _below(value)):
            return
        self._spend(1)
        yield value
        for each in inner:
            yield from self._within(each, depth + 1)

    def _filtered(self, value: Any, left: list[Step], sign: str, right: list[Step]) -> Iterator[Any]:
        if not isinstance(value, list):
            raise PathError(f"{shown(value)} is not array or slice and cannot be filtered")
        for item in value:
            lefts = self.along([item], left)
            rights = self.along([item], right) if lefts and sign else []
            if len(lefts) > 1 and sign or len(rights) > 1:
                raise PathError("can only compare one element at a time")
            if lefts and (not sign or rights and _holds(sign, lefts[0], rights[0])):
                yield item


def _holds(sign: str, one: Any, other: Any) -> bool:
    if sign not in _COMPARE:
        raise PathError(f"unrecognized filter operator {sign}")
    ordered = sign not in ("==", "!=")
    if type(one) is not type(other) and (ordered or None not in (one, other)) or isinstance(one, dict | list):
        raise PathError("incompatible types for comparison")
    return _COMPARE[sign](one, other)


def _below(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []


def _sliced(value: Any, first: int | None, last: int | None, derived: bool, by: int | None) -> list[Any]:
    if not isinstance(value, list):
        raise PathError(f"{_kind_of(value)} is not array or slice")
    size = len(value)
    start = (first or 0) + (size if (first or 0) < 0 else 0)
    end = size if last is None else last
    end += size if end < 0 or (end == 0 and derived) else 0
    if start == end:
        return []
    for index, bad in ((start, not 0 <= start < size), (end - 1, not 0 <= end <= size)):
        if bad:
            raise PathError(f"array index out of bounds: index {index}, length {size}")
    if start > end:
        raise PathError(f"starting index {start} is greater than ending index {end}")
    if by is not None and by <= 0:
        raise PathError("step must be > 0")
    return value[start : end : by or 1]
