"""What Terraform complains of, and how it draws that: a box, or plain text, with the lines of code."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from kubesim import data

Span = list[int]
"""First line, first column, last line, last column."""
_texts: data.Reader[dict[str, list[str]]] = data.beside(__file__, "texts.yaml")
WIDTH = 78
RULE = "├────────────────"


@dataclass
class Problem:
    """One complaint; ``within`` names the block of the code, ``values`` what the expression's parts are."""

    summary: str
    detail: str = ""
    file: str = ""
    span: Span | None = None
    within: str = ""
    values: list[str] = field(default_factory=list)
    severity: str = "Error"
    address: str = ""


class Failure(Exception):
    """Problems that end what was being done."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(problem.summary for problem in problems))
        self.problems = list(problems)


class ProviderError(Exception):
    """What a provider says when something fails."""


def told(key: str, /, **values: object) -> tuple[str, str]:
    """Return a summary and the text under it, with values in them."""
    summary, detail = _texts()[key]
    return summary.format_map(values), detail.format_map(values)


def said(key: str, /, **values: object) -> str:
    """Return a text, with values in it."""
    return told(key, **values)[1]


def failure(key: str, /, *place: Any, **values: object) -> Failure:
    """Return the problem of a key; the place is a file, a span in it, and the block that this is in."""
    return Failure(Problem(*told(key, **values), *place))


def located(file: str, span: Span) -> str:
    """Return a place as texts name it."""
    return f"{file}:{span[0]},{span[1]}-{span[3]}"


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a question after a similar word, or nothing."""
    near = get_close_matches(word, [*known], 1)
    return f' Did you mean "{near[0]}"?' if near else ""


def wrapped(text: str, width: int) -> str:
    """Return text with its paragraphs broken into lines; lines that are set in stay whole."""
    whole = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if line.startswith(" ") else whole.fill(line) for line in text.split("\n"))


def drawn(problems: list[Problem], source: Callable[[str], str], *, color: bool, width: int = WIDTH) -> str:
    """Return problems as Terraform shows them; ``source`` returns the text of a file."""
    order = sorted(problems, key=lambda each: (each.severity == "Error", each.file, each.span or [0]))
    return "".join(_box(each, source, width) if color else _plain(each, source, width) for each in order)


def _box(problem: Problem, source: Callable[[str], str], width: int) -> str:
    shade = "\x1b[31m" if problem.severity == "Error" else "\x1b[33m"
    head = f"\x1b[1m{shade}{problem.severity}: \x1b[0m\x1b[0m\x1b[1m{problem.summary}\x1b[0m"
    lines = [head, "", *_snippet(problem, source, underline=True)]
    lines += wrapped(problem.detail, width - 3).split("\n")
    rows = "".join(f"{shade}│\x1b[0m \x1b[0m{line}\n" for line in lines)
    return f"{shade}╷\x1b[0m\x1b[0m\n{rows}{shade}╵\x1b[0m\x1b[0m\n"


def _plain(problem: Problem, source: Callable[[str], str], width: int) -> str:
    lines = ["", f"{problem.severity}: {problem.summary}", "", *_snippet(problem, source, underline=False)]
    lines += wrapped(problem.detail, width - 1).split("\n") if problem.detail else []
    return "".join(f"{line}\n" for line in lines)


def _snippet(problem: Problem, source: Callable[[str], str], *, underline: bool) -> list[str]:
    lines = [f"  with {problem.address},"] if problem.address else []
    if not problem.file or problem.span is None:
        return [*lines[:-1], *(line[:-1] for line in lines[-1:]), *([""] if lines else [])]
    first, column, last, end = problem.span
    text = source(problem.file).split("\n")
    if not 0 < first <= len(text):
        return [*lines, f"  on {problem.file} line {first}:", "  (source code not available)", ""]
    lines.append(f"  on {problem.file} line {first}{f', in {problem.within}' if problem.within else ''}:")
    for number in range(first, max(first, last) + 1):
        row = text[number - 1]
        if underline:
            begin = column - 1 if number == first else len(row) - len(row.lstrip())
            stop = end - 1 if number == last else len(row)
            row = f"{row[:begin]}\x1b[4m{row[begin:stop]}\x1b[0m{row[stop:]}"
        lines.append(f"{number:4d}: {row}{chr(27) + '[0m' if underline else ''}")
    if problem.values:
        lines += [f"    {RULE}", *(f"    │ {value}" for value in problem.values)]
    return [*lines, ""]


def uncolored(text: str) -> str:
    """Return text without the marks of colour."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
