"""From tokens to commands, by recursive descent along the grammar of POSIX shells and bash.

Source of the grammar: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NoReturn

from kubesim.shell.lexer import Lexer
from kubesim.shell.nodes import (
    NOTHING,
    AndOr,
    Calculation,
    Case,
    Condition,
    CountingFor,
    For,
    Function,
    If,
    Node,
    Pipeline,
    Redirect,
    Redirected,
    Sequence,
    Simple,
    Subshell,
    Text,
    While,
    Word,
    literal,
)
from kubesim.shell.syntax import ScriptError
from kubesim.shell.tokens import Token

LONGEST_SCRIPT = 256 << 10
MOST_OPEN = 60
OPENS = {"if": "then", "elif": "then", "while": "do", "until": "do", "for": "do"}
BODIES = {"then": "fi", "else": "fi", "do": "done", "{": "}", "(": ")", "case": ";;"}
"""By the word that opens a part of a compound command: what ends it."""
CASE_ENDS = (";;", ";&", ";;&")


class _Script(Lexer):
    def nested(self) -> Node:
        reader = _Script(self.text, self.dialect, at=self.at, depth=self.depth + 1, line=self.line)
        reader.budget = self.budget
        tokens = reader.read(nested=True)
        self.at, self.line = reader.at, reader.line
        return _Parser(tokens, self.dialect).script()

    def script(self, text: str) -> Node:
        reader = _Script(text, self.dialect, depth=self.depth + 1, line=self.line)
        reader.budget = self.budget
        return _Parser(reader.read(), self.dialect).script()


def parse(text: str, dialect: str, aliases: Mapping[str, str] | None = None, *, line: int = 1) -> Node:
    """Return the commands of a script; raises ScriptError."""
    if aliases or len(text) > 4096:
        return _parse(text, dialect, aliases, line)
    return _cached(text, dialect, line)


@lru_cache(maxsize=512)
def _cached(text: str, dialect: str, line: int) -> Node:
    return _parse(text, dialect, None, line)


def _parse(text: str, dialect: str, aliases: Mapping[str, str] | None, line: int) -> Node:
    if len(text) > LONGEST_SCRIPT:
        raise ScriptError("deep")
    reader = _Script(text.replace("\0", ""), dialect, aliases, line=line)
    tokens = reader.read()
    node = _Parser(tokens, dialect).script()
    if reader.short and aliases is not None:
        raise ScriptError("end", "end of file", line=reader.line, unfinished=True)
    return node


class _Parser:
    """Reads the commands of one script, and refuses the first token that cannot stand where it stands."""

    def __init__(self, tokens: list[Token], dialect: str) -> None:
        self.tokens = tokens
        self.dialect = dialect
        self.at = 0
        self.open: list[str] = []

    def script(self) -> Node:
        """Return the commands of the whole script; raises ScriptError."""
        found = self._sequence()
        if self.at < len(self.tokens):
            self._refuse()
        return found

    # tokens

    def _peek(self, kind: str, *texts: str) -> bool:
        """Tell whether the next token is of a kind, and one of these."""
        if self.at >= len(self.tokens):
            return False
        token = self.tokens[self.at]
        return token.kind == kind and (not texts or token.text in texts)

    def _next(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def _take(self, kind: str, *texts: str) -> Token:
        if not self._peek(kind, *texts):
            self._refuse()
        return self._next()

    def _newlines(self) -> None:
        while self._peek("newline"):
            self.at += 1

    def _refuse(self) -> NoReturn:
        expecting = (OPENS.get(self.open[-1]) or BODIES[self.open[-1]]) if self.open else ""
        if self.at >= len(self.tokens):
            line = self.tokens[-1].line if self.tokens else 1
            raise ScriptError("end", "end of file", expecting=expecting, line=line, unfinished=True)
        token = self.tokens[self.at]
        plain = token.kind in ("keyword", "operator", "newline") or self.dialect == "bash"
        raise ScriptError("unexpected", token.text if plain else "word", expecting=expecting, line=token.line)

    def _push(self, word: str) -> None:
        self.open.append(word)
        if len(self.open) > MOST_OPEN:
            raise ScriptError("deep", line=self.tokens[-1].line)

    # lists and pipelines

    def _sequence(self) -> Node:
        """Return the commands up to a token that begins none."""
        items: list[tuple[Node, bool, str]] = []
        separated = True
        while separated:
            self._newlines()
            if self._ended():
                break
            start = self.at
            node = self._and_or()
            source = self._source(start)
            background = self._peek("operator", "&")
            separated = background or self._peek("operator", ";") or self._peek("newline")
            self.at += separated
            items.append((node, background, source))
        return items[0][0] if len(items) == 1 and not items[0][1] else Sequence(tuple(items))

    def _ended(self) -> bool:
        """Tell whether the next token begins no command."""
        if self._peek("operator"):
            return not self._peek("operator", "(")
        closers = (*OPENS.values(), *BODIES.values(), "elif", "else", "esac", "in")
        return self.at >= len(self.tokens) or self._peek("keyword", *closers)

    def _body(self) -> Node:
        """Return the commands of a part of a compound command, of which there must be one."""
        start = self.at
        self._newlines()
        if self._ended():
            self._refuse()
        self.at = start
        return self._sequence()

    def _source(self, start: int) -> str:
        """Return a command as ``jobs`` shows it."""
        shown = []
        for index in range(start, self.at):
            token = self.tokens[index]
            if token.redirect:
                shown.append(_redirection(token.redirect))
            elif token.kind != "newline" or _ends_command(self.tokens[index - 1]):
                shown.append(";" if token.kind == "newline" else token.text.removeprefix("pattern"))
        return " ".join(shown)[:200]

    def _and_or(self) -> Node:
        first = self._pipeline()
        rest = []
        while self._peek("operator", "&&", "||"):
            operator = self._next().text
            self._newlines()
            rest.append((operator, self._pipeline()))
        return AndOr(first, tuple(rest)) if rest else first

    def _pipeline(self) -> Node:
        parts: list[Node] = []
        both: list[bool] = []
        negated = self._negated()
        if negated is not None and (
            self.at >= len(self.tokens) or self._peek("newline") or self._peek("operator", ";")
        ):
            return Pipeline((NOTHING,), negated)
        parts.append(self._command())
        while self._peek("operator", "|", "|&"):
            both.append(self._next().text == "|&")
            self._newlines()
            inner = self._negated()
            negated = inner if negated is None else negated ^ bool(inner)
            parts.append(self._command())
        return parts[0] if negated is None and not both else Pipeline(tuple(parts), bool(negated), tuple(both))

    def _negated(self) -> bool | None:
        """Take ``!``, as often as it stands here; None where there is none."""
        found: bool | None = None
        while self._peek("keyword", "!"):
            self.at += 1
            found = not found
        return found

    # commands

    def _command(self) -> Node:
        if self._peek("condition") or self._peek("calculation"):
            return self._tested()
        if self._peek("word") or self._peek("redirect"):
            return self._simple()
        return self._redirected(self._compound())

    def _simple(self) -> Node:
        start = self.at
        words: list[Word] = []
        redirects: list[Redirect] = []
        while self._peek("word") or self._peek("redirect"):
            token = self._next()
            if token.redirect:
                redirects.append(token.redirect)
            else:
                words.append(token.word)
            if self._peek("operator", "()"):
                return self._function(start)
        return Simple(tuple(words), tuple(redirects), self.tokens[start].line, self._source(start))

    def _function(self, start: int) -> Node:
        if self.at != start + 1:
            self._refuse()
        self._next()
        self._newlines()
        if self._peek("word") or self._peek("redirect"):
            self._refuse()
        body = self._command()
        return Function(self.tokens[start].text, body, self._source(start))

    def _tested(self) -> Node:
        token = self._next()
        whole = token.kind == "condition"
        body: Node = Condition(token.items, token.line) if whole else Calculation(token.word, token.line)
        return self._redirected(body)

    def _redirected(self, body: Node) -> Node:
        redirects = []
        while self._peek("redirect"):
            redirect = self._next().redirect
            redirects += [redirect] if redirect else []
        return Redirected(body, tuple(redirects)) if redirects else body

    def _compound(self) -> Node:
        if not self._peek("operator", "(") and not self._peek("keyword"):
            self._refuse()
        word = self.tokens[self.at].text
        forms = {
            "(": self._subshell, "{": self._group, "if": self._if, "while": self._while, "until": self._while,
            "for": self._for, "case": self._case,
        }  # fmt: skip
        if word not in forms:
            self._refuse()
        self.at += 1
        self._push(word)
        return forms[word]()

    def _turn(self, word: str) -> None:
        """Take the keyword that begins the next part of what is open."""
        self._take("keyword", word)
        self.open[-1] = word

    def _close(self, kind: str, word: str) -> None:
        self._take(kind, word)
        self.open.pop()

    def _subshell(self) -> Node:
        body = self._body()
        self._close("operator", ")")
        return Subshell(body)

    def _group(self) -> Node:
        body = self._body()
        self._close("keyword", "}")
        return body

    def _if(self) -> Node:
        branches = [self._branch()]
        while self._peek("keyword", "elif"):
            self._turn("elif")
            branches.append(self._branch())
        other: Node | None = None
        if self._peek("keyword", "else"):
            self._turn("else")
            other = self._body()
        self._close("keyword", "fi")
        return If(tuple(branches), other)

    def _branch(self) -> tuple[Node, Node]:
        condition = self._body()
        self._turn("then")
        return condition, self._body()

    def _while(self) -> Node:
        until = self.open[-1] == "until"
        condition = self._body()
        return While(condition, self._loop(), until)

    def _loop(self) -> Node:
        self._turn("do")
        body = self._body()
        self._close("keyword", "done")
        return body

    def _for(self) -> Node:
        if self._peek("calculation"):
            return self._counting()
        head = self._take("word")
        if literal(head.word) is None:
            raise ScriptError("unexpected", head.text, line=head.line)
        self._newlines()
        words = None
        if self._peek("keyword", "in"):
            self._next()
            words = tuple(self._words())
        self._separator()
        return For(head.text, words, self._loop())

    def _counting(self) -> Node:
        head = self._next()
        pieces = _split(head.word)
        if len(pieces) != 3:
            raise ScriptError("unexpected", "((", line=head.line)
        self._separator()
        return CountingFor(pieces[0], pieces[1], pieces[2], self._loop())

    def _words(self) -> Iterator[Word]:
        while self._peek("word"):
            yield self._next().word

    def _separator(self) -> None:
        self.at += self._peek("operator", ";")
        self._newlines()

    def _case(self) -> Node:
        subject = self._take("word").word
        self._newlines()
        self._take("keyword", "in")
        items = []
        self._newlines()
        while not self._peek("keyword", "esac"):
            items.append(self._case_item())
            self._newlines()
        self._close("keyword", "esac")
        return Case(subject, tuple(items))

    def _case_item(self) -> tuple[tuple[Word, ...], Node, str]:
        self.at += self._peek("operator", "pattern(")
        patterns = [self._take("word").word]
        while self._peek("operator", "pattern|"):
            self._next()
            patterns.append(self._take("word").word)
        self._take("operator", "pattern)")
        body = self._sequence()
        if self._peek("keyword", "esac"):
            return tuple(patterns), body, ""
        end = self._take("operator", *CASE_ENDS).text
        return tuple(patterns), body, end if end != ";;" else ""


def _redirection(redirect: Redirect) -> str:
    """Return a redirection as it was written."""
    gap = "" if redirect.op.endswith("&") else " "
    return f"{'' if redirect.fd < 0 else redirect.fd}{redirect.op}{gap}{redirect.source}"


def _ends_command(token: Token) -> bool:
    """Tell whether a line break after a token ends a command."""
    if token.kind in ("keyword", "operator"):
        return token.text in ("fi", "done", "esac", "}", ")")
    return token.kind != "newline"


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
