"""awk's grammar: from a program's text to nested tuples, each beginning with its kind."""

from __future__ import annotations

import re
from typing import Any

Expr = tuple[Any, ...]
DEEPEST = 60
_TOKEN = re.compile(
    r"(?P<space>[ \t\r]+|\\\r?\n|#[^\n]*)"
    r"|(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r'|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<newline>\n)"
    r"|(?P<op>\*\*=|\*\*|&&|\|\||\+\+|--|[-+*/%^]=|==|<=|>=|!=|!~|>>|[-+*/%^!<>|?:~$=,;(){}\[\]])",
    re.DOTALL,
)
KEYWORDS = {
    "BEGIN",
    "END",
    "function",
    "func",
    "if",
    "else",
    "while",
    "for",
    "do",
    "break",
    "continue",
    "next",
    "nextfile",
    "exit",
    "return",
    "delete",
    "in",
    "getline",
    "print",
    "printf",
}
BUILTINS = {
    "length",
    "substr",
    "index",
    "split",
    "sub",
    "gsub",
    "match",
    "sprintf",
    "sin",
    "cos",
    "atan2",
    "exp",
    "log",
    "sqrt",
    "int",
    "rand",
    "srand",
    "tolower",
    "toupper",
    "system",
    "close",
    "fflush",
    "gensub",
    "strftime",
    "systime",
}
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
_BINARY = [("~", "!~"), ("<", "<=", "!=", "==", ">", ">="), (), ("+", "-"), ("*", "/", "%")]


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


class Parser:
    """Reads a program into rules and functions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.kind = self.value = ""
        self.before = ""
        self.depth = 0
        self.plain_in = False
        self.no_greater = False
        self.functions: dict[str, tuple[list[str], Expr]] = {}
        self.rules: list[tuple[str, Any, Expr | None]] = []
        self._next()

    # tokens

    def _next(self) -> None:
        self.before = self.kind if self.kind in ("number", "string") else self.value
        while True:
            if self.at >= len(self.text):
                self.kind, self.value = "end", ""
                return
            match = _TOKEN.match(self.text, self.at)
            if not match:
                self._fail()
                return
            self.at = match.end()
            self.line += match[0].count("\n")
            if match.lastgroup != "space":
                break
        self.kind, self.value = str(match.lastgroup), match[0]
        if self.kind == "name" and self.value in KEYWORDS:
            self.kind = "keyword"
        elif self.kind == "name" and self.value in BUILTINS:
            self.kind = "builtin"
        elif self.kind == "name" and self.text.startswith("(", self.at):
            self.kind = "call"

    def _fail(self) -> None:
        near = self.value if self.kind not in ("end", "newline") else {"newline": "\\n"}.get(self.kind, "end of file")
        raise AwkSyntaxError(near or self.text[self.at : self.at + 1], self.line)

    def _is(self, *values: str) -> bool:
        return self.kind in ("op", "keyword") and self.value in values

    def _take(self, value: str) -> bool:
        if self._is(value):
            self._next()
            return True
        return False

    def _expect(self, value: str) -> None:
        if not self._take(value):
            self._fail()

    def _newlines(self) -> None:
        while self.kind == "newline" or self._is(";"):
            self._next()

    def _soft(self) -> None:
        while self.kind == "newline":
            self._next()

    # program

    def parse(self) -> Parser:
        """Read everything."""
        self._newlines()
        while self.kind != "end":
            self._item()
            self._newlines()
        return self

    def _item(self) -> None:
        if self._is("function", "func"):
            self._function()
        elif self._is("BEGIN", "END"):
            kind = self.value
            self._next()
            self.rules.append((kind, None, self._block()))
        else:
            pattern: Any = None
            if not self._is("{"):
                pattern = (self.expression(),)
                if self._take(","):
                    self._soft()
                    pattern = (*pattern, self.expression())
            self.rules.append(("", pattern, self._block() if self._is("{") else None))

    def _function(self) -> None:
        self._next()
        name = self.value
        self._next()
        self._expect("(")
        names = []
        while self.kind in ("name", "call"):
            names.append(self.value)
            self._next()
            if not self._take(","):
                break
            self._soft()
        self._expect(")")
        self._soft()
        self.functions[name] = (names, self._block())

    def _block(self) -> Expr:
        self._expect("{")
        self.depth += 1
        if self.depth > DEEPEST:
            self._fail()
        found = []
        self._newlines()
        while not self._is("}"):
            if self.kind == "end":
                self._fail()
            found.append(self.statement())
            self._newlines()
        self._next()
        self.depth -= 1
        return ("block", found)

    def _body(self) -> Expr:
        self._soft()
        if self._take(";"):
            return ("block", [])
        return self.statement()

    def statement(self) -> Expr:
        """Read one statement."""
        if self._is("{"):
            return self._block()
        if self.kind == "keyword" and self.value in ("if", "while", "for", "do"):
            self.depth += 1
            if self.depth > DEEPEST:
                self._fail()
            found: Expr = getattr(self, "_" + self.value)()
            self.depth -= 1
            return found
        found = self._simple()
        if not (self.kind in ("newline", "end") or self._is(";", "}")):
            self._fail()
        if self._is(";"):
            self._next()
        return found

    def _if(self) -> Expr:
        self._next()
        self._expect("(")
        condition = self.expression()
        self._expect(")")
        then = self._body()
        mark = (self.at, self.line, self.kind, self.value)
        self._newlines()
        if self._take("else"):
            return ("if", condition, then, self._body())
        self.at, self.line, self.kind, self.value = mark
        return ("if", condition, then, None)

    def _while(self) -> Expr:
        self._next()
        self._expect("(")
        condition = self.expression()
        self._expect(")")
        return ("while", condition, self._body())

    def _do(self) -> Expr:
        self._next()
        body = self._body()
        self._newlines()
        self._expect("while")
        self._expect("(")
        condition = self.expression()
        self._expect(")")
        return ("do", body, condition)

    def _for(self) -> Expr:
        self._next()
        self._expect("(")
        found = re.compile(r"\s*([A-Za-z_]\w*)\s+in\s+([A-Za-z_]\w*)\s*\)").match(
            self.text, self.at - len(self.value)
        )
        if found:
            self.at = found.end()
            self._next()
            return ("forin", found[1], found[2], self._body())
        start = None if self._is(";") else self._simple()
        self._expect(";")
        self._soft()
        condition = None if self._is(";") else self.expression()
        self._expect(";")
        self._soft()
        step = None if self._is(")") else self._simple()
        self._expect(")")
        return ("for", start, condition, step, self._body())

    def _simple(self) -> Expr:
        word = self.value if self.kind == "keyword" else ""
        if word in ("print", "printf"):
            return self._print(word)
        if word in ("next", "nextfile", "break", "continue"):
            self._next()
            return (word,)
        if word in ("exit", "return"):
            self._next()
            done = self.kind in ("newline", "end") or self._is(";", "}")
            return (word, None if done else self.expression())
        if word == "delete":
            self._next()
            name = self.value
            self._next()
            if self._take("["):
                return ("delete", name, self._subscript())
            return ("delete", name, None)
        return ("expr", self.expression())

    def _print(self, word: str) -> Expr:
        self._next()
        args: list[Expr] = []
        self.no_greater = True
        if not (self.kind in ("newline", "end") or self._is(";", "}", ">", ">>", "|")):
            args = self._list()
            if len(args) == 1 and args[0][0] == "group":
                args = list(args[0][1])
        self.no_greater = False
        if self._is(">", ">>", "|"):
            op = self.value
            self._next()
            return (word, args, op, self._concatenation(no_in=True))
        return (word, args, "", None)

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

    def _concatenation(self, *, no_in: bool = False) -> Expr:
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
