"""The scorecard as a PDF on A4, set by typst.

The document reaches the template as JSON in one input value and is decoded there, so that no text of it can become
markup. The compiler reads its own folder only; the template imports no package.
"""

from __future__ import annotations

import json
import re
import unicodedata
from importlib import import_module
from pathlib import Path
from typing import Any

from django.template.loader import render_to_string

from sessions.scorecards.build import Scorecard
from sessions.scorecards.metrics import PDF_HEIGHT, charts_of

_TEMPLATE = Path(__file__).with_name("scorecard.typ")
_WITHOUT_GLYPH = re.compile(r'the text `(".*?")` could not be displayed')


def as_pdf(card: Scorecard) -> bytes:
    """Return the PDF, as PDF/A-2b where every character can be drawn.

    System fonts fill in for what typst's own fonts do not have. Where no font has a character, the document says so.
    """
    typst = import_module("typst")  # 7 MB that every process would hold from its start
    try:
        return _compile(typst, card, archival=True)
    except typst.TypstError as refusal:
        return _compile(typst, card, missing=_scripts(refusal.diagnostic or str(refusal)))


def _compile(typst: Any, card: Scorecard, *, archival: bool = False, missing: list[str] | None = None) -> bytes:
    """Set the document. PDF/A forbids characters without a glyph, and so tells of them; else they become boxes."""
    pdf: bytes = typst.compile(
        str(_TEMPLATE),
        root=str(_TEMPLATE.parent),
        format="pdf",
        pdf_standards=["a-2b"] if archival else [],
        sys_inputs={
            "card": json.dumps(card, ensure_ascii=False),
            "charts": json.dumps(_charts(card), ensure_ascii=False),
            "missing": ", ".join(missing or []),
        },
    )
    return pdf


def _charts(card: Scorecard) -> dict[str, Any] | None:
    """Return the charts as drawings without words, and the words that the template sets around them."""
    found = charts_of(card, height=PDF_HEIGHT)
    if found is None:
        return None
    drawn = [
        {
            "title": chart.kind.title,
            "unit": chart.kind.unit,
            "labels": chart.labels,
            "summary": chart.summary,
            "svg": render_to_string("scorecards/chart.svg", {"chart": chart, "charts": found, "height": PDF_HEIGHT}),
        }
        for chart in found.charts
    ]
    return {"charts": drawn, "pods": found.pods, "others": found.others, "end_ms": found.end_ms}


def _scripts(diagnostic: str) -> list[str]:
    """Return the scripts of the characters that no font has, such as CJK or Thai, in the words of Unicode."""
    characters = {character for text in _WITHOUT_GLYPH.findall(diagnostic) for character in text[1:-1]}
    names = {unicodedata.name(character, "other characters").split(" ")[0] for character in characters}
    return sorted(name if name == "CJK" else name.capitalize() for name in names)
