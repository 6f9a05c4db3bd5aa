"""Brings a question bank from a file into the database, in one transaction, and reports what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils.text import slugify

from sessions.importers import outline, questions
from sessions.importers.outline import ImportProblem
from sessions.importers.questions import ParsedBank, ParsedQuestion, Remark, key_of
from sessions.importers.versions import Wording, add_version
from sessions.models import Question, QuestionBank


@dataclass
class Report:
    """Result of an import: taken questions, and lines without a place. Lines count from 1."""

    bank: str
    title: str
    total: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    categories: dict[str, dict[str, int]] = field(default_factory=dict)
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    absent: list[str] = field(default_factory=list)
    not_placed: list[Remark] = field(default_factory=list)
    ignored: list[Remark] = field(default_factory=list)
    notices: list[Remark] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        return asdict(self)


def read_file(path: Path) -> str:
    """Return the text of a bank's file. Raises ImportProblem where it cannot be read or is no text."""
    try:
        with path.open("rb") as file:
            raw = file.read(outline.LIMIT_BYTES + 1)
        size = path.stat().st_size
    except OSError as exc:
        raise ImportProblem(f"{path}: {exc.strerror}. Give the path of a Markdown file.") from exc
    if size > outline.LIMIT_BYTES:
        limit = outline.LIMIT_BYTES / 1e6
        raise ImportProblem(f"The file has {size / 1e6:.1f} MB; the limit is {limit:g} MB. Split it.")
    return outline.decode(raw)


def import_bank(
    text: str,
    *,
    slug: str = "",
    fallback_title: str = "Questions",
    keep_edits: bool = False,
    check_only: bool = False,
) -> Report:
    """Take a bank's Markdown into the database; a second time changes nothing.

    Without ``slug`` the bank is named after the file's first heading. With ``keep_edits`` a question that
    already had the file's wording in any version is left as it is, so that seeding never undoes an admin's edit.
    With ``check_only`` the report says what would happen, and nothing is kept.
    Raises ImportProblem, and then has written nothing.
    """
    parsed = questions.parse(text)
    title = parsed.title or fallback_title
    slug = slug or slugify(title)[:80] or "questions"
    if slugify(slug) != slug or len(slug) > 80:
        raise ImportProblem(f"“{slug}” cannot name a bank: use small letters, digits and hyphens, at most 80.")
    with transaction.atomic():
        bank, _ = QuestionBank.objects.get_or_create(slug=slug, defaults={"title": title})
        report = _write(bank, parsed, keep_edits)
        transaction.set_rollback(check_only)
    return report


def rename_questions(slug: str, titles: Mapping[str, str]) -> None:
    """Give questions of a bank the keys of their new titles, so that the next import changes them in place.

    One that somebody has edited keeps its old key: an import must not undo the edit.
    """
    for old, new in titles.items():
        rows = Question.objects.filter(bank__slug=slug)
        unedited = rows.filter(key=key_of(old)).exclude(versions__number__gt=1)
        if not rows.filter(key=key_of(new)).exists():
            rows.filter(pk__in=list(unedited.values_list("pk", flat=True))).update(key=key_of(new))


def _write(bank: QuestionBank, parsed: ParsedBank, keep_edits: bool) -> Report:
    report = _counted(bank, parsed)
    known = {question.key: question for question in bank.questions.prefetch_related("versions")}
    for position, item in enumerate(parsed.questions):
        outcome = _write_question(bank, known.pop(item.key, None), item, position, keep_edits)
        setattr(report, outcome, getattr(report, outcome) + 1)
    report.absent = sorted(key for key, question in known.items() if not question.archived)
    return report


def _write_question(
    bank: QuestionBank, question: Question | None, item: ParsedQuestion, position: int, keep_edits: bool
) -> str:
    wording = Wording(
        item.title, item.prompt, item.expected_answer, item.follow_ups, item.hints, item.discussion_points
    )
    if question is None:
        place = {"category": item.category, "kind": item.kind, "position": position}
        question = bank.questions.create(key=item.key, **place, **item.attributes.stated())
        add_version(question, wording, source_line=item.line)
        return "new"
    if keep_edits and any(version.digest == wording.digest() for version in question.versions.all()):
        return "changed" if _has_no_attributes(question) and _set(question, item.attributes.stated()) else "unchanged"
    moved = _place(question, item, position)
    version = add_version(question, wording, source_line=item.line)
    return "changed" if version or moved else "unchanged"


def _place(question: Question, item: ParsedQuestion, position: int) -> bool:
    """Set where the question stands in its bank, and the attributes that its file states; True where that changed."""
    place = {"category": item.category, "kind": item.kind, "position": position}
    return _set(question, {**place, **item.attributes.stated()})


def _has_no_attributes(question: Question) -> bool:
    """Whether the question is as from before there were attributes, so that filling them in undoes nobody's edit."""
    usual = Question._meta.get_field("minutes").default
    given = question.tags or question.difficulty or question.if_time_left
    return not given and question.minutes == usual


def _set(question: Question, wanted: dict[str, Any]) -> bool:
    if all(getattr(question, name) == value for name, value in wanted.items()):
        return False
    for name, value in wanted.items():
        setattr(question, name, value)
    question.save(update_fields=list(wanted))
    return True


def _counted(bank: QuestionBank, parsed: ParsedBank) -> Report:
    report = Report(bank.slug, bank.title, total=len(parsed.questions))
    report.kinds = dict(Counter(item.kind for item in parsed.questions))
    for item in parsed.questions:
        kinds = report.categories.setdefault(item.category, {})
        kinds[item.kind] = kinds.get(item.kind, 0) + 1
    report.not_placed, report.ignored, report.notices = parsed.not_placed, parsed.ignored, parsed.notices
    return report
