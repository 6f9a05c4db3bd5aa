"""Reads a question bank written in Markdown (docs/question-format.md) into questions, and tells what it left out.

Headings of people's files have no reliable levels, so the order decides: a heading is a question when labelled
parts follow it ("Expected answer", "Follow-ups", "Hints", "Question", "Discussion points") or when it asks
something; every other heading opens a category. Nothing is dropped silently: what is neither a question nor
knowingly ignored is reported with its line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.utils.text import slugify
from markdown_it.tree import SyntaxTreeNode

from sessions.importers import attributes, outline
from sessions.importers.attributes import Attributes
from sessions.importers.outline import ImportProblem, Outline, Section

TITLE_LENGTH, CATEGORY_LENGTH, KEY_LENGTH, REMARK_LENGTH, LABEL_LENGTH = 300, 120, 120, 1000, 80

_LABELS = {
    **dict.fromkeys(["expected answer", "expected answers", "answer", "answers", "a"], "expected_answer"),
    **dict.fromkeys([f"{word} answer" for word in ("model", "sample", "ideal", "good", "strong")], "expected_answer"),
    **dict.fromkeys(["follow-ups", "follow ups", "followups", "follow-up", "followup"], "follow_ups"),
    **dict.fromkeys(["follow-up questions", "follow up questions", "followup questions"], "follow_ups"),
    **dict.fromkeys(["hints", "hint", "hints if struggling", "clues"], "hints"),
    **dict.fromkeys(["question", "prompt"], "prompt"),
    **dict.fromkeys(
        ["discussion points", "discussion points & follow-ups", "discussion points and follow-ups"],
        "discussion_points",
    ),
    **attributes.LABELS,
}
_CONTENTS = ("table of contents", "contents", "toc", "index")
_COLON = re.compile("[:\uff1a]")
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014", "-"))
_REMARK_IN_LABEL = re.compile(r"\s*\([^)]*\)\s*$")
_CROWDED_HEADING = re.compile(r"#{1,6}[^#\s!]")
# Opens a question even where the question mark was forgotten ("do" would take "do not ask about ..." for one).
_ASKING = {
    *("how", "what", "why", "when", "where", "which", "who", "whose"),
    *("describe", "explain", "compare", "name", "tell", "walk", "design", "sketch"),
}


def key_of(title: str) -> str:
    """Return the identity of a question inside its bank."""
    slug = slugify(title, allow_unicode=True)
    if slug and len(slug) <= KEY_LENGTH:
        return slug
    return f"{slug[: KEY_LENGTH - 13]}-{hashlib.sha256(title.encode()).hexdigest()[:12]}".lstrip("-")


@dataclass(frozen=True)
class Remark:
    """Something the importer did not take as a question, and why. Lines count from 1."""

    line: int
    text: str
    reason: str


@dataclass
class ParsedQuestion:
    """One question as the file has it; texts are Markdown."""

    title: str
    category: str
    line: int
    prompt: str = ""
    expected_answer: str = ""
    follow_ups: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    discussion_points: list[str] = field(default_factory=list)
    attributes: Attributes = field(default_factory=Attributes)

    @property
    def kind(self) -> str:
        """Return one of Question.Kind's values."""
        if self.expected_answer:
            return "full"
        return "architecture" if self.discussion_points else "bare"

    @property
    def key(self) -> str:
        """Return the identity inside the bank: the title as a slug, shortened with a digest where it is long."""
        return key_of(self.title)


@dataclass
class ParsedBank:
    """All that a file holds."""

    title: str = ""
    questions: list[ParsedQuestion] = field(default_factory=list)
    not_placed: list[Remark] = field(default_factory=list)
    ignored: list[Remark] = field(default_factory=list)
    notices: list[Remark] = field(default_factory=list)


def parse(text: str) -> ParsedBank:
    """Return the questions of a Markdown text. Raises ImportProblem with one clear line."""
    reader = _Reader(outline.read(text))
    bank = reader.run()
    if not bank.questions:
        raise ImportProblem("No question found. A question is a heading with an “Expected answer:” list under it.")
    _refuse_duplicates(bank.questions)
    return bank


class _Reader:
    """Walks the sections in order; the only state is the open category and the open question."""

    def __init__(self, source: Outline) -> None:
        self.source = source
        self.bank = ParsedBank()
        self.category = ""
        self.category_tags: list[str] = []
        self.question: ParsedQuestion | None = None
        self.promised: list[tuple[int, str]] = []
        self.seen_titles: set[str] = set()
        self.opened: list[Section] = []
        self.labelled: list[tuple[int, ParsedQuestion, str]] = []

    def run(self) -> ParsedBank:
        sections = self.source.sections
        if end := self.source.front_matter_end:
            self.bank.ignored.append(Remark(1, "", f"front matter, lines 1-{end}"))
        for line in self.source.comment_lines:
            self.bank.ignored.append(Remark(line, "", "a comment"))
        for node in self.source.preamble:
            self._not_placed(node, "stands before the first heading")
        for line, name in self.source.link_definitions:
            self.bank.not_placed.append(Remark(line, name, "a link definition: write the address into the link"))
        for index, section in enumerate(sections):
            following = sections[index + 1] if index + 1 < len(sections) else None
            self._section(section, following, first=index == 0)
        self._check_contents()
        self._check_categories()
        self._check_labels()
        self.bank.not_placed.sort(key=lambda remark: remark.line)
        return self.bank

    def _section(self, section: Section, following: Section | None, *, first: bool) -> None:
        label = _label(section.title)
        if section.title.lower().strip(": ") in _CONTENTS or _is_contents(section):
            self._contents(section)
        elif label and self.question:
            self._note_label(label, section.line)
            self._take_blocks(section.blocks, label)
        elif asked := _bold_questions(section):
            self._open_bold_questions(section, asked)
        elif self._is_question(section, following):
            self._open_question(section)
        elif first and section.level == 1 and following:
            self._open_bank(section)
        else:
            self._open_category(section)

    def _is_question(self, section: Section, following: Section | None) -> bool:
        found = {_labelled(node) for node in _candidates(section.blocks)} - {""}
        if found - set(attributes.LABELS.values()):
            return True
        if following and _label(following.title):
            return True
        return section.title.endswith("?")

    def _open_question(self, section: Section) -> None:
        self.question = self._add(section.title, section.line)
        self._take_blocks(section.blocks, "")

    def _open_bold_questions(self, section: Section, asked: list[int]) -> None:
        """Take a section in which bold paragraphs ask and labelled parts follow each of them."""
        head = Section(section.title, section.line, section.level, section.blocks[: asked[0]])
        self._open_category(head)
        for start, end in zip(asked, [*asked[1:], len(section.blocks)], strict=True):
            node = section.blocks[start]
            self.question = self._add(outline.without_number(outline.plain(node)), outline.line_of(node))
            self._take_blocks(section.blocks[start + 1 : end], "")

    def _open_bank(self, section: Section) -> None:
        self.bank.title = self.category = _fit(section.title, section.line, CATEGORY_LENGTH)
        for node in section.blocks:
            self.bank.ignored.append(self._remark(node, "introduction"))

    def _open_category(self, section: Section) -> None:
        self.category = _fit(section.title.rstrip(": "), section.line, CATEGORY_LENGTH)
        self.seen_titles.add(_norm(self.category))
        self.question = None
        self.category_tags = []
        for node in section.blocks:
            if node.type == "paragraph" and _labelled(node) == "tags":
                self._take_category_tags(node)
                continue
            if node.type not in ("bullet_list", "ordered_list"):
                self._not_placed(node, "text under a category, not a question")
                continue
            for item in node.children:
                self._bare(item)
        self.opened.append(section)

    def _take_category_tags(self, node: SyntaxTreeNode) -> None:
        tags, problem = attributes.read_tags(_after_label(self.source.source(node)))
        self.category_tags.extend(tags)
        if problem:
            self.bank.notices.append(self._notice(node, problem))

    def _bare(self, item: SyntaxTreeNode) -> None:
        text = outline.plain(item)
        if "?" not in text and text.lower().split(" ", 1)[0] not in _ASKING:
            self._not_placed(item, "asks nothing: an instruction or a remark")
            for nested in _candidates(item.children[1:]):
                self._bare(nested) if nested.type == "list_item" else self._not_placed(nested, "text under a remark")
            return
        self.question = self._add(outline.without_number(text), outline.line_of(item))
        self._take_blocks(item.children[1:], "")
        self.question = None

    def _add(self, title: str, line: int) -> ParsedQuestion:
        category = self.category or "General"
        question = ParsedQuestion(_fit(title, line, TITLE_LENGTH), category, line)
        question.attributes.tags.extend(self.category_tags)
        self.seen_titles.add(_norm(title))
        self.bank.questions.append(question)
        return question

    def _take_blocks(self, blocks: list[SyntaxTreeNode], label: str) -> None:
        """Put each block under the label that stands over it; without one it belongs to the prompt."""
        for node in blocks:
            if node.type == "paragraph" and (found := _labelled(node) or _label_of_line(self._first_line(node))):
                label = self._take_labelled_lines(node, found)
            elif node.type in ("bullet_list", "ordered_list"):
                self._take_list(node, label)
            else:
                self._warn_of_mistakes(node)
                self._put(label or "prompt", self.source.source(node), [])

    def _take_labelled_lines(self, node: SyntaxTreeNode, label: str) -> str:
        """Take a paragraph that begins with a label, as any of its lines may; return the last of these labels."""
        lines = self.source.source(node).split("\n")
        starts = [0, *(index for index, line in enumerate(lines) if index and _label_of_line(line))]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            label = _label_of_line(lines[start]) or label
            self._note_label(label, outline.line_of(node) + start)
            self._put(label, _after_label("\n".join(lines[start:end])), [])
        return label

    def _first_line(self, node: SyntaxTreeNode) -> str:
        return self.source.source(node).split("\n", 1)[0]

    def _warn_of_hidden_labels(self, node: SyntaxTreeNode) -> None:
        """Tell of a label on a line of its own that Markdown takes for more of the list item above it."""
        start, end = node.map or (0, 0)
        for number, line in enumerate(self.source.lines[start:end], start + 1):
            if line.startswith("**") and _label_of_line(line):
                reason = "part of the list above it: put an empty line in front, or make it an item"
                self.bank.notices.append(Remark(number, line[:REMARK_LENGTH], reason))

    def _warn_of_mistakes(self, node: SyntaxTreeNode) -> None:
        """Tell of a paragraph that was surely meant to be a heading or a label; it is kept where it stands."""
        text = self.source.source(node)
        if node.type == "paragraph" and _CROWDED_HEADING.match(text):
            self.bank.notices.append(self._notice(node, "not a heading: a space is missing after the #"))
        elif node.type == "paragraph" and _is_bold(node) and _COLON.search(text[-4:]):
            self.bank.notices.append(self._notice(node, "not a label that the format knows; it was kept as text"))

    def _notice(self, node: SyntaxTreeNode, reason: str) -> Remark:
        return Remark(outline.line_of(node), outline.plain(node)[:REMARK_LENGTH], reason)

    def _take_list(self, node: SyntaxTreeNode, label: str) -> None:
        self._warn_of_hidden_labels(node)
        labels = [_labelled(item) for item in node.children]
        if not any(labels):
            self._put(label or "prompt", "", [node])
            return
        for item, found in zip(node.children, labels, strict=True):
            if found:
                first, *rest = item.children
                self._note_label(found, outline.line_of(item))
                self._put(found, _after_label(self.source.item_source(first)), rest)
            else:
                self._not_placed(item, "has no label that the format knows")

    def _put(self, label: str, text: str, nodes: list[SyntaxTreeNode]) -> None:
        assert self.question is not None
        if label in attributes.LABELS.values():
            words = [text, *(piece for node in nodes for piece in self._items(node))]
            self._take_attribute(label, ", ".join(word for word in words if word))
        elif label in ("prompt", "expected_answer"):
            pieces = [getattr(self.question, label), text, *(self.source.source(node) for node in nodes)]
            setattr(self.question, label, "\n\n".join(piece for piece in pieces if piece))
        else:
            items = [text, *(piece for node in nodes for piece in self._items(node))]
            getattr(self.question, label).extend(item for item in items if item)

    def _take_attribute(self, label: str, text: str) -> None:
        assert self.question is not None
        if problem := self.question.attributes.take(label, text):
            line = next((line for line, _, found in reversed(self.labelled) if found == label), self.question.line)
            self.bank.notices.append(Remark(line, text[:REMARK_LENGTH], problem))

    def _items(self, node: SyntaxTreeNode) -> list[str]:
        if node.type in ("bullet_list", "ordered_list"):
            return [self.source.item_source(item) for item in node.children]
        return [self.source.source(node)]

    def _note_label(self, label: str, line: int) -> None:
        assert self.question is not None
        self.labelled.append((line, self.question, label))

    def _check_labels(self) -> None:
        for line, question, label in self.labelled:
            if label not in attributes.LABELS.values() and not getattr(question, label):
                name = label.replace("_", " ")
                self.bank.notices.append(Remark(line, question.title, f"a question with an empty part: {name}"))

    def _contents(self, section: Section) -> None:
        self.question = None
        end = max([section.line, *(node.map[1] for node in section.blocks if node.map)])
        self.bank.ignored.append(
            Remark(section.line, section.title, f"table of contents, lines {section.line}-{end}")
        )
        for node in section.blocks:
            for inner in node.walk():
                if inner.type == "list_item":
                    self.promised.append((outline.line_of(inner), outline.plain(inner)))

    def _check_contents(self) -> None:
        for line, title in self.promised:
            if _norm(title) not in self.seen_titles:
                self.bank.notices.append(Remark(line, title, "in the table of contents, but no such section"))

    def _check_categories(self) -> None:
        used = {question.category for question in self.bank.questions}
        for section in self.opened:
            if section.title.rstrip(": ") not in used:
                self.bank.notices.append(
                    Remark(section.line, section.title, "a heading without a question of its own")
                )

    def _not_placed(self, node: SyntaxTreeNode, reason: str) -> None:
        self.bank.not_placed.append(self._remark(node, reason))

    def _remark(self, node: SyntaxTreeNode, reason: str) -> Remark:
        read = self.source.item_source if node.type == "list_item" else self.source.source
        return Remark(outline.line_of(node), " ".join(read(node).split())[:REMARK_LENGTH], reason)


def _candidates(blocks: list[SyntaxTreeNode]) -> Iterator[SyntaxTreeNode]:
    for node in blocks:
        if node.type in ("bullet_list", "ordered_list"):
            yield from node.children
        elif node.type == "paragraph":
            yield node


def _label(text: str) -> str:
    """Return the field that a heading or a label names, or "". Emoji and "(if stuck)" are no hindrance."""
    if len(text) > LABEL_LENGTH:
        return ""
    plain = _REMARK_IN_LABEL.sub("", text.lower().translate(_DASHES).strip(" :*_\uff1a"))
    first = next((index for index, char in enumerate(plain) if char.isalnum()), len(plain))
    return _LABELS.get(" ".join(plain[first:].split()), "")


def _label_of_line(line: str) -> str:
    """Return the field whose label a line of Markdown begins with; a label alone needs its colon or bold type."""
    head = _COLON.split(line, maxsplit=1)[0]
    return _label(head.strip("*_ ")) if head != line or line.strip().startswith("**") else ""


def _labelled(node: SyntaxTreeNode) -> str:
    """Return the field that a list item or paragraph starts with: "Hints:" alone, or "Hints: the text"."""
    if node.type == "list_item" and not (node.children and node.children[0].type == "paragraph"):
        return ""
    text = outline.plain(node)
    head = _COLON.split(text, maxsplit=1)[0]
    return _label(head) if head != text or len(head) > 1 else ""


def _after_label(markdown: str) -> str:
    """Return what follows the label in its own paragraph, without the emphasis the label stands in."""
    first, _, rest = markdown.partition("\n")
    if not _COLON.search(first) and _label_of_line(first):
        return rest.strip()
    head, *tail = _COLON.split(markdown, maxsplit=1)
    stripped = head[next((index for index, char in enumerate(head) if char.isalnum() or char in "*_"), 0) :]
    marks = stripped[: len(stripped) - len(stripped.lstrip("*_"))]
    return tail[0].strip().removeprefix(marks).strip() if tail else ""


def _is_contents(section: Section) -> bool:
    """Whether a section holds nothing but a list of links into the file itself."""
    items = [item for node in section.blocks for item in node.walk() if item.type == "list_item"]
    return bool(items) and all(_is_link_inside(item) for item in items) and len(section.blocks) == 1


def _is_link_inside(item: SyntaxTreeNode) -> bool:
    inline = next((node for node in item.walk() if node.type == "inline"), None)
    links = [node for node in (inline.children if inline else []) if node.type == "link"]
    return len(links) == 1 and str(links[0].attrs.get("href", "")).startswith("#")


def _bold_questions(section: Section) -> list[int]:
    """Return the places of bold paragraphs that ask and have a labelled part behind them, where there are several."""
    blocks = section.blocks
    asked = [
        index
        for index, node in enumerate(blocks[:-1])
        if node.type == "paragraph" and _is_bold(node) and outline.plain(node).endswith("?")
        if any(_labelled(following) for following in _candidates(blocks[index + 1 : index + 2]))
    ]
    return asked if len(asked) > 1 else []


def _is_bold(paragraph: SyntaxTreeNode) -> bool:
    inline = next(iter(paragraph.children), None)
    parts = [node for node in (inline.children if inline else []) if node.content.strip() or node.type != "text"]
    return len(parts) == 1 and parts[0].type == "strong"


def _fit(text: str, line: int, limit: int) -> str:
    if not text:
        raise ImportProblem(f"Line {line}: the heading is empty. Write the question or remove the line.")
    if len(text) > limit:
        raise ImportProblem(f"Line {line}: {len(text)} characters in one heading; the limit is {limit}. Shorten it.")
    return text


def _norm(text: str) -> str:
    return slugify(text, allow_unicode=True)


def _refuse_duplicates(questions: list[ParsedQuestion]) -> None:
    seen: dict[str, int] = {}
    for question in questions:
        if first := seen.get(question.key):
            title = question.title[:60]
            raise ImportProblem(f"Line {question.line}: “{title}” is already asked in line {first}. Change one.")
        seen[question.key] = question.line
