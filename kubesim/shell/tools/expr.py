"""expr: an expression of words, by POSIX' precedence."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from kubesim.shell import regexes
from kubesim.shell.arith import wrap
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

MAX_DEPTH = 30
MAX_DIGITS = 19
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, "=": operator.eq, "==": operator.eq, "!=": operator.ne, ">=": operator.ge,
    ">": operator.gt,
}  # fmt: skip
LEVELS = (("|",), ("&",), tuple(COMPARISONS), ("+", "-"), ("*", "/", "%"), (":",))
FALSE = ("", "0")


class ExprError(Exception):
    """An expression that has no value, and why."""


class _Reader:
    """A recursive descent over the words."""

    def __init__(self, words: list[str]) -> None:
        self.words, self.at, self.depth = words, 0, 0

    def level(self, number: int) -> str:
        if number == len(LEVELS):
            return self.primary()
        left = self.level(number + 1)
        while self.at < len(self.words) and self.words[self.at] in LEVELS[number]:
            sign = self.words[self.at]
            self.at += 1
            left = _applied(sign, left, self.level(number + 1))
        return left

    def primary(self) -> str:
        if self.at >= len(self.words):
            raise ExprError(f"syntax error: missing argument after '{self.words[-1]}'")
        word = self.words[self.at]
        self.at += 1
        if word == "(" and self.depth < MAX_DEPTH:
            return self.group()
        if word == "length" and self.at < len(self.words):
            return str(len(self.primary()))
        return word

    def group(self) -> str:
        self.depth += 1
        found = self.level(0)
        self.depth -= 1
        if self.words[self.at : self.at + 1] != [")"]:
            raise ExprError(f"syntax error: expecting ')' after '{self.words[self.at - 1]}'")
        self.at += 1
        return found


def _applied(sign: str, left: str, right: str) -> str:
    if sign == ":":
        return _matched(left, right)
    if sign == "|":
        return left if left not in FALSE else right or "0"
    if sign == "&":
        return left if left not in FALSE and right not in FALSE else "0"
    a, b = _number(left), _number(right)
    if sign in COMPARISONS:
        return str(int(COMPARISONS[sign](*((left, right) if a is None or b is None else (a, b)))))
    if a is None or b is None:
        raise ExprError("non-integer argument")
    return str(_computed(sign, a, b))


def _matched(text: str, pattern: str) -> str:
    """Return the first group of a pattern at the text's beginning; without groups, how many characters match."""
    compiled = regexes.compile_posix(pattern.removeprefix("^"), extended=False)
    match = compiled.match(text, timeout=regexes.MATCH_S)
    if compiled.groups:
        return (match[1] or "") if match else ""
    return str(match.end() if match else 0)


def _computed(sign: str, a: int, b: int) -> int:
    if sign in "+-*":
        return wrap({"+": a + b, "-": a - b, "*": a * b}[sign])
    if b == 0:
        raise ExprError("division by zero")
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # C's, towards zero
    return quotient if sign == "/" else a - quotient * b


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS else None


async def expr(process: Process) -> int:
    """Print the value of an expression; 1 where it is empty or 0, 2 where there is none."""
    words = process.argv[1:]
    if not words:
        await kit.usage(process, "missing operand")
    reader = _Reader(words)
    try:
        found = reader.level(0)
        if reader.at < len(words):
            raise ExprError(f"syntax error: unexpected argument '{words[reader.at]}'")
    except (ExprError, regexes.RegexError, TimeoutError) as error:
        return await process.fail(str(error), 2)
    await process.write(found + "\n")
    return int(found in FALSE)


TOOLS: dict[str, Tool] = {"expr": expr}
