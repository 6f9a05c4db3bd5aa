"""Tokens of a script: words with their parts, operators, keywords, redirections."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.shell.nodes import Redirect, Word


@dataclass(slots=True)
class Token:
    """``kind`` is word, operator, keyword, redirect, newline, condition or calculation."""

    kind: str
    text: str
    line: int
    start: int = 0
    end: int = 0
    word: Word = ()
    redirect: Redirect | None = None
    items: tuple[Word | str, ...] = ()
