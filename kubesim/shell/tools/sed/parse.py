"""The grammar of sed's scripts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kubesim.shell import regexes


class SedError(Exception):
    """A script that cannot be run."""


@dataclass
class Address:
    """A line number, ``$``, a pattern, ``first~step``; ``offset`` is for ``+3`` after a comma."""

    kind: str
    number: int = 0
    step: int = 0
    pattern: Any = None


@dataclass
class Command:
    """One command with its addresses."""

    name: str
    addresses: list[Address] = field(default_factory=list)
    negated: bool = False
    text: str = ""
    pattern: Any = None
    parts: list[str | int] = field(default_factory=list)
    flags: str = ""
    number: int = 0
    file: str = ""
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
        self.labels: dict[str, int] = {}
        self.open: list[int] = []
        self.last: Any = None

    def parse(self) -> list[Command]:
        while True:
            self._skip(" \t\n;")
            if self.at >= len(self.script):
                break
            self._command()
        if self.open:
            raise SedError("unmatched `{'")
        for command in self.commands:
            if command.name in "btT" and command.text:
                if command.text not in self.labels:
                    raise SedError(f"can't find label for jump to `{command.text}'")
                command.target = self.labels[command.text]
            elif command.name in "btT":
                command.target = len(self.commands)
        return self.commands

    def _skip(self, chars: str) -> None:
        while self.at < len(self.script) and self.script[self.at] in chars:
            self.at += 1

    def _peek(self) -> str:
        return self.script[self.at : self.at + 1]

    def _command(self) -> None:
        if self._peek() == "#":
            self._line()
            return
        command = Command("")
        first = self._address()
        if first:
            command.addresses.append(first)
            self._skip(" \t")
            if self._peek() == ",":
                self.at += 1
                self._skip(" \t")
                second = self._address(second=True)
                if not second:
                    raise SedError("unexpected `,'")
                command.addresses.append(second)
        self._skip(" \t")
        while self._peek() == "!":
            command.negated = True
            self.at += 1
            self._skip(" \t")
        command.name = self._peek()
        self.at += 1
        if not command.name:
            raise SedError("missing command")
        self._arguments(command)

    def _address(self, *, second: bool = False) -> Address | None:
        match = re.compile(r"(\d{1,9})(?:~(\d{1,9}))?").match(self.script, self.at)
        if match:
            self.at = match.end()
            if match[2]:
                return Address("step", int(match[1]), int(match[2]))
            return Address("line", int(match[1]))
        char = self._peek()
        if char == "$":
            self.at += 1
            return Address("last")
        if second and char in "+~":
            match = re.compile(r"[+~](\d{1,9})").match(self.script, self.at)
            if match:
                self.at = match.end()
                return Address("plus" if char == "+" else "multiple", int(match[1]))
        if char in ("/", "\\") and char:
            if char == "\\":
                self.at += 1
            delimiter = self._peek()
            self.at += 1
            source = self._delimited(delimiter, what="unterminated address regex", regex=True)
            flags = re.compile(r"[IM]*").match(self.script, self.at)
            self.at = flags.end() if flags else self.at
            return Address("pattern", pattern=self._regex(source, flags[0] if flags else ""))
        return None

    def _regex(self, source: str, flags: str = "") -> Any:
        if not source:
            return None
        try:
            return regexes.compile_posix(
                source, extended=self.extended, ignore_case="I" in flags or "i" in flags, multiline="M" in flags
            )
        except regexes.RegexError as error:
            raise SedError(str(error)) from error

    def _delimited(self, delimiter: str, *, what: str, regex: bool = False) -> str:
        out = []
        inside = False
        while self.at < len(self.script):
            char = self.script[self.at]
            if char == "\\" and self.at + 1 < len(self.script):
                following = self.script[self.at + 1]
                if following == delimiter and not (inside and delimiter != "/"):
                    out.append(following)
                elif following == "\n":
                    out.append("\\\n")
                else:
                    out.append(char + following)
                self.at += 2
                continue
            if char == "[" and not inside and regex:
                inside = True
                match = re.compile(r"\[\^?\]?").match(self.script, self.at)
                out.append(match[0] if match else char)
                self.at += len(match[0]) if match else 1
                continue
            if char == "]" and inside:
                inside = False
            if char == delimiter and not inside:
                self.at += 1
                return "".join(out)
            out.append(char)
            self.at += 1
        raise SedError(what)

    def _line(self) -> str:
        end = self.script.find("\n", self.at)
        end = len(self.script) if end < 0 else end
        text = self.script[self.at : end]
        self.at = end + 1
        return text

    def _arguments(self, command: Command) -> None:
        name = command.name
        if name == "{":
            self.open.append(len(self.commands))
            self.commands.append(command)
            return
        if name == "}":
            if not self.open:
                raise SedError("unexpected `}'")
            if command.addresses:
                raise SedError("} doesn't want any addresses")
            self.commands[self.open.pop()].target = len(self.commands)
            return
        if name == ":":
            if command.addresses:
                raise SedError(": doesn't want any addresses")
            match = re.compile(r"\s*([^\s;]+)").match(self.script, self.at)
            if not match:
                raise SedError('":" lacks a label')
            self.at = match.end()
            self.labels[match[1]] = len(self.commands)
            return
        self._plain(command, name)
        self.commands.append(command)

    def _plain(self, command: Command, name: str) -> None:
        if name in "btT":
            match = re.compile(r"[ \t]*([^\s;}]*)").match(self.script, self.at)
            command.text, self.at = (match[1], match.end()) if match else ("", self.at)
        elif name in "aic":
            command.text = self._text()
        elif name == "s":
            self._substitute(command)
        elif name == "y":
            self._transliterate(command)
        elif name in "rwR":
            command.file = self._line().strip()
            if not command.file:
                raise SedError("missing filename in r/R/w/W commands")
        elif name in "qQlL":
            match = re.compile(r"\s*(\d{0,9})").match(self.script, self.at)
            command.number = int(match[1] or 0) if match else 0
            self.at = match.end() if match else self.at
            self._end()
        elif name in "dDgGhHnNpPxz=F":
            self._end()
        else:
            raise SedError(f"unknown command: `{name}'")

    def _end(self) -> None:
        self._skip(" \t")
        if self._peek() not in ("", ";", "\n", "}", "#"):
            raise SedError("extra characters after command")

    def _text(self) -> str:
        self._skip(" \t")
        if self._peek() == "\\":
            self.at += 1
            self._skip(" \t")
            if self._peek() == "\n":
                self.at += 1
        elif not self._peek() or self._peek() == "\n":
            raise SedError("expected \\ after `a', `c' or `i'")
        out = []
        while self.at < len(self.script) and self.script[self.at] != "\n":
            if self.script[self.at] == "\\" and self.at + 1 < len(self.script):
                self.at += 1
                if self.script[self.at] == "t":
                    out.append("\t")
                    self.at += 1
                    continue
            out.append(self.script[self.at])
            self.at += 1
        return "".join(out) + "\n"

    def _substitute(self, command: Command) -> None:
        delimiter = self._peek()
        self.at += 1
        if not delimiter or delimiter in "\n\\":
            raise SedError("unterminated `s' command")
        source = self._delimited(delimiter, what="unterminated `s' command", regex=True)
        replacement = self._delimited(delimiter, what="unterminated `s' command")
        match = re.compile(r"(?:[gpiIeMm]|\d{1,6})*").match(self.script, self.at)
        command.flags = match[0] if match else ""
        self.at = match.end() if match else self.at
        if self._peek() == "w":
            self.at += 1
            command.file = self._line().strip()
        else:
            self._skip(" \t")
            if self._peek() not in ("", ";", "\n", "}", "#"):
                raise SedError("unknown option to `s'")
        number = re.search(r"\d+", command.flags)
        command.number = int(number[0]) if number else 1
        command.pattern = self._regex(source, command.flags)
        command.parts = _replacement(replacement)
        groups = command.pattern.groups if command.pattern else 9
        for part in command.parts:
            if isinstance(part, int) and part > groups:
                raise SedError(f"invalid reference \\{part} on `s' command's RHS")

    def _transliterate(self, command: Command) -> None:
        delimiter = self._peek()
        self.at += 1
        old = self._delimited(delimiter, what="unterminated `y' command").replace("\\n", "\n").replace("\\\\", "\\")
        new = self._delimited(delimiter, what="unterminated `y' command").replace("\\n", "\n").replace("\\\\", "\\")
        if len(old) != len(new):
            raise SedError("strings for `y' command are different lengths")
        command.pattern = str.maketrans(old, new)


def _replacement(text: str) -> list[str | int]:
    """Split what a match is replaced by: text, group numbers, and ``\\U`` and its like as "\\0U"."""
    out: list[str | int] = [""]
    at = 0
    while at < len(text):
        char = text[at]
        if char == "&":
            out += [0, ""]
        elif char == "\\" and at + 1 < len(text):
            at += 1
            follower = text[at]
            if follower.isdecimal():
                out += [int(follower), ""]
            elif follower in "ULEul":
                out += [f"\0{follower}", ""]
            else:
                out[-1] = str(out[-1]) + {"n": "\n", "t": "\t", "r": "\r"}.get(follower, follower)
        else:
            out[-1] = str(out[-1]) + char
        at += 1
    return [part for part in out if part != ""]
