"""A Markdown file as a list of sections with line numbers: the ground that the question importer reads."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from faults import plain_text

LIMIT_BYTES = 500_000  # some 600 questions; the worst text of this size takes seconds to read, not minutes

_MARKER = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])(?:\s+|$)")
_NUMBER = re.compile(r"^(?:\d{1,3}(?:\.\d{1,3})*[.)]|Q(?:uestion)?\s*\d{1,3}\s*[.):]?|Q\s*:)\s+", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"---\n(.*\n)*?---\n")
_MOST_LINES_NAMED = 8


class ImportProblem(Exception):
    """The file cannot be taken; the message is one line that says where and what to do."""


@dataclass
class Section:
    """A heading, and the blocks between it and the next heading of any level."""

    title: str
    line: int
    level: int
    blocks: list[SyntaxTreeNode] = field(default_factory=list)


@dataclass(frozen=True)
class Outline:
    """The file in sections; ``preamble`` is what stands before the first heading."""

    lines: list[str]
    sections: list[Section]
    preamble: list[SyntaxTreeNode]
    comment_lines: list[int]
    front_matter_end: int
    link_definitions: list[tuple[int, str]]

    def source(self, node: SyntaxTreeNode) -> str:
        """Return the Markdown of a block, without the indentation it has in the file."""
        start, end = node.map or (0, 0)
        return "\n".join(line.rstrip() for line in textwrap.dedent("\n".join(self.lines[start:end])).splitlines())

    def item_source(self, item: SyntaxTreeNode) -> str:
        """Return the Markdown of a list item without its marker."""
        start, end = item.map or (0, 0)
        first, *rest = self.lines[start:end]
        head = _MARKER.sub("", first, count=1).strip()
        tail = textwrap.dedent("\n".join(rest)).strip("\n")
        return "\n".join(line.rstrip() for line in f"{head}\n{tail}".splitlines()).strip()


def decode(raw: bytes) -> str:
    """Return the text of an uploaded or read file.

    Raises ImportProblem for what cannot be a question bank: nothing, too much, or not UTF-8 text.
    """
    if len(raw) > LIMIT_BYTES:
        raise ImportProblem(f"The file has {len(raw) / 1e6:.1f} MB; the limit is {LIMIT_BYTES / 1e6:g} MB. Split it.")
    if b"\0" in raw:
        raise ImportProblem("The file is binary. Give a Markdown file saved as UTF-8 text.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        raise ImportProblem(f"Line {line}: this is not UTF-8 text. Save the file as UTF-8.") from exc
    if not text.strip():
        raise ImportProblem("The file is empty.")
    return plain_text.plain(text)


def read(text: str) -> Outline:
    """Split Markdown into sections. Raises ImportProblem where it holds HTML."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ")
    text, front_matter_end = _without_front_matter(text)
    env: dict[str, Any] = {}
    tokens = MarkdownIt("commonmark").parse(text, env)
    comments = _refuse_html(tokens)
    sections: list[Section] = []
    preamble: list[SyntaxTreeNode] = []
    for node in SyntaxTreeNode(tokens).children:
        if node.type == "heading":
            sections.append(Section(_title(node), line_of(node), int(node.tag[1:])))
        elif node.type not in ("hr", "html_block"):
            (sections[-1].blocks if sections else preamble).append(node)
    # markdown-it counts only \n as a line end, and so must we.
    links = [
        (row["map"][0] + 1, f"[{name.lower()}]: {row['href']}") for name, row in env.get("references", {}).items()
    ]
    return Outline(text.split("\n"), sections, preamble, comments, front_matter_end, links)


def _without_front_matter(text: str) -> tuple[str, int]:
    """Return the text with the YAML at its top made blank, and the last line of that; 0 where there is none."""
    found = _FRONT_MATTER.match(text)
    if found is None:
        return text, 0
    lines = found[0].count("\n")
    return "\n" * lines + text[found.end() :], lines


def line_of(node: SyntaxTreeNode) -> int:
    """Return the line, from 1, on which a block starts."""
    return (node.map or (0, 0))[0] + 1


def plain(node: SyntaxTreeNode) -> str:
    """Return the words of a heading, paragraph or list item's first paragraph, without emphasis marks."""
    inline = next((child for child in node.walk() if child.type == "inline"), None)
    if inline is None:
        return ""
    parts = (
        " " if child.type in ("softbreak", "hardbreak") else child.content
        for child in inline.walk(include_self=False)
    )
    return " ".join("".join(parts).split())


def without_number(title: str) -> str:
    """Return a title without the number that people put in front: "3.", "2.1)", "Q4:", "Question 5"."""
    return _NUMBER.sub("", title) or title


def _title(node: SyntaxTreeNode) -> str:
    return without_number(plain(node))


def _refuse_html(tokens: list[Token]) -> list[int]:
    """Return the lines of comments; raise for any other HTML, which would be shown otherwise than written."""
    found = [(line, html.strip()) for line, html in _html(tokens)]
    other = [(line, html) for line, html in found if not html.startswith("<!--")]
    if other:
        lines = sorted({line for line, _ in other})
        named = ", ".join(map(str, lines[:_MOST_LINES_NAMED])) + (" and more" if lines[_MOST_LINES_NAMED:] else "")
        sample = " ".join(other[0][1].split())[:40]
        word = "Line" if len(lines) == 1 else "Lines"
        raise ImportProblem(f"{word} {named}: HTML is not read ({sample}). Put it in backticks or remove it.")
    return [line for line, _ in found]


def _html(tokens: list[Token]) -> Iterator[tuple[int, str]]:
    for token in tokens:
        line = (token.map or (0, 0))[0] + 1
        if token.type == "html_block":
            yield line, token.content
        for child in token.children or ():
            if child.type == "html_inline":
                yield line, child.content
            line += child.type in ("softbreak", "hardbreak")
