"""Interactive shells: prompts, lines that go on, history, Ctrl-C."""

from __future__ import annotations

import asyncio
import re

from kubesim.shell.complete import complete
from kubesim.shell.interp import Shell, read_line
from kubesim.shell.jobs import Interrupted
from kubesim.shell.lineedit import LineEditor
from kubesim.shell.nodes import Node, ScriptError
from kubesim.shell.parse import parse
from kubesim.shell.state import BreakLoop, ExitShell, ReturnFrom, ShellError, Variable
from kubesim.shell.terminal import Terminal
from kubesim.shell.tools.users import name_of

MOST_HISTORY = 1000
PROMPTS = {"bash": "\\u@\\h:\\w\\$ ", "dash": "\\$ ", "ash": "\\w \\$ "}
BEGUN = re.compile(r"(\b(?:do|then|else|in)|[{(;&|])\n")
"""A line break that ends no command: what was typed in several lines is recalled in one."""
RECALLED = re.compile(r"'[^']*'|\\.|!!|!\$")
"""The parts of a line that stand for the last one, and quoted text, in which nothing does."""


class Session:
    """One shell at one terminal."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.process = shell.process
        self.terminal: Terminal | None = shell.process.tty(0)
        self.running: asyncio.Task[int] | None = None
        self.editor: LineEditor | None = None
        shell.typed = []
        if self.terminal:
            self.editor = LineEditor(self.process, self.terminal, shell.typed, lambda text: complete(shell, text))

    async def run(self) -> int:
        """Read and run commands until exit or the end of input."""
        shell = self.shell
        shell.interactive = True
        if "PS1" not in shell.state.variables:
            shell.state.variables["PS1"] = Variable(PROMPTS[shell.dialect])
        shell.state.variables.setdefault("PS2", Variable("> "))
        shell.state.options.add("H")
        home = shell.state.get("HOME") or "/root"
        for name, value in (("SIZE", "500"), ("FILESIZE", "500"), ("FILE", f"{home}/.bash_history")):
            shell.state.variables.setdefault(f"HIST{name}", Variable(value))
        for name in ("TSTP", "TTIN", "TTOU", "TERM", "QUIT"):
            self.process.handlers.setdefault(name, None)
        self.process.handlers["INT"] = self._interrupt
        self.process.handlers["WINCH"] = lambda name: self._resized()
        self._resized()
        if self.terminal:
            self.terminal.foreground = self.process.group
        while True:
            await shell.jobs.notify()
            try:
                node = await self._command()
            except Interrupted:
                shell.status = 130
                continue
            if node is None:
                await self._goodbye()
                return shell.status
            warned = shell.warned
            await self._execute(node)
            shell.warned = shell.warned and not warned

    def _resized(self) -> None:
        if self.terminal:
            rows, columns = self.terminal.size
            self.shell.state.variables["LINES"] = Variable(str(rows))
            self.shell.state.variables["COLUMNS"] = Variable(str(columns))

    def _interrupt(self, name: str) -> None:
        if self.running:
            self.running.cancel()

    async def _goodbye(self) -> None:
        await self.process.write("exit\n" if self.terminal else "\n" * bool(self.terminal))

    async def _command(self) -> Node | None:
        """Read lines until they are a command; None at the end of input."""
        text = ""
        while True:
            line = await self._line(self._prompt("PS2" if text else "PS1"))
            if line is None:
                return None if not text else parse("")
            text += (line if text else await self._recalled(line)) + "\n"
            try:
                node = parse(text, self.shell.state.aliases, more=True)
            except ScriptError as error:
                if error.unfinished and len(text) < 65_536:
                    continue
                self._remember(text)
                await self.shell.report_syntax(error, text.split("\n"))
                self.shell.status = 2
                text = ""
                continue
            if text.endswith("\\\n"):
                continue
            self._remember(text)
            return node

    async def _line(self, prompt: str) -> str | None:
        if self.editor:
            return await self.editor.line(prompt)
        line = await read_line(self.process)
        return line.removesuffix("\n") if line else None

    def _remember(self, text: str) -> None:
        line = text.rstrip("\n")
        typed = self.shell.typed
        control = (self.shell.state.get("HISTCONTROL") or "").split(":")
        spaced = line.startswith(" ") and {"ignorespace", "ignoreboth"} & {*control}
        again = typed[-1:] == [line] and {"ignoredups", "ignoreboth"} & {*control}
        if line.strip() and not spaced and not again:
            typed.append(BEGUN.sub(r"\1 ", line).replace("\n", "; ") if "<<" not in line else line)
            del typed[:-MOST_HISTORY]

    async def _recalled(self, line: str) -> str:
        """Put the last line for ``!!`` and its last word for ``!$``, as bash does, and show what comes of it."""
        last = self.shell.typed[-1] if self.shell.typed else ""
        if "H" not in self.shell.state.options or not last:
            return line
        said = {"!!": last, "!$": last.split()[-1]}
        found = RECALLED.sub(lambda match: said.get(match[0], match[0]), line)
        if found != line:
            await self.process.error(found + "\n")
        return found

    async def _execute(self, node: Node) -> None:
        shell = self.shell
        self.running = asyncio.get_running_loop().create_task(shell.execute(node))
        try:
            await self.running
        except asyncio.CancelledError:
            if not self.running.cancelled() or self.process.status is not None or self.process.dying:
                self.running.cancel()
                raise
            shell.status = 130
            await self.process.error("\n")
        except Interrupted:
            shell.status = 130
        except ExitShell as leave:
            shell.status = leave.status
            if shell.leaving:
                raise
        except (BreakLoop, ReturnFrom):
            shell.status = 0
        except ShellError as error:
            await shell.complain(error.text)
            shell.status = error.status
        finally:
            self.running = None
            shell.depth = shell.unchecked = shell.loops = shell.calls = 0
            shell.state.scopes.clear()
            if self.terminal:
                self.terminal.mode(raw=False)
                self.terminal.foreground = self.process.group
        await self.process.flush()

    def _prompt(self, name: str) -> str:
        text = self.shell.state.get(name) or ""
        text = re.sub(r"\\(\[|\]|[0-7]{3}|.)", self._escape, text)
        return re.sub(r"\$\{?(\w+)\}?", lambda match: self.shell.parameter(match[1]) or "", text)[:1000]

    def _escape(self, match: re.Match[str]) -> str:
        letter = match[1]
        process = self.process
        home, cwd = self.shell.state.get("HOME") or "", process.cwd
        short = "~" + cwd[len(home) :] if home and home != "/" and f"{cwd}/".startswith(home + "/") else cwd
        now = process.machine.clock.now()
        values = {
            "u": name_of(process.view, process.view.uid), "h": process.machine.hostname.split(".")[0],
            "H": process.machine.hostname, "w": short, "W": short.rsplit("/", 1)[-1] or "/",
            "$": "#" if process.view.uid == 0 else "$", "n": "\n", "e": "\x1b", "a": "\a", "[": "", "]": "",
            "t": f"{now:%H:%M:%S}", "A": f"{now:%H:%M}", "d": f"{now:%a %b %d}", "s": self.shell.name, "j": "0",
            "\\": "\\",
        }  # fmt: skip
        if letter.isdecimal():
            return chr(int(letter, 8))
        return values.get(letter, match[0])


async def run(shell: Shell) -> int:
    """Serve an interactive shell."""
    return await Session(shell).run()
