"""JSONPath templates as kubectl reads them: text, ``{.a.b[0]}``, ``{range}``, filters."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from kubesim.shell.kubectl.client import KubectlError

Step = tuple[str, Any]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_TEXT = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", '\\"': '"', "\\'": "'"}


class OutOfBounds(Exception):
    """An index that a list does not have."""


def relaxed(text: str) -> str:
    """Return a field as ``--sort-by`` and custom columns accept it: ``x.y``, ``.x.y`` or ``{.x.y}``."""
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    return inner if inner.startswith((".", "[")) else "." + inner


def fill(template: str, obj: Any) -> str:
    """Return a template's text for an object. Raises KubectlError with kubectl's words."""
    pieces = list(_pieces(template))
    try:
        return "".join(_filled(pieces, obj, obj))
    except OutOfBounds as error:
        raise KubectlError(
            f'error: error executing jsonpath "{_quoted(template)}": Error executing template: {error}. '
            "Printing more information for debugging the template:\n"
            f"\ttemplate was:\n\t\t{template}\n\tobject given to jsonpath engine was:\n\t\t{shown(obj)}\n\n"
        ) from error


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def shown(value: Any) -> str:
    """Return a value as a template prints it."""
    if value is None:
        return ""
    return (
        value
        if isinstance(value, str)
        else json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    )


def _pieces(template: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(template):
        start = template.find("{", at)
        if start < 0:
            yield "text", template[at:]
            return
        if start > at:
            yield "text", template[at:start]
        match = re.compile(r"""\{((?:[^{}'"]|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")*)\}""").match(template, start)
        if not match:
            raise KubectlError(f"error: error parsing jsonpath {template}, unclosed action")
        yield from _action(match[1].strip(), template)
        at = match.end()


def _action(inner: str, template: str) -> Iterator[tuple[str, str]]:
    if inner == "end":
        yield "end", ""
    elif inner.startswith("range"):
        yield "range", inner[5:].strip()
    elif inner[:1] in ("'", '"'):
        yield "text", re.sub(r"\\.", lambda match: _TEXT.get(match[0], match[0]), inner[1:-1])
    else:
        if inner[:1] not in (".", "$", "@", "["):
            raise KubectlError(
                f"error: error parsing jsonpath {template}, unrecognized identifier {inner.split('.')[0]}"
            )
        yield "path", inner


def _filled(pieces: list[tuple[str, str]], obj: Any, root: Any) -> Iterator[str]:
    at = 0
    while at < len(pieces):
        kind, inner = pieces[at]
        at += 1
        if kind == "text":
            yield inner
        elif kind == "path":
            yield " ".join(shown(value) for value in values(inner, obj, root))
        elif kind == "range":
            end = _end(pieces, at)
            for item in values(inner, obj, root):
                yield from _filled(pieces[at:end], item, root)
            at = end + 1


def _end(pieces: list[tuple[str, str]], at: int) -> int:
    depth = 1
    for index in range(at, len(pieces)):
        depth += (pieces[index][0] == "range") - (pieces[index][0] == "end")
        if not depth:
            return index
    raise KubectlError("error: error parsing jsonpath, unclosed range")


def values(path: str, obj: Any, root: Any = None) -> list[Any]:
    """Return what a path finds in an object; what is not there is left out."""
    found = [root if path.startswith("$") and root is not None else obj]
    for kind, argument in _steps(path):
        found = [result for value in found for result in _taken(kind, argument, value)]
    return found


def _steps(path: str) -> Iterator[Step]:
    at = 1 if path[:1] in ("$", "@") else 0
    while at < len(path):
        if path.startswith("..", at):
            yield "deep", None
            at += 1 if re.match(r"\.\.[^.\[]", path[at:]) else 2
        elif path[at] == "[":
            end = _closing(path, at)
            yield _bracket(path[at + 1 : end].strip())
            at = end + 1
        else:
            match = re.compile(r"\.((?:\\.|[^.\[\\])*)").match(path, at)
            if not match:
                raise KubectlError(f"error: error parsing jsonpath {{{path}}}, unrecognized character in action")
            name = re.sub(r"\\(.)", r"\1", match[1])
            at = match.end()
            if name:
                yield ("all", None) if name == "*" else ("field", name)


def _closing(path: str, at: int) -> int:
    depth, quote = 0, ""
    for index in range(at, len(path)):
        letter = path[index]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter == "[") - (letter == "]")
            if not depth:
                return index
    raise KubectlError(f"error: error parsing jsonpath {{{path}}}, unterminated array")


def _bracket(text: str) -> Step:
    if text == "*":
        return "all", None
    if text.startswith("?(") and text.endswith(")"):
        return "filter", text[2:-1].strip()
    if text[:1] in ("'", '"'):
        return "fields", [part.strip()[1:-1].replace("\\.", ".") for part in text.split(",")]
    if re.fullmatch(r"-?\d*(:-?\d*){0,2}", text) and text:
        return (
            ("slice", [int(part) if part else None for part in text.split(":")])
            if ":" in text
            else ("at", [int(text)])
        )
    if re.fullmatch(r"-?\d+(,-?\d+)*", text):
        return "at", [int(part) for part in text.split(",")]
    raise KubectlError(f"error: error parsing jsonpath, invalid array index {text}")


def _taken(kind: str, argument: Any, value: Any) -> Iterator[Any]:
    if kind == "field" and isinstance(value, dict) and argument in value:
        yield value[argument]
    elif kind == "fields" and isinstance(value, dict):
        yield from (value[name] for name in argument if name in value)
    elif kind == "all":
        yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    elif kind == "deep":
        yield from _within(value)
    elif isinstance(value, list):
        yield from _listed(kind, argument, value)


def _within(value: Any) -> Iterator[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _within(each)


def _listed(kind: str, argument: Any, value: list[Any]) -> Iterator[Any]:
    if kind == "at":
        for index in argument:
            if not -len(value) <= index < len(value):
                raise OutOfBounds(f"array index out of bounds: index {index}, length {len(value)}")
            yield value[index]
    elif kind == "slice":
        yield from value[slice(*argument)] if argument[2:] != [0] else ()
    elif kind == "filter":
        yield from (item for item in value if _holds(argument, item))


def _holds(condition: str, item: Any) -> bool:
    parts = re.split(r"\s*(==|!=|<=|>=|<|>)\s*", condition, maxsplit=1)
    left = _operand(parts[0], item)
    if len(parts) == 1:
        return bool(left)
    right = _operand(parts[2], item)
    return any(_compared(parts[1], one, other) for one in left for other in right)


def _operand(text: str, item: Any) -> list[Any]:
    text = text.strip()
    if text.startswith("@"):
        return values(text, item)
    if text[:1] in ("'", '"'):
        return [text[1:-1]]
    try:
        return [json.loads(text)]
    except ValueError:
        return [text]


def _compared(sign: str, one: Any, other: Any) -> bool:
    if isinstance(one, str) != isinstance(other, str):
        return sign == "!="
    try:
        return COMPARE[sign](one, other)
    except TypeError:
        return False
