"""``sh`` blocks in the texts of a pack: those of one variant, and the commands in them.

A block may name the variants that it is for, by their values: ``sh cause=cordon,taint cores=1``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from faults.packs.errors import PackError
from faults.packs.model import Variant

FENCE, OPENING = "```", "```sh"
MAX_COMMAND_LINES = 60
"""Lines after which a quote that is still open is taken for a mistake."""
_HERE_DOCUMENT = re.compile(r"<<-? ?'?(\w+)'?")
_Part = tuple[str | None, list[str]]
"""The variants of a block, as they are written, and its lines; None for the lines between blocks."""


def of_variant(text: str, variant: Variant) -> str:
    """Return a text without the blocks that other variants have, and without the words that name variants."""
    if OPENING + " " not in text:
        return text
    kept: list[str] = []
    for wanted, lines in _parts(text):
        if wanted is None:
            kept += lines[1:] if kept and lines and not kept[-1] and not lines[0] else lines
        elif _is_for(wanted, variant):
            kept += [OPENING, *lines, FENCE]
    return "\n".join(kept)


def check(texts: Mapping[str, str], variants: Sequence[Variant]) -> None:
    """Raise ``PackError`` for a block that no variant has."""
    for name, text in texts.items():
        for wanted, _ in _parts(text):
            if wanted and not any(_is_for(wanted, variant) for variant in variants):
                raise PackError(name, f"{OPENING} {wanted}", "names values that no variant has")


def commands_in(text: str) -> list[str]:
    """Return the commands of a text, each with its comment; one may take several lines."""
    return [command for wanted, lines in _parts(text) if wanted is not None for command in _commands(lines)]


def _parts(text: str) -> Iterator[_Part]:
    part: _Part = (None, [])
    for line in text.split("\n"):
        if part[0] is None and (line == OPENING or line.startswith(OPENING + " ")):
            yield part
            part = (line.removeprefix(OPENING).strip(), [])
        elif part[0] is not None and line.rstrip() == FENCE:
            yield part
            part = (None, [])
        else:
            part[1].append(line)
    yield part


def _is_for(wanted: str, variant: Variant) -> bool:
    pairs = (word.partition("=") for word in wanted.split())
    return all(variant.get(name) in values.split(",") for name, _, values in pairs)


def _commands(lines: Sequence[str]) -> list[str]:
    found: list[list[str]] = [[]]
    for line in lines:
        found[-1].append(line)
        if _is_whole(found[-1]):
            found.append([])
    return [text for command in found if (text := "\n".join(command).strip())]


def _is_whole(lines: Sequence[str]) -> bool:
    """Return whether quotes, a here-document and escaped ends of lines are closed."""
    if document := _HERE_DOCUMENT.search(lines[0]):
        return lines[-1] == document[1]
    try:
        shlex.split("\n".join(lines), comments=True)
    except ValueError:
        return len(lines) > MAX_COMMAND_LINES
    return not lines[-1].endswith("\\")
