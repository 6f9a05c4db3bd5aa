"""The functions that awk brings along."""

from __future__ import annotations

import math
import random
import re
from datetime import UTC, datetime
from typing import Any

from kubesim.shell import regexes
from kubesim.shell.machine import Process
from kubesim.shell.printf import FormatError, Formatter
from kubesim.shell.tools.awk.expressions import Expressions
from kubesim.shell.tools.awk.operators import Expr
from kubesim.shell.tools.awk.parse import Parser
from kubesim.shell.tools.awk.values import LONGEST, AwkError, StrNum, Value, number
from kubesim.shell.tools.xargs import run


class Functions(Expressions):
    """The builtin functions of one run."""

    def __init__(self, process: Process, program: Parser) -> None:
        super().__init__(process, program)
        self.random = random.Random(1)

    # builtins

    async def _builtin(self, node: Expr) -> Value:
        _, name, args = node
        if name == "length":
            return await self._length(args)
        if name in ("sub", "gsub"):
            return await self._sub(name, args)
        if name == "split":
            return await self._split(args)
        if name == "match":
            match = regexes.search(await self.pattern(args[1]), self.text(await self.eval(args[0])))
            self.globals["RSTART"] = float(match.start() + 1) if match else 0.0
            self.globals["RLENGTH"] = float(match.end() - match.start()) if match else -1.0
            return self.globals["RSTART"]
        if name == "gensub":
            return await self._gensub(args)
        values = [await self.eval(arg) for arg in args]
        if name in ("system", "close", "fflush"):
            return await self._world(name, values)
        return self._pure(name, values)

    async def _length(self, args: list[Expr]) -> Value:
        if not args:
            return float(len(self.text(self.fields[0])))
        if args[0][0] == "var" and isinstance(self.get(args[0][1]), dict):
            return float(len(self.get(args[0][1])))
        return float(len(self.text(await self.eval(args[0]))))

    def _pure(self, name: str, values: list[Value]) -> Value:
        texts = [self.text(value) for value in values] or [""]
        if name == "substr":
            return self._substr(texts[0], values)
        if name == "index":
            return float(texts[0].find(texts[1]) + 1)
        if name in ("tolower", "toupper"):
            return texts[0].lower() if name == "tolower" else texts[0].upper()
        if name == "sprintf":
            return self.format(texts[0], values[1:])
        if name == "rand":
            return self.random.random()
        if name == "srand":
            self.random.seed(number(values[0]) if values else self.process.machine.now())
            return 0.0
        if name == "systime":
            return float(int(self.process.machine.now()))
        if name == "strftime":
            moment = number(values[1]) if len(values) > 1 else self.process.machine.now()
            return datetime.fromtimestamp(min(max(moment, 0), 4e9), UTC).strftime(texts[0] or "%c")
        return self._math(name, [number(value) for value in values] or [0.0])

    def _math(self, name: str, numbers: list[float]) -> float:
        try:
            if name == "int":
                return float(math.trunc(numbers[0]))
            if name == "atan2":
                return math.atan2(numbers[0], numbers[1])
            return float(getattr(math, name)(numbers[0]))
        except (ValueError, OverflowError, IndexError):
            return math.nan

    def _substr(self, text: str, values: list[Value]) -> str:
        start = round(number(values[1])) if len(values) > 1 and math.isfinite(number(values[1])) else 1
        if len(values) > 2 and math.isfinite(number(values[2])):
            end = start + round(number(values[2]))
        else:
            end = len(text) + 1
        return text[max(start, 1) - 1 : max(end, 1) - 1]

    async def _sub(self, name: str, args: list[Expr]) -> Value:
        compiled = await self.pattern(args[0])
        new = self.text(await self.eval(args[1]))
        target = args[2] if len(args) > 2 else ("field", ("number", 0.0))
        text = self.text(await self.eval(target))
        count, out = self.replace(compiled, new, text, everywhere=name == "gsub")
        if count and target[0] in ("var", "field", "element"):
            await self.store(target, out)
        return float(count)

    def replace(self, compiled: Any, new: str, text: str, *, everywhere: bool) -> tuple[int, str]:
        """Replace matches; ``&`` in the new text is what matched."""
        pieces = [piece.replace("\\\\", "\\").replace("\\&", "&") for piece in re.split(r"(?<!\\)&", new)]
        out, at, count, size = [], 0, 0, 0
        while at <= len(text):
            match = regexes.search(compiled, text, at)
            if not match:
                break
            count += 1
            out += [text[at : match.start()], match[0].join(pieces)]
            size += len(out[-1])
            if size > LONGEST:
                raise AwkError("out of memory")
            at = match.end()
            if match.end() == match.start():
                out.append(text[at : at + 1])
                at += 1
            if not everywhere:
                break
        return count, "".join(out) + text[at:]

    async def _gensub(self, args: list[Expr]) -> Value:
        compiled = await self.pattern(args[0])
        new, how = self.text(await self.eval(args[1])), self.text(await self.eval(args[2]))
        text = self.text(await self.eval(args[3])) if len(args) > 3 else self.text(self.fields[0])
        out, at, count = [], 0, 0
        while at <= len(text) and (match := regexes.search(compiled, text, at)):
            count += 1
            out.append(text[at : match.start()])
            hit = how[:1] in ("g", "G") or count == int(number(how) or 1)
            piece = match[0]
            if hit:
                piece = _filled(new, [match[0], *match.groups("")])
            out.append(piece)
            at = match.end() + (match.end() == match.start())
            out.append(text[match.end() : at])
        return "".join(out) + text[at:]

    async def _split(self, args: list[Expr]) -> Value:
        text = self.text(await self.eval(args[0]))
        if len(args) < 3:
            separator = str(self.globals["FS"])
        else:
            separator = args[2][1] if args[2][0] == "regex" else self.text(await self.eval(args[2]))
        pieces = self.split(text, separator)
        array = self.array(args[1][1])
        array.clear()
        array.update({str(index): piece for index, piece in enumerate(pieces, 1)})
        return float(len(pieces))

    async def _world(self, name: str, values: list[Value]) -> Value:
        if name == "system":
            return float(await run(self.process, ["sh", "-c", self.text(values[0])]))
        if name == "close":
            self.inputs.pop(self.text(values[0]), None)
            return float(await self.close(self.text(values[0])))
        await self.process.flush()
        return 0.0

    def format(self, form: str, values: list[Value]) -> str:
        """Do what sprintf does."""
        args = [self.text(value) for value in values]
        for index, match in enumerate(
            re.finditer(r"%[-+ #0']*\*?\d*(?:\.\d*)?([a-zA-Z%])", form.replace("%%", "\0\0"))
        ):
            if index < len(values):
                if (
                    match[1] == "c"
                    and isinstance(values[index], float | StrNum)
                    and not isinstance(values[index], str)
                ):
                    args[index] = chr(int(number(values[index])) & 0x10FFFF)
                elif match[1] in "dixXou":
                    amount = number(values[index])
                    args[index] = str(int(amount)) if math.isfinite(amount) else "0"
                elif match[1] in "eEfFgG":
                    args[index] = repr(number(values[index]))
        formatter = Formatter(form.replace("\\", "\\\\"), args, quoting=True, now=self.process.machine.now)
        try:
            return formatter.once()
        except FormatError as error:
            raise AwkError(f"bad conversion: {error}") from error


def _filled(new: str, groups: list[str]) -> str:
    """Return a replacement of gensub with its groups."""
    return re.sub(r"\\(\d)", lambda found: groups[int(found[1])] if int(found[1]) < len(groups) else "", new)
