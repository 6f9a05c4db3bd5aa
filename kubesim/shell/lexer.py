"""From a script's text to tokens: quoting, here-documents, where reserved words count, aliases.

The inside of words is read here as well, because only a shell's own rules tell ``"${x#*"}"}"`` or two here-documents
on one line apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kubesim.shell.nodes import Redirect, Text, Word, literal
from kubesim.shell.syntax import ScriptError
from kubesim.shell.tokens import Token
from kubesim.shell.words import WordReader

OPERATORS = ("&&", "||", ";;&", ";;", ";&", "|&", "|", "&", ";", "(", ")")
REDIRECTS = ("<<-", "<<<", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">")
PLAIN_OPENERS = {"if", "then", "else", "elif", "while", "until", "do", "{", "!"}
CLOSERS = {"fi", "done", "esac", "}"}
DECLARING = {"declare", "typeset", "local", "export", "readonly"}
_NUMBER = re.compile(r"(\d+|\{[A-Za-z_]\w*\})(?=[<>])")
MOST_ALIASES = 64


@dataclass(slots=True)
class _Frame:
    """What is open: ``(`` or a case, whose ``state`` is subject, in, pattern or body."""

    kind: str
    state: str = ""


class Lexer(WordReader):
    """Reads one script, or one ``$(...)`` of it up to its ``)``."""

    def __init__(
        self,
        text: str,
        dialect: str,
        aliases: Mapping[str, str] | None = None,
        *,
        at: int = 0,
        depth: int = 0,
        line: int = 1,
    ) -> None:
        super().__init__(text, dialect, at=at, depth=depth, line=line)
        self.aliases = aliases or {}
        self.tokens: list[Token] = []
        self._frames: list[_Frame] = []
        self._command = True  # a reserved word counts here
        self._naming = ""  # after for, function
        self._declaring = False
        self._documents: list[tuple[int, str, bool]] = []
        self._spliced = 0
        self._alias_end = -1
        self._used: set[str] = set()

    def read(self, *, nested: bool = False) -> list[Token]:
        """Return all tokens; with ``nested`` up to the closing parenthesis, which is passed."""
        while True:
            self._blanks()
            if self.at >= len(self.text):
                if nested:
                    raise ScriptError("end", "end of file", expecting=")", line=self.line, unfinished=True)
                self._finish_documents()
                return self.tokens
            char = self.text[self.at]
            if char == ")" and nested and not self._frames:
                self.at += 1
                self._finish_documents(nested=True)
                return self.tokens
            if char == "\n":
                self._newline()
            elif not self._redirect() and not self._operator():
                self._word()

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

    def _add(self, kind: str, text: str, start: int, **more: object) -> Token:
        token = Token(kind, text, self.line, start, self.at, **more)  # type: ignore[arg-type]
        self.tokens.append(token)
        return token

    def _newline(self) -> None:
        self.at += 1
        self._add("newline", "newline", self.at - 1)
        self.line += 1
        self._finish_documents()
        self._command, self._declaring = True, False

    def _top(self) -> _Frame | None:
        return self._frames[-1] if self._frames else None

    # operators

    def _operator(self) -> bool:
        for operator in OPERATORS:
            if self.text.startswith(operator, self.at):
                break
        else:
            return False
        top = self._top()
        if operator in (";;&", ";&", "|&") and self.dialect != "bash":
            operator = operator[:-1]
        if operator == "(" and self._command and self.dialect == "bash" and self._calculation():
            return True
        start = self.at
        self.at += len(operator)
        if top and top.kind == "case" and top.state == "pattern" and operator in ("(", ")", "|"):
            self._add("operator", f"pattern{operator}", start)
            if operator == ")":
                top.state = "body"
                self._command = True
            return True
        self._plain_operator(operator, start, top)
        return True

    def _plain_operator(self, operator: str, start: int, top: _Frame | None) -> None:
        if operator == "(":
            if (
                self.tokens
                and self.tokens[-1].kind == "word"
                and not self._command
                and self._empty_parentheses(start)
            ):
                return
            self._frames.append(_Frame("("))
        elif operator == ")" and top and top.kind == "(":
            self._frames.pop()
        elif operator in (";;", ";&", ";;&") and top and top.kind == "case":
            top.state = "pattern"
        self._add("operator", operator, start)
        self._command, self._declaring = operator != ")", False

    def _empty_parentheses(self, start: int) -> bool:
        self._blanks()
        if self.text[self.at : self.at + 1] != ")":
            self.at = start + 1
            found = "newline" if self.at >= len(self.text) else self._peek()
            if self.dialect == "bash":
                raise ScriptError("unexpected", found, line=self.line)
            raise ScriptError("unexpected", "word", expecting=")", line=self.line)
        self.at += 1
        self._add("operator", "()", start)
        self._command = True
        return True

    def _peek(self) -> str:
        match = re.compile(r"\s*([^\s;&|()<>]+|.)", re.DOTALL).match(self.text, self.at)
        return match[1] if match else "newline"

    def _calculation(self) -> bool:
        if not self.text.startswith("((", self.at):
            return False
        start, line = self.at, self.line
        self.at += 2
        word = self.arithmetic()
        if word is None:
            self.at, self.line = start, line
            return False
        self._add("calculation", self.text[start : self.at], start, word=word)
        self._command = False
        return True

    # redirections

    def _redirect(self) -> bool:
        start, fd = self.at, -1
        number = _NUMBER.match(self.text, self.at)
        if number and not number[1].startswith("{"):
            if len(number[1]) > 3:
                return False
            self.at, fd = number.end(), int(number[1])
        operator = next((word for word in REDIRECTS if self.text.startswith(word, self.at)), "")
        if self.dialect == "bash" and self.text.startswith("&>", self.at):
            operator = "&>>" if self.text.startswith("&>>", self.at) else "&>"
        if operator == "<<<" and self.dialect != "bash":
            raise ScriptError("unexpected", "redirection", line=self.line)
        if not operator or (operator in "<>" and self.dialect != "dash" and self.text.startswith("(", self.at + 1)):
            self.at = start
            return False
        self.at += len(operator)
        self._blanks()
        begin = self.at
        word = self.word()
        if not self.text[begin : self.at]:
            self._refuse_redirect()
        token = self._add("redirect", operator, start)
        token.redirect = Redirect(fd, operator, word, self.text[begin : self.at])
        if operator in ("<<", "<<-"):
            self._documents.append((len(self.tokens) - 1, self.text[begin : self.at], operator == "<<-"))
        return True

    def _refuse_redirect(self) -> None:
        if self.at >= len(self.text) or self.text[self.at] == "\n":
            token = "newline" if self.dialect == "bash" or self.at < len(self.text) else "end of file"
            raise ScriptError("unexpected", token, line=self.line)
        raise ScriptError("unexpected", self._peek_operator(), line=self.line)

    def _peek_operator(self) -> str:
        return next((word for word in (*OPERATORS, *REDIRECTS) if self.text.startswith(word, self.at)), "newline")

    def _finish_documents(self, *, nested: bool = False) -> None:
        pending, self._documents = self._documents, []
        for index, raw, strip in pending:
            token = self.tokens[index]
            quoted = any(char in raw for char in "'\"\\")
            end = re.sub(r"['\"\\]", "", raw)
            body = "" if nested else self._document(end, strip=strip)
            word: Word = (Text(body, True),) if quoted else self.document(body, self.line)
            token.redirect = Redirect(token.redirect.fd if token.redirect else -1, "<<", word, raw)

    def _document(self, end: str, *, strip: bool) -> str:
        lines: list[str] = []
        while self.at < len(self.text):
            stop = self.text.find("\n", self.at)
            stop = len(self.text) if stop < 0 else stop
            line = self.text[self.at : stop]
            self.at = min(stop + 1, len(self.text))
            self.line += 1
            if strip:
                line = line.lstrip("\t")
            if line == end:
                return "".join(lines)
            lines.append(line + "\n")
        self.short = True
        return "".join(lines)

    # words

    def _word(self) -> None:
        start = self.at
        top = self._top()
        if self._command and self._condition():
            return
        naming = self._naming
        word = self.word(array=self._command or self._declaring)
        source = self.text[start : self.at]
        plain = literal(word)
        if top and top.kind == "case" and top.state != "body" and self._case_word(top, word, plain, start):
            return
        if naming:
            self._name(naming, word, plain, start)
            return
        if self._command and plain is not None and source == plain:
            if self._keyword(plain, start):
                return
            if self._alias(plain, start):
                return
        self._add("word", source, start, word=word)
        self._after_word(word, plain, source)

    def _after_word(self, word: Word, plain: str | None, source: str) -> None:
        if not self._command:
            return
        self._declaring = plain in DECLARING and self.dialect == "bash"
        assigning = re.match(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=", source) is not None
        self._command = assigning

    def _case_word(self, top: _Frame, word: Word, plain: str | None, start: int) -> bool:
        if top.state == "subject":
            self._add("word", self.text[start : self.at], start, word=word)
            top.state = "in"
        elif top.state == "in" and plain == "in":
            self._add("keyword", "in", start)
            top.state = "pattern"
        elif top.state == "pattern" and plain == "esac" and self._pattern_starts():
            self._close_case(start)
        elif top.state == "pattern":
            self._add("word", self.text[start : self.at], start, word=word)
        else:
            token = "word" if self.dialect != "bash" else self.text[start : self.at]
            raise ScriptError("unexpected", token, expecting="in", line=self.line)
        return True

    def _pattern_starts(self) -> bool:
        last = next((token for token in reversed(self.tokens) if token.kind != "newline"), None)
        return last is not None and last.text in ("in", ";;", ";&", ";;&")

    def _close_case(self, start: int) -> None:
        self._frames.pop()
        self._add("keyword", "esac", start)
        self._command = False

    def _name(self, naming: str, word: Word, plain: str | None, start: int) -> None:
        if naming == "in":
            self._naming = ""
            if plain == "in":
                self._add("keyword", "in", start)
                self._command = False
                return
            self.at = start
            self._command = True
            return
        self._add("word", self.text[start : self.at], start, word=word)
        if naming == "function":
            self._naming, self._command = "", True
            self._blanks()
            if self.text.startswith("(", self.at) and re.compile(r"\(\s*\)").match(self.text, self.at):
                self.at = self.text.index(")", self.at) + 1
            self._add("operator", "()", self.at)
        else:
            self._naming, self._command = "in", False

    def _keyword(self, plain: str, start: int) -> bool:
        top = self._top()
        if plain in PLAIN_OPENERS:
            self._add("keyword", plain, start)
        elif plain == "esac" and top and top.kind == "case":
            self._close_case(start)
        elif plain in CLOSERS:
            self._add("keyword", plain, start)
            self._command = False
        elif plain == "for":
            self._add("keyword", plain, start)
            self._naming = "for"
            self._counting()
        elif plain == "case":
            self._add("keyword", plain, start)
            self._frames.append(_Frame("case", "subject"))
            self._command = False
        elif plain == "function" and self.dialect != "dash":
            self._naming = "function"
        else:
            return False
        return True

    def _counting(self) -> None:
        self._blanks()
        if self.dialect == "bash" and self._calculation():
            self._naming, self._command = "", True
        elif self.text.startswith("((", self.at):
            raise ScriptError("loop", line=self.line)

    def _alias(self, plain: str, start: int) -> bool:
        if start >= self._alias_end:
            self._used = set()
        text = self.aliases.get(plain)
        if text is None or plain in self._used or self._spliced >= MOST_ALIASES:
            return False
        self._spliced += 1
        self._used.add(plain)
        self._alias_end = max(start + len(text), self._alias_end + len(text) - len(plain))
        self.text = self.text[:start] + text + self.text[self.at :]
        self.at = start
        return True

    def _condition(self) -> bool:
        if self.dialect != "bash" or not re.compile(r"\[\[(?=\s)").match(self.text, self.at):
            return False
        start, items = self.at, list[Word | str]()
        self.at += 2
        while True:
            self._blanks()
            if self.at >= len(self.text):
                raise ScriptError("end", "end of file", line=self.line, unfinished=True)
            if self.text[self.at] == "\n":
                self.at += 1
                self.line += 1
                continue
            item = self._condition_item(items)
            if item == "]]":
                break
            items.append(item)
        self._add("condition", self.text[start : self.at], start, items=tuple(items))
        self._command = False
        return True

    def _condition_item(self, items: list[Word | str]) -> Word | str:
        if items and items[-1] == "=~":
            return self.regex_word()
        for operator in ("&&", "||", "(", ")", "<", ">"):
            if self.text.startswith(operator, self.at):
                self.at += len(operator)
                return operator
        if self.text[self.at] in ";&|":
            raise ScriptError("unexpected", self._peek_operator(), line=self.line)
        word = self.word(pattern=bool(items) and items[-1] in ("==", "=", "!="))
        plain = literal(word)
        return plain if plain in ("]]", "!", "=~", "==", "=", "!=") else word
