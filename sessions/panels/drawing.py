"""A drawn panel in parts, so that only the parts that changed have to be sent.

A panel is an outline with marks in it. Each mark stands for a list of rows, for a slot (one element that changes on
its own, such as a count), or for the time up to which the panel is current. Templates say which is which with the
tags of ``live_parts``; drawn without a ``Parts`` in its context, a template yields plain HTML.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

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
