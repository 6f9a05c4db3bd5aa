"""Markdown that people wrote, as HTML that cannot run anything."""

from __future__ import annotations

from functools import lru_cache

import nh3
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from faults.plain_text import plain

MAX_FORMATTED = 16_000  # characters; the parser takes two to ten microseconds for each, on every page with the text
_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote"),
    *("ul", "ol", "li", "strong", "em", "s", "code", "pre", "a"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}}
_parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


@lru_cache(maxsize=256)
def render(text: str) -> SafeString:
    """Return the text as HTML made of plain elements; HTML in the text is shown as text.

    A text of more than ``MAX_FORMATTED`` characters is shown as it was written.
    """
    if len(text) > MAX_FORMATTED:
        return _unformatted(text)
    html = nh3.clean(
        plain(_parser.render(text)), tags=_TAGS, attributes=_ATTRIBUTES, url_schemes={"https", "http", "mailto"}
    )
    return mark_safe(html)  # noqa: S308 - nh3 has just cleaned it


def _unformatted(text: str) -> SafeString:
    reason = f"Only texts of up to {MAX_FORMATTED:,} characters are formatted. This one has {len(text):,}."
    return format_html("<p><em>{}</em></p><pre>{}</pre>", reason, plain(text))
