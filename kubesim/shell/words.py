"""The inside of words: quotes, ``$`` in all its forms, backquotes, here-documents; and words that assign."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

from kubesim.shell.nodes import Arith, Array, Node, Param, Part, ProcSub, ScriptError, Sub, Text, Word
from kubesim.shell.quoting import ansi

QUOTES = frozenset("'\"\\$`")
DEEPEST = 40
MOST_SCANNED = 200_000  # characters looked at for the end of arithmetic
_RUN = re.compile(r"[^ \t\r\n;&|<>()'\"\\$`\[]+")
_BRACKETS = {pair[0]: re.compile(f"[{re.escape(pair)}]") for pair in ("()", "[]", "{}")}
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(?:\[(.*?)\])?(\+?)=", re.DOTALL)
_KEY = re.compile(r"\[[\w ./:-]+\](?=\+?=)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*(\[[^]\n]*\])?\+?=$")
_OPERATORS = re.compile(r":[-=?+]|//|/[#%]|/|##|#|%%|%|\^\^|\^|,,|,|[-=?+]|:|@(?=[A-Za-z]\})")


class _Parts:
    """The parts of a word while it is read."""

    def __init__(self, *, quoted: bool = False) -> None:
        self.found: list[Part] = []
        self.plain: list[str] = []
        self.quoted = quoted

    def take(self, *parts: Part) -> None:
        """Add parts after the plain text so far."""
        if self.plain:
            self.found.append(Text("".join(self.plain), self.quoted))
            self.plain.clear()
        self.found.extend(parts)

    def word(self) -> Word:
        """Return the whole word."""
        self.take()
        return tuple(self.found)


class WordReader(ABC):
    """A text and a position in it; reads words from there."""

    def __init__(self, text: str, *, at: int = 0, depth: int = 0, line: int = 1) -> None:
        if depth > DEEPEST:
            raise ScriptError("deep", line=line)
        self.text = text
        self.at = at
        self.depth = depth
        self.line = line
        self.budget = [MOST_SCANNED]
        self.short = False  # a here-document was ended by the end of the input

    @abstractmethod
    def nested(self) -> Node:
        """Read a script up to its closing parenthesis."""

    @abstractmethod
    def script(self, text: str) -> Node:
        """Read a whole script."""

    def word(self, *, array: bool = False, pattern: bool = False) -> Word:
        """Read one word; ``array`` allows ``a=(...)``, ``pattern`` parentheses of extended patterns."""
        parts, text, start = _Parts(), self.text, self.at
        while self.at < len(text):
            char = text[self.at]
            if run := _RUN.match(text, self.at):
                parts.plain.append(run[0])
                self.at = run.end()
            elif char in QUOTES:
                parts.take(*self._quoted())
            elif char == "[":
                key = _KEY.match(text, self.at) if array and _NAME.fullmatch(text, start, self.at) else None
                parts.plain.append(key[0] if key else "[")
                self.at = key.end() if key else self.at + 1
            elif not self._special(parts, start, array=array, pattern=pattern):
                break
        return parts.word()

    def _special(self, parts: _Parts, start: int, *, array: bool, pattern: bool) -> bool:
        char = self.text[self.at]
        if char in "<>" and self.text.startswith("(", self.at + 1):
            self.at += 2
            parts.take(ProcSub(self.nested(), char))
        elif char == "(" and array and _ASSIGNED.match(self.text[start : self.at]):
            parts.take(self._array())
        elif char == "(" and pattern and (end := self._closed(self.at)) > 0:
            parts.plain.append(self.text[self.at : end])  # of a pattern such as @(a|b), as it stands
            self.at = end
        else:
            return False
        return True

    def _closed(self, at: int) -> int:
        """Return where a bracket that opens has been closed; -1 where it is not."""
        opener, depth = self.text[at], 0
        for match in _BRACKETS[opener].finditer(self.text, at):
            depth += 1 if match[0] == opener else -1
            if depth == 0:
                return match.end()
        return -1

    def _array(self) -> Array:
        self.at += 1
        words: list[Word] = []
        while True:
            while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
                self.line += self.text[self.at] == "\n"
                self.at += 1
            if self.at >= len(self.text):
                raise ScriptError("end", "end of file", line=self.line, unfinished=True)
            if self.text[self.at] == ")":
                self.at += 1
                return Array(tuple(words))
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
                continue
            before = self.at
            key = _KEY.match(self.text, self.at)
            self.at = key.end() if key else self.at
            words.append((*((Text(key[0]),) if key else ()), *self.word()))
            if self.at == before:
                raise ScriptError("unexpected", self.text[self.at], line=self.line)

    def _quoted(self) -> list[Part]:
        """Read what a quote, a backslash or a dollar sign begins."""
        text, char = self.text, self.text[self.at]
        if char == "\\":
            return self._escape()
        if char == '"':
            self.at += 1
            return self.double('"')
        if char != "'":
            return [self._backquote(quoted=False) if char == "`" else self._dollar(quoted=False)]
        start, end = self.at + 1, text.find("'", self.at + 1)
        if end < 0:
            raise ScriptError("quote", "'", line=self.line, unfinished=True)
        self.line += text.count("\n", start, end)
        self.at = end + 1
        return [Text(text[start:end], True)]

    def _escape(self) -> list[Part]:
        follower = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        self.line += follower == "\n"
        return [] if follower == "\n" else [Text(follower or "\\", True)]

    def double(self, end: str) -> list[Part]:
        """Read double-quoted text up to ``end``, which is passed; "" reads to the end of the text."""
        parts, text, opened, first = _Parts(quoted=True), self.text, end == "}", self.line
        inner = False
        while self.at < len(text):
            char = text[self.at]
            if char == end and not inner:
                self.at += 1
                return list(parts.word()) or [Text("", True)]
            if char == '"' and opened:
                inner = not inner
                self.at += 1
            elif char == "\\" and self.at + 1 < len(text):
                self._double_escape(parts.plain, text[self.at + 1], end)
            elif char in "$`":
                parts.take(self._dollar(quoted=True) if char == "$" else self._backquote(quoted=True))
            else:
                self.line += char == "\n"
                parts.plain.append(char)
                self.at += 1
        if end:
            raise ScriptError("quote" if end == '"' else "brace", end, line=first, unfinished=True)
        return list(parts.word())

    def _double_escape(self, plain: list[str], follower: str, end: str) -> None:
        self.at += 2
        if follower == "\n":
            self.line += 1
        elif follower in '$`"\\' and not (end == "" and follower == '"') or (end == "}" and follower == "}"):
            plain.append(follower)
        else:
            plain.append("\\" + follower)

    def document(self, body: str, line: int) -> Word:
        """Read the text of an unquoted here-document."""
        reader = type(self)(body, depth=self.depth + 1, line=line)
        return tuple(reader.double(""))

    # $

    def _dollar(self, *, quoted: bool) -> Part:
        text, start = self.text, self.at
        follower = text[start + 1 : start + 2]
        if follower == "(":
            return self._parenthesis(quoted=quoted)
        if follower == "{":
            return self._braced(quoted=quoted)
        if follower == "'" and not quoted:
            return self._ansi()
        if follower == '"' and not quoted:
            self.at += 1
            return Text("", True)
        name = _NAME.match(text, start + 1)
        if name:
            self.at = name.end()
            return Param(name[0], quoted=quoted)
        if follower and follower in "0123456789@*#?$!-":
            self.at += 2
            return Param(follower, quoted=quoted)
        self.at += 1
        return Text("$", True)

    def _ansi(self) -> Text:
        match = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL).match(self.text, self.at)
        if not match:
            raise ScriptError("quote", "'", line=self.line, unfinished=True)
        self.at = match.end()
        return Text(ansi(match[1]), True)

    def _parenthesis(self, *, quoted: bool) -> Part:
        start, line = self.at, self.line
        if self.text.startswith("$((", self.at):
            self.at += 3
            word = self.arithmetic()
            if word is not None:
                return Arith(word, quoted)
            self.at, self.line = start, line
        self.at += 2
        body = self.nested()
        return Sub(body, quoted, self.text[start : self.at])

    def arithmetic(self) -> Word | None:
        """Read up to ``))``, which is passed; None where the parentheses do not match: it is no arithmetic."""
        at = self._closed(self.at - 1) - 1
        self.budget[0] -= (at if at > 0 else len(self.text)) - self.at
        if self.budget[0] < 0:
            raise ScriptError("deep", line=self.line)
        if at < 0 or not self.text.startswith("))", at):
            return None
        inner = self.text[self.at : at]
        reader = type(self)(inner, depth=self.depth + 1, line=self.line)
        reader.budget = self.budget
        try:
            word = tuple(reader.double(""))
        except ScriptError:
            return None
        self.line += inner.count("\n")
        self.at = at + 2
        return word

    def _backquote(self, *, quoted: bool) -> Sub:
        at = self.at + 1
        pieces = []
        while at < len(self.text) and self.text[at] != "`":
            if self.text[at] == "\\" and self.text[at + 1 : at + 2] in ("`", "\\", "$", '"' if quoted else "`"):
                at += 1
            pieces.append(self.text[at : at + 1])
            at += 1
        if at >= len(self.text):
            raise ScriptError("backquote", "`", line=self.line, unfinished=True)
        source = self.text[self.at : at + 1]
        self.line += source.count("\n")
        self.at = at + 1
        return Sub(self.script("".join(pieces)), quoted, source)

    def _braced(self, *, quoted: bool) -> Part:
        start = self.at
        self.at += 2
        before, name = self._braced_name()
        index = self._index() if self.text.startswith("[", self.at) else None
        if self.text.startswith("}", self.at) and name:
            self.at += 1
            return Param(name, before=before, index=index, quoted=quoted, source=self.text[start : self.at])
        match = _OPERATORS.match(self.text, self.at)
        if not name or not match or (before == "#"):
            return self._bad(start)
        self.at = match.end()
        op = match[0]
        arg = self._argument(quoted=quoted, op=op)
        more = None
        if self.text[self.at - 1] in "/:" and op[0] in "/:":
            more = self._argument(quoted=quoted, op="more")
        return Param(name, op, arg, more, index, before, quoted, self.text[start : self.at])

    def _bad(self, start: int) -> Param:
        """Skip to the closing brace; the expansion fails when it is reached."""
        self.at = self._closed(start + 1)
        if self.at < 0:
            raise ScriptError("brace", "}", line=self.line, unfinished=True)
        return Param("", op="bad", source=self.text[start : self.at])

    def _braced_name(self) -> tuple[str, str]:
        before = ""
        if self.text.startswith("#", self.at) and not re.compile(r"#(\}|[-:=?+%#/])").match(self.text, self.at):
            before = "#"
            self.at += 1
        elif self.text.startswith("!", self.at) and re.compile(r"[A-Za-z_]|#\}").match(self.text, self.at + 1):
            before = "!"
            self.at += 1
        match = re.compile(r"[A-Za-z_]\w*|\d+|[@*#?$!-]").match(self.text, self.at)
        if not match:
            return before, ""
        self.at = match.end()
        return before, match[0]

    def _index(self) -> Word:
        end = self._closed(self.at)
        end = end if end > 0 else len(self.text)
        inner = self.text[self.at + 1 : end - 1]
        self.at = end
        return tuple(type(self)(inner, depth=self.depth + 1, line=self.line).double("")) or (Text(""),)

    def _argument(self, *, quoted: bool, op: str) -> Word:
        """Read the word after an operator up to ``}``, or to the separator of a second one."""
        stops = {"/": "/}", "//": "/}", "/#": "/}", "/%": "/}", ":": ":}"}.get(op, "}")
        if quoted and op.lstrip(":") in ("-", "=", "?", "+"):
            return tuple(self.double("}"))
        parts, first = _Parts(), self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in stops and not (char == "/" and self.at == first):
                self.at += 1
                return parts.word()
            if char in QUOTES and not (char == "'" and quoted and op == "more"):
                parts.take(*self._quoted())
            else:
                self.line += char == "\n"
                parts.plain.append(char)
                self.at += 1
        raise ScriptError("brace", "}", line=self.line, unfinished=True)

    def regex_word(self) -> Word:
        """Read the right side of ``=~``: parentheses and bars are part of it."""
        parts, depth = _Parts(), 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\n" and depth == 0:
                break
            if char in "'\"$`" and not (char == "$" and not re.match(r"\$[\w{(@*#?!-]", self.text[self.at :][:2])):
                parts.take(*self._quoted())
                continue
            depth += {"(": 1, ")": -1}.get(char, 0)
            step = 2 if char == "\\" else 1
            parts.plain.append(self.text[self.at : self.at + step])
            self.at += step
        return parts.word()


Assignment = tuple[str, Word | None, bool, Word]
"""A name, an index, whether it appends, and the value."""


@lru_cache(maxsize=4096)
def assignment(word: Word) -> Assignment | None:
    """Return a word's name, index, whether it appends, and its value, if it is an assignment."""
    if not word or not isinstance(word[0], Text) or word[0].quoted:
        return None
    match = _ASSIGN.match(word[0].value)
    if match:
        rest = word[0].value[match.end() :]
        value = (Text(rest), *word[1:]) if rest else word[1:]
        index = (Text(match[2], True),) if match[2] is not None else None
        return match[1], index, bool(match[3]), value
    return _indexed(word, re.match(r"([A-Za-z_]\w*)\[(.*)", word[0].value, re.DOTALL))


def _indexed(word: Word, match: re.Match[str] | None) -> Assignment | None:
    """Read ``a[$i]=x``, whose index has parts."""
    if not match:
        return None
    index: list[Any] = [Text(match[2], True)] if match[2] else []
    for at, part in enumerate(word[1:], 1):
        if isinstance(part, Text) and not part.quoted:
            end = re.match(r"(.*?)\](\+?)=", part.value, re.DOTALL)
            if end:
                if end[1]:
                    index.append(Text(end[1], True))
                rest = part.value[end.end() :]
                value = (Text(rest), *word[at + 1 :]) if rest else word[at + 1 :]
                return match[1], tuple(index), bool(end[2]), value
        index.append(part)
    return None


@lru_cache(maxsize=4096)
def leading(words: tuple[Word, ...]) -> tuple[list[Assignment], tuple[Word, ...]]:
    """Part a command's assignments from its words."""
    assigns: list[Assignment] = []
    for index, word in enumerate(words):
        found = assignment(word)
        if not found:
            return assigns, words[index:]
        assigns.append(found)
    return assigns, ()


def declares(word: Word) -> bool:
    first = word[0] if word else None
    return isinstance(first, Text) and first.value in ("export", "readonly", "local", "declare", "typeset", "alias")
