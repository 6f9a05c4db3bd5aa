"""From a script to its commands, by recursive descent along the grammar of POSIX shells and bash.

Source of the grammar: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_10.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from kubesim.shell import nodes
from kubesim.shell.lexer import Lexer
from kubesim.shell.nodes import Node, ScriptError, Text, Word, literal

LONGEST_SCRIPT = 256 << 10
MOST_OPEN = 60
DECLARING = {"declare", "typeset", "local", "export", "readonly"}
CLOSERS = ("then", "do", "fi", "done", "}", "elif", "else", "esac")
_ASSIGNING = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")


class _Parser(Lexer):
    """Reads one script, or one ``$(...)`` of it, and refuses the first token that cannot stand where it stands."""

    def whole(self) -> Node:
        """Return the commands of the whole script; raises ScriptError."""
        found = self._sequence()
        if self.at < len(self.text):
            self._refuse()
        self._finish_documents()
        return found

    def nested(self) -> Node:
        reader = _Parser(self.text, at=self.at, depth=self.depth + 1, line=self.line)
        reader.budget = self.budget
        reader.open.append("(")
        found = reader._sequence()
        if not reader._take(")"):
            reader._refuse()
        reader._finish_documents(nested=True)
        self.at, self.line = reader.at, reader.line
        return found

    def script(self, text: str) -> Node:
        reader = _Parser(text, depth=self.depth + 1, line=self.line)
        reader.budget = self.budget
        return reader.whole()

    # lists and pipelines

    def _sequence(self) -> Node:
        """Return the commands up to a token that begins none."""
        items: list[tuple[Node, bool, str]] = []
        while not self._ended():
            start = len(self.shown)
            node = self._and_or()
            source = self._source(start)
            background = bool(self._take("&"))
            items.append((node, background, source))
            if not background and not self._take(";") and not self._newline():
                break
        return items[0][0] if len(items) == 1 and not items[0][1] else nodes.Sequence(tuple(items))

    def _ended(self) -> bool:
        """Pass over line breaks; tell whether the next token begins no command."""
        self._newlines()
        return self.at >= len(self.text) or self._operator() not in ("", "(") or self._reserved() in CLOSERS

    def _body(self) -> Node:
        """Return the commands of a part of a compound command, of which there must be one."""
        if self._ended():
            self._refuse()
        return self._sequence()

    def _and_or(self) -> Node:
        first = self._pipeline()
        rest = []
        while operator := self._take("&&", "||"):
            self._newlines()
            rest.append((operator, self._pipeline()))
        return nodes.AndOr(first, tuple(rest)) if rest else first

    def _pipeline(self) -> Node:
        if self._take_word("time"):
            posix = bool(self._take_word("-p"))
            return nodes.Timed(
                nodes.NOTHING if self._ends_words() and self._operator() != "(" else self._pipeline(), posix
            )
        both: list[bool] = []
        negated = self._negated()
        if negated is not None and self._ends_words() and self._operator() in ("", ";"):
            return nodes.Pipeline((nodes.NOTHING,), negated)
        parts = [self._command()]
        while operator := self._take("|", "|&"):
            both.append(operator == "|&")
            self._newlines()
            inner = self._negated()
            negated = inner if negated is None else negated ^ bool(inner)
            parts.append(self._command())
        return parts[0] if negated is None and not both else nodes.Pipeline(tuple(parts), bool(negated), tuple(both))

    def _negated(self) -> bool | None:
        """Take ``!``, as often as it stands here; None where there is none."""
        found: bool | None = None
        while self._take_word("!"):
            found = not found
        return found

    # commands

    def _command(self) -> Node:
        while not self._reserved() and self._alias():
            pass
        body = None
        if re.compile(r"\[\[(?=\s)").match(self.text, self.at):
            body = self._condition()
        elif (word := self._calculation()) is not None:
            body = nodes.Calculation(word, self.line)
        elif self._operator() == "(" or self._reserved():
            body = self._compound()
        if body is None:
            return self._simple()
        if isinstance(body, nodes.Function):
            return body
        redirects = self._redirects()
        return nodes.Redirected(body, redirects) if redirects else body

    def _simple(self) -> Node:
        line, start, words, redirects = 0, len(self.shown), list[Word](), list[nodes.Redirect]()
        naming, declaring = True, False  # whether the command's name, or an assignment, may come next
        while True:
            if redirect := self._redirect():
                redirects.append(redirect)
            elif (words or redirects) and self._ends_words():
                break
            elif not (naming and self._alias()):
                word, source = self._word(array=naming or declaring)
                words.append(word)
                if naming:
                    declaring = literal(word) in DECLARING
                    naming = _ASSIGNING.match(source) is not None
                if not naming and self._operator() == "(":
                    self._empty_parentheses(alone=len(words) == 1 and not redirects)
                    return self._function(source, start)
            line = line or self.line
        return nodes.Simple(tuple(words), tuple(redirects), line, self._source(start))

    def _empty_parentheses(self, *, alone: bool) -> None:
        """Take the ``()`` after a function's name."""
        found = re.compile(r"\([ \t]*\)").match(self.text, self.at)
        if not found:
            self.at += 1
            token = "newline" if self.at >= len(self.text) else self._peek()
            raise ScriptError("unexpected", token, line=self.line)
        if not alone:
            self._refuse()
        self.at = found.end()

    def _function(self, name: str, start: int) -> Node:
        self._show("()", complete=False)
        self._newlines()
        if self._operator() != "(" and not self._reserved() and not self.text.startswith("[[", self.at):
            self._refuse()
        body = self._command()
        return nodes.Function(name, body, self._source(start))

    def _compound(self) -> Node:
        word = self._take("(") or self._take_word("{", "if", "while", "until", "for", "case", "function")
        if not word:
            self._refuse()
        if word == "function":
            self.shown.pop()
            start, name = len(self.shown), self._word()[1]
            if self._operator() == "(":
                self._empty_parentheses(alone=True)
            return self._function(name, start)
        self.open.append(word)
        if len(self.open) > MOST_OPEN:
            raise ScriptError("deep", line=self.line)
        forms = {"(": self._subshell, "{": self._group, "if": self._if, "for": self._for, "case": self._case}
        found = forms.get(word, self._while)()
        self.open.pop()
        return found

    def _turn(self, word: str) -> None:
        """Take the reserved word that begins the next part of what is open."""
        self._expect(word)
        self.open[-1] = word

    def _subshell(self) -> Node:
        body = self._body()
        if not self._take(")"):
            self._refuse()
        return nodes.Subshell(body)

    def _group(self) -> Node:
        body = self._body()
        self._expect("}")
        return body

    def _if(self) -> Node:
        branches, other = [self._branch()], None
        while self._reserved() == "elif":
            self._turn("elif")
            branches.append(self._branch())
        if self._reserved() == "else":
            self._turn("else")
            other = self._body()
        self._expect("fi")
        return nodes.If(tuple(branches), other)

    def _branch(self) -> tuple[Node, Node]:
        condition = self._body()
        self._turn("then")
        return condition, self._body()

    def _while(self) -> Node:
        until = self.open[-1] == "until"
        condition = self._body()
        return nodes.While(condition, self._loop(), until)

    def _loop(self) -> Node:
        self._turn("do")
        body = self._body()
        self._expect("done")
        return body

    def _for(self) -> Node:
        self._blanks()
        if self.text.startswith("((", self.at):
            return self._counting()
        word, name = self._word()
        if literal(word) is None:
            raise ScriptError("unexpected", name, line=self.line)
        self._newlines()
        words: list[Word] | None = [] if self._take_word("in") else None
        while words is not None and not self._ends_words():
            words.append(self._word()[0])
        self._separator()
        return nodes.For(name, None if words is None else tuple(words), self._loop())

    def _counting(self) -> Node:
        word = self._calculation()
        if word is None:
            raise ScriptError("loop", line=self.line)
        pieces = _split(word)
        if len(pieces) != 3:
            raise ScriptError("unexpected", "((", line=self.line)
        self._separator()
        return nodes.CountingFor(pieces[0], pieces[1], pieces[2], self._loop())

    def _separator(self) -> None:
        self._take(";")
        self._newlines()

    def _case(self) -> Node:
        subject, _ = self._word()
        self._newlines()
        self._turn("in")
        items = []
        self._newlines()
        while not self._take_word("esac"):
            items.append(self._case_item())
            self._newlines()
        return nodes.Case(subject, tuple(items))

    def _case_item(self) -> tuple[tuple[Word, ...], Node]:
        self._take("(")
        patterns = [self._word()[0]]
        while self._take("|"):
            patterns.append(self._word()[0])
        if not self._take(")"):
            self._refuse()
        body = self._sequence()
        if self._reserved() != "esac" and not self._take(";;"):
            self._refuse()
        return tuple(patterns), body

    # bash's own

    def _calculation(self) -> Word | None:
        """Take ``((...))``, if it is next."""
        self._blanks()
        if not self.text.startswith("((", self.at):
            return None
        start, line = self.at, self.line
        self.at += 2
        word = self.arithmetic()
        if word is None:
            self.at, self.line = start, line
        else:
            self._show(self.text[start : self.at])
        return word

    def _condition(self) -> Node:
        start, items = self.at, list[Word | str]()
        self.at += 2
        while True:
            self._blanks()
            if self.at >= len(self.text):
                raise ScriptError("end", "end of file", line=self.line, unfinished=True)
            if self.text[self.at] == "\n":
                self.at += 1
                self.line += 1
            elif (item := self._condition_item(items)) == "]]":
                break
            else:
                items.append(item)
        self._show(self.text[start : self.at])
        return nodes.Condition(tuple(items), self.line)

    def _condition_item(self, items: list[Word | str]) -> Word | str:
        if items and items[-1] == "=~":
            return self.regex_word()
        for operator in ("&&", "||", "(", ")", "<", ">"):
            if self.text.startswith(operator, self.at):
                self.at += len(operator)
                return operator
        if self.text[self.at] in ";&|":
            raise ScriptError("unexpected", self._peek(), line=self.line)
        word = self.word(pattern=bool(items) and items[-1] in ("==", "=", "!="))
        plain = literal(word)
        return plain if plain in ("]]", "!", "=~", "==", "=", "!=") else word


def parse(text: str, aliases: Mapping[str, str] | None = None, *, more: bool = False) -> Node:
    """Return the commands of a script; raises ScriptError: also for an open here-document that gets ``more``."""
    if aliases or more or len(text) > 4096:
        return _parse(text, aliases, more=more)
    return _cached(text)


@lru_cache(maxsize=512)
def _cached(text: str) -> Node:
    return _parse(text, None)


def _parse(text: str, aliases: Mapping[str, str] | None, *, more: bool = False) -> Node:
    if len(text) > LONGEST_SCRIPT:
        raise ScriptError("deep")
    reader = _Parser(text.replace("\0", ""), aliases)
    node = reader.whole()
    if reader.short and more:
        raise ScriptError("end", "end of file", line=reader.line, unfinished=True)
    return node


def _split(word: Word) -> list[Word]:
    """Split the inside of ``for ((a; b; c))`` at its semicolons."""
    pieces: list[Word] = [()]
    for part in word:
        if not isinstance(part, Text):
            pieces[-1] = (*pieces[-1], part)
            continue
        for index, text in enumerate(part.value.split(";")):
            if index:
                pieces.append(())
            pieces[-1] = (*pieces[-1], Text(text, True))
    return pieces
