"""Fills templates of Go's text/template with an object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubesim.shell.kubectl.gofunctions import FUNCTIONS, CallError, shown, truth
from kubesim.shell.kubectl.gotemplate import Node, Operand, Pipe, TemplateError, parse

LONGEST = 8 << 20
MOST_STEPS = 100_000
"""How much a template may do: nothing else runs meanwhile."""
DEEPEST = 200


class _Leave(Exception):
    """A break or continue on its way to its range."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class Run:
    """One filling: variables by name, innermost last."""

    def __init__(self, source: str, *, strict: bool = False) -> None:
        """Read a template; ``strict`` ones refuse keys that are not there. Raises TemplateError."""
        self._source = source
        self._strict = strict
        self._nodes, self._named = parse(source)
        self._out: list[str] = []
        self._size = self._steps = 0
        self._deep = 0
        self._names: list[dict[str, Any]] = []

    def fill(self, data: Any) -> str:
        """Return the text for an object. Raises TemplateError."""
        self._out, self._size, self._steps, self._names = [], 0, 0, [{"$": data}]
        self._list(self._nodes, data)
        return "".join(self._out)

    @property
    def begun(self) -> str:
        """What was written before an error."""
        return "".join(self._out)

    def _write(self, text: str) -> None:
        self._size += len(text)
        if self._size > LONGEST:
            raise TemplateError("template: output: too much output")
        self._out.append(text)

    def _fail(self, operand: Operand, text: str) -> TemplateError:
        line = self._source.count("\n", 0, operand.at) + 1
        column = operand.at - (self._source.rfind("\n", 0, operand.at) + 1)
        where = f'template: output:{line}:{column}: executing "output" at <{operand.text}>'
        return TemplateError(f"{where}: {text}")

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise TemplateError("template: output: too many steps")

    def _list(self, nodes: list[Node], dot: Any) -> None:
        for node in nodes:
            self._spend(1)
            if node.kind == "text":
                self._write(node.text)
            elif node.kind == "action" and node.pipe:
                value = self._pipe(node.pipe, dot)
                if not node.pipe.names:
                    self._write(shown(value, none="<no value>"))
            elif node.kind == "template":
                self._template(node, dot)
            elif node.kind in ("break", "continue"):
                raise _Leave(node.kind)
            else:
                self._block(node, dot)

    def _block(self, node: Node, dot: Any) -> None:
        self._names.append({})
        try:
            pipe = node.pipe or Pipe(())
            value = self._pipe(pipe, dot, assign=node.kind != "range")
            if node.kind == "range":
                self._range(node, pipe, value, dot)
            else:
                inner = value if node.kind == "with" else dot
                self._list(node.body if truth(value) else node.other, inner if truth(value) else dot)
        finally:
            self._names.pop()

    def _range(self, node: Node, pipe: Pipe, value: Any, dot: Any) -> None:
        pairs = list(self._items(pipe, value))
        if not pairs:
            return self._list(node.other, dot)
        for key, each in pairs:
            known = dict(zip(pipe.names, (key, each) if len(pipe.names) > 1 else (each,), strict=False))
            self._names.append(known if pipe.declares else {})
            if not pipe.declares:
                self._set(known)
            try:
                self._list(node.body, each)
            except _Leave as left:
                if left.word == "break":
                    return None
            finally:
                self._names.pop()
        return None

    def _items(self, pipe: Pipe, value: Any) -> Iterator[tuple[Any, Any]]:
        if isinstance(value, Mapping):
            yield from sorted(value.items())
        elif isinstance(value, list):
            yield from enumerate(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            yield from ((at, at) for at in range(min(value, MOST_STEPS)))
        elif value is not None:
            raise self._fail(pipe.commands[-1][0], f"range can't iterate over {shown(value)}")

    def _template(self, node: Node, dot: Any) -> None:
        if node.text not in self._named:
            raise TemplateError(f'template: output: template "{node.text}" not defined')
        self._deep += 1
        if self._deep > DEEPEST:
            raise TemplateError("template: output: exceeded maximum template depth (100000)")
        given = self._pipe(node.pipe, dot) if node.pipe else None
        kept, self._names = self._names, [{"$": given}]
        try:
            self._list(self._named[node.text], given)
        finally:
            self._names = kept
            self._deep -= 1

    def _set(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            for known in reversed(self._names):
                if name in known:
                    known[name] = value
                    break

    def _pipe(self, pipe: Pipe, dot: Any, *, assign: bool = True) -> Any:
        value: Any = None
        for at, command in enumerate(pipe.commands):
            value = self._command(command, dot, (value,) if at else ())
        if pipe.names and assign:
            if pipe.declares:
                self._names[-1][pipe.names[0]] = value
            else:
                self._set({pipe.names[0]: value})
        return value

    def _command(self, command: tuple[Operand, ...], dot: Any, last: tuple[Any, ...]) -> Any:
        first = command[0]
        if first.kind != "function":
            if len(command) > 1 or last:
                raise self._fail(first, f"can't give argument to non-function {first.text}")
            return self._value(first, dot)
        if first.value in ("and", "or"):
            return self._short(first.value, command[1:], dot, last)
        values = [self._value(each, dot) for each in command[1:]] + [*last]
        try:
            made = FUNCTIONS[first.value](*values)
            self._spend(1 + len(made) // 10 if isinstance(made, str) else 1)
            return self._fields(first, made)
        except CallError as error:
            raise self._fail(first, f"error calling {first.text}: {error}") from error
        except (TypeError, IndexError) as error:
            raise self._fail(first, f"wrong number of args for {first.text}: got {len(values)}") from error

    def _short(self, word: str, operands: tuple[Operand, ...], dot: Any, last: tuple[Any, ...]) -> Any:
        """Return what ``and`` and ``or`` give, which ask no further than they must."""
        value: Any = None
        for operand in operands:
            value = self._value(operand, dot)
            if truth(value) == (word == "or"):
                return value
        return last[0] if last else value

    def _value(self, operand: Operand, dot: Any) -> Any:
        if operand.kind == "function":
            return self._command((operand,), dot, ())
        if operand.kind == "pipe":
            found = self._pipe(operand.value, dot)
        elif operand.kind == "variable":
            found = next((known[operand.value] for known in reversed(self._names) if operand.value in known), None)
        else:
            found = dot if operand.kind == "dot" else operand.value
        return self._fields(operand, found)

    def _fields(self, operand: Operand, value: Any) -> Any:
        for name in operand.fields:
            if value is None:
                if self._strict:
                    raise self._fail(operand, f'nil data; no entry for key "{name}"')
                continue
            if not isinstance(value, Mapping):
                raise self._fail(operand, f"can't evaluate field {name} in type interface {{}}")
            if self._strict and name not in value:
                raise self._fail(operand, f'map has no entry for key "{name}"')
            value = value.get(name)
        return value
