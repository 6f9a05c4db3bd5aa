"""Text that somebody else chose, made fit to be stored and shown: bounded, and with every character in sight.

What a candidate's container, image or label says reaches the interviewer's page and the database. Control characters
drive terminals and are refused by databases; characters that turn the writing direction make a line read as another;
thousands of combining marks paint over what stands around them.
"""

from __future__ import annotations

import re
import unicodedata

MOST_MARKS = 6  # on one letter; no language writes more
_CUT = "…"
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
_MAY_BE_A_HEAP = re.compile(f"[\u0300-\U0010ffff]{{{MOST_MARKS + 1},}}")


def plain(text: str, most: int | None = None) -> str:
    """Return the text with visible stand-ins for what drives a terminal or turns the direction, cut to ``most``.

    Line feeds, tabs and carriage returns stay; so does every letter of every language.
    """
    if most is not None and len(text) > 2 * most:
        text = text[: 2 * most]  # whatever stands behind cannot show; looking at a megabyte takes time
    text = _MAY_BE_A_HEAP.sub(_without_heaps, _UNSEEN.sub(_stand_in, text))
    return text if most is None or len(text) <= most else text[: most - 1] + _CUT


def plain_ends(text: str, most: int) -> str:
    """Return the text as ``plain`` does, but cut in the middle: a refusal names the object first, the reason last."""
    if len(text) <= most:
        return plain(text, most)
    tail = (most - len(_CUT)) // 2
    return plain(text[: most - len(_CUT) - tail]) + _CUT + plain(text[-tail:])


def plain_line(text: str, most: int | None = None) -> str:
    """Return the text as ``plain`` does, on one line: for names, titles and cells of tables."""
    return plain(text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ").replace("\t", " "), most)


def _stand_in(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's own pictures of control characters
    return "\u2421" if code == 0x7F else "\ufffd"


def _without_heaps(found: re.Match[str]) -> str:
    """Drop the combining marks that are more than ``MOST_MARKS`` on one letter."""
    kept, marks = [], 0
    for character in found[0]:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if marks <= MOST_MARKS:
            kept.append(character)
    return "".join(kept)
