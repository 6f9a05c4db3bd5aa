"""The variables, arrays and fields of a running awk program."""

from __future__ import annotations

from typing import Any

from kubesim.shell import regexes
from kubesim.shell.machine import Process
from kubesim.shell.tools.awk.values import MOST_FIELDS, AwkError, StrNum, Value, given, number, shown, whole

DEFAULTS = {"FS": " ", "OFS": " ", "ORS": "\n", "RS": "\n", "SUBSEP": "\x1c", "CONVFMT": "%.6g", "OFMT": "%.6g"}


class State:
    """Variables and fields of one run."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.globals: dict[str, Any] = {
            **DEFAULTS,
            **dict.fromkeys(("NF", "NR", "FNR", "RSTART"), 0.0),
            "RLENGTH": -1.0,
            "FILENAME": "",
            "ENVIRON": {name: given(text) for name, text in process.env.items()},
        }
        self.fields: list[Value] = [""]
        self.elements = 0

    def text(self, value: Value, *, output: bool = False) -> str:
        """Return a value as text, as ``print`` writes it where it is for output."""
        if isinstance(value, str):
            return value
        return "" if value is None else shown(value, str(self.globals["OFMT" if output else "CONVFMT"]))

    def truth(self, value: Value) -> bool:
        """Tell whether a value counts as true."""
        return number(value) != 0 if isinstance(value, StrNum | float) else bool(value)

    def get(self, name: str) -> Any:
        """Return the value of a variable."""
        return float(len(self.fields) - 1) if name == "NF" else self.globals.get(name)

    def set(self, name: str, value: Value) -> None:
        """Give a variable a value; NF changes the record."""
        if name == "NF":
            self._resize(whole(value))
        else:
            self.globals[name] = value

    def array(self, name: str) -> dict[str, Value]:
        """Return an array, made by its first use."""
        found = self.globals.setdefault(name, {})
        if not isinstance(found, dict):
            raise AwkError(f"can't use scalar {name} as array")
        return found

    def record(self, line: str) -> None:
        """Split a line into fields."""
        self.fields = [given(line), *self.split(line, str(self.globals["FS"]))]

    def split(self, line: str, separator: str) -> list[Value]:
        """Return the pieces of a text."""
        if separator == " ":
            pieces = line.split()
        elif not line:
            pieces = []
        elif len(separator) == 1 and separator not in "\\|.*+?^$([{":
            pieces = line.split(separator)
        else:
            pieces = self._split_regex(line, separator) if separator else list(line)
        if len(pieces) > MOST_FIELDS:
            raise AwkError("too many fields")
        return [given(piece) for piece in pieces]

    def _split_regex(self, line: str, separator: str) -> list[str]:
        compiled = self.regex("\\" + separator if len(separator) == 1 and separator != "\\" else separator)
        pieces, at, start = [], 0, 0
        while at <= len(line) and (match := regexes.search(compiled, line, at)):
            if match.end() == match.start():
                at += 1
                continue
            pieces.append(line[start : match.start()])
            at = start = match.end()
        return [*pieces, line[start:]]

    def regex(self, source: str) -> Any:
        """Return a regular expression, compiled."""
        try:
            return regexes.compile_posix(source, extended=True)
        except regexes.RegexError as error:
            raise AwkError(f"regular expression compile failed ({error})\n{source}") from error

    def _resize(self, count: int) -> None:
        if not 0 <= count <= MOST_FIELDS:
            raise AwkError("NF out of range")
        del self.fields[count + 1 :]
        self.fields += [""] * (count + 1 - len(self.fields))
        self._rebuild()

    def _rebuild(self) -> None:
        self.fields[0] = str(self.globals["OFS"]).join(self.text(field) for field in self.fields[1:])

    def set_field(self, index: int, value: Value) -> None:
        """Change a field, and with it the record."""
        if not 0 <= index <= MOST_FIELDS:
            raise AwkError("access to negative field" if index < 0 else "too many fields")
        if index == 0:
            self.record(self.text(value))
            return
        self.fields += [""] * (index + 1 - len(self.fields))
        self.fields[index] = value
        self._rebuild()
