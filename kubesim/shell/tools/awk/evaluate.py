"""awk's expressions and the functions that it brings along: each kind of node a method."""

from __future__ import annotations

import math
import operator
import re
from typing import Any

from kubesim.shell import regexes
from kubesim.shell.printf import FormatError, Formatter
from kubesim.shell.tools.awk.grammar import Expr
from kubesim.shell.tools.awk.state import State
from kubesim.shell.tools.awk.values import LONGEST, MOST_ELEMENTS, AwkError, StrNum, Value, number, whole

COMPARISONS: dict[str, Any] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
ARITHMETIC: dict[str, Any] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": math.fmod,
    "^": operator.pow,
}
CONVERSION = re.compile(r"%[-+ #0']*\*?\d*(?:\.\d*)?([a-zA-Z%])")


class Evaluator(State):
    """Expressions of one run."""

    def eval(self, node: Expr) -> Value:
        """Return the value of an expression."""
        return node[1] if node[0] == "constant" else getattr(self, "_" + node[0])(node)

    def _var(self, node: Expr) -> Value:
        value = self.get(node[1])
        if isinstance(value, dict):
            raise AwkError(f"can't use array {node[1]} in scalar context")
        return value

    def _field(self, node: Expr) -> Value:
        index = whole(self.eval(node[1]))
        if index < 0:
            raise AwkError(f"attempt to access field {index}")
        return self.fields[index] if index < len(self.fields) else None

    def key(self, subscripts: list[Expr]) -> str:
        """Return the name of an element."""
        return str(self.globals["SUBSEP"]).join(self.text(self.eval(each)) for each in subscripts)

    def _element(self, node: Expr) -> Value:
        array, key = self.array(node[1]), self.key(node[2])
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

    def _group(self, node: Expr) -> Value:
        return self.eval(node[1][0]) if len(node[1]) == 1 else self.key(node[1])

    def _regex(self, node: Expr) -> Value:
        return float(regexes.search(self.regex(node[1]), self.text(self.fields[0])) is not None)

    def _assign(self, node: Expr) -> Value:
        _, op, target, source = node
        value = self.eval(source)
        if op != "=":
            value = self.calculate(op[0], number(self.eval(target)), number(value))
        self.store(target, value)
        return value

    def store(self, target: Expr, value: Value) -> None:
        """Give a variable, a field or an element a value."""
        if isinstance(value, str) and len(value) > LONGEST:
            raise AwkError("out of memory")
        if target[0] == "var":
            old = self.get(target[1])
            if isinstance(old, dict):
                raise AwkError(f"can't assign to {target[1]}; it's an array name.")
            self._keep(old, value)
            self.set(target[1], value)
        elif target[0] == "field":
            self.set_field(whole(self.eval(target[1])), value)
        else:
            array, key = self.array(target[1]), self.key(target[2])
            if key not in array:
                self._grow()
            self._keep(array.get(key), value)
            array[key] = value

    def calculate(self, op: str, left: float, right: float) -> float:
        """Return what an arithmetic operator makes of two numbers."""
        if op in "/%" and right == 0:
            raise AwkError("division by zero" + (" in %" if op == "%" else ""))
        try:
            found = ARITHMETIC[op](left, right)
            return found if isinstance(found, float) else math.nan
        except (OverflowError, ValueError, ZeroDivisionError):
            return math.inf

    def _binary(self, node: Expr) -> Value:
        return self.calculate(node[1], number(self.eval(node[2])), number(self.eval(node[3])))

    def _unary(self, node: Expr) -> Value:
        value = self.eval(node[2])
        if node[1] == "!":
            return float(not self.truth(value))
        return -number(value) if node[1] == "-" else number(value)

    def _step(self, node: Expr) -> Value:
        """Count a variable up or down; after the fact, its value is that of before."""
        _, op, target, after = node
        value = number(self.eval(target))
        new = value + (1 if op == "++" else -1)
        self.store(target, new)
        return value if after else new

    def _concat(self, node: Expr) -> Value:
        left = self.text(self.eval(node[1]))
        found = left + self.text(self.eval(node[2]))
        if len(found) > LONGEST:
            raise AwkError("out of memory")
        return found

    def _ternary(self, node: Expr) -> Value:
        return self.eval(node[2] if self.truth(self.eval(node[1])) else node[3])

    def _and(self, node: Expr) -> Value:
        return float(self.truth(self.eval(node[2])) and self.truth(self.eval(node[3])))

    def _or(self, node: Expr) -> Value:
        return float(self.truth(self.eval(node[2])) or self.truth(self.eval(node[3])))

    def _in(self, node: Expr) -> Value:
        return float(self.key(node[1]) in self.array(node[2]))

    def _match(self, node: Expr) -> Value:
        text = self.text(self.eval(node[2]))
        found = regexes.search(self._pattern(node[3]), text) is not None
        return float(found == (node[1] == "~"))

    def _pattern(self, node: Expr) -> Any:
        """Return a regular expression given as such or as a text."""
        return self.regex(node[1] if node[0] == "regex" else self.text(self.eval(node)))

    def _compare(self, node: Expr) -> Value:
        sides = [self.eval(node[2]), self.eval(node[3])]
        numeric = all(value is None or isinstance(value, float | StrNum) for value in sides)
        return float(COMPARISONS[node[1]](*map(number if numeric else self.text, sides)))

    # The functions.

    def _call(self, node: Expr) -> Value:
        _, name, args = node
        own = getattr(self, f"_do_{name}", None)
        try:
            if own is not None:
                return own(args)
            return self._pure(name, [self.eval(arg) for arg in args])
        except IndexError as error:
            raise AwkError(f"not enough args to {name}") from error

    def _pure(self, name: str, values: list[Value]) -> Value:
        """Do what a function makes of values alone."""
        if name in ("tolower", "toupper"):
            return getattr(self.text(values[0]), name[2:])()
        if name == "index":
            return float(self.text(values[0]).find(self.text(values[1])) + 1)
        if name == "sprintf":
            return self.format(self.text(values[0]), values[1:])
        try:
            return float(getattr(math, {"int": "trunc"}.get(name, name))(number(values[0])))
        except (ValueError, OverflowError):
            return math.nan

    def _do_length(self, args: list[Expr]) -> Value:
        if args and args[0][0] == "var" and isinstance(self.get(args[0][1]), dict):
            return float(len(self.get(args[0][1])))
        return float(len(self.text(self.eval(args[0]) if args else self.fields[0])))

    def _do_substr(self, args: list[Expr]) -> Value:
        text, *numbers = self.text(self.eval(args[0])), *(number(self.eval(arg)) for arg in args[1:])
        start = round(numbers[0]) if math.isfinite(numbers[0]) else 1
        wide = numbers[1] if len(numbers) > 1 and math.isfinite(numbers[1]) else len(text) + 1 - start
        return text[max(start, 1) - 1 : max(start + round(wide), 1) - 1]

    def _do_match(self, args: list[Expr]) -> Value:
        match = regexes.search(self._pattern(args[1]), self.text(self.eval(args[0])))
        self.globals["RSTART"] = float(match.start() + 1) if match else 0.0
        self.globals["RLENGTH"] = float(match.end() - match.start()) if match else -1.0
        return self.globals["RSTART"]

    def _do_split(self, args: list[Expr]) -> Value:
        text, separator = self.text(self.eval(args[0])), str(self.globals["FS"])
        if len(args) > 2:
            separator = args[2][1] if args[2][0] == "regex" else self.text(self.eval(args[2]))
        pieces, array = self.split(text, separator), self.array(args[1][1])
        array.clear()
        array.update({str(index): piece for index, piece in enumerate(pieces, 1)})
        return float(len(pieces))

    def _do_sub(self, args: list[Expr], *, everywhere: bool = False) -> Value:
        """Replace the first match, or every one; ``&`` in the new text is what matched."""
        compiled, new = self._pattern(args[0]), self.text(self.eval(args[1]))
        target = args[2] if len(args) > 2 else ("field", ("constant", 0.0))
        text = self.text(self.eval(target))
        pieces = [piece.replace("\\\\", "\\").replace("\\&", "&") for piece in re.split(r"(?<!\\)&", new)]
        out, at, count, size = [], 0, 0, 0
        while at <= len(text) and (everywhere or not count) and (match := regexes.search(compiled, text, at)):
            count += 1
            out += [text[at : match.start()], match[0].join(pieces)]
            size += len(out[-1])
            if size > LONGEST:
                raise AwkError("out of memory")
            at = match.end()
            if match.end() == match.start():
                out.append(text[at : at + 1])
                at += 1
        if count and target[0] in ("var", "field", "element"):
            self.store(target, "".join(out) + text[at:])
        return float(count)

    def _do_gsub(self, args: list[Expr]) -> Value:
        return self._do_sub(args, everywhere=True)

    def format(self, form: str, values: list[Value]) -> str:
        """Do what sprintf does."""
        args = [self.text(value) for value in values]
        for index, match in enumerate(CONVERSION.finditer(form.replace("%%", "\0\0"))):
            if index >= len(values):
                break
            amount = number(values[index])
            if match[1] == "c" and isinstance(values[index], float):
                args[index] = chr(int(amount) & 255) if math.isfinite(amount) else ""
            elif match[1] in "dixXou":
                args[index] = str(int(amount)) if math.isfinite(amount) else "0"
            elif match[1] in "eEfFgG":
                args[index] = repr(amount)
        formatter = Formatter(form.replace("\\", "\\\\"), args, quoting=True, now=self.process.machine.now)
        try:
            return formatter.once()
        except FormatError as error:
            raise AwkError(f"bad conversion: {error}") from error
