"""How awk works out an expression."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

from kubesim.shell import regexes
from kubesim.shell.tools.awk.operators import Expr
from kubesim.shell.tools.awk.streams import Streams
from kubesim.shell.tools.awk.values import LONGEST, MOST_ELEMENTS, AwkError, StrNum, Value, given, number

MOST_CALLS = 150


class Jump(Exception):
    """next, exit, break, continue and return, with what they carry."""

    def __init__(self, kind: str, value: Value = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.value = value


class Expressions(Streams, ABC):
    """Expressions of one run: each kind of node a method."""

    @abstractmethod
    async def execute(self, node: Expr) -> None:
        """Run a statement, as the body of a function is."""

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

    async def key(self, subscripts: list[Expr]) -> str:
        parts = [self.text(await self.eval(each)) for each in subscripts]
        return str(self.globals["SUBSEP"]).join(parts)

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

    def _keep(self, old: Value, new: Value) -> None:
        """Count the text that a variable or an element keeps."""
        more = (len(new) if isinstance(new, str) else 0) - (len(old) if isinstance(old, str) else 0)
        if more and not self.process.keep(more):
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
            old = self.get(target[1])
            if isinstance(old, dict):
                raise AwkError(f"can't assign to {target[1]}; it's an array name.")
            self._keep(old, value)
            self.set(target[1], value)
        elif target[0] == "field":
            self.set_field(int(number(await self.eval(target[1]))), value)
        else:
            array, key = self.array(target[1]), await self.key(target[2])
            if key not in array:
                self._grow()
            self._keep(array.get(key), value)
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
        except Jump as jump:
            if jump.kind != "return":
                raise
            return jump.value
        finally:
            self.locals.pop()
            for param, outer in passed:
                if isinstance(scope[param], dict) and self.get(outer) is None:
                    self.set(outer, scope[param])
        return None

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
