"""What a shell remembers: variables with scopes, functions, options, traps, aliases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from getopt import GetoptError, getopt

from kubesim.shell.nodes import Node

LONGEST_VALUE = 1 << 20
MOST_MEMORY = 8 << 20
OPTIONS = {
    "a": "allexport",
    "b": "notify",
    "C": "noclobber",
    "e": "errexit",
    "f": "noglob",
    "h": "hashall",
    "m": "monitor",
    "n": "noexec",
    "u": "nounset",
    "v": "verbose",
    "x": "xtrace",
}
NAMED_ONLY = {"pipefail", "vi", "emacs", "ignoreeof", "posix", "nolog", "interactive-comments", "history"}


class ShellError(Exception):
    """A message that ends the command, or a script: ``status`` is what the shell exits with if it does."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


def options(argv: list[str], letters: str, usage: str) -> tuple[dict[str, str], list[str]]:
    """Return a builtin's options with their values, and what follows them. ``letters`` are as getopt(3) has them."""
    try:
        found, rest = getopt(argv[1:], letters)
    except GetoptError as error:
        wrong = "option requires an argument" if "requires" in error.msg else "invalid option"
        raise ShellError(f"-{error.opt}: {wrong}\n{argv[0]}: usage: {argv[0]} {usage}", 2) from error
    return {name[1:]: value for name, value in found}, rest


class ReadOnly(ShellError):
    """A variable that is not to be changed."""


class OutOfMemory(ShellError):
    """More than a shell may hold here: on a real machine it would go on growing until its container is full."""


class BreakLoop(Exception):
    """``break`` or ``continue`` (``again``) of ``count`` loops."""

    def __init__(self, count: int, *, again: bool) -> None:
        super().__init__(count)
        self.count = count
        self.again = again


class Leaving(Exception):
    """The end of something before its last command, with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status & 255


class ReturnFrom(Leaving):
    """``return``."""


class ExitShell(Leaving):
    """``exit``, or an error that ends the shell."""


@dataclass(slots=True)
class Variable:
    """A value with its attributes; arrays are dicts by number or, if ``associative``, by key."""

    value: str | dict[int, str] | dict[str, str] | None = None
    exported: bool = False
    readonly: bool = False
    integer: bool = False
    associative: bool = False
    case: str = ""

    def text(self) -> str | None:
        """Return what ``$name`` gives."""
        if isinstance(self.value, dict):
            return self.items().get("0")
        return self.value

    def items(self) -> dict[str, str]:
        """Return the elements by their indexes, in order."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            return {"0": self.value}
        if self.associative:
            return {str(key): value for key, value in self.value.items()}
        return {str(key): value for key, value in sorted(self.value.items(), key=lambda item: int(item[0]))}

    def copy(self) -> Variable:
        """Return one that changes by itself."""
        value = dict(self.value) if isinstance(self.value, dict) else self.value
        return replace(self, value=value)


@dataclass
class State:
    """Everything that a subshell gets a copy of."""

    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, tuple[Node, str]] = field(default_factory=dict)
    positional: list[str] = field(default_factory=list)
    options: set[str] = field(default_factory=set)
    shopt: set[str] = field(default_factory=set)
    aliases: dict[str, str] = field(default_factory=dict)
    traps: dict[str, str] = field(default_factory=dict)
    scopes: list[dict[str, Variable | None]] = field(default_factory=list)
    memory: int = 0

    def copy(self) -> State:
        """Return the state of a subshell."""
        return State(
            {name: variable.copy() for name, variable in self.variables.items()},
            dict(self.functions),
            list(self.positional),
            set(self.options),
            set(self.shopt),
            dict(self.aliases),
            dict(self.traps),
            [dict(scope) for scope in self.scopes],
            self.memory,
        )

    def get(self, name: str) -> str | None:
        """Return a variable's text, None where it is unset."""
        variable = self.variables.get(name)
        return variable.text() if variable else None

    def variable(self, name: str) -> Variable:
        """Return a variable that may be written to, making it; raises ShellError where it is read-only."""
        variable = self.variables.get(name)
        if variable is None:
            variable = self.variables[name] = Variable(exported="allexport" in self.options)
        elif variable.readonly:
            raise ReadOnly(f"{name}: readonly variable")
        return variable

    def set(self, name: str, value: str, *, index: str | None = None) -> None:
        """Set a variable or an element of an array."""
        variable = self.variable(name)
        old = (variable.items().get(index or "0") or "") if index is not None or variable.value else ""
        self.charge(len(value) - len(old))
        if variable.case:
            value = value.upper() if variable.case == "u" else value.lower()
        if index is None and not isinstance(variable.value, dict):
            variable.value = value
            return
        items: dict[str, str] = variable.items()
        items[index or "0"] = value
        self.put_items(variable, items)

    def put_items(self, variable: Variable, items: dict[str, str]) -> None:
        """Make a variable an array of these items."""
        variable.value = items if variable.associative else {int(key): value for key, value in items.items()}

    def charge(self, size: int) -> None:
        """Count memory; raises ShellError when a shell holds too much."""
        self.memory = max(self.memory + size, 0)
        if size > LONGEST_VALUE or self.memory > MOST_MEMORY:
            self.memory = max(self.memory - size, 0)
            raise OutOfMemory(f"xrealloc: cannot allocate {size} bytes", 2)

    def unset(self, name: str) -> None:
        """Forget a variable."""
        variable = self.variables.get(name)
        if variable is None:
            return
        if variable.readonly:
            raise ReadOnly(f"{name}: cannot unset: readonly variable")
        self.charge(-sum(map(len, variable.items().values())))
        del self.variables[name]

    def local(self, name: str) -> Variable:
        """Begin a variable of the running function."""
        scope = self.scopes[-1]
        if name not in scope:
            scope[name] = self.variables.get(name)
            self.variables[name] = Variable()
        return self.variables[name]

    def leave(self) -> None:
        """End the running function's variables."""
        for name, variable in self.scopes.pop().items():
            if variable is None:
                self.variables.pop(name, None)
            else:
                self.variables[name] = variable

    def environment(self) -> dict[str, str]:
        """Return what programs get."""
        found = {}
        for name, variable in self.variables.items():
            text = variable.text()
            if variable.exported and text is not None:
                found[name] = text
        return found

    def flags(self) -> str:
        """Return ``$-``."""
        return "".join(letter for letter, name in OPTIONS.items() if name in self.options)
