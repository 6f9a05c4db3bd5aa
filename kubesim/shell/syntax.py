"""Syntax errors, worded as each shell words them."""

from __future__ import annotations


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
