"""Masks of secrets in log lines. Knows nothing of Django, so that every process can use it.

A join link opens an interview for whoever has it, and a request that is refused leaves it unused: in the log it would
be a key under the mat. Lines are masked after they were formatted, so that tracebacks are covered too.
"""

from __future__ import annotations

import logging
import re

HIDDEN = "[hidden]"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_RULES = (
    # Up to the end of the line or of the quoted request: a link that was mangled on its way is still a key.
    (re.compile(r"(/+join(?:/|%2f)+)[^\"'\n]*?(?= HTTP/|[\"'\n]|$)", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?"), HIDDEN),  # a JSON Web Token
    (re.compile(r"(\bBearer\s+)[^\s\"',;]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"((?:token|password|secret|sessionid|csrftoken)=)[^&;\s\"']+", re.IGNORECASE), rf"\1{HIDDEN}"),
    # Any other segment of a path that is as random as a token: capitals among at least 22 characters.
    (re.compile(rf"(?<=/)(?!{_UUID}\b)(?=[\w-]*[A-Z])(?=[\w-]*[a-z0-9])[\w-]{{22,}}(?=[/?#\s\"']|$)"), HIDDEN),
)


def mask(text: str) -> str:
    """Return the text with everything hidden that opens something."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


class MaskingFormatter(logging.Formatter):
    """Formats a record, its traceback and its stack, and masks the whole."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the masked lines."""
        return mask(super().format(record))
