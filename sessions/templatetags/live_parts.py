"""Tags that name the parts of a panel which change on their own: rows, slots, and the panel's age."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol

from django import template
from django.template.base import FilterExpression, NodeList, Parser, Token
from django.template.context import Context
from django.template.loader import get_template
from django.utils.safestring import SafeString

from faults.plain_text import plain
from sessions.panels.drawing import AS_OF, PARTS_KEY, Parts
from sessions.templatetags.faultline import age

register = template.Library()
MAX_ROWS_KEPT = 4096
_INDENT = re.compile(r">\s*\n\s*<")  # a third of a row as it stands in its file


class RowItem(Protocol):
    """An entry of a list: hashable where its HTML follows from its fields alone, so that it is rendered once."""

    @property
    def key(self) -> str:
        """Return a name that is unique in its list and stays the same for as long as the row means the same."""


@register.simple_tag(takes_context=True)
def rows(context: Context, kind: str, items: Iterable[RowItem], name: str = "") -> SafeString:
    """Return the rows of a list, each from ``panels/rows/<kind>.html``; its container has ``data-rows="<name>"``.

    ``name`` is ``kind`` unless a panel has several lists of one kind. The row's element carries ``data-key``.
    """
    drawn = {item.key: _row(kind, item) for item in items}
    parts = context.get(PARTS_KEY)
    if not isinstance(parts, Parts):
        return SafeString("".join(drawn.values()))
    parts.lists[name or kind] = drawn
    return SafeString(parts.mark(name or kind))


@register.simple_tag(takes_context=True)
def as_of(context: Context, at: datetime | None) -> SafeString:
    """Return the panel's age. A newer time alone travels as a number."""
    html = age(at)
    parts = context.get(PARTS_KEY)
    if at is None or not isinstance(parts, Parts):
        return html
    parts.as_of, parts.as_of_html = at, str(html)
    return SafeString(parts.mark(AS_OF))


@register.tag
def slot(parser: Parser, token: Token) -> template.Node:
    """Return one element that changes on its own; it carries ``data-slot`` with the name, a text or a variable."""
    _, name = token.split_contents()
    body = parser.parse(("endslot",))
    parser.delete_first_token()
    return _SlotNode(parser.compile_filter(name), body)


class _SlotNode(template.Node):
    def __init__(self, name: FilterExpression, body: NodeList) -> None:
        self.name = name
        self.nodelist = body

    def render(self, context: Context) -> SafeString:
        html = self.nodelist.render(context)
        parts = context.get(PARTS_KEY)
        if not isinstance(parts, Parts):
            return html
        name = str(self.name.resolve(context))
        parts.slots[name] = _INDENT.sub(">\\n<", plain(html).strip())
        return SafeString(parts.mark(name))


def _row(kind: str, item: Any) -> str:
    return _kept_row(kind, item) if isinstance(item, Hashable) else _fresh_row(kind, item)


@lru_cache(MAX_ROWS_KEPT)
def _kept_row(kind: str, item: Any) -> str:
    return _fresh_row(kind, item)


def _fresh_row(kind: str, item: Any) -> str:
    html = plain(get_template(f"panels/rows/{kind}.html").render({"row": item})).strip()
    return _INDENT.sub(">\\n<", html)
