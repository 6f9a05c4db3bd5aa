"""Shell arithmetic: 64-bit integers, C's operators, variables that hold expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub, xor
from typing import Protocol

DEEPEST = 24
LONGEST = 65_536
_TOKEN = re.compile(
    r"\s*(?:(\d+#[0-9A-Za-z@_]+|0[xX][0-9A-Fa-f]+|\d\w*)|([A-Za-z_]\w*)"
    r"|(\*\*|<<=|>>=|\+\+|--|&&|\|\||<<|>>|<=|>=|==|!=|[-+*/%&|^]=|[-+*/%&|^!~<>=?:,()\[\]])|(\S))"
)
_PRECEDENCE = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"), ("**",),
)  # fmt: skip
_LEVELS = {operator: level for level, same in enumerate(_PRECEDENCE, 1) for operator in same}
_OPERAND = "syntax error: operand expected"
_ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}


class ArithError(Exception):
    """An expression that has no value: why, as bash words it, and the bad text."""

    def __init__(self, cause: str, at: str = "") -> None:
        super().__init__(f'{cause} (error token is "{at}")')


class Variables(Protocol):
    """Where names get their values."""

    def number_text(self, name: str, index: str | None) -> str:
        """Return a variable's text, "" where it is unset."""

    def assign_number(self, name: str, index: str | None, value: int) -> None:
        """Set a variable."""


def wrap(value: int) -> int:
    """Cut to 64 bits with a sign."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def evaluate(text: str, variables: Variables, *, depth: int = 0) -> int:
    """Return an expression's value. Raises ArithError."""
    if depth > DEEPEST or len(text) > LONGEST:
        raise ArithError("expression recursion level exceeded", text)
    reader = _Reader(text, variables, depth=depth)
    if not reader.tokens:
        return 0
    value = reader.comma()
    if reader.at < len(reader.tokens):
        raise ArithError("syntax error in expression", reader.rest())
    return value


class _Reader:
    def __init__(self, text: str, variables: Variables, *, depth: int) -> None:
        self.text = text
        self.variables = variables
        self.depth = depth
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        self.live = True
        self.nested = 0
        for match in _TOKEN.finditer(text):
            kind = ("number", "name", "operator", "bad")[(match.lastindex or 4) - 1]
            self.tokens.append((kind, match[match.lastindex or 4], match.start(match.lastindex or 4)))

    def rest(self) -> str:
        return self.text[self.tokens[self.at][2] :] if self.at < len(self.tokens) else ""

    def peek(self) -> str:
        if self.at < len(self.tokens) and self.tokens[self.at][0] in ("operator", "bad"):
            return self.tokens[self.at][1]
        return ""

    def take(self, operator: str) -> bool:
        if self.peek() == operator:
            self.at += 1
            return True
        return False

    def comma(self) -> int:
        value = self.assignment()
        while self.take(","):
            value = self.assignment()
        return value

    def assignment(self) -> int:
        self.nested += 1
        if self.nested > 60:
            raise ArithError("expression recursion level exceeded", self.text)
        start = self.at
        target = self._target()
        operator = self.peek()
        if target and operator in _ASSIGN:
            self.at += 1
            value = self.assignment()
            if operator != "=":
                value = self.binary(operator[:-1], self._value(*target), value)
            value = self._assign(*target, value)
        else:
            self.at = start
            value = self.ternary()
        self.nested -= 1
        return value

    def _assign(self, name: str, index: str | None, value: int) -> int:
        value = wrap(value)
        if self.live:
            self.variables.assign_number(name, index, value)
        return value

    def _target(self) -> tuple[str, str | None] | None:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "name":
            return None
        name = self.tokens[self.at][1]
        self.at += 1
        index = None
        if self.peek() == "[":
            start, depth = self.at, 0
            while self.at < len(self.tokens):
                depth += {"[": 1, "]": -1}.get(self.tokens[self.at][1], 0)
                self.at += 1
                if depth == 0:
                    break
            index = self.text[self.tokens[start][2] + 1 : self.tokens[self.at - 1][2]]
        return name, index

    def _value(self, name: str, index: str | None) -> int:
        text = self.variables.number_text(name, index)
        if not self.live or not text.strip():
            return 0
        if re.fullmatch(r"[+-]?[1-9]\d{0,17}|0", text):
            return int(text)
        return evaluate(text, self.variables, depth=self.depth + 1)

    def ternary(self) -> int:
        condition = self.level(1)
        if not self.take("?"):
            return condition
        yes = self._when(bool(condition), self.assignment)
        if not self.take(":"):
            raise ArithError("syntax error in expression", self.rest() or "?")
        no = self._when(not condition, self.assignment)
        return yes if condition else no

    def _when(self, live: bool, read: Callable[[], int]) -> int:
        before, self.live = self.live, self.live and live
        value = read()
        self.live = before
        return value

    def level(self, level: int) -> int:
        left = self.unary()
        while True:
            operator = self.peek()
            mine = _LEVELS.get(operator, 0)
            if mine < level:
                return left
            self.at += 1
            right_level = mine if operator == "**" else mine + 1
            if operator in ("&&", "||"):
                right = self._when(bool(left) == (operator == "&&"), partial(self.level, right_level))
                left = int(bool(left and right)) if operator == "&&" else int(bool(left or right))
            else:
                left = self.binary(operator, left, self.level(right_level))

    def binary(self, operator: str, left: int, right: int) -> int:
        if operator in ("/", "%"):
            if right == 0:
                if not self.live:
                    return 0
                raise ArithError("division by 0", self.tokens[self.at - 1][1])
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return wrap(quotient if operator == "/" else left - quotient * right)
        if operator == "**":
            if right < 0:
                raise ArithError("exponent less than 0", str(right))
            return wrap(pow(left, right, 1 << 64))
        if operator in ("<<", ">>"):
            return wrap(left << (right & 63)) if operator == "<<" else left >> (right & 63)
        return wrap(_SIMPLE[operator](left, right))

    def unary(self) -> int:
        self.nested += 1
        if self.nested > 60:
            raise ArithError("expression recursion level exceeded", self.text)
        try:
            return self._unary()
        finally:
            self.nested -= 1

    def _unary(self) -> int:
        operator = self.peek()
        if operator in ("++", "--"):
            self.at += 1
            target = self._target()
            if not target:
                return self.unary() if operator == "++" else wrap(self.unary())
            return self._assign(*target, self._value(*target) + (1 if operator == "++" else -1))
        if operator and operator in "+-!~":
            self.at += 1
            value = self.unary()
            return {"+": value, "-": wrap(-value), "!": int(not value), "~": ~value}[operator]
        return self.primary()

    def primary(self) -> int:
        if self.at >= len(self.tokens):
            raise ArithError(_OPERAND, self.text[self.tokens[-1][2] :] or self.text.strip()[-1:])
        kind, text, _ = self.tokens[self.at]
        if kind == "number":
            self.at += 1
            return wrap(_number(text))
        if kind == "name":
            target = self._target()
            if target is None:
                return 0
            if self.peek() in ("++", "--"):
                value = self._value(*target)
                self._assign(*target, value + (1 if self.peek() == "++" else -1))
                self.at += 1
                return value
            return self._value(*target)
        if self.take("("):
            value = self.comma()
            if not self.take(")"):
                raise ArithError("missing `)'", self.rest() or text)
            return value
        raise ArithError(_OPERAND, self.rest() or self.text.strip()[-1:])


_SIMPLE: dict[str, Callable[[int, int], int]] = {
    "|": or_, "^": xor, "&": and_, "==": eq, "!=": ne, "<": lt, ">": gt, "<=": le, ">=": ge, "+": add, "-": sub,
    "*": mul,
}  # fmt: skip


def _number(text: str) -> int:
    if len(text) > 64:
        raise ArithError("value too great for base", text)
    try:
        if "#" in text:
            base, digits = text.split("#", 1)
            return int(digits, int(base)) if 2 <= int(base) <= 36 else 0
        if text[:2].lower() == "0x":
            return int(text, 16)
        return int(text, 8) if text.startswith("0") and text != "0" else int(text)
    except ValueError as error:
        raise ArithError("value too great for base", text) from error
