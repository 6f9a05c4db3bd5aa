"""awk: runs what ``awk_parse`` has read."""

from __future__ import annotations

import math
import random
import re
from datetime import UTC, datetime
from typing import Any

from kubesim.shell import regexes
from kubesim.shell.errors import FileError, Leave, StartError
from kubesim.shell.handles import Capture, Handle, Pipe
from kubesim.shell.machine import Process, Tool
from kubesim.shell.printf import FormatError, Formatter
from kubesim.shell.tools import kit
from kubesim.shell.tools.awk_parse import AwkSyntaxError, Expr, Parser, unescape
from kubesim.shell.tools.paths import run

LONGEST = 1 << 20
MOST_FIELDS = 20_000
MOST_ELEMENTS = 200_000
MOST_CALLS = 150
_NUMBER = re.compile(r"\s*([+-]?(?:\d{1,300}\.?\d{0,300}|\.\d{1,300})(?:[eE][+-]?\d{1,4})?)")


class StrNum(str):
    """Text from outside that looks like a number and compares as one."""

    __slots__ = ()


Value = Any  # float, str, StrNum, or None where unset


class AwkError(Exception):
    """A run that cannot go on."""


class _Jump(Exception):
    """next, exit, break, continue and return, with what they carry."""

    def __init__(self, kind: str, value: Value = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.value = value


def number(value: Value) -> float:
    """Return a value as a number."""
    if isinstance(value, float):
        return value
    if not value:
        return 0.0
    match = _NUMBER.match(value)
    try:
        return float(match[1]) if match else 0.0
    except (ValueError, OverflowError):
        return 0.0


def given(text: str) -> Value:
    """Return text from outside: a number if it looks like one."""
    match = _NUMBER.match(text)
    return StrNum(text) if match and not text[match.end() :].strip() else text


def shown(value: float, form: str) -> str:
    """Return a number as text."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e16:
        return str(int(value))
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    try:
        return form % value
    except (TypeError, ValueError):
        return f"{value:.6g}"


class Runner:
    """One program over its input."""

    def __init__(self, process: Process, program: Parser) -> None:
        self.process = process
        self.program = program
        self.globals: dict[str, Any] = {
            "FS": " ",
            "OFS": " ",
            "ORS": "\n",
            "RS": "\n",
            "NF": 0.0,
            "NR": 0.0,
            "FNR": 0.0,
            "SUBSEP": "\x1c",
            "CONVFMT": "%.6g",
            "OFMT": "%.6g",
            "RSTART": 0.0,
            "RLENGTH": -1.0,
            "FILENAME": "",
            "ENVIRON": {name: given(text) for name, text in process.env.items()},
        }
        self.locals: list[dict[str, Any]] = []
        self.fields: list[Value] = [""]
        self.outputs: dict[str, tuple[Handle, Any]] = {}
        self.inputs: dict[str, _Input] = {}
        self.main: _Input | None = None
        self.names: list[str] = []
        self.active: set[int] = set()
        self.status = 0
        self.random = random.Random(1)
        self.elements = 0

    # values

    def text(self, value: Value, *, output: bool = False) -> str:
        if isinstance(value, str):
            return value
        if value is None:
            return ""
        return shown(value, str(self.globals["OFMT" if output else "CONVFMT"]))

    def truth(self, value: Value) -> bool:
        if isinstance(value, StrNum):
            return number(value) != 0
        return value != 0.0 if isinstance(value, float) else bool(value)

    def get(self, name: str) -> Any:
        if self.locals and name in self.locals[-1]:
            return self.locals[-1][name]
        if name == "NF":
            return float(len(self.fields) - 1)
        return self.globals.get(name)

    def set(self, name: str, value: Value) -> None:
        if self.locals and name in self.locals[-1]:
            self.locals[-1][name] = value
        elif name == "NF":
            self._resize(int(number(value)))
        else:
            self.globals[name] = value

    def array(self, name: str) -> dict[str, Value]:
        scope = self.locals[-1] if self.locals and name in self.locals[-1] else self.globals
        found = scope.get(name)
        if found is None:
            found = scope[name] = {}
        if not isinstance(found, dict):
            raise AwkError(f"can't use scalar {name} as array")
        return found

    def record(self, line: str) -> None:
        """Split a line into fields."""
        self.fields = [given(line), *self.split(line, str(self.globals["FS"]))]

    def split(self, line: str, separator: str) -> list[Value]:
        if separator == " ":
            pieces = line.split()
        elif not line:
            pieces = []
        elif len(separator) == 1 and separator != " " and separator not in "\\|.*+?^$([{":
            pieces = line.split(separator)
        elif separator == "":
            pieces = list(line)
        else:
            pieces = self._split_regex(line, separator)
        if len(pieces) > MOST_FIELDS:
            raise AwkError("too many fields")
        return [given(piece) for piece in pieces]

    def _split_regex(self, line: str, separator: str) -> list[str]:
        compiled = self.regex("\\" + separator if len(separator) == 1 and separator != "\\" else separator)
        pieces, at, start = [], 0, 0
        while at <= len(line):
            match = regexes.search(compiled, line, at)
            if not match:
                break
            if match.end() == match.start():
                at += 1
                continue
            pieces.append(line[start : match.start()])
            at = start = match.end()
        return [*pieces, line[start:]]

    def regex(self, source: str) -> Any:
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
        if not 0 <= index <= MOST_FIELDS:
            raise AwkError("access to negative field" if index < 0 else "too many fields")
        if index == 0:
            self.record(self.text(value))
            return
        self.fields += [""] * (index + 1 - len(self.fields))
        self.fields[index] = value
        self._rebuild()

    async def key(self, subscripts: list[Expr]) -> str:
        parts = [self.text(await self.eval(each)) for each in subscripts]
        return str(self.globals["SUBSEP"]).join(parts)

    # expressions

    async def eval(self, node: Expr) -> Value:
        kind = node[0]
        if kind == "number" or kind == "string":
            return node[1]
        if kind == "var":
            value = self.get(node[1])
            if isinstance(value, dict):
                raise AwkError(f"can't use array {node[1]} in scalar context")
            return value
        if kind == "field":
            index = int(number(await self.eval(node[1])))
            if index < 0:
                raise AwkError(f"attempt to access field {index}")
            return self.fields[index] if index < len(self.fields) else None
        result: Value = await getattr(self, "_" + kind)(node)
        return result

    async def _element(self, node: Expr) -> Value:
        array = self.array(node[1])
        key = await self.key(node[2])
        if key not in array:
            self._grow()
            array[key] = None
        return array[key]

    def _grow(self) -> None:
        self.elements += 1
        if self.elements > MOST_ELEMENTS:
            raise AwkError("out of memory")

    async def _group(self, node: Expr) -> Value:
        if len(node[1]) == 1:
            return await self.eval(node[1][0])
        return await self.key(node[1])

    async def _regex(self, node: Expr) -> Value:
        return float(regexes.search(self.regex(node[1]), self.text(self.fields[0])) is not None)

    async def _assign(self, node: Expr) -> Value:
        _, op, target, source = node
        value = await self.eval(source)
        if op != "=":
            value = self.calculate(op[0], number(await self.eval(target)), number(value))
        elif isinstance(value, str) and len(value) > LONGEST:
            raise AwkError("out of memory")
        await self.store(target, value)
        return value

    async def store(self, target: Expr, value: Value) -> None:
        if target[0] == "var":
            if isinstance(self.get(target[1]), dict):
                raise AwkError(f"can't assign to {target[1]}; it's an array name.")
            self.set(target[1], value)
        elif target[0] == "field":
            self.set_field(int(number(await self.eval(target[1]))), value)
        else:
            array, key = self.array(target[1]), await self.key(target[2])
            if key not in array:
                self._grow()
            array[key] = value

    def calculate(self, op: str, left: float, right: float) -> float:
        try:
            if op == "/" or op == "%":
                if right == 0:
                    raise AwkError("division by zero" + (" in %" if op == "%" else ""))
                return left / right if op == "/" else math.fmod(left, right)
            if op == "^":
                found = left**right
                return found if isinstance(found, float) else math.nan
            return left + right if op == "+" else left - right if op == "-" else left * right
        except (OverflowError, ValueError):
            return math.inf
        except ZeroDivisionError:
            return math.inf

    async def _binary(self, node: Expr) -> Value:
        return self.calculate(node[1], number(await self.eval(node[2])), number(await self.eval(node[3])))

    async def _unary(self, node: Expr) -> Value:
        value = await self.eval(node[2])
        if node[1] == "!":
            return float(not self.truth(value))
        return -number(value) if node[1] == "-" else number(value)

    async def _pre(self, node: Expr) -> Value:
        value = number(await self.eval(node[2])) + (1 if node[1] == "++" else -1)
        await self.store(node[2], value)
        return value

    async def _post(self, node: Expr) -> Value:
        value = number(await self.eval(node[2]))
        await self.store(node[2], value + (1 if node[1] == "++" else -1))
        return value

    async def _concat(self, node: Expr) -> Value:
        left = self.text(await self.eval(node[1]))
        found = left + self.text(await self.eval(node[2]))
        if len(found) > LONGEST:
            raise AwkError("out of memory")
        return found

    async def _ternary(self, node: Expr) -> Value:
        return await self.eval(node[2] if self.truth(await self.eval(node[1])) else node[3])

    async def _and(self, node: Expr) -> Value:
        return float(self.truth(await self.eval(node[1])) and self.truth(await self.eval(node[2])))

    async def _or(self, node: Expr) -> Value:
        return float(self.truth(await self.eval(node[1])) or self.truth(await self.eval(node[2])))

    async def _in(self, node: Expr) -> Value:
        return float(await self.key(node[1]) in self.array(node[2]))

    async def _match(self, node: Expr) -> Value:
        text = self.text(await self.eval(node[2]))
        found = regexes.search(await self.pattern(node[3]), text) is not None
        return float(found == (node[1] == "~"))

    async def pattern(self, node: Expr) -> Any:
        """Return a regular expression given as such or as a text."""
        return self.regex(node[1] if node[0] == "regex" else self.text(await self.eval(node)))

    async def _compare(self, node: Expr) -> Value:
        left, right = await self.eval(node[2]), await self.eval(node[3])

        def numeric(value: Value) -> bool:
            return value is None or isinstance(value, float | StrNum)

        if numeric(left) and numeric(right):
            first: Any = number(left)
            second: Any = number(right)
        else:
            first, second = self.text(left), self.text(right)
        op = node[1]
        if op == "==":
            return float(first == second)
        if op == "!=":
            return float(first != second)
        return float(
            first < second
            if op == "<"
            else first <= second
            if op == "<="
            else first > second
            if op == ">"
            else first >= second
        )

    async def _call(self, node: Expr) -> Value:
        _, name, args = node
        if name not in self.program.functions:
            raise AwkError(f"calling undefined function {name}")
        if len(self.locals) >= MOST_CALLS:
            raise AwkError("function call nesting too deep")
        names, body = self.program.functions[name]
        scope: dict[str, Any] = dict.fromkeys(names)
        passed: list[tuple[str, str]] = []
        for param, arg in zip(names, args, strict=False):
            if arg[0] == "var" and (isinstance(self.get(arg[1]), dict) or self.get(arg[1]) is None):
                scope[param] = self.get(arg[1])
                passed.append((param, arg[1]))
            else:
                scope[param] = await self.eval(arg)
        self.locals.append(scope)
        try:
            await self.process.tick()
            await self.execute(body)
        except _Jump as jump:
            if jump.kind != "return":
                raise
            return jump.value
        finally:
            self.locals.pop()
            for param, outer in passed:
                if isinstance(scope[param], dict) and self.get(outer) is None:
                    self.set(outer, scope[param])
        return None

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

    # input and output

    async def _getline(self, node: Expr) -> Value:
        _, op, source, target = node
        if op == "":
            line = await self.read_main()
        else:
            name = self.text(await self.eval(source))
            stream = await self.input(op, name)
            line = await stream.line(str(self.globals["RS"])) if stream else None
            if stream is None:
                return -1.0
        if line is None:
            return 0.0
        if op != "<":
            self.globals["NR"] = number(self.globals["NR"]) + 1
        if target:
            await self.store(target, given(line))
        else:
            self.record(line)
        return 1.0

    async def input(self, op: str, name: str) -> _Input | None:
        if name not in self.inputs:
            if op == "|":
                capture = Capture(LONGEST)
                await self.process.flush()
                fds = {**self.process.fds, 1: capture}
                try:
                    await self.process.run(["sh", "-c", name], fds=fds).wait()
                except StartError:
                    return None
                self.inputs[name] = _Input(self.process, kit.text(capture.data))
            else:
                try:
                    handle = self.process.fds[0] if name == "-" else self.process.open(name)
                    self.inputs[name] = _Input(self.process, kit.text(await kit.everything(self.process, handle)))
                except FileError:
                    return None
        return self.inputs[name]

    async def read_main(self) -> str | None:
        while True:
            if self.main is None and not await self._open_next():
                return None
            assert self.main is not None
            line = await self.main.line(str(self.globals["RS"]))
            if line is not None:
                self.globals["FNR"] = number(self.globals["FNR"]) + 1
                return line
            self.main = None

    async def _open_next(self) -> bool:
        while self.names:
            name = self.names.pop(0)
            match = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", name, re.DOTALL)
            if match:
                self.globals[match[1]] = given(unescape(match[2]))
                continue
            try:
                handle = self.process.fds[0] if name == "-" else self.process.open(name)
            except FileError as error:
                self.status = 2
                shown = f"{name}: {error.text}" if self.process.busybox else f'cannot open "{name}" ({error.text})'
                await self.process.fail(shown)
                if not self.process.busybox:
                    raise Leave(2) from error
                continue
            self.main = _Input(self.process, "", handle)
            self.globals["FILENAME"] = name if name != "-" else ""
            self.globals["FNR"] = 0.0
            return True
        return False

    async def output(self, op: str, name: str) -> Handle:
        if name in self.outputs:
            return self.outputs[name][0]
        if op == "|":
            pipe = Pipe()
            await self.process.flush()
            child = self.process.run(["sh", "-c", name], fds={**self.process.fds, 0: pipe.reader})
            self.outputs[name] = (pipe.writer.share(), child)
        else:
            try:
                handle = self.process.open(name, "w" if op == ">" else "a").share()
            except FileError as error:
                raise AwkError(f'cannot open "{name}" for output ({error.text})') from error
            self.outputs[name] = (handle, None)
        return self.outputs[name][0]

    async def close(self, name: str) -> int:
        """Close an output and wait for its command."""
        if name not in self.outputs:
            return -1
        handle, child = self.outputs.pop(name)
        handle.release()
        return await child.wait() if child else 0

    # statements

    async def execute(self, node: Expr) -> None:
        await self.process.tick()
        kind = node[0]
        if kind == "block":
            for each in node[1]:
                await self.execute(each)
        elif kind == "expr":
            await self.eval(node[1])
        elif kind in ("print", "printf"):
            await self._write(node)
        elif kind == "if":
            if self.truth(await self.eval(node[1])):
                await self.execute(node[2])
            elif node[3]:
                await self.execute(node[3])
        elif kind in ("while", "do", "for", "forin"):
            await getattr(self, f"_loop_{kind}")(node)
        elif kind == "delete":
            array = self.array(node[1])
            if node[2] is None:
                array.clear()
            else:
                array.pop(await self.key(node[2]), None)
        elif kind in ("exit", "return"):
            raise _Jump(kind, await self.eval(node[1]) if node[1] else None)
        else:
            raise _Jump(kind)

    async def _turn(self, body: Expr) -> bool:
        try:
            await self.execute(body)
        except _Jump as jump:
            if jump.kind == "break":
                return False
            if jump.kind != "continue":
                raise
        return True

    async def _loop_while(self, node: Expr) -> None:
        while self.truth(await self.eval(node[1])):
            await self.process.tick()
            if not await self._turn(node[2]):
                return

    async def _loop_do(self, node: Expr) -> None:
        while await self._turn(node[1]) and self.truth(await self.eval(node[2])):
            await self.process.tick()

    async def _loop_for(self, node: Expr) -> None:
        if node[1]:
            await self.execute(node[1])
        while node[2] is None or self.truth(await self.eval(node[2])):
            await self.process.tick()
            if not await self._turn(node[4]):
                return
            if node[3]:
                await self.execute(node[3])

    async def _loop_forin(self, node: Expr) -> None:
        for key in list(self.array(node[2])):
            await self.process.tick()
            self.set(node[1], given(key))
            if not await self._turn(node[3]):
                return

    async def _write(self, node: Expr) -> None:
        kind, args, op, target = node
        values = [await self.eval(arg) for arg in args]
        if kind == "printf":
            text = self.format(self.text(values[0]) if values else "", values[1:])
        else:
            parts = [self.text(value, output=True) for value in values] if values else [self.text(self.fields[0])]
            text = str(self.globals["OFS"]).join(parts) + str(self.globals["ORS"])
        if not op:
            await self.process.write(text)
            return
        name = self.text(await self.eval(target))
        if name == "/dev/stdout":
            await self.process.write(text)
        elif name == "/dev/stderr":
            await self.process.error(text)
        else:
            await (await self.output(op, name)).write(kit.data(text))

    # the run

    async def run(self, names: list[str]) -> int:
        """Run all rules; returns the status."""
        self.names = names if any("=" not in name for name in names) else [*names, "-"]
        try:
            try:
                await self._rules("BEGIN")
                if any(kind != "BEGIN" for kind, _, _ in self.program.rules):
                    await self._lines()
            except _Jump as jump:
                await self._leave(jump)
            try:
                await self._rules("END")
            except _Jump as jump:
                await self._leave(jump)
        finally:
            await self.process.flush()
            for name in list(self.outputs):
                await self.close(name)
        return self.status

    async def _leave(self, jump: _Jump) -> None:
        if jump.kind == "exit" and jump.value is not None:
            self.status = int(number(jump.value)) & 255

    async def _rules(self, kind: str) -> None:
        for each, _, body in self.program.rules:
            if each == kind and body:
                await self.execute(body)

    async def _lines(self) -> None:
        while (line := await self.read_main()) is not None:
            self.globals["NR"] = number(self.globals["NR"]) + 1
            self.record(line)
            await self.process.tick()
            try:
                for index, (kind, pattern, body) in enumerate(self.program.rules):
                    if kind == "" and await self._selected(index, pattern):
                        await self.execute(body or ("print", [], "", None))
            except _Jump as jump:
                if jump.kind == "nextfile":
                    self.main = None
                elif jump.kind != "next":
                    raise

    async def _selected(self, index: int, pattern: Any) -> bool:
        if pattern is None:
            return True
        if len(pattern) == 1:
            return self.truth(await self.eval(pattern[0]))
        if index not in self.active:
            if not self.truth(await self.eval(pattern[0])):
                return False
            self.active.add(index)
        if self.truth(await self.eval(pattern[1])):
            self.active.discard(index)
        return True


def _filled(new: str, groups: list[str]) -> str:
    """Return a replacement of gensub with its groups."""
    return re.sub(r"\\(\d)", lambda found: groups[int(found[1])] if int(found[1]) < len(groups) else "", new)


class _Input:
    """Records of a stream."""

    def __init__(self, process: Process, data: str, handle: Handle | None = None) -> None:
        self.process = process
        self.data = data
        self.handle = handle
        self.at = 0

    async def line(self, separator: str) -> str | None:
        """Return the next record, None at the end."""
        end = {"": "\n\n"}.get(separator, separator[:1])
        while True:
            if separator == "":
                while self.data.startswith("\n", self.at):
                    self.at += 1
            found = self.data.find(end, self.at)
            if found >= 0:
                line, self.at = self.data[self.at : found], found + len(end)
                return line
            if not await self._more():
                rest = self.data[self.at :].removesuffix("\n") if separator in ("", "\n") else self.data[self.at :]
                empty = self.at >= len(self.data) or separator != "\n" and not rest.strip("\n")
                self.at = len(self.data)
                return None if empty else rest.removesuffix("\n")

    async def _more(self) -> bool:
        if self.handle is None:
            return False
        await self.process.flush()
        data = await self.handle.read(65_536)
        self.data = self.data[self.at :] + kit.text(data)
        self.at = 0
        if len(self.data) > kit.MOST_DATA:
            raise AwkError("record too long")
        return bool(data)


async def awk(process: Process) -> int:
    """Run an awk program."""
    opts = await kit.options(process, "F:v:f:W:", {"version": "V"}, stop=True)
    pieces = []
    for name in opts.all("f"):
        handle = await kit.opened(process, name)
        if handle is None:
            return 2
        pieces.append(kit.text(await kit.everything(process, handle)))
    if not pieces:
        if not opts.args:
            await process.error("usage: awk [-F fs][-v var=value][prog | -f progfile][file ...]\n")
            return 2
        pieces.append(opts.args.pop(0))
    try:
        program = Parser("\n".join(pieces)).parse()
    except AwkSyntaxError as error:
        shown = (
            f"cmd. line:{error.line}: Unexpected token"
            if process.busybox
            else f"line {error.line}: syntax error at or near {error.at}"
        )
        return await process.fail(shown, 1 if process.busybox else 2)
    runner = Runner(process, program)
    if "F" in opts:
        separator = unescape(opts.get("F"))
        runner.globals["FS"] = "\t" if separator == "t" else separator
    for word in opts.all("v"):
        name, _, value = word.partition("=")
        runner.globals[name] = given(unescape(value))
    try:
        return await runner.run(opts.args)
    except (AwkError, regexes.RegexError) as error:
        await process.flush()
        return await process.fail(f"{'cmd. line:1: ' if process.busybox else ''}{error}", 1 if process.busybox else 2)


TOOLS: dict[str, Tool] = {"awk": awk}
