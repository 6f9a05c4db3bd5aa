"""The grammar of awk's expressions: nested tuples, each beginning with its kind."""

from __future__ import annotations

import re
from typing import Any

from kubesim.shell.tools.awk.tokens import AwkSyntaxError, Tokens, unescape

Expr = tuple[Any, ...]
DEEPEST = 60


class Operators(Tokens):
    """Reads expressions, the loosest operators first."""

    def __init__(self, text: str) -> None:
        self.depth = 0
        self.no_greater = False
        super().__init__(text)

    def _list(self) -> list[Expr]:
        found = [self.expression()]
        while self._take(","):
            self._soft()
            found.append(self.expression())
        return found

    # expressions

    def expression(self) -> Expr:
        """Read one expression."""
        self.depth += 1
        if self.depth > DEEPEST:
            self._fail()
        try:
            return self._assignment()
        finally:
            self.depth -= 1

    def _assignment(self) -> Expr:
        left = self._ternary()
        if self._is("=", "+=", "-=", "*=", "/=", "%=", "^=", "**=") and left[0] in ("var", "field", "element"):
            op = self.value.replace("**", "^")
            self._next()
            self._soft()
            return ("assign", op, left, self.expression())
        return left

    def _ternary(self) -> Expr:
        condition = self._or()
        if self._take("?"):
            self._soft()
            yes = self.expression()
            self._soft()
            self._expect(":")
            self._soft()
            return ("ternary", condition, yes, self.expression())
        return condition

    def _or(self) -> Expr:
        left = self._and()
        while self._take("||"):
            self._soft()
            left = ("or", left, self._and())
        return left

    def _and(self) -> Expr:
        left = self._in()
        while self._take("&&"):
            self._soft()
            left = ("and", left, self._in())
        return left

    def _in(self) -> Expr:
        left = self._match()
        while self._take("in"):
            keys = list(left[1]) if left[0] == "group" else [left]
            left = ("in", keys, self.value)
            self._next()
        return left

    def _match(self) -> Expr:
        left = self._compare()
        while self._is("~", "!~"):
            op = self.value
            self._next()
            left = ("match", op, left, self._compare())
        return left

    def _compare(self) -> Expr:
        left = self._concatenation()
        if self._is("<", "<=", "!=", "==", ">=") or self._is(">") and not self.no_greater:
            op = self.value
            self._next()
            left = ("compare", op, left, self._concatenation())
        while self._is("|") and re.compile(r"\s*getline\b").match(self.text, self.at):
            self._next()
            self._next()
            left = ("getline", "|", left, self._lvalue())
        return left

    def _concatenation(self) -> Expr:
        left = self._additive()
        while self._begins_operand():
            left = ("concat", left, self._additive())
        return left

    def _begins_operand(self) -> bool:
        if self.kind in ("number", "string", "name", "call", "builtin"):
            return True
        return self._is("$", "!", "(", "-", "+", "++", "--") and not self._is("!~")

    def _additive(self) -> Expr:
        left = self._multiplicative()
        while self._is("+", "-"):
            op = self.value
            self._next()
            left = ("binary", op, left, self._multiplicative())
        return left

    def _multiplicative(self) -> Expr:
        left = self._unary()
        while self._is("*", "/", "%"):
            op = self.value
            self._next()
            left = ("binary", op, left, self._unary())
        return left

    def _unary(self) -> Expr:
        self.depth += 1
        if self.depth > DEEPEST:
            self._fail()
        try:
            if self._is("!", "-", "+"):
                op = self.value
                self._next()
                return ("unary", op, self._unary())
            return self._power()
        finally:
            self.depth -= 1

    def _power(self) -> Expr:
        left = self._postfix()
        if self._is("^", "**"):
            self._next()
            return ("binary", "^", left, self._unary() if self._is("-", "+", "!") else self._power())
        return left

    def _postfix(self) -> Expr:
        left = self._primary()
        if self._is("++", "--") and left[0] in ("var", "field", "element"):
            op = self.value
            self._next()
            return ("post", op, left)
        return left

    def _primary(self) -> Expr:
        kind, value = self.kind, self.value
        if kind == "number":
            self._next()
            return ("number", float(int(value, 16)) if value[:2].lower() == "0x" else float(value))
        if kind == "string":
            self._next()
            return ("string", unescape(value[1:-1]))
        if kind == "builtin":
            return self._builtin(value)
        if kind == "call":
            self._next()
            return ("call", value, self._arguments())
        if kind == "name":
            return self._variable()
        if kind == "op":
            return self._operator(value)
        if kind == "keyword" and value == "getline":
            self._next()
            target = self._lvalue()
            if self._take("<"):
                return ("getline", "<", self._primary(), target)
            return ("getline", "", None, target)
        self._fail()
        return ()

    def _operator(self, value: str) -> Expr:
        if value in ("/", "/="):
            return self._regex(value)
        if value == "$":
            self._next()
            if self._is("++", "--"):
                op = self.value
                self._next()
                return ("field", ("pre", op, self._primary()))
            return ("field", self._unary() if self._is("-") else self._primary())
        if value in ("++", "--"):
            self._next()
            target = self._primary()
            if target[0] not in ("var", "field", "element"):
                self._fail()
            return ("pre", value, target)
        if value == "(":
            self._next()
            before, self.no_greater = self.no_greater, False
            found = self._list()
            self._soft()
            self._expect(")")
            self.no_greater = before
            return ("group", found)
        self._fail()
        return ()

    def _regex(self, start: str) -> Expr:
        at, inside = self.at, False
        while at < len(self.text) and (self.text[at] != "/" or inside):
            if self.text[at] == "\n":
                break
            if self.text[at] == "\\":
                at += 1
            elif self.text[at] == "[":
                inside = True
            elif self.text[at] == "]":
                inside = False
            at += 1
        if self.text[at : at + 1] != "/":
            raise AwkSyntaxError("unterminated regex", self.line)
        source = start[1:] + self.text[self.at : at].replace("\\/", "/")
        self.at = at + 1
        self._next()
        return ("regex", source)

    def _builtin(self, name: str) -> Expr:
        self._next()
        args = self._arguments() if self._is("(") else []
        return ("builtin", name, args)

    def _arguments(self) -> list[Expr]:
        self._expect("(")
        self._soft()
        before, self.no_greater = self.no_greater, False
        found = [] if self._is(")") else self._list()
        self._soft()
        self._expect(")")
        self.no_greater = before
        return found

    def _variable(self) -> Expr:
        name = self.value
        self._next()
        if self._take("["):
            return ("element", name, self._subscript())
        return ("var", name)

    def _subscript(self) -> list[Expr]:
        found = self._list()
        self._expect("]")
        return found

    def _lvalue(self) -> Expr | None:
        if self.kind == "name":
            return self._variable()
        if self._is("$"):
            self._next()
            return ("field", self._primary())
        return None
