"""The words of a query with their places, as Prometheus' lexer cuts it: for what the parser has refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kubesim.metrics.promql.values import quoted

AGGREGATIONS = frozenset(
    ("sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "topk", "bottomk", "count_values", "quantile")
)
KEYWORDS = frozenset(("offset", "by", "without", "on", "ignoring", "group_left", "group_right", "bool"))
SETS = frozenset(("and", "or", "unless"))
COMPARISONS = frozenset(("==", "!=", ">", "<", ">=", "<="))
_SPACE = re.compile(r"(?:\s|#[^\n]*)+")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d*)?|(?i:inf|nan)(?![\w:])")
_DURATION = re.compile(r"(?:\d+(?:ms|[smhdwy]))+(?![\w.])")
_WORD = re.compile(r"[a-zA-Z_:][\w:]*", re.ASCII)
_LABEL = re.compile(r"[a-zA-Z_]\w*", re.ASCII)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|`[^`]*`', re.DOTALL)
_OPERATOR = re.compile(r"==|!=|>=|<=|[-+*/%^<>=(),@]")
_MATCHER = re.compile(r"=~|!~|!=|[=,]")


class Complaint(Exception):
    """What is wrong with a query, and where (counted from 0)."""

    def __init__(self, at: int, text: str) -> None:
        super().__init__(text)
        self.at = at


@dataclass(frozen=True, slots=True)
class Token:
    """A word: its kind (number, duration, string, identifier, keyword, operator, set, aggregation, end, ...)."""

    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.at + len(self.text)

    @property
    def shown(self) -> str:
        """The word as a complaint names it."""
        match self.kind:
            case "end":
                return "end of input"
            case "keyword" | "aggregation":
                return f"<{self.text.lower()}>"
            case "operator" | "set" if self.text not in ("=",):
                return f"<op:{self.text.lower()}>"
            case "number" | "duration" | "identifier" | "string":
                return f"{self.kind} {quoted(self.text)}"
        return quoted(self.text)


class Lexer:
    """Cuts a query into words, one at a time; what cannot be one is a complaint when it is reached."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._inside = ""
        self._colon = False

    def next(self) -> Token:
        """Return the next word. Raises Complaint."""
        if (space := _SPACE.match(self._text, self._at)) is not None:
            self._at = space.end()
        if self._at >= len(self._text):
            return self._last()
        found = self._in_braces() if self._inside == "{" else self._in_brackets() if self._inside else self._outside()
        self._at = found.end
        return found

    def _last(self) -> Token:
        if self._inside == "{":
            raise Complaint(self._at, "unexpected end of input inside braces")
        if self._inside:
            raise Complaint(self._at, "unexpected end of input in subquery or range")
        if self._depth:
            raise Complaint(self._at, "unclosed left parenthesis")
        return Token("end", "", self._at)

    def _outside(self) -> Token:
        at, text = self._at, self._text
        character = text[at]
        if character in "{[":
            self._inside, self._colon = character, False
            return Token("symbol", character, at)
        if character in "\"'`":
            return self._string()
        if (found := _DURATION.match(text, at)) is not None:
            return Token("duration", found[0], at)
        if (found := _NUMBER.match(text, at)) is not None and not _wordy(text, found.end()):
            return Token("number", found[0], at)
        if character.isdecimal():
            raise Complaint(at, f"bad number or duration syntax: {quoted(_NUMBER.match(text, at)[0])}")  # type: ignore[index]
        if (found := _WORD.match(text, at)) is not None:
            return Token(_kind(found[0]), found[0], at)
        if (found := _OPERATOR.match(text, at)) is not None:
            return self._operator(found[0], at)
        if character == "!":
            raise Complaint(at, f"unexpected character after '!': {_character(text[at + 1 : at + 2])}")
        raise Complaint(at, f"unexpected character: {_character(character)}")

    def _operator(self, text: str, at: int) -> Token:
        if text == "=" and self._text[at + 1 : at + 2] == "~":
            raise Complaint(at, "unexpected character after '=': '~'")
        self._depth += {"(": 1, ")": -1}.get(text, 0)
        if self._depth < 0:
            raise Complaint(at + 1, "unexpected right parenthesis ')'")
        return Token("symbol" if text in "=(),@" else "operator", text, at)

    def _in_braces(self) -> Token:
        at, character = self._at, self._text[self._at]
        if character == "}":
            self._inside = ""
            return Token("symbol", "}", at)
        if character in "\"'`":
            return self._string()
        if (found := _LABEL.match(self._text, at)) is not None:
            return Token("identifier", found[0], at)
        if (found := _MATCHER.match(self._text, at)) is not None:
            return Token("symbol", found[0], at)
        if character == "!":
            raise Complaint(
                at, f"unexpected character after '!' inside braces: {_character(self._text[at + 1 : at + 2])}"
            )
        raise Complaint(at, f"unexpected character inside braces: {_character(character)}")

    def _in_brackets(self) -> Token:
        at, character = self._at, self._text[self._at]
        if self._text[:at].rstrip().endswith("[") and not character.isdecimal():
            raise Complaint(at, "missing unit character in duration")
        if character == "]":
            self._inside = ""
            return Token("symbol", "]", at)
        if character == ":":
            if self._colon:
                raise Complaint(at, "unexpected colon ':'")
            self._colon = True
            return Token("symbol", ":", at)
        if (found := _DURATION.match(self._text, at)) is not None:
            return Token("duration", found[0], at)
        if (found := _NUMBER.match(self._text, at)) is not None and not _wordy(self._text, found.end()):
            return Token("duration", found[0], at)
        if character.isdecimal():
            raise Complaint(at, f"bad duration syntax: {quoted(re.match(r'[0-9]+', self._text[at:])[0])}")  # type: ignore[index]
        if character == ")":
            return Token("symbol", character, at)
        raise Complaint(at, "missing unit character in duration")

    def _string(self) -> Token:
        at, mark = self._at, self._text[self._at]
        found = _STRING.match(self._text, at)
        if found is None:
            raise Complaint(at, "unterminated raw string" if mark == "`" else "unterminated quoted string")
        if mark != "`" and (bad := re.search(r"\\([^abfnrtvxuU0-7\\'\"])", found[0])):
            raise Complaint(at, f"unknown escape sequence U+{ord(bad[1]):04X} {_character(bad[1])}")
        return Token("string", found[0], at)


def _wordy(text: str, at: int) -> bool:
    return _WORD.match(text, at) is not None


def _character(text: str) -> str:
    return f"'{text}'" if text else "'\\x00'"


def _kind(word: str) -> str:
    lower = word.lower()
    for kind, words in (("aggregation", AGGREGATIONS), ("keyword", KEYWORDS), ("set", SETS)):
        if lower in words:
            return kind
    return "operator" if lower == "atan2" else "identifier"
