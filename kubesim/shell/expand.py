"""Expansion of words: parameters, commands, arithmetic, splitting, file names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kubesim.shell import parameters, patterns
from kubesim.shell.arith import ArithError, evaluate
from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory
from kubesim.shell.nodes import Arith, Array, Param, Part, Piece, Pieces, ProcSub, Sub, Text, Word
from kubesim.shell.state import OutOfMemory, ShellError

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

LONGEST = 1 << 20
MOST_FIELDS = 60_000
MOST_LOOKED_AT = 50_000


class Expander:
    """Expands words for one shell."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    async def fields(self, words: tuple[Word, ...] | list[Word]) -> list[str]:
        """Return the arguments that words become."""
        found: list[str] = []
        size = 0
        for word in words:
            for single in patterns.braces(word):
                plain = _plain(single)
                more = [plain] if plain is not None else await self._fields(single)
                found.extend(more)
                size += sum(map(len, more))
                if len(found) > MOST_FIELDS or size > LONGEST:
                    raise OutOfMemory("memory exhausted", 2)
        return found

    async def _fields(self, word: Word) -> list[str]:
        pieces = await self.pieces(word)
        fields = split(pieces, self._ifs())
        if "noglob" in self.shell.state.options:
            return ["".join(text for text, _ in field) for field in fields]
        found = []
        for field in fields:
            found.extend(await self._glob(field))
        return found

    def _ifs(self) -> str:
        value = self.shell.state.get("IFS")
        return " \t\n" if value is None else value

    async def value(self, word: Word) -> str:
        """Return a word as one text: what is assigned, compared or a file name."""
        pieces = await self.pieces(word, assigning=True)
        text = "".join(" " if piece is None else piece.text for piece in pieces)
        self._bound(len(text))
        return text

    async def pattern(self, word: Word) -> patterns.Chars:
        """Return a word as a pattern, knowing what is quoted."""
        return tuple((piece.text, piece.quoted) for piece in await self.pieces(word) if piece)

    def _bound(self, size: int) -> None:
        if size > LONGEST:
            raise OutOfMemory(f"xrealloc: cannot allocate {size} bytes", 2)

    async def pieces(self, word: Word, *, assigning: bool = False, splitting: bool = False) -> Pieces:
        """Return what a word's parts give, one after the other."""
        found: Pieces = []
        size = 0
        for index, part in enumerate(word):
            if isinstance(part, Text):
                text = part.value
                if not part.quoted and "~" in text and (index == 0 or assigning):
                    text = self._tilde(text, first=index == 0, assigning=assigning, last=index == len(word) - 1)
                    if text != part.value:
                        found.append(Piece(text, True))
                        continue
                found.append(Piece(text, part.quoted, splitting and not part.quoted))
                size += len(text)
            else:
                more = await self._part(part)
                found.extend(more)
                size += sum(len(piece.text) for piece in more if piece)
            self._bound(size)
        return found

    async def _part(self, part: Part) -> Pieces:
        if isinstance(part, Param):
            return await parameters.expand(self, part)
        if isinstance(part, Sub):
            return [Piece(await self.shell.substitute(part.body), part.quoted, not part.quoted)]
        if isinstance(part, Arith):
            value = await self.calculate(part.text)
            return [Piece(str(value), part.quoted, not part.quoted)]
        if isinstance(part, ProcSub):
            return [Piece(await self.shell.process_substitution(part.body, part.direction), True)]
        if isinstance(part, Array):
            raise ShellError("syntax error near unexpected token `('", 2)
        return []

    async def calculate(self, word: Word) -> int:
        """Return the value of an arithmetic expression after its own expansion."""
        text = await self.value(word)
        return self.arithmetic(text)

    def arithmetic(self, text: str) -> int:
        """Return the value of an arithmetic expression."""
        try:
            return evaluate(text, self.shell)
        except ArithError as error:
            raise ShellError(f"{text}: {error}") from error

    def _tilde(self, text: str, *, first: bool, assigning: bool, last: bool) -> str:
        if not first or not text.startswith("~"):
            if assigning and ":~" in text:
                return re.sub(r":~(?=/|:|$)", lambda match: ":" + self._home(""), text)
            return re.sub(r"=~(?=/|$)", lambda match: "=" + self._home(""), text) if assigning else text
        name, slash, rest = text[1:].partition("/")
        if not slash and not last:
            return text
        if name and not re.fullmatch(r"[\w.-]+|[+-]", name):
            return text
        home = self._home(name)
        return home + slash + rest if home else text

    def _home(self, name: str) -> str:
        state = self.shell.state
        if name in ("+", "-"):
            return state.get("PWD" if name == "+" else "OLDPWD") or "~" + name
        if not name:
            return state.get("HOME") or "/root"
        for line in self.shell.users():
            if line[0] == name and len(line) > 5:
                return line[5]
        return ""

    # file names

    async def _glob(self, field: patterns.Chars) -> list[str]:
        text = "".join(piece for piece, _ in field)
        if not patterns.has_magic(field):
            return [text]
        found = await self.paths(field)
        if not found and "nullglob" in self.shell.state.shopt:
            return []
        return found or [text]

    async def paths(self, field: patterns.Chars) -> list[str]:
        """Return the sorted names of files that match a pattern."""
        parts: list[list[tuple[str, bool]]] = [[]]
        for text, quoted in field:
            for index, piece in enumerate(text.split("/")):
                if index:
                    parts.append([])
                if piece:
                    parts[-1].append((piece, quoted))
        budget = [MOST_LOOKED_AT]
        starts = ["/"] if not parts[0] and len(parts) > 1 else [""]
        if starts == ["/"]:
            parts = parts[1:]
        for index, part in enumerate(parts):
            starts = await self._below(starts, tuple(part), last=index == len(parts) - 1, budget=budget)
        return sorted(starts)

    async def _below(self, starts: list[str], part: patterns.Chars, *, last: bool, budget: list[int]) -> list[str]:
        found: list[str] = []
        plain = "".join(text for text, _ in part)
        tail = "" if last else "/"
        view = self.shell.process.view
        for start in starts:
            if not patterns.has_magic(part):
                if not plain or view.find(start + plain, follow=not last) is not None:
                    found.append(start + plain + tail if plain else start)
                continue
            for name in self._names(start or "."):
                budget[0] -= 1
                if budget[0] < 0:
                    return found
                await self.shell.process.tick()
                if self._fits(part, name) and (last or isinstance(view.find(start + name), Directory)):
                    found.append(start + name + tail)
        return found

    def _names(self, folder: str) -> list[str]:
        try:
            return [*self.shell.process.view.directory(folder).names(), ".", ".."]
        except FileError:
            return []

    def _fits(self, part: patterns.Chars, name: str) -> bool:
        hidden = part[0][0].startswith(".")
        if name in (".", ".."):
            return False
        if name.startswith(".") and not hidden and "dotglob" not in self.shell.state.shopt:
            return False
        return patterns.matches(part, name, extended="extglob" in self.shell.state.shopt)


def _plain(word: Word) -> str | None:
    """Return a word that needs no expansion as it is: most of them."""
    if len(word) == 1 and isinstance(word[0], Text):
        text = word[0].value
        if word[0].quoted or not any(char in text for char in "~*?["):
            return text
    return None


def split(pieces: Pieces, ifs: str) -> list[patterns.Chars]:
    """Split what is unquoted at the characters of IFS; what is left of pieces side by side is one field."""
    fields: list[patterns.Chars] = []
    current: list[tuple[str, bool]] | None = None
    for piece in pieces:
        if piece is None:
            if current is not None:
                fields.append(tuple(current))
            current = None
        elif not piece.split or not ifs:
            if piece.text or piece.quoted:
                current = [*(current or []), (piece.text, piece.quoted)]
        else:
            words, begins, ends = cut(piece.text, ifs)
            if begins and current is not None:
                fields.append(tuple(current))
                current = None
            for index, word in enumerate(words):
                if index:
                    fields.append(tuple(current or [("", True)]))
                    current = None
                current = [*(current or []), (word, False)] if word else current or [("", True)]
            if ends and current is not None:
                fields.append(tuple(current))
                current = None
    if current is not None:
        fields.append(tuple(current))
    return fields


def cut(text: str, ifs: str) -> tuple[list[str], bool, bool]:
    """Return the words of a text, and whether separators stand before the first and after the last."""
    blank = "".join(char for char in ifs if char in " \t\n")
    hard = "".join(char for char in ifs if char not in " \t\n")
    if not hard:
        inner = text.strip(blank)
        words = re.split(f"[{re.escape(blank)}]+", inner) if inner else []
        return words, text[:1] in blank and bool(text), text[-1:] in blank and bool(text)
    inner = text.lstrip(blank) if blank else text
    begins = len(inner) < len(text)
    spaces = f"[{re.escape(blank)}]*" if blank else ""
    runs = f"|[{re.escape(blank)}]+" if blank else ""
    words = re.split(f"{spaces}[{re.escape(hard)}]{spaces}{runs}", inner)
    ends = len(words) > 1 and not words[-1]
    if ends or words == [""]:
        words = words[:-1]
    return words, begins, ends
