"""The words of an awk program: what its text is cut into."""

from __future__ import annotations

import re

from kubesim.shell.tools.reading import TokenReader

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


class Tokens(TokenReader):
    """Reads a program token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.kind = self.value = ""
        self.before = ""
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

    def _newlines(self) -> None:
        while self.kind == "newline" or self._is(";"):
            self._next()

    def _soft(self) -> None:
        while self.kind == "newline":
            self._next()
