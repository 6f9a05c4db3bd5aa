"""awk's grammar: programs as nested tuples, each beginning with its kind; expressions by the binding of operators."""

from __future__ import annotations

import re
from typing import Any

from kubesim.shell.tools.awk.values import AwkError

Expr = tuple[Any, ...]
MAX_DEPTH, MAX_OPERATORS = 60, 250
"""Most levels that a program may be nested, and most operators of an expression."""
_TOKEN = re.compile(
    r"(?P<space>[ \t\r]+|\\\r?\n|#[^\n]*)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r'|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<newline>\n)"
    r"|(?P<op>&&|\|\||\+\+|--|[-+*/%^]=|==|<=|>=|!=|!~|>>|[-+*/%^!<>?:~$=,;(){}\[\]])",
    re.DOTALL,
)
STATEMENTS = frozenset({"print", "printf", "next", "break", "continue", "exit", "delete"})
KEYWORDS = STATEMENTS | {
    "BEGIN", "END", "if", "else", "while", "for", "in", "do", "func", "function", "getline", "nextfile", "return",
    "system",
}  # fmt: skip
"""Words that are no variables; the last seven are none of ours."""
FUNCTIONS = frozenset({
    "length", "substr", "index", "split", "sub", "gsub", "match", "sprintf", "int", "sqrt", "tolower", "toupper",
})  # fmt: skip
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "^=")
BINDING = {"?": 2, "||": 3, "&&": 4, "in": 5, "~": 6, "!~": 6, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "^": 12}
BINDING |= dict.fromkeys(ASSIGNMENTS, 1) | dict.fromkeys(("<", "<=", "!=", "==", ">", ">="), 7)
JOINED, SIGNED, STEPPED, PLAIN = 8, 11, 13, 14
"""The binding of two operands side by side, of a sign, of ++ and -- after a variable, and of none but the operand."""
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "/": "/",
}


class AwkSyntaxError(Exception):
    """A program that cannot be parsed: ``at`` is the text where it goes wrong, ``line`` its line."""

    def __init__(self, at: str, line: int) -> None:
        super().__init__(at)
        self.at = at
        self.line = line


def unescape(text: str) -> str:
    """Return what a string constant stands for."""

    def one(match: re.Match[str]) -> str:
        if match[1][0] in "01234567":
            return chr(int(match[1], 8) & 255)
        return _ESCAPES.get(match[1], "\\" + match[1])

    return re.sub(r"\\([0-7]{1,3}|.)", one, text, flags=re.DOTALL)


class _Tokens:
    """A program's text, with one token in hand: its ``kind`` and its ``value``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.kind = self.value = ""
        self._next()

    def _next(self) -> None:
        while True:
            if self.at >= len(self.text):
                self.kind, self.value = "end", ""
                return
            match = _TOKEN.match(self.text, self.at)
            if not match:
                raise AwkSyntaxError(self.text[self.at], self.line)
            self.at = match.end()
            self.line += match[0].count("\n")
            if match.lastgroup != "space":
                break
        self.kind, self.value = str(match.lastgroup), match[0]
        if self.kind == "name" and self.value in KEYWORDS:
            self.kind = "keyword"

    def _fail(self) -> AwkSyntaxError:
        return AwkSyntaxError({"newline": "\\n", "end": "end of file"}.get(self.kind, self.value), self.line)

    def _is(self, *values: str) -> bool:
        return self.kind in ("op", "keyword") and self.value in values

    def _take(self, value: str) -> bool:
        taken = self._is(value)
        if taken:
            self._next()
        return taken

    def _expect(self, value: str) -> None:
        if not self._take(value):
            raise self._fail()

    def _newlines(self, *, semicolons: bool = True) -> None:
        while self.kind == "newline" or semicolons and self._is(";"):
            self._next()

    def _ends(self, *values: str) -> bool:
        """Tell whether the token in hand ends a simple statement."""
        return self.kind in ("newline", "end") or self._is(";", "}", *values)


class _Expressions(_Tokens):
    """Reads expressions."""

    def __init__(self, text: str) -> None:
        self.depth = self.operators = 0
        self.no_greater = False
        super().__init__(text)

    def expression(self, least: int = 0) -> Expr:
        """Read an expression of operators that bind at least so."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._fail()
        left = self._operand()
        while (binding := self._binding(left)) and binding >= least:
            self.operators += 1
            if self.operators > MAX_OPERATORS:
                raise self._fail()
            left = self._combined(left, binding)
        self.depth -= 1
        return left

    def _binding(self, left: Expr) -> int:
        """Return the binding of the token in hand after an operand; 0 where it continues no expression."""
        settable = left[0] in ("var", "field", "element")
        if self.kind in ("number", "string", "name") or self._is("$", "("):
            return JOINED
        if self._is("++", "--"):
            return STEPPED if settable else JOINED
        if self.kind not in ("op", "keyword") or self.value in ASSIGNMENTS and not settable:
            return 0
        return 0 if self.value == ">" and self.no_greater else BINDING.get(self.value, 0)

    def _combined(self, left: Expr, binding: int) -> Expr:
        if binding == JOINED:
            return ("concat", left, self.expression(JOINED + 1))
        op = self.value
        self._next()
        if binding == STEPPED:
            return ("step", op, left, True)
        if op == "in":
            name = self._name()
            return ("in", list(left[1]) if left[0] == "group" else [left], name)
        if op in ("&&", "||", "?") or op in ASSIGNMENTS:
            self._newlines(semicolons=False)
        if op == "?":
            yes = self.expression(1)
            self._newlines(semicolons=False)
            self._expect(":")
            self._newlines(semicolons=False)
            return ("ternary", left, yes, self.expression(1))
        kind = {1: "assign", 3: "or", 4: "and", 6: "match", 7: "compare"}.get(binding, "binary")
        right_to_left = op == "^" or op in ASSIGNMENTS
        return (kind, op, left, self.expression(binding if right_to_left else binding + 1))

    def _operand(self) -> Expr:
        kind, value = self.kind, self.value
        if kind == "op":
            return self._prefix(value)
        if kind not in ("number", "string", "name"):
            raise self._fail()
        self._next()
        if kind != "name":
            return ("constant", float(value) if kind == "number" else unescape(value[1:-1]))
        if value in FUNCTIONS:
            return ("call", value, self._group() if self._is("(") else [])
        if self._is("(") and self.text[self.at - 2] == value[-1]:  # a space would make it two operands
            raise AwkError(f"calling undefined function {value}")
        return ("element", value, self._subscript()) if self._take("[") else ("var", value)

    def _prefix(self, op: str) -> Expr:
        if op in ("/", "/="):
            return self._regex(op)
        if op == "(":
            return ("group", self._group())
        if op not in ("$", "!", "-", "+", "++", "--"):
            raise self._fail()
        self._next()
        if op == "$":
            return ("field", self.expression(PLAIN))
        if op in ("!", "-", "+"):
            return ("unary", op, self.expression(SIGNED))
        target = self.expression(PLAIN)
        if target[0] not in ("var", "field", "element"):
            raise self._fail()
        return ("step", op, target, False)

    def _regex(self, start: str) -> Expr:
        match = re.compile(r"(?:[^\\/\n\[]|\\.|\[\^?\]?(?:[^\]\\\n]|\\.)*\])*").match(self.text, self.at)
        end = match.end() if match else self.at
        if self.text[end : end + 1] != "/":
            raise AwkSyntaxError("unterminated regex", self.line)
        source = start[1:] + self.text[self.at : end].replace("\\/", "/")
        self.at = end + 1
        self._next()
        return ("regex", source)

    def _group(self) -> list[Expr]:
        """Read expressions in parentheses."""
        self._expect("(")
        before, self.no_greater = self.no_greater, False
        self._newlines(semicolons=False)
        found = [] if self._is(")") else self._list()
        self._newlines(semicolons=False)
        self._expect(")")
        self.no_greater = before
        return found

    def _list(self) -> list[Expr]:
        found = [self.expression()]
        while self._take(","):
            self._newlines(semicolons=False)
            found.append(self.expression())
        return found

    def _name(self) -> str:
        name = self.value
        if self.kind != "name":
            raise self._fail()
        self._next()
        return name

    def _subscript(self) -> list[Expr]:
        found = self._list()
        self._expect("]")
        return found


class Parser(_Expressions):
    """Reads a program into rules: BEGIN, END or nothing, a pattern of up to two expressions, and a block."""

    def __init__(self, text: str) -> None:
        self.rules: list[tuple[str, tuple[Expr, ...], Expr | None]] = []
        super().__init__(text)

    def parse(self) -> Parser:
        """Read everything."""
        self._newlines()
        while self.kind != "end":
            self._rule()
            self._newlines()
        return self

    def _rule(self) -> None:
        self.operators = 0
        if self._is("BEGIN", "END"):
            kind = self.value
            self._next()
            self.rules.append((kind, (), self._block()))
            return
        pattern: tuple[Expr, ...] = () if self._is("{") else (self.expression(),)
        if pattern and self._take(","):
            self._newlines(semicolons=False)
            pattern = (*pattern, self.expression())
        self.rules.append(("", pattern, self._block() if self._is("{") else None))

    def _block(self) -> Expr:
        self._expect("{")
        found = []
        self._newlines()
        while not self._is("}"):
            found.append(self.statement())
            self._newlines()
        self._next()
        return ("block", found)

    def statement(self) -> Expr:
        """Read one statement."""
        self.depth += 1
        self.operators = 0
        if self.depth > MAX_DEPTH:
            raise self._fail()
        word = self.value if self.kind == "keyword" else ""
        if self._is("{"):
            found = self._block()
        elif word in ("if", "while", "for"):
            self._next()
            found = self._for() if word == "for" else self._conditional(word)
        else:
            found = self._simple(word)
            if not self._ends():
                raise self._fail()
            self._take(";")
        self.depth -= 1
        return found

    def _body(self) -> Expr:
        self._newlines(semicolons=False)
        return ("block", []) if self._take(";") else self.statement()

    def _conditional(self, word: str) -> Expr:
        self._expect("(")
        condition = self.expression()
        self._expect(")")
        then = self._body()
        if word == "while":
            return ("for", None, condition, None, then)
        mark = (self.at, self.line, self.kind, self.value)
        self._newlines()
        if self._take("else"):
            return ("if", condition, then, self._body())
        self.at, self.line, self.kind, self.value = mark
        return ("if", condition, then, ("block", []))

    def _for(self) -> Expr:
        self._expect("(")
        found = re.compile(r"\s*([A-Za-z_]\w*)\s+in\s+([A-Za-z_]\w*)\s*\)").match(
            self.text, self.at - len(self.value)
        )
        if found:
            self.at = found.end()
            self._next()
            return ("forin", found[1], found[2], self._body())
        start = None if self._is(";") else self._simple("")
        self._expect(";")
        self._newlines(semicolons=False)
        condition = None if self._is(";") else self.expression()
        self._expect(";")
        self._newlines(semicolons=False)
        step = None if self._is(")") else self._simple("")
        self._expect(")")
        return ("for", start, condition, step, self._body())

    def _simple(self, word: str) -> Expr:
        if word not in STATEMENTS:
            return ("expr", self.expression())
        self._next()
        if word in ("print", "printf"):
            return self._print(word)
        if word in ("next", "break", "continue"):
            return (word,)
        if word == "exit":
            return (word, None if self._ends() else self.expression())
        return (word, self._name(), self._subscript() if self._take("[") else None)

    def _print(self, word: str) -> Expr:
        self.no_greater = True  # prints go nowhere but to standard output
        args = [] if self._ends() else self._list()
        self.no_greater = False
        return (word, args[0][1] if len(args) == 1 and args[0][0] == "group" else args)
