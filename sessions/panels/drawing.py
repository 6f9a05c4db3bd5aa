"""A drawn panel in parts, so that only the parts that changed have to be sent.

A panel is an outline with marks in it. Each mark stands for a list of rows, for a slot (one element that changes on
its own, such as a count), or for the time up to which the panel is current. Templates say which is which with the
tags of ``live_parts``; drawn without a ``Parts`` in its context, a template yields plain HTML.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

_MARK = re.compile("<!--part:([a-z0-9-]+)-->")  # text is escaped, so that only our tags can write a comment
AS_OF = "as-of"
PARTS_KEY = "_live_parts"  # of a template's context


@dataclass(slots=True)
class Parts:
    """Collects the parts of a panel while its template is rendered."""

    lists: dict[str, dict[str, str]] = field(default_factory=dict)
    slots: dict[str, str] = field(default_factory=dict)
    as_of: datetime | None = None
    as_of_html: str = ""

    @staticmethod
    def mark(name: str) -> str:
        """Return the mark that stands for a part in the outline."""
        return f"<!--part:{name}-->"


@dataclass(frozen=True, slots=True)
class Drawing:
    """A panel's outline and its parts. ``lists`` holds the rows of each list by their keys, in order."""

    outline: str
    lists: dict[str, dict[str, str]] = field(default_factory=dict)
    slots: dict[str, str] = field(default_factory=dict)
    as_of: datetime | None = None
    as_of_html: str = ""

    def html(self) -> str:
        """Return the whole panel."""
        return _MARK.sub(lambda found: self._part(found[1]), self.outline)

    def _part(self, name: str) -> str:
        if name == AS_OF:
            return self.as_of_html
        return self.slots[name] if name in self.slots else "".join(self.lists[name].values())


Change = str | dict[str, Any]  # a whole panel, or what differs in it


def change(old: Drawing | None, new: Drawing) -> Change | None:
    """Return what a browser that shows ``old`` needs in order to show ``new``; None where they are the same.

    A panel whose outline changed goes whole. Otherwise ``rows`` holds for each list ``[key, html, previous key]``:
    the last where the row is new or has moved (empty: it comes first), the HTML null where only its place changed.
    ``gone`` holds the keys of removed rows, ``slots`` the new HTML of slots, ``as_of`` the age as milliseconds.
    """
    if old is None or old.outline != new.outline:
        return new.html()
    found: dict[str, Any] = {}
    for name, rows in new.lists.items():
        before = old.lists[name]
        if changed := _changed_rows(before, rows):
            found.setdefault("rows", {})[name] = changed
        if gone := [key for key in before if key not in rows]:
            found.setdefault("gone", {})[name] = gone
    if slots := {name: html for name, html in new.slots.items() if html != old.slots[name]}:
        found["slots"] = slots
    if new.as_of != old.as_of and new.as_of is not None:
        found["as_of"] = int(new.as_of.timestamp() * 1000)
    return found or None


def _changed_rows(old: dict[str, str], new: dict[str, str]) -> list[list[str | None]]:
    """Return the rows that are new, differ or have moved, in the order in which a browser can place them."""
    staying = _in_order([key for key in old if key in new], new)
    found: list[list[str | None]] = []
    previous = ""
    for key, html in new.items():
        fresh = None if old.get(key) == html else html
        if key not in staying:
            found.append([key, fresh, previous])
        elif fresh is not None:
            found.append([key, fresh])
        previous = key
    return found


def _in_order(keys: list[str], new: dict[str, str]) -> set[str]:
    """Return the most of ``keys`` that may stay where they are: a longest subsequence in the new order."""
    place = {key: index for index, key in enumerate(new)}
    tails: list[int] = []  # places at which the best subsequence of each length ends
    ends: list[str] = []
    before: dict[str, str | None] = {}
    for key in keys:
        at = bisect_left(tails, place[key])
        before[key] = ends[at - 1] if at else None
        tails[at : at + 1], ends[at : at + 1] = [place[key]], [key]
    staying: set[str] = set()
    key_or_none = ends[-1] if ends else None
    while key_or_none is not None:
        staying.add(key_or_none)
        key_or_none = before[key_or_none]
    return staying
