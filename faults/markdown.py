"""Markdown that people wrote, as HTML that cannot run anything."""

from __future__ import annotations

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from faults.plain_text import plain

_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote"),
    *("ul", "ol", "li", "strong", "em", "s", "code", "pre", "a"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}}
_parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def render(text: str) -> SafeString:
    """Return the text as HTML made of plain elements; HTML in the text is shown as text."""
    html = nh3.clean(
        plain(_parser.render(text)), tags=_TAGS, attributes=_ATTRIBUTES, url_schemes={"https", "http", "mailto"}
    )
    return mark_safe(html)  # noqa: S308 - nh3 has just cleaned it
