"""History expansion as bash does it: ``!!``, ``!$``, ``!n``, ``!string``, ``!!:2``, ``^a^b``; without modifiers.

The rules are those of the manual of GNU history, https://tiswww.case.edu/php/chet/readline/history.html.
"""

from __future__ import annotations

import re

WORD = re.compile(
    r"""\d*(?:>>|<<<|<<-?|<&|>&|>\||<>|<\(|>\(|[<>])|&&|&>>?|\|\||\|&|;;|[;&|()]"""
    r"""|(?:\\.|'[^']*'?|"(?:\\.|[^"\\])*"?|\$\([^)]*\)?|`[^`]*`?|[^\s;&|()<>'"`\\])+""",
    re.DOTALL,
)
NEVER = " \t\n\r="
ENDS = " \t\n:;&()|<>"
ENDS_LATER = "^$*%-"
CHOSEN = re.compile(r":?(\^|\$|\*)|:(\d+)")
"""The words of an event that are meant."""


class RecallError(Exception):
    """What bash says of an expansion that it cannot do."""


class Recall:
    """The expansions of one shell."""

    def __init__(self, history: list[str]) -> None:
        self._history = history

    def expanded(self, line: str) -> str:
        """Return a line with what it recalls. Raises RecallError."""
        if line.startswith("^") and len(line) > 1:
            return self._substituted(line)
        out, at, double = "", 0, False
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
                event, end = self._event(line, at, double)
                text, at = self._words(line, end, event)
                out += text
                continue
            out += line[at : at + size]
            at += size
        return out

    def _substituted(self, line: str) -> str:
        """Return the line before with one text replaced: ``^old^new``."""
        old, new = [*line[1:].split("^"), ""][:2]
        if not self._history or old not in self._history[-1]:
            raise RecallError(f":s{line}: substitution failed")
        return self._history[-1].replace(old, new, 1)

    def _recalls(self, line: str, at: int, double: bool) -> bool:
        """Tell whether an exclamation mark means history, and not a negation, a quote's end or the shell's own."""
        after, before = line[at + 1 : at + 2], line[max(at - 1, 0) : at]
        if after == "" or after in NEVER or double and after == '"':
            return False
        return not (before == "$" or before == "[" and "]" in line[at:] or line[max(at - 2, 0) : at] == "${")

    def _event(self, line: str, at: int, double: bool) -> tuple[str, int]:
        start = at + 1
        char, history = line[start], self._history
        found: str | None = None
        if char == "!":
            found, end = (history[-1] if history else None), start + 1
        elif char in ":^$*":
            found, end = (history[-1] if history else None), start
        elif match := re.compile(r"-?\d+").match(line, start):
            number, end = int(match[0]), match.end()
            place = number - 1 if number > 0 else len(history) + number
            found = history[place] if 0 <= place < len(history) and number else None
        elif char == "?":
            close = line.find("?", start + 1)
            part, end = line[start + 1 : close if close > 0 else None], close + 1 if close > 0 else len(line)
            found = next((old for old in reversed(history) if part in old), None)
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
        """Return the words of an event that are chosen, all of it where none are, and the place after the choice."""
        match = CHOSEN.match(line, at)
        if match is None:
            return event, at
        found = WORD.findall(event)
        if match[1] == "*":
            return " ".join(found[1:]), match.end()
        place = {"^": 1, "$": len(found) - 1}.get(match[1], int(match[2] or 0))
        if place >= len(found):
            raise RecallError(f"{match[0]}: bad word specifier")
        return found[place], match.end()
