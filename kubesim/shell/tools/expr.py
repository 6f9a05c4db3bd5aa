"""expr: integers, put together by the shell's arithmetic, and two words compared.

Indexed jobs of Kubernetes' conformance suite decide by it which of them fail.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kubesim.shell.arith import ArithError, evaluate
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_SIGNS = {sign: sign for sign in ("+", "-", "*", "/", "%", "(", ")", "<", "<=", "==", "!=", ">=", ">")} | {"=": "=="}


class _NoNames:
    """The variables of an expression that can have none: its words are numbers and signs."""

    def number_text(self, name: str, index: str | None) -> str:
        return ""

    def assign_number(self, name: str, index: str | None, value: int) -> None:
        return


async def expr(process: Process) -> int:
    """Print the value of an expression; return 1 where it is empty or 0, 2 where there is none."""
    words = process.argv[1:]
    if not words:
        await kit.usage(process, "missing operand")
    try:
        found = _value(words)
    except ArithError as error:
        return await process.fail("division by zero" if "division by 0" in str(error) else "syntax error", 2)
    await process.write(found + "\n")
    return int(found in ("", "0"))


def _value(words: Sequence[str]) -> str:
    """Return the value. Raises ArithError for what the shell's arithmetic does not know either."""
    match words:
        case [word]:
            return word
        case [left, "=" | "==" | "!=" as sign, right] if not (_is_integer(left) and _is_integer(right)):
            return str(int((left == right) == (sign != "!=")))
    return str(evaluate(" ".join(map(_token, words)), _NoNames()))


def _is_integer(word: str) -> bool:
    return _INTEGER.fullmatch(word) is not None


def _token(word: str) -> str:
    if word in _SIGNS:
        return _SIGNS[word]
    if not _is_integer(word):
        raise ArithError("non-integer argument", word)
    return f"({int(word)})"


TOOLS: dict[str, Tool] = {"expr": expr}
