"""The part of a shell that programs of others ask for values: parameters, descriptors, traps, messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from kubesim.shell import dialects
from kubesim.shell.files import File
from kubesim.shell.handles import Handle
from kubesim.shell.machine import Process
from kubesim.shell.nodes import Array, Text
from kubesim.shell.state import ShellError, State, Variable

if TYPE_CHECKING:
    from kubesim.shell.builtins import Builtins
    from kubesim.shell.expand import Expander

Saved = list[tuple[int, Handle | None]]


class Values(ABC):
    """Names, numbers and files of one shell."""

    builtins: Builtins

    def __init__(self, process: Process, dialect: str, name: str, state: State) -> None:
        self.process = process
        self.dialect = dialect
        self.name = name
        self.state = state
        self.status = 0
        self.line = 1
        self.line_offset = 0
        self.named = False  # a script's name or $0 was given: ash then tells lines
        self.first = process.pid
        self.last_background = 0
        self.began = process.machine.now()
        self.names: list[str] = []
        self.temporary: list[int] = []
        self.pending: list[str] = []
        self.command_string = False
        self._random = process.pid * 7919 + 12345
        self.interactive = False

    # messages

    async def complain(self, text: str, builtin: str = "") -> None:
        """Print an error with the shell's name and place before it."""
        line = self.line - self.line_offset
        silent = self.dialect == "ash" and not self.named and not builtin
        place = dialects.place(self.dialect, self.name, -1 if silent else line, self.interactive)
        if builtin and self.dialect == "ash":
            place = f"{self.name}: {builtin}{place[len(self.name) :]}"
        elif builtin:
            place += f"{builtin}: "
        await self.process.error(f"{place}{text}\n")

    # parameters

    def parameter(self, name: str) -> str | None:
        """Return a parameter's value, None where it is unset."""
        if name.isdecimal():
            number = int(name) if len(name) < 7 else 10**6
            if number == 0:
                return self.name
            return self.state.positional[number - 1] if number <= len(self.state.positional) else None
        special = self._special(name)
        if special is not None:
            return special
        return self.state.get(name)

    def _special(self, name: str) -> str | None:
        if name == "?":
            return str(self.status)
        if name == "#":
            return str(len(self.state.positional))
        if name == "$":
            return str(self.first)
        if name == "!":
            return str(self.last_background) if self.last_background else None
        if name == "-":
            standard = {"bash": "hB", "ash": "", "dash": ""}[self.dialect]
            given = "c" if self.command_string and self.dialect != "dash" else ""
            return self.state.flags() + standard + given + ("i" if self.interactive else "")
        if name in ("@", "*"):
            return " ".join(self.state.positional) if self.state.positional else None
        return self._dynamic(name) if name.isupper() else None

    def _dynamic(self, name: str) -> str | None:
        if name == "LINENO":
            return str(self.line - self.line_offset) if self.dialect != "dash" else None
        if name == "PPID":
            return str(self.process.parent)
        if self.dialect == "dash":
            return None
        if name == "RANDOM":
            self._random = (self._random * 1103515245 + 12345) % (1 << 31)
            return str(self._random >> 16)
        if name == "SECONDS" and self.dialect == "bash":
            return str(int(self.process.machine.now() - self.began))
        if name == "EPOCHSECONDS":
            return str(int(self.process.machine.now()))
        if self.dialect != "bash":
            return None
        if name == "FUNCNAME":
            return self.names[-1] if self.names else None
        known = {"BASHPID": str(self.process.pid), "UID": str(self.process.view.uid)}
        known |= {"EUID": known["UID"], "BASH_SUBSHELL": "0"}
        return known.get(name)

    def element(self, name: str, index: str) -> str | None:
        """Return an element of an array."""
        variable = self.state.variables.get(name)
        return variable.items().get(self.index(name, index)) if variable else None

    def index(self, name: str, text: str) -> str:
        """Return an index as it is stored: arithmetic is done for arrays that count."""
        variable = self.state.variables.get(name)
        if variable and variable.associative:
            return text
        value = self.expander.arithmetic(text)
        if value < 0 and variable and (keys := [int(key) for key in variable.items()]):
            value += max(keys) + 1
        if value < 0:
            raise ShellError(f"{name}[{text}]: bad array subscript", 1)
        return str(value)

    expander: Expander

    def number_text(self, name: str, index: str | None) -> str:
        """Return a variable's text for arithmetic."""
        value = self.parameter(name) if index is None else self.element(name, index)
        if value is None and "nounset" in self.state.options:
            text = "unbound variable" if self.dialect == "bash" else "parameter not set"
            raise ShellError(f"{name}: {text}", 2 if self.dialect != "bash" else 127)
        return value or ""

    def assign_number(self, name: str, index: str | None, value: int) -> None:
        """Set a variable from arithmetic."""
        self.state.set(name, str(value), index=None if index is None else self.index(name, index))

    async def array_items(self, array: Array, start: dict[str, str], *, associative: bool) -> dict[str, str]:
        """Return the elements of ``(...)`` after those that there are."""
        items = dict(start)
        following = max((int(key) for key in items), default=-1) + 1 if not associative else 0
        for word in array.words:
            first = word[0] if word else None
            if isinstance(first, Text) and not first.quoted and first.value.startswith("["):
                key, value = await self._keyed(word)
                if not associative:
                    following = self.expander.arithmetic(key)
                    key = str(following)
                items[key] = value
                following += 1
                continue
            for value in await self.expander.fields((word,)):
                items[str(following)] = value
                following += 1
        return items

    async def _keyed(self, word: tuple[Any, ...]) -> tuple[str, str]:
        text = await self.expander.value(word)
        key, _, value = text[1:].partition("]=")
        return key, value

    def users(self) -> list[list[str]]:
        """Return the lines of /etc/passwd, in fields."""
        node = self.process.view.find("/etc/passwd")
        if not isinstance(node, File):
            return []
        return [line.split(":") for line in bytes(node.content()).decode("utf-8", "replace").splitlines()]

    def is_file(self, path: str) -> bool:
        """Tell whether a regular file is there."""
        return isinstance(self.process.view.find(path), File)

    # descriptors

    def put(self, fd: int, handle: Handle | None, saved: Saved) -> None:
        """Put a handle at a descriptor, keeping what was there."""
        saved.append((fd, self.process.fds.pop(fd, None)))
        if handle:
            self.process.fds[fd] = handle.share()

    def restore(self, saved: Saved) -> None:
        """Undo ``put``, last first."""
        for fd, old in reversed(saved):
            now = self.process.fds.pop(fd, None)
            if now:
                now.release()
            if old:
                self.process.fds[fd] = old
        saved.clear()
        if self.temporary:
            for number in self.temporary:
                handle = self.process.fds.pop(number, None)
                if handle:
                    handle.release()
            self.temporary.clear()

    def keep(self, saved: Saved) -> None:
        """Make redirections last, as ``exec`` does."""
        for _, old in saved:
            if old:
                old.release()
        saved.clear()

    # traps

    def arm(self, name: str) -> None:
        """Have a signal run its trap, be ignored or do what it does by itself."""
        text = self.state.traps.get(name)
        if text is None:
            self.process.handlers.pop(name, None)
        elif text == "":
            self.process.handlers[name] = None
        else:
            self.process.handlers[name] = self._caught

    woken: Any

    def _caught(self, name: str) -> None:
        self.pending.append(name)
        self.woken.set()

    async def run_traps(self) -> None:
        """Run the traps of signals that have come."""
        while self.pending:
            await self.run_trap(self.pending.pop(0))

    async def run_trap(self, name: str) -> None:
        """Run one trap; ``$?`` stays."""
        status = self.status
        text = self.state.traps.get(name)
        if text:
            await self.eval(text)
        self.status = status

    @abstractmethod
    async def eval(self, text: str, where: str = "") -> int:
        """Run text; the interpreter does."""

    def declare(self, name: str) -> Variable:
        """Return a variable to be given attributes."""
        return self.state.variables.setdefault(name, Variable())
