"""Syntax errors, worded as each shell words them."""

from __future__ import annotations

from kubesim.shell.tokens import Token


class ScriptError(Exception):
    """A script that cannot be parsed. ``unfinished`` says that more input could make it right."""

    def __init__(
        self, kind: str, token: str = "", *, expecting: str = "", line: int = 1, unfinished: bool = False
    ) -> None:
        super().__init__(kind, token)
        self.kind = kind  # unexpected, end, quote, backquote, brace, substitution or deep
        self.token = token
        self.expecting = expecting
        self.line = line
        self.unfinished = unfinished

    def text(self, dialect: str, source: str) -> str:
        """Return what the shell prints after its own name and position; bash adds the offending line."""
        if dialect == "bash":
            return self._bash()
        if dialect == "dash":
            return "Syntax error: " + self._almquist(f"{self._quoted()} unexpected")
        return "syntax error: " + self._almquist(f"unexpected {self._quoted()}")

    def _quoted(self) -> str:
        plain = ("newline", "word", "end of file", "redirection")
        return self.token if self.token in plain else f'"{self.token}"'

    def _almquist(self, unexpected: str) -> str:
        fixed = {
            "quote": "Unterminated quoted string",
            "backquote": "EOF in backquote substitution",
            "brace": "Missing '}'",
            "deep": "memory exhausted",
            "loop": "Bad for loop variable",
        }
        text = fixed.get(self.kind, unexpected)
        if unexpected.startswith("unexpected"):  # BusyBox begins in lower case
            text = text if text.startswith("EOF") else text[:1].lower() + text[1:]
        return text + (f' (expecting "{self.expecting}")' if self.expecting else "")

    def _bash(self) -> str:
        if self.kind in ("quote", "backquote", "brace"):
            closer = {"backquote": "`", "brace": "}"}.get(self.kind, self.token)
            return f"unexpected EOF while looking for matching `{closer}'"
        if self.kind == "end":
            return "syntax error: unexpected end of file"
        if self.kind == "deep":
            return "memory exhausted"
        return f"syntax error near unexpected token `{self.token}'"


OPENS = {"if": "then", "elif": "then", "while": "do", "until": "do", "for": "do", "select": "do"}
BODIES = {"then": "fi", "else": "fi", "do": "done", "{": "}", "(": ")", "case": "esac"}  # what ends each
STARTERS = {"if", "while", "until", "for", "case", "{", "(", "select"}


class Checker:
    """Finds the first token that cannot stand where it stands, with a stack of what is open."""

    def __init__(self, tokens: list[Token], dialect: str) -> None:
        self.tokens = tokens
        self.dialect = dialect
        self.open: list[str] = []
        self.wanting = True  # a command must or may start here
        self.must = ""  # the operator or keyword that wants one
        self.closed = False  # a compound command has just ended
        self.line = 1
        self.deepest = 0

    def check(self) -> None:
        """Raise ScriptError for the first wrong token."""
        for token in self.tokens:
            self.line = token.line
            if token.kind == "newline":
                self._newline()
            elif token.kind == "operator":
                self._operator(token.text)
            elif token.kind == "keyword":
                self._keyword(token.text)
            elif token.kind == "redirect":
                self.wanting, self.must = False, ""
            else:
                self._word(token)
        if self.open or self.must in ("|", "&&", "||", "|&"):
            raise ScriptError("end", "end of file", expecting=self._expected(), line=self.line, unfinished=True)

    def _expected(self) -> str:
        if not self.open:
            return ""
        if self.open[-1] == "case":
            return ";;"
        return OPENS.get(self.open[-1], "") or BODIES.get(self.open[-1], "")

    def _refuse(self, found: str) -> None:
        raise ScriptError("unexpected", found, expecting=self._expected(), line=self.line)

    def _newline(self) -> None:
        if not self.must:
            self.wanting = True
            self.closed = False

    def _operator(self, text: str) -> None:
        if text == "(":
            self._push("(")
        elif text == ")":
            if not self.open or self.open[-1] != "(" or self.must:
                self._refuse(")")
            self._pop()
        elif text in ("pattern(", "pattern)", "pattern|", "()"):
            self.wanting, self.must = True, ""
        elif text in (";;", ";&", ";;&"):
            if not self.open or self.open[-1] != "case":
                self._refuse(text)
            self.wanting, self.must, self.closed = True, "", False
        else:
            self._separator(text)

    def _separator(self, text: str) -> None:
        if self.wanting:
            self._refuse(text)
        self.wanting, self.closed = True, False
        self.must = text if text in ("|", "|&", "&&", "||") else ""

    def _push(self, text: str) -> None:
        if not self.wanting:
            self._refuse(text)
        self.open.append(text)
        self.deepest = max(self.deepest, len(self.open))
        self.wanting, self.must = True, text

    def _pop(self) -> None:
        self.open.pop()
        self.wanting, self.must, self.closed = False, "", True

    def _keyword(self, text: str) -> None:
        top = self.open[-1] if self.open else ""
        if text in STARTERS:
            self._push(text)
            if text in ("for", "case", "select"):
                self.must = ""
        elif text == "!":
            if not self.wanting:
                self._refuse(text)
            self.must = "!"
        elif text == "in":
            self.wanting, self.must = True, ""
        elif (text in ("then", "do") and OPENS.get(top) == text) or (text in ("else", "elif") and top == "then"):
            self._turn(text)
        elif BODIES.get(top) == text:
            if self.must:
                self._refuse(text)
            self._pop()
        else:
            self._refuse(text)

    def _turn(self, text: str) -> None:
        if self.must and self.must not in ("for",):
            self._refuse(text)
        self.open[-1] = text
        self.wanting, self.must, self.closed = True, text, False

    def _word(self, token: Token) -> None:
        if self.closed:
            self._refuse("word" if self.dialect != "bash" else token.text)
        self.wanting, self.must = False, ""
