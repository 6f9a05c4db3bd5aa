"""JSONPath templates as kubectl reads them: text, ``{.a.b[0]}``, ``{range}``, filters.

Source of the language: https://kubernetes.io/docs/reference/kubectl/jsonpath/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kubesim.shell.kubectl import govalues as go
from kubesim.shell.kubectl.client import KubectlError
from kubesim.shell.kubectl.texts import compact

_FILTER = re.compile(r"""\[\?\(((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^"')])*)\)""")
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1)[^\\\n])*)\1""")
_NAME = re.compile(r"(?:\\.|[^\s.,\[\]$@{}\\])*")
_KEY = re.compile(r"'([^']|\\')*'")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_NUMBER = re.compile(r"[+-]?[\d.]*")
DEEPEST = 200
MOST_STEPS = 100_000
"""How much may be looked at: nothing else runs meanwhile."""
Step = tuple[str, Any]


class PathError(Exception):
    """What is wrong with a template or with what it finds, as upstream words it."""


def relaxed(text: str) -> str:
    """Return a field as ``--sort-by`` and custom columns accept it: ``x.y``, ``.x.y`` or ``{.x.y}``."""
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    return inner if inner.startswith((".", "[")) else "." + inner


def fill(template: str, obj: Any, *, as_json: bool = False) -> str:
    """Return a template's text for an object. Raises KubectlError with kubectl's words."""
    try:
        pieces = parsed(template)
    except PathError as error:
        raise KubectlError(f"error: error parsing jsonpath {template}, {error}") from error
    try:
        groups = list(_Walk(pieces).results([obj]))
    except PathError as error:
        raise KubectlError(
            f"error: error executing jsonpath {json.dumps(template, ensure_ascii=False)}: Error executing template: "
            f"{error}. Printing more information for debugging the template:\n"
            f"\ttemplate was:\n\t\t{template}\n\tobject given to jsonpath engine was:\n\t\t{syntax(obj)}\n\n"
        ) from error
    if as_json:
        return "".join(json.dumps(group, indent=4, sort_keys=True, ensure_ascii=False) + "\n" for group in groups)
    return "".join(" ".join(shown(value) for value in group) for group in groups)


def shown(value: Any) -> str:
    """Return a value as a template prints it."""
    if isinstance(value, dict | list):
        return compact(value)
    return "null" if value is None else go.shown(value)


def syntax(value: Any) -> str:
    """Return a value as ``%#v`` prints it: as Go's source would have it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(key)}:{syntax(each)}" for key, each in sorted(value.items()))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(syntax, value))}}}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return "interface {}(nil)" if value is None else go.shown(value)


def values(path: str, obj: Any) -> list[Any]:
    """Return what a path finds in an object; what is not there is left out. Raises KubectlError."""
    try:
        steps = _steps(path)
    except PathError as error:
        raise KubectlError(f"error: error parsing jsonpath {{{path}}}, {error}") from error
    try:
        return _Walk([]).along([obj], steps)
    except PathError as error:
        raise KubectlError(f"error: {error}") from error


def parsed(template: str) -> list[list[Step]]:
    """Return a template's pieces, each the steps of an action or one of text. Raises PathError."""
    pieces: list[list[Step]] = []
    at = 0
    while at < len(template):
        start = template.find("{", at)
        if start != at:
            pieces.append([("text", template[at : start if start >= 0 else None])])
        if start < 0:
            break
        steps, at = _action(template, start + 1)
        pieces.append(steps)
    return pieces


def _steps(text: str) -> list[Step]:
    return _action(text + "}", 0)[0]


def _action(text: str, at: int) -> tuple[list[Step], int]:
    """Return the steps of an action that begins at a place, and where what follows it begins."""
    steps: list[Step] = []
    while at < len(text) and text[at] != "\n":
        letter = text[at]
        if letter == "}":
            return steps, at + 1
        if letter in " @$":
            at += 1
        elif text.startswith("[?(", at):
            at = _filter(text, at, steps)
        elif text.startswith("..", at):
            at = _deep(text, at, steps)
        elif letter == "[":
            at = _array(text, at, steps)
        elif letter in "\"'":
            at = _quote(text, at, steps)
        elif letter == ".":
            at = _field(text, at + 1, steps)
        elif letter in "+-" or letter.isdigit():
            at = _numeric(text, at, steps)
        elif letter.isalnum() or letter == "_":
            at = _word(text, at, steps)
        else:
            raise PathError(f"unrecognized character in action: U+{ord(letter):04X} '{letter}'")
    raise PathError("unclosed action")


def _deep(text: str, at: int, steps: list[Step]) -> int:
    if steps and steps[-1][0] == "deep":
        raise PathError("invalid multiple recursive descent")
    steps.append(("deep", None))
    at += 2
    return _field(text, at, steps) if text[at : at + 1].isalnum() else at


def _field(text: str, at: int, steps: list[Step]) -> int:
    match = _NAME.match(text, at)
    name, end = (match[0], match.end()) if match else ("", at)
    steps.append(("all", None) if name == "*" else ("field", name.replace("\\", "")))
    return end


def _word(text: str, at: int, steps: list[Step]) -> int:
    match = _NAME.match(text, at)
    word, end = (match[0], match.end()) if match else ("", at)
    steps.append(("value", word == "true") if word in ("true", "false") else ("word", word))
    return end


def _numeric(text: str, at: int, steps: list[Step]) -> int:
    match = _NUMBER.match(text, at)
    found = match[0] if match else ""
    try:
        steps.append(("value", float(found) if "." in found else int(found)))
    except ValueError as error:
        raise PathError(f"cannot parse number {found}") from error
    return at + len(found)


def _quote(text: str, at: int, steps: list[Step]) -> int:
    match = _QUOTED.match(text, at)
    if match is None:
        raise PathError("unterminated quoted string")
    steps.append(("text", go.unquoted(f'"{match[2]}"')))
    return match.end()


def _array(text: str, at: int, steps: list[Step]) -> int:
    end = text.find("]", at)
    if end < 0 or "\n" in text[at:end]:
        raise PathError("unterminated array")
    inner = text[at + 1 : end]
    if "," in inner:
        steps.append(("union", [_steps(f"[{part.strip(' ')}]") for part in inner.split(",")]))
        return end + 1
    if _KEY.fullmatch(inner):
        steps += _steps("." + inner[1:-1])
        return end + 1
    match = _SLICE.fullmatch(":" if inner == "*" else inner)
    if match is None:
        raise PathError(f"invalid array index {inner}")
    first, last, by = match.groups()
    index = int(first) if first not in ("", "-") else None
    until = (index or 0) + 1 if last is None else int(last[1:]) if last[1:] else None
    derived = last is None
    steps.append(("array", (index, until, derived, int(by[1:]) if by and by[1:] else None)))
    return end + 1


def _filter(text: str, at: int, steps: list[Step]) -> int:
    match = _FILTER.match(text, at)
    if match is None:
        raise PathError("unterminated filter")
    if text[match.end() : match.end() + 1] != "]":
        raise PathError("unclosed array expect ]")
    parts = re.fullmatch(r"([^!<>=]+)([!<>=]+)(.+?)", match[1])
    if parts is None:
        steps.append(("filter", (_steps(match[1]), "", [])))
    else:
        steps.append(("filter", (_steps(parts[1]), parts[2], _steps(parts[3]))))
    return match.end() + 1


@dataclass
class _Walk:
    """One evaluation: the pieces, and how many ranges are open."""

    pieces: list[list[Step]]
    inside: int = 0
    begun: bool = False
    ended: bool = False
    spent: int = 0

    def results(self, current: list[Any]) -> Iterator[list[Any]]:
        """Yield what each piece finds. Raises PathError."""
        found, _ = self._block(0, current)
        yield from found

    def _block(self, at: int, current: list[Any]) -> tuple[list[list[Any]], int]:
        """Return what the pieces find up to the end of a range, and where that is (0: nowhere)."""
        found: list[list[Any]] = []
        while at < len(self.pieces):
            results = self.along(current, self.pieces[at])
            at += 1
            if self.ended:
                self.ended = False
                return found, at
            if not self.begun:
                found.append(results)
                continue
            self.begun, after = False, at
            self.inside += 1
            if self.inside > DEEPEST:
                raise PathError("too many ranges")
            for value in results or [None]:
                inner, after = self._block(at, [value])
                found += inner if results else []
            self.inside -= 1
            at = after or at  # one that is never closed holds the rest, which then follows it once more
        return found, 0

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

    def _deep(self, current: list[Any]) -> Iterator[Any]:
        for value in current:
            for each in _within(value, 0):
                self._spend(1)
                yield each

    def _step(self, current: list[Any], kind: str, argument: Any) -> list[Any]:
        if kind == "text":
            return [argument]
        if kind == "value":
            return [argument for _ in current]
        if kind == "word":
            return self._word(current, argument)
        if kind == "field":
            return [each[argument] for each in current if isinstance(each, dict) and argument in each]
        if kind == "union":
            return [each for steps in argument for each in self.along(current, steps)]
        if kind == "all":
            return [each for value in current for each in _inner(value)]
        if kind == "deep":
            return [*self._deep(current)]
        if kind == "array":
            return [each for value in current if value is not None for each in _sliced(value, *argument)]
        return [each for value in current for each in self._filtered(value, *argument)]

    def _word(self, current: list[Any], word: str) -> list[Any]:
        if word == "range":
            self.begun = True
            return current
        if word != "end":
            raise PathError(f"unrecognized identifier {word}")
        if not self.inside:
            raise PathError("not in range, nothing to end")
        self.ended = True
        return []

    def _filtered(self, value: Any, left: list[Step], sign: str, right: list[Step]) -> Iterator[Any]:
        if not isinstance(value, list):
            raise PathError(f"{go.shown(value)} is not array or slice and cannot be filtered")
        for item in value:
            lefts = self.along([item], left)
            if not sign:
                if lefts:
                    yield item
                continue
            rights = self.along([item], right) if lefts else []
            if len(lefts) > 1 or len(rights) > 1:
                raise PathError("can only compare one element at a time")
            if lefts and rights and self._holds(sign, lefts[0], rights[0]):
                yield item

    def _holds(self, sign: str, one: Any, other: Any) -> bool:
        if sign not in go.COMPARE:
            raise PathError(f"unrecognized filter operator {sign}")
        try:
            return go.COMPARE[sign](one, other)
        except go.CompareError as error:
            raise PathError(str(error)) from error


def _inner(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []


def _within(value: Any, depth: int) -> Iterator[Any]:
    if depth > DEEPEST or not (inner := _inner(value)):
        return
    yield value
    for each in inner:
        yield from _within(each, depth + 1)


def _sliced(value: Any, first: int | None, last: int | None, derived: bool, by: int | None) -> list[Any]:
    if not isinstance(value, list):
        raise PathError(f"{go.kind_of(value)} is not array or slice")
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
