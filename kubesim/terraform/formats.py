"""The functions ``format`` and ``formatlist``, and how values are written as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from kubesim.terraform.values import ConvertError, convert, plain

MAX_WIDTH, MAX_RESULT = 10_000, 1 << 20
FAILED, TOO_LONG = "Error in function call", f"the result is longer than {MAX_RESULT >> 20} MiB"
VERB = re.compile(r"%(%|(?:\[(\d+)\])?([-+ #0]*)(\d*)(?:\.(\d+))?([a-zA-Z]))")


class CallError(Exception):
    """A call that fails: because of the argument ``at``, or altogether."""

    def __init__(self, text: str, at: int | None = None, parameter: str = "", summary: str = FAILED) -> None:
        super().__init__(text)
        self.at, self.parameter, self.summary = at, parameter, summary

    def told(self, name: str) -> str:
        """Return the message for a function."""
        if self.at is not None:
            return f'Invalid value for "{self.parameter}" parameter: {self}.'
        return f'Call to function "{name}" failed: {self}.' if self.summary == FAILED else str(self)


def formatted(form: str, *values: Any) -> str:
    used, highest = 0, 0

    def one(found: re.Match[str]) -> str:
        nonlocal used, highest
        if found[1] == "%":
            return "%"
        used = int(found[2]) if found[2] else used + 1
        highest = max(highest, used)
        if not 0 < used <= len(values):
            where = f"{json.dumps(found[0])} at {found.start()}: need index {used - 1} but have {len(values)} total"
            raise CallError(f"not enough arguments for {where}")
        if max(int(found[4] or 0), int(found[5] or 0)) > MAX_WIDTH:
            raise CallError("the width is too large")
        try:
            return _verb(found, values[used - 1])
        except (ConvertError, TypeError) as error:
            where = f"{json.dumps(found[0])} at {found.start()}"
            raise CallError(f"unsupported value for {where}: {error}") from error

    text = VERB.sub(one, form)
    if highest < len(values):
        raise CallError(f"too many arguments; only {highest} used by format string")
    return text


def _verb(found: re.Match[str], value: Any) -> str:
    flags, width, precision, verb = found[3], found[4], found[5], found[6]
    if verb in "dxXo":
        return str(f"%{flags}{width}{verb}" % int(convert(value, "number")))
    if verb in "eEfgG":
        return str(f"%{flags}{width}{'.' + precision if precision else ''}{verb}" % convert(value, "number"))
    if verb == "v":
        text = (
            json_text(value) if isinstance(value, list | dict | bool) or value is None else convert(value, "string")
        )
    elif verb in "sq":
        text = convert(value, "string")[: int(precision) if precision else None]
        text = json.dumps(text, ensure_ascii=False) if verb == "q" else text
    elif verb in "tb":
        text = json_text(convert(value, "bool")) if verb == "t" else f"{int(convert(value, 'number')):b}"
    else:
        raise ConvertError(f"unsupported format verb '{verb}'")
    return f"{text:{'<' if '-' in flags else '>'}{width or 0}}"


def json_text(value: Any) -> str:
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
