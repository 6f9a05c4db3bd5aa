"""History expansion as bash does it: ``!!``, ``!$``, ``!n``, ``!string``, ``^a^b``, words and modifiers.

The rules are those of the manual of GNU history, https://tiswww.case.edu/php/chet/readline/history.html.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kubesim.shell.quoting import quote

WORD = re.compile(
    r"""\d*(?:>>|<<<|<<-?|<&|>&|>\||<>|<\(|>\(|[<>])|&&|&>>?|\|\||\|&|;;|[;&|()]"""
    r"""|(?:\\.|'[^']*'?|"(?:\\.|[^"\\])*"?|\$\([^)]*\)?|`[^`]*`?|[^\s;&|()<>'"`\\])+""",
    re.DOTALL,
)
NEVER = " \t\n\r="
ENDS = " \t\n:;&()|<>"
ENDS_LATER = "^$*%-"
RANGE = re.compile(r"(\^|\$|\*|%|\d+)?(?:(-)(\d+|\$|\^)?|(\*))?")


class RecallError(Exception):
    """What bash says of an expansion that it cannot do."""


@dataclass
class Recalled:
    """A line after its expansion; ``changed`` where there was one, ``shown_only`` where it is not to be run."""

    text: str
    changed: bool = False
    shown_only: bool = False


class Recall:
    """The expansions of one shell, which remembers its last search and substitution."""

    def __init__(self, history: list[str]) -> None:
        self._history = history
        self._old = self._new = ""
        self._matched = ""
        self._shown_only = False

    def expanded(self, line: str) -> Recalled:
        """Return a line with what it recalls. Raises RecallError."""
        self._shown_only = False
        if line.startswith("^") and len(line) > 1:
            line = f"!!:s{line}"
        elif "!" not in line:
            return Recalled(line)
        out, at, double, changed = "", 0, False, False
        while at < len(line):
            char = line[at]
            size = 1
            if char == "\\":
                size = 2
            elif char == "'" and not double:
                size = (line.find("'", at + 1) + 1 or len(line)) - at
            elif char == '"':
                double = not double
            elif char == "!" and self._recalls(line, at, double):
                text, at = self._one(line, at, out, double)
                out, changed = out + text, True
                continue
            out += line[at : at + size]
            at += size
        return Recalled(out, changed, self._shown_only)

    def _recalls(self, line: str, at: int, double: bool) -> bool:
        """Tell whether an exclamation mark means history, and not a negation, a quote's end or the shell's own."""
        after, before = line[at + 1 : at + 2], line[max(at - 1, 0) : at]
        if after == "" or after in NEVER or double and after == '"':
            return False
        return not (before == "$" or before == "[" and "]" in line[at:] or line[max(at - 2, 0) : at] == "${")

    def _one(self, line: str, at: int, so_far: str, double: bool) -> tuple[str, int]:
        """Return what a mark at a place recalls, and the place after it."""
        event, end = self._event(line, at, so_far, double)
        text, end = self._words(line, end, event)
        while line[end : end + 1] == ":" and end + 1 < len(line):
            text, end = self._modified(line, end + 1, text)
        return text, end

    def _event(self, line: str, at: int, so_far: str, double: bool) -> tuple[str, int]:
        start = at + 1
        char, history = line[start], self._history
        found: str | None = None
        if char == "!":
            found, end = (history[-1] if history else None), start + 1
        elif char in ":^$*%":
            found, end = (history[-1] if history else None), start
        elif char == "#":
            return so_far, start + 1
        elif match := re.compile(r"-?\d+").match(line, start):
            number, end = int(match[0]), match.end()
            place = number - 1 if number > 0 else len(history) + number
            found = history[place] if 0 <= place < len(history) and number else None
        elif char == "?":
            close = line.find("?", start + 1)
            part, end = line[start + 1 : close if close > 0 else None], close + 1 if close > 0 else len(line)
            found = next((old for old in reversed(history) if part in old), None)
            self._matched = next((word for word in words(found or "") if part in word), "")
        else:
            end = start
            while end < len(line) and line[end] not in ENDS and not (end > start and line[end] in ENDS_LATER):
                if double and line[end] == '"':
                    break
                end += 1
            found = next((old for old in reversed(history) if old.startswith(line[start:end])), None)
            found = found if end > start else None
        if found is None:
            raise RecallError(f"{line[at:end]}: event not found")
        return found, end

    def _words(self, line: str, at: int, event: str) -> tuple[str, int]:
        """Return the words of an event that are chosen, all of it where none are."""
        colon = line[at : at + 1] == ":"
        match = RANGE.match(line, at + colon)
        if not match or not match[0] or not colon and match[0][0].isdecimal():
            return event, at
        found = words(event)
        if match[1] == "%":
            return self._matched, match.end()
        first = self._place(match[1] or "0", found)
        if match[1] == "*":
            return " ".join(found[1:]), match.end()
        last = first
        if match[4]:
            last = len(found) - 1
        elif match[2]:
            last = self._place(match[3], found) if match[3] else len(found) - 2
        short = match[4] and first == len(found)
        if not short and (first >= len(found) or last >= len(found) or last < first):
            raise RecallError(f"{line[at : match.end()]}: bad word specifier")
        return " ".join(found[first : last + 1]), match.end()

    def _place(self, text: str, found: list[str]) -> int:
        return {"^": 1, "$": len(found) - 1, "*": 1}.get(text, int(text) if text.isdecimal() else 0)

    def _modified(self, line: str, at: int, text: str) -> tuple[str, int]:
        """Return a text changed by the modifier at a place, and the place after it."""
        start, everywhere = at, False
        while line[at : at + 1] in ("g", "a", "G"):
            at, everywhere = at + 1, True
        char = line[at : at + 1]
        if char == "s":
            at = self._substitution(line, at + 1)
        elif char != "&":
            return self._simple(line, char, text), at + 1
        else:
            at += 1
        if not self._old or self._old not in text:
            raise RecallError(f":{line[start:at]}: substitution failed")
        return text.replace(self._old, self._new.replace("&", self._old), -1 if everywhere else 1), at

    def _substitution(self, line: str, at: int) -> int:
        """Remember the two sides of a substitution; returns the place after them."""
        mark, sides, at = line[at : at + 1], ["", ""], at + 1
        for side in (0, 1):
            while at < len(line) and line[at] != mark:
                at += line[at] == "\\" and line[at + 1 : at + 2] == mark
                sides[side] += line[at]
                at += 1
            at += 1
        self._old, self._new = sides[0] or self._old, sides[1]
        return min(at, len(line))

    def _simple(self, line: str, char: str, text: str) -> str:
        head, slash, tail = text.rpartition("/")
        stem, dot, ending = tail.rpartition(".")
        if char == "p":
            self._shown_only = True
        if char in ("q", "x"):
            parts = [text] if char == "q" else text.split()
            return " ".join(quote(part, always=True) for part in parts)
        found = {"p": text, "h": head or text, "t": tail, "r": head + slash + (stem if dot else tail)}
        found["e"] = dot + ending if dot else ""
        if char not in found:
            raise RecallError(f"{char}: unrecognized history modifier")
        return found[char]


def words(line: str) -> list[str]:
    """Return the words of a line as history counts them."""
    return WORD.findall(line)
