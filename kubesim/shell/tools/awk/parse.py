"""The grammar of awk's programs: rules, functions and statements, as nested tuples."""

from __future__ import annotations

import re
from typing import Any

from kubesim.shell.tools.awk.operators import DEEPEST, Expr, Operators


class Parser(Operators):
    """Reads a program into rules and functions."""

    def __init__(self, text: str) -> None:
        self.functions: dict[str, tuple[list[str], Expr]] = {}
        self.rules: list[tuple[str, Any, Expr | None]] = []
        super().__init__(text)

    # program

    def parse(self) -> Parser:
        """Read everything."""
        self._newlines()
        while self.kind != "end":
            self._item()
            self._newlines()
        return self

    def _item(self) -> None:
        if self._is("function", "func"):
            self._function()
        elif self._is("BEGIN", "END"):
            kind = self.value
            self._next()
            self.rules.append((kind, None, self._block()))
        else:
            pattern: Any = None
            if not self._is("{"):
                pattern = (self.expression(),)
                if self._take(","):
                    self._soft()
                    pattern = (*pattern, self.expression())
            self.rules.append(("", pattern, self._block() if self._is("{") else None))

    def _function(self) -> None:
        self._next()
        name = self.value
        self._next()
        self._expect("(")
        names = []
        while self.kind in ("name", "call"):
            names.append(self.value)
            self._next()
            if not self._take(","):
                break
            self._soft()
        self._expect(")")
        self._soft()
        self.functions[name] = (names, self._block())

    def _block(self) -> Expr:
        self._expect("{")
        self.depth += 1
        if self.depth > DEEPEST:
            self._fail()
        found = []
        self._newlines()
        while not self._is("}"):
            if self.kind == "end":
                self._fail()
            found.append(self.statement())
            self._newlines()
        self._next()
        self.depth -= 1
        return ("block", found)

    def _body(self) -> Expr:
        self._soft()
        if self._take(";"):
            return ("block", [])
        return self.statement()

    def statement(self) -> Expr:
        """Read one statement."""
        if self._is("{"):
            return self._block()
        if self.kind == "keyword" and self.value in ("if", "while", "for", "do"):
            self.depth += 1
            if self.depth > DEEPEST:
                self._fail()
            found: Expr = getattr(self, "_" + self.value)()
            self.depth -= 1
            return found
        found = self._simple()
        if not (self.kind in ("newline", "end") or self._is(";", "}")):
            self._fail()
        if self._is(";"):
            self._next()
        return found

    def _if(self) -> Expr:
        self._next()
        self._expect("(")
        condition = self.expression()
        self._expect(")")
        then = self._body()
        mark = (self.at, self.line, self.kind, self.value)
        self._newlines()
        if self._take("else"):
            return ("if", condition, then, self._body())
        self.at, self.line, self.kind, self.value = mark
        return ("if", condition, then, None)

    def _while(self) -> Expr:
        self._next()
        self._expect("(")
        condition = self.expression()
        self._expect(")")
        return ("while", condition, self._body())

    def _do(self) -> Expr:
        self._next()
        body = self._body()
        self._newlines()
        self._expect("while")
        self._expect("(")
        condition = self.expression()
        self._expect(")")
        return ("do", body, condition)

    def _for(self) -> Expr:
        self._next()
        self._expect("(")
        found = re.compile(r"\s*([A-Za-z_]\w*)\s+in\s+([A-Za-z_]\w*)\s*\)").match(
            self.text, self.at - len(self.value)
        )
        if found:
            self.at = found.end()
            self._next()
            return ("forin", found[1], found[2], self._body())
        start = None if self._is(";") else self._simple()
        self._expect(";")
        self._soft()
        condition = None if self._is(";") else self.expression()
        self._expect(";")
        self._soft()
        step = None if self._is(")") else self._simple()
        self._expect(")")
        return ("for", start, condition, step, self._body())

    def _simple(self) -> Expr:
        word = self.value if self.kind == "keyword" else ""
        if word in ("print", "printf"):
            return self._print(word)
        if word in ("next", "nextfile", "break", "continue"):
            self._next()
            return (word,)
        if word in ("exit", "return"):
            self._next()
            done = self.kind in ("newline", "end") or self._is(";", "}")
            return (word, None if done else self.expression())
        if word == "delete":
            self._next()
            name = self.value
            self._next()
            if self._take("["):
                return ("delete", name, self._subscript())
            return ("delete", name, None)
        return ("expr", self.expression())

    def _print(self, word: str) -> Expr:
        self._next()
        args: list[Expr] = []
        self.no_greater = True
        if not (self.kind in ("newline", "end") or self._is(";", "}", ">", ">>", "|")):
            args = self._list()
            if len(args) == 1 and args[0][0] == "group":
                args = list(args[0][1])
        self.no_greater = False
        if self._is(">", ">>", "|"):
            op = self.value
            self._next()
            return (word, args, op, self._concatenation())
        return (word, args, "", None)
