"""manage.py import_questions FILE [--bank SLUG] [--check] [--json]: import a bank (docs/question-format.md)."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from sessions.importers import banks
from sessions.importers.banks import Report
from sessions.importers.outline import ImportProblem


class Command(BaseCommand):
    """Imports a bank and prints what was taken, and what could not be placed, with line numbers."""

    help = "Import a question bank from a Markdown file. Importing twice changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--bank", default="", metavar="SLUG", help="default: made from the file's first heading")
        parser.add_argument("--check", action="store_true", help="report what would happen and change nothing")
        parser.add_argument("--json", action="store_true", help="print the report as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        try:
            text = banks.read_file(path)
            report = banks.import_bank(
                text, slug=options["bank"], fallback_title=path.stem, check_only=options["check"]
            )
        except ImportProblem as exc:
            raise CommandError(str(exc)) from exc
        if options["json"]:
            self.stdout.write(json.dumps(report.as_dict(), ensure_ascii=False, indent=2))
        else:
            head = ["Checked only: nothing was changed."] if options["check"] else []
            self.stdout.write("\n".join([*head, *_lines(report)]))


def _lines(report: Report) -> Iterator[str]:
    yield f"{report.title} ({report.bank}): {report.total} questions"
    yield f"  {report.new} new, {report.changed} changed, {report.unchanged} unchanged"
    for category, kinds in report.categories.items():
        yield f"  {category}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    yield f"Could not be placed: {len(report.not_placed) or 'nothing'}"
    for remark in report.not_placed:
        yield f"  line {remark.line}: {remark.text} ({remark.reason})"
    for remark in report.ignored:
        yield f"  line {remark.line}: left out on purpose: {remark.reason}"
    for remark in report.notices:
        yield f"  line {remark.line}: note: “{remark.text}” is {remark.reason}"
    for key in report.absent:
        yield f"  in the bank but not in this file, kept: {key}"
