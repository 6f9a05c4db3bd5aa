"""Parts of a shell: parameters, descriptors, traps, messages; and what becomes of redirections and assignments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from secrets import randbits
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from kubesim.shell import dialects, sockets
from kubesim.shell.errors import FileError
from kubesim.shell.files import File
from kubesim.shell.handles import Bytes, Handle
from kubesim.shell.machine import Process
from kubesim.shell.nodes import Array, Node, Redirect, Simple, Text, Word
from kubesim.shell.quoting import quote
from kubesim.shell.state import ExitShell, OutOfMemory, ShellError, State, Variable
from kubesim.shell.words import Assignment, assignment, declares

if TYPE_CHECKING:
    from kubesim.shell.builtins import Builtin
    from kubesim.shell.expand import Expander

Saved = list[tuple[int, Handle | None]]
Result = TypeVar("Result")


class Values(ABC):
    """Names, numbers and files of one shell."""

    builtins: dict[str, Builtin]
    expander: Expander
    woken: Any

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
        self._random = randbits(31)
        self.interactive = False
        self.unchecked = 0  # how many conditions we are inside of: set -e does not count there
        self.loops = 0
        self.calls = 0
        self.substituted = 0
        self.subshell = False

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

    async def lament(self, words: Iterable[str], text: str, builtin: str) -> int:
        """Print the same error of each word; returns the status of a builtin that does so."""
        status = 0
        for word in words:
            await self.complain(f"{word}: {text}", builtin)
            status = 1
        return status

    # parameters

    def parameter(self, name: str) -> str | None:
        """Return a parameter's value, None where it is unset."""
        if name.isdecimal():
            number = int(name) if len(name) < 7 else 10**6
            if number == 0:
                return self.name
            return self.state.positional[number - 1] if number <= len(self.state.positional) else None
        if name in _SPECIAL:
            return _SPECIAL[name](self)
        dynamic = self._dynamic(name) if name.isupper() else None
        return self.state.get(name) if dynamic is None else dynamic

    def _flags(self) -> str:
        """Return ``$-``."""
        given = "c" if self.command_string else ""
        return self.state.flags() + "hB" + given + "i" * self.interactive

    def _dynamic(self, name: str) -> str | None:
        machine = self.process.machine
        if name == "RANDOM":
            self._random = (self._random * 1103515245 + 12345) % (1 << 31)
            return str(self._random >> 16)
        if name == "FUNCNAME" and self.names:
            return self.names[-1]
        known = {"PPID": self.process.parent}
        known |= {"LINENO": self.line - self.line_offset}
        known |= {"SECONDS": int(machine.now() - self.began), "EPOCHSECONDS": int(machine.now())}
        known |= {"BASHPID": self.process.pid, "BASH_SUBSHELL": 0}
        known |= dict.fromkeys(("UID", "EUID"), self.process.view.uid)
        return str(known[name]) if name in known else None

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

    def number_text(self, name: str, index: str | None) -> str:
        """Return a variable's text for arithmetic."""
        value = self.parameter(name) if index is None else self.element(name, index)
        if value is None and "nounset" in self.state.options:
            raise self.unset(name)
        return value or ""

    def unset(self, name: str) -> ShellError:
        """Return the error of a parameter that is not set, where all must be."""
        return ShellError(f"{name}: unbound variable", 127)

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

    @abstractmethod
    async def execute(self, node: Node, *, final: bool = False) -> int:
        """Run a command; the interpreter does."""

    def declare(self, name: str) -> Variable:
        """Return a variable to be given attributes."""
        return self.state.variables.setdefault(name, Variable())

    # what goes wrong

    async def _guarded(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Await an expansion; its errors end the shell, or the command of an interactive one."""
        try:
            return await work
        except ShellError as error:
            await self.fault(error)

    async def fault(self, error: ShellError) -> NoReturn:
        """Print an expansion's error and leave."""
        if isinstance(error, OutOfMemory):
            await self.process.outgrow()
        await self.complain(error.text)
        self.status = error.status
        raise ExitShell(error.status)

    async def checked(self, status: int) -> int:
        """Leave if ``set -e`` wants that for this status."""
        self.status = status
        if status and not self.unchecked:
            if "ERR" in self.state.traps:
                await self.run_trap("ERR")
            if "errexit" in self.state.options:
                raise ExitShell(status)
        return status

    # redirections

    async def redirect(self, redirects: tuple[Redirect, ...], saved: Saved) -> bool:
        """Open what redirections name in place of this process's descriptors; False after a message."""
        for each in redirects:
            try:
                await self._open(each, saved)
            except FileError as error:
                await self.complain(dialects.cannot_open(self.dialect, error, creating=">" in each.op))
                return False
            except ShellError as error:
                await self.fault(error)
        return True

    async def _open(self, each: Redirect, saved: Saved) -> None:
        op = each.op
        if op in ("<<", "<<<"):
            text = await self.expander.value(each.target)
            data = (text + ("\n" if op == "<<<" else "")).encode("utf-8", "surrogateescape")
            self.put(0 if each.fd < 0 else each.fd, Bytes(data), saved)
            return
        fields = await self.expander.fields((each.target,))
        name = fields[0] if len(fields) == 1 else await self.expander.value(each.target)
        if len(fields) != 1:
            raise ShellError(f"{each.source}: ambiguous redirect", 1)
        fd = each.fd if each.fd >= 0 else int(op.startswith((">", "&")))
        if op in ("<&", ">&"):
            self._duplicate(each, fd, name, saved)
            return
        mode = {"<": "r", ">>": "a", "&>>": "a", "<>": "+"}.get(op, "w")
        if mode == "w" and op == ">" and "noclobber" in self.state.options and self.is_file(name):
            raise FileError("EEXIST", name)
        socket = await sockets.opened(self.process, name, self.name, self.complain)
        handle = socket or self.process.open(name, mode)
        self.put(fd, handle, saved)
        if op in ("&>", "&>>"):
            self.put(2, handle, saved)

    def _duplicate(self, each: Redirect, fd: int, name: str, saved: Saved) -> None:
        if name == "-":
            self.put(fd, None, saved)
        elif name.rstrip("-").isdecimal():
            number = int(name.rstrip("-"))
            if number not in self.process.fds:
                raise FileError("EBADF", name)
            self.put(fd, self.process.fds[number], saved)
        elif each.fd < 0 and each.op == ">&":
            handle = self.process.open(name, "w")
            self.put(1, handle, saved)
            self.put(2, handle, saved)
        else:
            raise ShellError(f"{name}: ambiguous redirect", 2)

    # arguments and assignments

    async def _arguments(self, words: tuple[Word, ...]) -> list[str]:
        """Expand a command's words; those of declaring builtins are assignments and not split."""
        if words and len(words) > 1 and declares(words[0]):
            fixed: list[str] = await self.expander.fields(words[:1])
            for word in words[1:]:
                found = assignment(word)
                if found:
                    keyed = any(each[:1] == "-" and "A" in each for each in fixed[1:])
                    fixed.append(await self._declared(found, keyed=keyed))
                else:
                    fixed.extend(await self.expander.fields((word,)))
            return fixed
        return await self.expander.fields(words)

    async def _declared(self, found: Assignment, *, keyed: bool) -> str:
        name, index, append, value = found
        variable = self.state.variables.get(name)
        keyed = keyed or variable is not None and variable.associative
        plus = "+" if append else ""
        if value and isinstance(value[0], Array):
            items = await self.array_items(value[0], {}, associative=keyed)
            return f"{name}{plus}=\0" + "\0".join(f"{key}\1{text}" for key, text in items.items())
        where = f"[{await self.expander.value(index)}]" if index else ""
        return f"{name}{where}{plus}={await self.expander.value(value)}"

    async def _bare(self, assigns: list[Assignment], node: Simple, saved: Saved) -> int:
        if not await self.redirect(node.redirects, saved):
            return 1
        for each in assigns:
            await self._guarded(self.assign(each))
        return self.substituted

    async def assign(self, each: Assignment, *, exported: bool = False) -> str:
        """Do one assignment; returns the value."""
        name, index, append, word = each
        if word and isinstance(word[0], Array):
            await self._assign_array(name, word[0], append=append)
            return ""
        value = await self.expander.value(word)
        place = self.index(name, await self.expander.value(index)) if index else None
        variable = self.state.variables.get(name)
        if append:
            old = self.element(name, place) if place is not None else self.state.get(name)
            if variable and variable.integer:
                value = str(self.expander.arithmetic(f"({old or 0})+({value or 0})"))
            else:
                value = (old or "") + value
        elif variable and variable.integer:
            value = str(self.expander.arithmetic(value))
        if "xtrace" in self.state.options and not exported:
            await self.trace([f"{name}={quote(value) if value else ''}"])
        self.state.set(name, value, index=place)
        return value

    async def _assign_array(self, name: str, array: Array, *, append: bool) -> None:
        variable = self.state.variable(name)
        start = variable.items() if append else {}
        items = await self.array_items(array, start, associative=variable.associative)
        self.state.charge(sum(map(len, items.values())) - sum(map(len, variable.items().values())))
        self.state.put_items(variable, items)

    async def _temporary_value(self, each: Assignment) -> str:
        return await self.expander.value(each[3])

    async def _trace_command(self, argv: list[str], assigns: list[Assignment]) -> None:
        for each in assigns:
            await self.trace([f"{each[0]}={quote(await self.expander.value(each[3]))}"])
        await self.trace([quote(word, always=not word) for word in argv])

    async def trace(self, words: list[str]) -> None:
        """Print a line of ``set -x``."""
        mark = self.state.get("PS4")
        await self.process.error(f"{'+ ' if mark is None else mark}{' '.join(words)}\n")


_SPECIAL: dict[str, Callable[[Values], str | None]] = {
    "?": lambda shell: str(shell.status),
    "#": lambda shell: str(len(shell.state.positional)),
    "$": lambda shell: str(shell.first),
    "!": lambda shell: str(shell.last_background) if shell.last_background else None,
    "-": Values._flags,
    **dict.fromkeys("@*", lambda shell: " ".join(shell.state.positional) if shell.state.positional else None),
}
