"""``--help`` as a page of the manual: the parts that argparse knows, and those of ``manual.yaml``."""

from __future__ import annotations

import argparse
import textwrap
from functools import partial
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
        options = self._get_formatter()
        options.add_arguments(action for action in self._actions if action.option_strings)
        texts: dict[str, str] = data.read(Path(__file__).with_name("manual.yaml"))[self._page]
        sections = {
            "NAME": f"{self.prog} - {texts.pop('PURPOSE')}",
            "SYNOPSIS": self.format_usage().removeprefix("usage: "),
            "DESCRIPTION": texts.pop("DESCRIPTION"),
            "OPTIONS": options.format_help(),
            **texts,
        }
        return "\n".join(
            f"{title}\n{textwrap.indent(text.rstrip(), ' ' * INDENT)}\n" for title, text in sections.items()
        )
