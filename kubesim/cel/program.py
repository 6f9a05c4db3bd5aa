"""CEL as Kubernetes has it: an expression is read and compiled once, and run with every set of variables."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from kubesim.cel.macros import MACROS
from kubesim.cel.run import LIMIT, SPECIAL, Meter, Run
from kubesim.cel.run import compiled as steps_of
from kubesim.cel.syntax import SyntaxFault, parse_marked
from kubesim.cel.values import CelError

__all__ = ["CelError", "Program", "compiled"]
CACHE = 2048
SPECIAL.update(MACROS)
BESIDES = re.compile(r"(?<=expecting )\{<EOF>, [^}\n]*\}(?=\n|$)")
"""What the package names beside the end of the text, which it expects there."""
NOWHERE = "<input>:1:0:"
"""Where errors of an empty text are."""


class Program:
    """One compiled expression."""

    def __init__(self, text: str) -> None:
        """Compile ``text``; raises CelError with the parser's complaint."""
        try:
            self.tree, plain = parse_marked(text)
        except SyntaxFault as error:
            raise CelError(_complaint(text) or f"ERROR: <input>:1:1: Syntax error: {error}") from error
        if complaint := _complaint(plain):
            raise CelError(complaint)
        self._step = steps_of(self.tree)

    def run(
        self,
        variables: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]] | None = None,
        meter: Meter | None = None,
    ) -> Any:
        """Return the expression's value; raises CelError where it has none, or costs too much.

        ``functions``: more than are known. ``meter`` counts what it costs.
        """
        try:
            return self._step(Run(dict(variables), functions or {}, meter or Meter(LIMIT)))
        except RecursionError as error:
            raise CelError("recursion limit exceeded") from error


def _complaint(text: str) -> str:
    """Return what the package's parser, which speaks as upstream's does, says of an expression that is none."""
    try:
        _package().compile(text)
    except ValueError as error:
        return _said(str(error), text)
    return ""


def _said(complaint: str, text: str) -> str:
    """Return what the parser says as upstream prints it."""
    _, _, after = complaint.partition(f"'{text}': ")
    said = BESIDES.sub("<EOF>", (after or complaint.partition(": ")[2]).replace("\n|", "\n |"))
    return said if text else said.replace("<input>:1:1:", NOWHERE)


@cache
def _package() -> Any:
    """Import the package with the first expression: it brings a command line that doubles the time of a start."""
    logging.getLogger("cel").setLevel(logging.CRITICAL)
    return import_module("cel")


@lru_cache(CACHE)
def compiled(text: str) -> Program:
    """Return an expression's program. Raises CelError."""
    return Program(text)
