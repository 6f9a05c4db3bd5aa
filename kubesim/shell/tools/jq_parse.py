"""jq's grammar: from a filter's text to nested tuples, each beginning with its kind."""

from __future__ import annotations

import json
import re
from typing import Any

from kubesim.shell.tools.reading import TokenReader

Node = tuple[Any, ...]
DEEPEST = 120
KEYWORDS = {
    "if",
    "then",
    "elif",
    "else",
    "end",
    "reduce",
    "foreach",
    "as",
    "def",
    "try",
    "catch",
    "and",
    "or",
    "label",
    "import",
    "include",
    "__loc__",
}
_TOKEN = re.compile(
    r"(?:\s|#[^\n]*)*(?:"
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r'|(?P<string>")'
    r"|(?P<format>@[A-Za-z0-9_]+)"
    r"|(?P<field>\.[A-Za-z_]\w*)"
    r"|(?P<variable>\$[A-Za-z_]\w*(?:::\w+)*)"
    r"|(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)"
    r"|(?P<op>\?//|\|=|//=|\+=|-=|\*=|/=|%=|==|!=|<=|>=|//|\.\.|[|,.;:()\[\]{}=<>+*/%?-])"
    r"|(?P<bad>\S))"
)
_PRECEDENCE = [("or",), ("and",), ("==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%")]
_ASSIGN = ("=", "|=", "+=", "-=", "*=", "/=", "%=", "//=")


class JqSyntaxError(Exception):
    """A filter that cannot be parsed; ``token`` is where it goes wrong."""


class Parser(TokenReader):
    """Reads a filter."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.kind = self.value = ""
        self.depth = 0
        self._next()

    def _next(self) -> None:
        match = _TOKEN.match(self.text, self.at)
        if not match:
            self.kind, self.value, self.at = "end", "", len(self.text)
            return
        self.at = match.end()
        self.kind = str(match.lastgroup)
        self.value = match[self.kind]
        if self.kind == "bad":
            raise JqSyntaxError("INVALID_CHARACTER")
        if self.kind == "name" and self.value in KEYWORDS:
            self.kind = "keyword"

    def _fail(self) -> None:
        raise JqSyntaxError(self.named())

    def named(self) -> str:
        """Return the current token as jq's messages name it."""
        if self.kind == "end":
            return "end of file"
        names = {
            "field": "FIELD",
            "name": "IDENT",
            "number": "LITERAL",
            "string": "QQSTRING_START",
            "variable": "'$'",
            "format": "FORMAT",
        }
        return names.get(self.kind) or (self.value if self.kind == "keyword" else f"'{self.value[:1]}'")

    def parse(self) -> Node:
        """Read everything."""
        found = self.pipe() if self.kind != "end" else ("identity",)
        if self.kind != "end":
            raise JqSyntaxError(self.named())
        return found

    def pipe(self) -> Node:
        """Read filters joined by ``|``, with definitions and bindings before them."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise JqSyntaxError("too deep")
        try:
            return self._pipe()
        finally:
            self.depth -= 1

    def _pipe(self) -> Node:
        if self._is("def"):
            definition = self._definition()
            if self.kind == "end" or self._is(")"):
                return ("def", *definition, ("identity",))
            return ("def", *definition, self.pipe())
        left = self._comma()
        if self._take("as"):
            patterns = [self._pattern()]
            while self._take("?//"):
                patterns.append(self._pattern())
            self._expect("|")
            return ("as", left, patterns[0], self.pipe())
        if self._take("|"):
            return ("pipe", left, self.pipe())
        return left

    def _definition(self) -> tuple[str, list[str], Node]:
        self._expect("def")
        name = self.value
        self._next()
        params = []
        if self._take("("):
            while True:
                params.append(self.value)
                self._next()
                if not self._take(";"):
                    break
            self._expect(")")
        self._expect(":")
        body = self.pipe()
        self._expect(";")
        return name, params, body

    def _pattern(self) -> Node:
        if self.kind == "variable":
            name = self.value[1:]
            self._next()
            return ("var", name)
        if self._take("["):
            items = [self._pattern()]
            while self._take(","):
                items.append(self._pattern())
            self._expect("]")
            return ("array", items)
        self._expect("{")
        pairs: list[tuple[Node, Node]] = []
        while True:
            pairs.append(self._pattern_pair())
            if not self._take(","):
                break
        self._expect("}")
        return ("object", pairs)

    def _pattern_pair(self) -> tuple[Node, Node]:
        if self.kind == "variable":
            name = self.value[1:]
            self._next()
            key: Node = ("literal", name)
            if self._take(":"):
                return key, ("both", name, self._pattern())
            return key, ("var", name)
        if self._take("("):
            key = self.pipe()
            self._expect(")")
        elif self.kind == "string":
            key = self._string("")
        else:
            key = ("literal", self.value)
            self._next()
        self._expect(":")
        return key, self._pattern()

    def _comma(self) -> Node:
        left = self._alternative()
        while self._take(","):
            left = ("comma", left, self._alternative())
        return left

    def _alternative(self) -> Node:
        left = self._binary(0)
        if self._is(*_ASSIGN):
            op = self.value
            self._next()
            return ("assign", op, left, self._alternative())
        if self._take("//"):
            right = self._alternative()
            return ("alternative", left, right)
        return left

    def _binary(self, level: int) -> Node:
        if level == len(_PRECEDENCE):
            return self._unary()
        left = self._binary(level + 1)
        while self._is(*_PRECEDENCE[level]):
            op = self.value
            self._next()
            left = ("binary", op, left, self._binary(level + 1))
        return left

    def _unary(self) -> Node:
        if self._take("-"):
            return ("negate", self._postfix())
        return self._postfix()

    def _postfix(self) -> Node:
        node = self._term()
        while True:
            if self.kind == "field":
                node = ("index", node, ("literal", self.value[1:]))
                self._next()
            elif self._is("."):
                self._next()
                if self.kind == "string":
                    node = ("index", node, self._string(""))
                elif not self._is("["):
                    raise JqSyntaxError(self.named())
            elif self._take("["):
                node = self._bracket(node)
            elif self._take("?"):
                node = ("try", node, None)
            else:
                return node

    def _bracket(self, node: Node) -> Node:
        if self._take("]"):
            return ("iterate", node)
        if self._take(":"):
            last = self.pipe()
            self._expect("]")
            return ("slice", node, None, last)
        first = self.pipe()
        if self._take(":"):
            end = None if self._is("]") else self.pipe()
            self._expect("]")
            return ("slice", node, first, end)
        self._expect("]")
        return ("index", node, first)

    def _term(self) -> Node:
        kind, value = self.kind, self.value
        if kind == "number":
            self._next()
            return ("literal", _number(value))
        if kind == "string":
            return self._string("")
        if kind == "format":
            self._next()
            return self._string(value) if self.kind == "string" else ("format", value)
        if kind == "field":
            self._next()
            return ("index", ("identity",), ("literal", value[1:]))
        if kind == "variable":
            self._next()
            return ("var", value[1:])
        if kind == "name":
            return self._call(value)
        if kind == "keyword":
            return self._keyword(value)
        return self._symbol(value)

    def _symbol(self, value: str) -> Node:
        self._next()
        if value == ".":
            if self.kind == "string":
                return ("index", ("identity",), self._string(""))
            return ("identity",)
        if value == "..":
            return ("call", "recurse", [])
        if value == "(":
            found = self.pipe()
            self._expect(")")
            return found
        if value == "[":
            if self._take("]"):
                return ("literal", [])
            found = self.pipe()
            self._expect("]")
            return ("array", found)
        if value == "{":
            return self._object()
        raise JqSyntaxError(f"'{value[:1]}'" if value else "end of file")

    def _call(self, name: str) -> Node:
        self._next()
        if name in ("true", "false", "null"):
            return ("literal", {"true": True, "false": False, "null": None}[name])
        args: list[Node] = []
        if name == "break" and self.kind == "variable":
            args = [("literal", self.value[1:])]
            self._next()
        elif self._take("("):
            args.append(self.pipe())
            while self._take(";"):
                args.append(self.pipe())
            self._expect(")")
        return ("call", name, args)

    def _keyword(self, word: str) -> Node:
        self._next()
        if word == "if":
            return self._if()
        if word == "try":
            body = self._postfix()
            return ("try", body, self._postfix() if self._take("catch") else None)
        if word in ("reduce", "foreach"):
            source = self._postfix()
            self._expect("as")
            pattern = self._pattern()
            self._expect("(")
            parts = [self.pipe()]
            while self._take(";"):
                parts.append(self.pipe())
            self._expect(")")
            return (word, source, pattern, parts)
        if word == "label":
            name = self.value[1:]
            self._next()
            self._expect("|")
            return ("label", name, self.pipe())
        if word == "def":
            raise JqSyntaxError("def")
        raise JqSyntaxError(word)

    def _if(self) -> Node:
        condition = self.pipe()
        self._expect("then")
        then = self.pipe()
        if self._take("elif"):
            return ("if", condition, then, self._if())
        other: Node = ("identity",)
        if self._take("else"):
            other = self.pipe()
        self._expect("end")
        return ("if", condition, then, other)

    def _object(self) -> Node:
        pairs: list[tuple[Node, Node]] = []
        while not self._is("}"):
            pairs.append(self._pair())
            if not self._take(","):
                break
        self._expect("}")
        return ("object", pairs)

    def _pair(self) -> tuple[Node, Node]:
        key: Node
        if self.kind == "variable":
            name = self.value[1:]
            self._next()
            return ("literal", name), ("var", name)
        if self._take("("):
            key = self.pipe()
            self._expect(")")
        elif self.kind == "string":
            key = self._string("")
        elif self.kind in ("name", "keyword", "number"):
            key = ("literal", self.value)
            self._next()
        elif self.kind == "format":
            key = ("format", self.value)
            self._next()
        else:
            raise JqSyntaxError(self.named())
        if self._take(":"):
            value = self._pair_value()
            return key, value
        return key, ("index", ("identity",), key)

    def _pair_value(self) -> Node:
        left = self._alternative()
        while self._is("|"):
            self._next()
            left = ("pipe", left, self._alternative())
        return left

    def _string(self, form: str) -> Node:
        """Read a string from after its quote, with ``\\(...)`` in it."""
        parts: list[Any] = []
        plain: list[str] = []
        while True:
            char = self.text[self.at : self.at + 1]
            if not char:
                raise JqSyntaxError("end of file")
            if char == '"':
                self.at += 1
                break
            if char == "\\" and self.text[self.at + 1 : self.at + 2] == "(":
                parts.append("".join(plain))
                plain = []
                self.at += 2
                self._next()
                parts.append(self.pipe())
                if not self._is(")"):
                    raise JqSyntaxError(self.named())
                continue
            plain.append(self._char())
        parts.append("".join(plain))
        self._next()
        if len(parts) == 1:
            return ("literal", parts[0])
        return ("string", form, parts)

    def _char(self) -> str:
        if self.text[self.at] != "\\":
            self.at += 1
            return self.text[self.at - 1]
        match = re.compile(r'\\(?:u[0-9A-Fa-f]{4}(?:\\u[dD][c-fC-F][0-9A-Fa-f]{2})?|["\\/bfnrt])').match(
            self.text, self.at
        )
        if not match:
            raise JqSyntaxError("INVALID_CHARACTER")
        self.at = match.end()
        return str(json.loads(f'"{match[0]}"'))


def _number(text: str) -> int | float:
    if re.fullmatch(r"\d{1,300}", text):
        return int(text) if len(text) < 18 else float(text)
    return float(text)
