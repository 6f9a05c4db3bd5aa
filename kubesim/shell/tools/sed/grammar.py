"""The grammar of sed's scripts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kubesim.shell import regexes

_ADDRESS = re.compile(r"(?P<number>\d{1,9})|(?P<last>\$)|\+(?P<plus>\d{1,9})")
_ENDS = re.compile(r"[ \t]*(?=[;\n}#]|$)", re.ASCII)
NO_ARGUMENT = "pdnN="


class SedError(Exception):
    """A script that cannot be run."""


@dataclass
class Address:
    """A line number, the last line, a pattern, or so many lines more."""

    kind: str
    number: int = 0
    pattern: Any = None


@dataclass
class Command:
    """One command with its addresses."""

    name: str = ""
    addresses: list[Address] = field(default_factory=list)
    negated: bool = False
    text: str = ""
    pattern: Any = None
    parts: list[str | int] = field(default_factory=list)
    """Replacement of a match: texts, and numbers of groups."""
    flags: str = ""
    number: int = 0
    target: int = 0
    active: bool = False
    until: int = 0


class Parser:
    """Reads a script."""

    def __init__(self, script: str, *, extended: bool) -> None:
        self.script = script
        self.extended = extended
        self.at = 0
        self.commands: list[Command] = []
        self.open: list[int] = []

    def parse(self) -> list[Command]:
        """Read everything. Raises ``SedError``."""
        while self._matched(r"(?:[ \t\n;]|#[^\n]*)*") is not None and self.at < len(self.script):
            self._command()
        if self.open:
            raise SedError("unmatched `{'")
        return self.commands

    def _matched(self, pattern: str) -> re.Match[str] | None:
        """Take what a pattern fits, if it does."""
        match = re.compile(pattern).match(self.script, self.at)
        self.at = match.end() if match else self.at
        return match

    def _taken(self, pattern: str) -> str:
        match = self._matched(pattern)
        return match[match.lastindex or 0] if match else ""

    def _command(self) -> None:
        command = Command()
        if first := self._address():
            command.addresses.append(first)
            if self._taken(r"[ \t]*,[ \t]*"):
                second = self._address()
                if second is None:
                    raise SedError("unexpected `,'")
                command.addresses.append(second)
        command.negated = "!" in self._taken(r"[ \t!]*")
        command.name = self._taken(r".")
        if not command.name:
            raise SedError("missing command")
        self._complete(command)

    def _address(self) -> Address | None:
        match = _ADDRESS.match(self.script, self.at)
        if match:
            self.at = match.end()
            if match["last"]:
                return Address("last")
            if match["plus"]:
                return Address("plus", int(match["plus"]))
            return Address("line", int(match["number"]))
        delimiter = self._taken(r"(/)|\\([^\\\n])")
        if not delimiter:
            return None
        source = self._delimited(delimiter, "unterminated address regex", regex=True)
        return Address("pattern", pattern=self._regex(source, self._taken("I?")))

    def _regex(self, source: str, flags: str) -> Any:
        """Compile a pattern; None for an empty one, which stands for the one before."""
        try:
            ignore = "i" in flags.lower()
            return regexes.compile_posix(source, extended=self.extended, ignore_case=ignore) if source else None
        except regexes.RegexError as error:
            raise SedError(str(error)) from error

    def _delimited(self, delimiter: str, what: str, *, regex: bool = False) -> str:
        edge, bracket = re.escape(delimiter), r"\[\^?\]?[^\]]*\]|" if regex else ""
        match = self._matched(rf"((?:\\[\s\S]|{bracket}[^\\{edge}])*+){edge}")
        if match is None:
            raise SedError(what)
        return match[1].replace(f"\\{delimiter}", delimiter)

    def _complete(self, command: Command) -> None:
        """Read what follows the name of a command, and keep it."""
        name = command.name
        if name == "}" and command.addresses:
            raise SedError("} doesn't want any addresses")
        if name == "}":
            if not self.open:
                raise SedError("unexpected `}'")
            self.commands[self.open.pop()].target = len(self.commands)
            return
        if name == "{":
            self.open.append(len(self.commands))
        elif name in "aic":
            command.text = self._text()
        elif name == "s":
            self._substitute(command)
        elif name == "q":
            command.number = int(self._taken(r"[ \t]*(\d{0,9})") or 0)
        elif name not in NO_ARGUMENT:
            raise SedError(f"unknown command: `{name}'")
        if (name == "q" or name in NO_ARGUMENT) and not _ENDS.match(self.script, self.at):
            raise SedError("extra characters after command")
        self.commands.append(command)

    def _text(self) -> str:
        if self._matched(r"[ \t]*(?:\\(?:[ \t]*\n)?|(?=[^\s\\]))") is None:
            raise SedError("expected \\ after `a', `c' or `i'")
        text = self._taken(r"(?:\\[\s\S]|[^\\\n])*")
        return re.sub(r"\\([\s\S])", lambda found: "\t" if found[1] == "t" else found[1], text) + "\n"

    def _substitute(self, command: Command) -> None:
        what = "unterminated `s' command"
        delimiter = self._taken(r"[^\\\n]")
        if not delimiter:
            raise SedError(what)
        source, new = self._delimited(delimiter, what, regex=True), self._delimited(delimiter, what)
        command.flags = self._taken(r"(?:[gpIi]|\d{1,6})*")
        if not _ENDS.match(self.script, self.at):
            raise SedError("unknown option to `s'")
        command.number = int(re.sub(r"\D", "", command.flags)[:6] or 1)
        command.pattern = self._regex(source, command.flags)
        command.parts = _replacement(new)
        groups = command.pattern.groups if command.pattern else 9
        wrong = next((part for part in command.parts if isinstance(part, int) and part > groups), None)
        if wrong is not None:
            raise SedError(f"invalid reference \\{wrong} on `s' command's RHS")


def _replacement(text: str) -> list[str | int]:
    """Split what a match is replaced by; a change of case stays as it is written, with its backslash."""
    out: list[str | int] = []
    for piece in re.findall(r"&|\\[\s\S]|[^&\\]+|\\", text):
        if piece == "&":
            out.append(0)
        elif piece[0] != "\\" or piece == "\\" or piece[1] in "ULEul":
            out.append(piece)
        else:
            plain = {"n": "\n", "t": "\t", "r": "\r"}.get(piece[1], piece[1])
            out.append(int(plain) if plain.isdecimal() else plain)
    return out
