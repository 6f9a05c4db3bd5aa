"""The table of builtins, by shell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from inspect import getmembers, iscoroutinefunction
from typing import TYPE_CHECKING

from kubesim.shell import builtins_flow, builtins_io, builtins_jobs, builtins_typed, builtins_vars

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

Builtin = Callable[["Shell", list[str]], Awaitable[int]]
_SPECIAL = ". : break continue eval exec exit export readonly return set shift trap unset"
_BASH_ONLY = "source declare typeset let shopt mapfile readarray complete disown logout"
SPECIAL, BASH_ONLY = frozenset(_SPECIAL.split()), frozenset(_BASH_ONLY.split())
ASH_TOO = frozenset({"source", "let"})


_MODULES = (builtins_flow, builtins_io, builtins_vars, builtins_jobs, builtins_typed)
_OTHER_NAMES = {
    "true": ":", "exit": "logout", "break": "continue", "source": ".", "export": "readonly", "declare": "typeset",
    "mapfile": "readarray", "cd": "chdir",
}  # fmt: skip


def _table() -> dict[str, Builtin]:
    """Return all builtins: the public coroutine functions of the modules above, by their names."""
    found: dict[str, Builtin] = {"[": builtins_flow.test, "[[": builtins_flow.test}
    for module in _MODULES:
        for name, function in getmembers(module, iscoroutinefunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                name = name.rstrip("_")
                found |= dict.fromkeys((name, _OTHER_NAMES.get(name, name)), function)
    return found


@dataclass(frozen=True)
class Builtins:
    """What one shell knows by itself."""

    table: dict[str, Builtin]
    special: frozenset[str]


@cache
def of(dialect: str) -> Builtins:
    """Return a dialect's builtins."""
    table = _table()
    for name in BASH_ONLY - (ASH_TOO if dialect == "ash" else frozenset()) if dialect != "bash" else ():
        table.pop(name, None)
    if dialect != "ash":
        del table["[["]
    if dialect == "dash":
        del table["history"]
    return Builtins(table, SPECIAL)
