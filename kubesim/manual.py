"""``--help`` as a page of the manual: the parts that argparse knows, and those of ``manual.yaml``."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from kubesim import data

WIDTH, INDENT = 80, 7


class Manual(argparse.ArgumentParser):
    """A parser whose help is the page ``page`` of the manual."""

    def __init__(self, *, page: str, **more: Any) -> None:
        formatter = partial(argparse.HelpFormatter, width=WIDTH - INDENT, max_help_position=24)
        super().__init__(formatter_class=formatter, allow_abbrev=False, **more)
        self._page = page

    def format_help(self) -> str:
        """Return the page."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        sections = dict(_pages()[self._page])
        yield from _section("NAME", f"{self.prog} - {sections.pop('PURPOSE')}")
        yield from _section("SYNOPSIS", self.format_usage().removeprefix("usage: "))
        yield from _section("DESCRIPTION", sections.pop("DESCRIPTION"))
        yield from _section("OPTIONS", self._options())
        for title, text in sections.items():
            yield from _section(title, text)

    def _options(self) -> str:
        """Return what argparse says of the options."""
        formatter = self._get_formatter()
        formatter.add_arguments(action for action in self._actions if action.option_strings)
        return formatter.format_help()


def _section(title: str, text: str) -> Iterator[str]:
    yield title
    yield textwrap.indent(text.rstrip(), " " * INDENT)
    yield ""


@cache
def _pages() -> dict[str, dict[str, str]]:
    pages: dict[str, dict[str, str]] = data.read(Path(__file__).with_name("manual.yaml"))
    return pages
