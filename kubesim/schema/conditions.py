"""What the tables mean by ``if``: a word, values, or a test of what lies at a path of an object."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kubesim.errors import Obj
from kubesim.schema.paths import dig, each

WORDS: dict[str, Callable[[Any], object]] = {
    "given": lambda value: value is not None,
    "missing": lambda value: value is None,
    "filled": bool,
    "empty": lambda value: not value,
    "single": lambda value: len(value or ()) == 1,
    "blank": lambda value: not (value or "").strip(),
    "worded": lambda value: (value or "").strip(),
}
"""The conditions that are one word, of a field's value."""


def condition(path: str, wanted: Any) -> Callable[[Obj], bool]:
    """Return what tells whether a condition holds of an object; of several values, one must be as it says."""
    negated = isinstance(wanted, dict) and ("not" in wanted or "unlike" in wanted)
    test = _test(wanted)

    if "[" in path:
        return lambda obj: any(map(test, each(obj, path))) is not negated
    if "." in path:
        return lambda obj: bool(test(dig(obj, path))) is not negated
    return lambda obj: bool(test(obj.get(path))) is not negated


def _test(wanted: Any) -> Callable[[Any], object]:
    if isinstance(wanted, str) and wanted in WORDS:
        return WORDS[wanted]
    if not isinstance(wanted, dict):
        choices = wanted if isinstance(wanted, list) else [wanted]
        return lambda value: value in choices
    (word, argument), *_ = wanted.items()
    match word:
        case "like" | "unlike":
            pattern = re.compile(argument)
            return lambda value: pattern.fullmatch(value or "")
        case "all":
            return lambda value: set(argument) <= set(value or ())
        case "above":
            return lambda value: (value or 0) > argument
        case _:
            return _test(argument)
