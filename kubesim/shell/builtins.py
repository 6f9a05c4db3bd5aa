"""The table of builtins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from inspect import getmembers, iscoroutinefunction
from typing import TYPE_CHECKING

from kubesim.shell import builtins_flow, builtins_io, builtins_jobs, builtins_typed, builtins_vars

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

Builtin = Callable[["Shell", list[str]], Awaitable[int]]
_MODULES = (builtins_flow, builtins_io, builtins_vars, builtins_jobs, builtins_typed)
_OTHER_NAMES = {
    "true": ":", "exit": "logout", "break": "continue", "source": ".", "export": "readonly", "declare": "typeset",
    "cd": "chdir",
}  # fmt: skip


@cache
def table() -> dict[str, Builtin]:
    """Return all builtins: the public coroutine functions of the modules above, by their names."""
    found: dict[str, Builtin] = {"[": builtins_flow.test}
    for module in _MODULES:
        for name, function in getmembers(module, iscoroutinefunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                name = name.rstrip("_")
                found |= dict.fromkeys((name, _OTHER_NAMES.get(name, name)), function)
    return found
