"""CEL as Kubernetes has it: the language, and those functions of its libraries that the package lacks."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from kubesim.celfunctions import FUNCTIONS, NAMESPACES

CACHE = 2048
BESIDES = re.compile(r"(?<=expecting )\{<EOF>, [^}\n]*\}(?=\n|$)")
"""What the package names beside the end of the text, which it expects there."""
NOWHERE = "<input>:1:0:"
"""Where errors of an empty text are."""
FAILED = re.compile(r"Function '\w+' error: Python function call failed: \w+: (.*)\. Check function arguments.*")
"""What the package makes of an error in a function."""


class CelError(ValueError):
    """A text that is no expression, or an expression that has no value; the message is CEL's."""


class Program:
    """One compiled expression."""

    def __init__(self, text: str) -> None:
        """Compile ``text``; raises CelError with the parser's complaint."""
        try:
            self._program = _package().compile(text)
        except ValueError as error:
            raise CelError(_said(str(error), text)) from error
        words = {*re.findall(r"\w+", text)}
        self._functions = {name: function for name, function in FUNCTIONS.items() if name in words}
        self._spaces = {name: name for name in NAMESPACES if name in words}

    def run(self, variables: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]] | None = None) -> Any:
        """Return the expression's value; raises CelError where it has none. ``functions``: more than are known."""
        context = _package().Context({**self._spaces, **variables}, {**self._functions, **(functions or {})})
        try:
            return self._program.execute(context)
        except KeyError as error:
            raise CelError(f"no such key: {error.args[0]}") from error
        except (ValueError, RuntimeError, TypeError, ArithmeticError, LookupError) as error:
            raise CelError(FAILED.sub(r"\1", str(error)).removesuffix(" in CEL expression")) from error


def _said(complaint: str, text: str) -> str:
    """Return what the parser says as upstream prints it."""
    _, _, after = complaint.partition(f"'{text}': ")
    said = BESIDES.sub("<EOF>", (after or complaint.partition(": ")[2]).replace("\n|", "\n |"))
    return said if text else said.replace("<input>:1:1:", NOWHERE)


@cache
def _package() -> Any:
    """Import the package with the first expression: it brings a command line that doubles the time of a start.

    It would write of every function that refuses a value; that is no news of ours.
    """
    logging.getLogger("cel").setLevel(logging.CRITICAL)
    return import_module("cel")


@lru_cache(CACHE)
def compiled(text: str) -> Program:
    """Return an expression's program. Raises CelError."""
    return Program(text)
