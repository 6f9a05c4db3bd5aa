"""The table of builtins, by shell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubesim.shell import builtins_flow, builtins_io, builtins_jobs, builtins_typed, builtins_vars

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

Builtin = Callable[["Shell", list[str]], Awaitable[int]]
_SPECIAL = ". : break continue eval exec exit export readonly return set shift trap unset"
_BASH_ONLY = "source declare typeset let shopt mapfile readarray complete disown logout"
SPECIAL, BASH_ONLY = frozenset(_SPECIAL.split()), frozenset(_BASH_ONLY.split())
ASH_TOO = frozenset({"source", "let"})


@dataclass(frozen=True)
class Builtins:
    """What one shell knows by itself."""

    table: dict[str, Builtin]
    special: frozenset[str]


def of(dialect: str) -> Builtins:
    """Return a dialect's builtins."""
    table: dict[str, Builtin] = {
        **builtins_flow.TABLE,
        **builtins_io.TABLE,
        **builtins_vars.TABLE,
        **builtins_jobs.TABLE,
        **builtins_typed.TABLE,
    }
    if dialect != "bash":
        for name in BASH_ONLY - (ASH_TOO if dialect == "ash" else frozenset()):
            table.pop(name, None)
    if dialect != "ash":
        del table["[["]
    if dialect == "dash":
        del table["history"]
    return Builtins(table, SPECIAL)
