"""The tokens of a script: operators, words, reserved words, redirections with here-documents, aliases.

Each is read where the grammar asks for it, because only that tells where a reserved word or an alias counts. The
inside of words is read here as well: only a shell's own rules tell ``"${x#*"}"}"`` or two here-documents on one line
apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from kubesim.shell.nodes import Redirect, ScriptError, Text, Word
from kubesim.shell.words import WordReader

MOST_ALIASES = 64
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[|&;()]")
_REDIRECT = re.compile(r"<<-|<<<|<<|<&|<>|<|>>|>&|>\||>")
_END = r"(?=[\s;&|()<>]|\Z)"
_RESERVED = re.compile(rf"(if|then|elif|else|fi|while|until|for|do|done|case|esac|function|[{{}}!]){_END}")
_PLAINEST = re.compile(r"[^\s;&|()<>]+")
_PLAIN = re.compile(rf"([^\s;&|()<>\"'$`\\]+){_END}")


class Lexer(WordReader):
    """A position in a script, and what can be read there."""

    def __init__(
        self, text: str, aliases: Mapping[str, str] | None = None, *, at: int = 0, depth: int = 0, line: int = 1
    ) -> None:
        super().__init__(text, at=at, depth=depth, line=line)
        self.aliases = aliases or {}
        self.open: list[str] = []
        self.shown: list[str] = []  # the tokens so far, as ``jobs`` shows them
        self.last_line = line  # on which the last of them stood
        self._complete = False  # whether a line break after the last of them ends a command
        self._documents: list[tuple[Redirect, bool]] = []
        self._spliced = 0
        self._alias_end = -1
        self._used: set[str] = set()

    def _blanks(self) -> None:
        text = self.text
        while self.at < len(text):
            char = text[self.at]
            if char in " \t\r":
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
                self.line += 1
            elif char == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            else:
                return

    def _show(self, text: str, *, complete: bool = True) -> None:
        self.shown.append(text)
        self.last_line, self._complete = self.line, complete

    def _source(self, start: int) -> str:
        """Return a command as ``jobs`` shows it."""
        return " ".join(self.shown[start:])[:200]

    def _newline(self) -> bool:
        """Take a line break, if one is next, and the here-documents after it."""
        self._blanks()
        if not self.text.startswith("\n", self.at):
            return False
        self.at += 1
        if self._complete:
            self._show(";", complete=False)
        self.last_line = self.line
        self.line += 1
        self._finish_documents()
        return True

    def _newlines(self) -> None:
        while self._newline():
            pass

    def _operator(self) -> str:
        """Return the operator that is next; empty where there is none."""
        self._blanks()
        if self.text.startswith("&>", self.at):
            return ""
        match = _OPERATOR.match(self.text, self.at)
        return match[0] if match else ""

    def _take(self, *operators: str) -> str:
        """Take one of these operators, if one is next."""
        found = self._operator()
        if found not in operators:
            return ""
        self.at += len(found)
        self._show(found, complete=found == ")")
        return found

    def _reserved(self) -> str:
        self._blanks()
        found = _RESERVED.match(self.text, self.at)
        return found[1] if found else ""

    def _take_word(self, *words: str) -> str:
        """Take one of these reserved words, if one is next."""
        self._blanks()
        found = _PLAIN.match(self.text, self.at)
        if not found or found[1] not in words:
            return ""
        self.at = found.end()
        self._show(found[1], complete=found[1] in ("fi", "done", "esac", "}"))
        return found[1]

    def _expect(self, word: str) -> None:
        if not self._take_word(word):
            self._refuse()

    def _ends_words(self) -> bool:
        """Tell whether no word is next."""
        return self._operator() != "" or self.at >= len(self.text) or self.text[self.at] == "\n"

    def _word(self, *, array: bool = False) -> tuple[Word, str]:
        """Take a word; returns it with its source."""
        self._blanks()
        start = self.at
        word = () if self._ends_words() else self.word(array=array)
        if self.at == start:
            self._refuse()
        source = self.text[start : self.at]
        self._show(source)
        return word, source

    def _refuse(self) -> NoReturn:
        """Raise a syntax error at the next token."""
        self._blanks()
        if self.at >= len(self.text):
            raise ScriptError("end", "end of file", line=self.last_line, unfinished=True)
        found = self._operator() or self._reserved() or self._peek()
        raise ScriptError("unexpected", found, line=self.line)

    def _peek(self) -> str:
        """Return the next token, whatever it is."""
        self._blanks()
        forms = (_OPERATOR, _REDIRECT, _PLAINEST)
        match = next(filter(None, (form.match(self.text, self.at) for form in forms)), None)
        return match[0] if match else "newline"

    def _alias(self) -> bool:
        """Put an alias' text in its place, if one is next."""
        self._blanks()
        found = _PLAIN.match(self.text, self.at)
        if self.at >= self._alias_end:
            self._used = set()
        text = self.aliases.get(found[1]) if found else None
        if found is None or text is None or found[1] in self._used or self._spliced >= MOST_ALIASES:
            return False
        self._spliced += 1
        self._used.add(found[1])
        self._alias_end = max(self.at + len(text), self._alias_end + len(text) - len(found[1]))
        self.text = self.text[: self.at] + text + self.text[found.end() :]
        return True

    # redirections

    def _redirect(self) -> Redirect | None:
        """Take a redirection, if one is next."""
        self._blanks()
        start, fd = self.at, -1
        if number := re.compile(r"\d{1,3}(?=[<>])").match(self.text, self.at):
            self.at, fd = number.end(), int(number[0])
        match = _REDIRECT.match(self.text, self.at)
        operator = match[0] if match else ""
        if self.text.startswith("&>", self.at):
            operator = "&>>" if self.text.startswith("&>>", self.at) else "&>"
        if not operator or (operator in "<>" and self.text.startswith("(", self.at + 1)):
            self.at = start
            return None
        self.at += len(operator)
        self._blanks()
        begin = self.at
        word = self.word()
        source = self.text[begin : self.at]
        if not source:
            raise ScriptError("unexpected", self._peek(), line=self.line)
        found = Redirect(fd, operator.removesuffix("-"), word, source)
        if operator in ("<<", "<<-"):
            self._documents.append((found, operator == "<<-"))
        self._show(f"{'' if fd < 0 else fd}{operator}{'' if operator.endswith('&') else ' '}{source}")
        return found

    def _redirects(self) -> tuple[Redirect, ...]:
        return tuple(iter(self._redirect, None))

    def _finish_documents(self, *, nested: bool = False) -> None:
        pending, self._documents = self._documents, []
        for redirect, strip in pending:
            end = re.sub(r"['\"\\]", "", redirect.source)
            body = "" if nested else self._document(end, strip=strip)
            redirect.target = (Text(body, True),) if end != redirect.source else self.document(body, self.line)

    def _document(self, end: str, *, strip: bool) -> str:
        lines: list[str] = []
        while self.at < len(self.text):
            stop = self.text.find("\n", self.at)
            stop = len(self.text) if stop < 0 else stop
            line = self.text[self.at : stop]
            self.at = min(stop + 1, len(self.text))
            self.line += 1
            line = line.lstrip("\t") if strip else line
            if line == end:
                return "".join(lines)
            lines.append(line + "\n")
        self.short = True
        return "".join(lines)
