"""What readers of little languages have in common: a current token, and ways to look at it and take it."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TokenReader(ABC):
    """A text of which one token is in hand: its ``kind`` and its ``value``."""

    kind: str
    value: str

    @abstractmethod
    def _next(self) -> None:
        """Take the next token in hand."""

    @abstractmethod
    def _fail(self) -> None:
        """Raise the language's error for the token in hand."""

    def _is(self, *values: str) -> bool:
        return self.kind in ("op", "keyword") and self.value in values

    def _take(self, value: str) -> bool:
        if self._is(value):
            self._next()
            return True
        return False

    def _expect(self, value: str) -> None:
        if not self._take(value):
            self._fail()
