"""The scorecard as a PDF on A4, set by typst.

The document reaches the template as JSON in one input value and is decoded there, so that no text of it can become
markup. The compiler reads its own folder only; the template imports no package.
"""

from __future__ import annotations

import json
from pathlib import Path

import typst

from sessions.scorecards.build import Scorecard

_TEMPLATE = Path(__file__).with_name("scorecard.typ")


def as_pdf(card: Scorecard) -> bytes:
    """Return the PDF. System fonts only fill in for characters that typst's own fonts do not have."""
    pdf: bytes = typst.compile(
        str(_TEMPLATE),
        root=str(_TEMPLATE.parent),
        format="pdf",
        sys_inputs={"card": json.dumps(card, ensure_ascii=False)},
    )
    return pdf
