"""Demands on packs that are taken in, and not on versions stored earlier."""

from __future__ import annotations

from faults.packs import shell_lines
from faults.packs.errors import PackError
from faults.packs.model import Obj

DOCUMENT = "scenario.yaml"
KINDS = ("diagnosis", "fix", "communication")
"""The kinds of criteria, of which each pack has all."""


def check_new(document: Obj) -> None:
    """Raise ``PackError`` for a form that is only read, and for criteria that leave a kind out."""
    shell_lines.check_new(document)
    found = [row.get("kind") for row in document["rubric"]]
    if None in found:
        where = f"rubric.{found.index(None)}.kind"
        raise PackError(DOCUMENT, where, f"is needed: one of {', '.join(KINDS)}")
    if missing := [kind for kind in KINDS if kind not in found]:
        message = f"has no criterion of the kind {missing[0]}; a pack has at least one of each: {', '.join(KINDS)}"
        raise PackError(DOCUMENT, "rubric", message)
