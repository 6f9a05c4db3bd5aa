"""From tokens to commands, by tree-sitter's grammar of bash.

The grammar sees every word as ``w7`` and every redirection as ``r7``, the number being the token's; so it parses
lists, pipelines and compound commands, which it knows well, and no quoting, at which it errs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import tree_sitter
import tree_sitter_bash

from kubesim.shell.lexer import Lexer
from kubesim.shell.nodes import (
    NOTHING,
    AndOr,
    Calculation,
    Case,
    Condition,
    CountingFor,
    For,
    Function,
    Group,
    If,
    Node,
    Pipeline,
    Redirect,
    Redirected,
    Sequence,
    Simple,
    Subshell,
    Text,
    While,
    Word,
    literal,
)
from kubesim.shell.syntax import Checker, ScriptError
from kubesim.shell.tokens import Token

_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
LONGEST_SCRIPT = 256 << 10
MOST_OPEN = 60


class _Script(Lexer):
    def nested(self) -> Node:
        reader = _Script(self.text, self.dialect, at=self.at, depth=self.depth + 1, line=self.line)
        reader.budget = self.budget
        tokens = reader.read(nested=True)
        self.at, self.line = reader.at, reader.line
        return _build(tokens, self.dialect)

    def script(self, text: str) -> Node:
        reader = _Script(text, self.dialect, depth=self.depth + 1, line=self.line)
        reader.budget = self.budget
        return _build(reader.read(), self.dialect)


def parse(text: str, dialect: str, aliases: Mapping[str, str] | None = None, *, line: int = 1) -> Node:
    """Return the commands of a script; raises ScriptError."""
    if aliases or len(text) > 4096:
        return _parse(text, dialect, aliases, line)
    return _cached(text, dialect, line)


@lru_cache(maxsize=512)
def _cached(text: str, dialect: str, line: int) -> Node:
    return _parse(text, dialect, None, line)


def _parse(text: str, dialect: str, aliases: Mapping[str, str] | None, line: int) -> Node:
    if len(text) > LONGEST_SCRIPT:
        raise ScriptError("deep")
    reader = _Script(text.replace("\0", ""), dialect, aliases, line=line)
    tokens = reader.read()
    node = _build(tokens, dialect)
    if reader.short and aliases is not None:
        raise ScriptError("end", "end of file", line=reader.line, unfinished=True)
    return node


def _build(tokens: list[Token], dialect: str) -> Node:
    checker = Checker(tokens, dialect)
    checker.check()
    if checker.deepest > MOST_OPEN:
        raise ScriptError("deep", line=checker.line)
    if all(token.kind == "newline" for token in tokens):
        return NOTHING
    return _Builder(tokens, dialect).build()


class _Builder:
    """Writes the simplified script, has it parsed, and turns its tree into nodes."""

    def __init__(self, tokens: list[Token], dialect: str) -> None:
        self.tokens = tokens
        self.dialect = dialect
        self.at: dict[int, Token] = {}
        self.pieces: list[str] = []
        self.size = 0

    def build(self) -> Node:
        for index, token in enumerate(self.tokens):
            self._emit(index, token)
        root = _PARSER.parse("".join(self.pieces).encode()).root_node
        if root.has_error:
            self._refuse(root)
        return self._sequence(root.children)

    def _put(self, text: str, token: Token) -> None:
        self.at[self.size] = token
        self.pieces.append(text + " ")
        self.size += len(text) + 1

    def _emit(self, index: int, token: Token) -> None:
        before = self.tokens[index - 1] if index else None
        if token.kind == "newline":
            if before and (before.kind in ("word", "redirect", "condition", "calculation") or self._ends(before)):
                self._put("\n", token)
        elif token.kind == "keyword":
            self._put(token.text, token)
        elif token.kind == "operator":
            self._put({"()": "( )", "|&": "|"}.get(token.text, token.text.removeprefix("pattern")), token)
        elif token.kind == "redirect":
            after = before is not None and self._ends(before)
            token.text = "after" if after or before and before.text == "after" else token.text
            self._put(f"< r{index}" if token.text == "after" else f"r{index}", token)
        elif token.kind == "calculation" and before and before.text == "for":
            self._put(f"w{index} in w{index}{self._separator(index)}", token)
        elif before and before.kind == "keyword" and before.text == "for":
            self._put(f"w{index}{self._separator(index)}", token)
        else:
            self._put(f"w{index}", token)

    def _separator(self, index: int) -> str:
        after = self.tokens[index + 1] if index + 1 < len(self.tokens) else None
        return " ;" if after and after.text == "do" else ""

    def _ends(self, token: Token) -> bool:
        """Tell whether a token ends a compound command."""
        return token.text in ("fi", "done", "esac", "}", ")") and token.kind in ("keyword", "operator")

    def _refuse(self, root: tree_sitter.Node) -> None:
        node: tree_sitter.Node | None = root
        while node is not None and not (node.is_error or node.is_missing):
            node = next((child for child in node.children if child.has_error or child.is_missing), None)
        start = node.start_byte if node else 0
        token = next((self.at[at] for at in sorted(self.at) if at >= start), self.tokens[-1])
        plain = token.kind in ("keyword", "operator", "newline") or self.dialect == "bash"
        raise ScriptError("unexpected", token.text if plain else "word", line=token.line)

    # the tree

    def _token(self, node: tree_sitter.Node) -> Token:
        return self.at[node.start_byte]

    def _sequence(self, children: list[tree_sitter.Node]) -> Node:
        items: list[tuple[Node, bool, str]] = []
        for child in children:
            if child.is_named:
                items.append((self._node(child), False, self._source(child)))
            elif child.type == "&" and items:
                items[-1] = (items[-1][0], True, items[-1][2])
        if len(items) == 1 and not items[0][1]:
            return items[0][0]
        return Sequence(tuple(items))

    def _source(self, node: tree_sitter.Node) -> str:
        """Return a command as ``jobs`` shows it."""
        words = [self._text(at) for at in sorted(self.at) if node.start_byte <= at < node.end_byte]
        return " ".join(words)[:200]

    def _text(self, at: int) -> str:
        token = self.at[at]
        if token.redirect:
            gap = "" if token.redirect.op.endswith("&") else " "
            return (
                f"{'' if token.redirect.fd < 0 else token.redirect.fd}{token.redirect.op}{gap}{token.redirect.source}"
            )
        return ";" if token.kind == "newline" else token.text.removeprefix("pattern")

    def _node(self, node: tree_sitter.Node) -> Node:
        kind = node.type
        if kind == "command":
            return self._command(node)
        if kind == "redirected_statement":
            return self._redirected(node)
        if kind == "list":
            return self._list(node)
        if kind == "pipeline":
            return self._pipeline(node)
        if kind == "negated_command":
            return self._negated(self._node(node.named_children[0]))
        if kind == "subshell":
            return Subshell(self._sequence(node.children))
        if kind == "compound_statement":
            return Group(self._sequence(node.children))
        return self._compound(node, kind)

    def _compound(self, node: tree_sitter.Node, kind: str) -> Node:
        if kind == "if_statement":
            return self._if(node)
        if kind == "while_statement":
            return self._while(node)
        if kind == "for_statement":
            return self._for(node)
        if kind == "case_statement":
            return self._case(node)
        if kind == "function_definition":
            body = node.named_children[1:]
            name = self._token(node.children[0])
            whole = self._node(body[0])
            redirects = self._redirects(body[1:])
            return Function(name.text, Redirected(whole, redirects) if redirects else whole, self._source(node))
        raise ScriptError("unexpected", self._token(node).text, line=self._token(node).line)

    def _negated(self, inner: Node) -> Node:
        if isinstance(inner, Pipeline):
            return Pipeline(inner.parts, not inner.negated, inner.both)
        return Pipeline((inner,), True)

    def _command(self, node: tree_sitter.Node) -> Node:
        tokens = [self._token(child) for child in node.named_children]
        first = tokens[0]
        if first.kind in ("condition", "calculation"):
            return self._tested(first, tokens)
        redirects = tuple(token.redirect for token in tokens if token.redirect)
        words = tuple(token.word for token in tokens if not token.redirect)
        return Simple(words, redirects, first.line, self._source(node))

    def _tested(self, first: Token, tokens: list[Token]) -> Node:
        extra = [token for token in tokens[1:] if not token.redirect]
        if extra:
            raise ScriptError("unexpected", extra[0].text, line=first.line)
        if first.kind == "condition":
            body: Node = Condition(first.items, first.line)
        else:
            body = Calculation(first.word, first.line)
        redirects = tuple(token.redirect for token in tokens if token.redirect)
        return Redirected(body, redirects) if redirects else body

    def _redirected(self, node: tree_sitter.Node) -> Node:
        body = node.named_children[0]
        redirects = self._redirects(node.named_children[1:])
        if body.type == "negated_command":
            return self._negated(Redirected(self._node(body.named_children[0]), redirects))
        inner = self._node(body)
        if isinstance(inner, AndOr):
            operator, last = inner.rest[-1]
            return AndOr(inner.first, (*inner.rest[:-1], (operator, Redirected(last, redirects))))
        if isinstance(inner, Pipeline):
            return Pipeline((*inner.parts[:-1], Redirected(inner.parts[-1], redirects)), inner.negated, inner.both)
        return Redirected(inner, redirects)

    def _redirects(self, nodes: list[tree_sitter.Node]) -> tuple[Redirect, ...]:
        found = [self._token(node).redirect for node in nodes]
        return tuple(redirect for redirect in found if redirect)

    def _list(self, node: tree_sitter.Node) -> Node:
        left, operator, right = node.children[0], node.children[1], node.children[-1]
        first, second = self._node(left), self._node(right)
        tail: tuple[tuple[str, Node], ...] = ((operator.type, second),)
        if isinstance(second, AndOr):
            tail = ((operator.type, second.first), *second.rest)
        if isinstance(first, AndOr):
            return AndOr(first.first, (*first.rest, *tail))
        return AndOr(first, tail)

    def _pipeline(self, node: tree_sitter.Node) -> Node:
        parts: list[Node] = []
        both: list[bool] = []
        negated = False
        for child in node.children:
            if not child.is_named:
                both.append(self._token(child).text == "|&")
                continue
            inner = self._node(child)
            if isinstance(inner, Pipeline):
                negated ^= inner.negated
                parts.extend(inner.parts)
                both.extend(inner.both)
            else:
                parts.append(inner)
        return Pipeline(tuple(parts), negated, tuple(both))

    def _if(self, node: tree_sitter.Node) -> Node:
        branches = [self._branch(node)]
        other: Node | None = None
        for child in node.children:
            if child.type == "elif_clause":
                branches.append(self._branch(child))
            elif child.type == "else_clause":
                other = self._sequence(child.children)
        return If(tuple(branches), other)

    def _branch(self, node: tree_sitter.Node) -> tuple[Node, Node]:
        children = [child for child in node.children if child.type not in ("elif_clause", "else_clause")]
        then = next(index for index, child in enumerate(children) if child.type == "then")
        return self._sequence(children[:then]), self._sequence(children[then:])

    def _while(self, node: tree_sitter.Node) -> Node:
        body = node.children[-1]
        return While(
            self._sequence(node.children[:-1]), self._sequence(body.children), node.children[0].type == "until"
        )

    def _for(self, node: tree_sitter.Node) -> Node:
        body = self._sequence(node.children[-1].children)
        head = self._token(node.named_children[0])
        if head.kind == "calculation":
            pieces = _split(head.word)
            if len(pieces) != 3:
                raise ScriptError("unexpected", "((", line=head.line)
            return CountingFor(pieces[0], pieces[1], pieces[2], body)
        listed = any(child.type == "in" for child in node.children)
        words = tuple(self._token(child).word for child in node.named_children[1:-1])
        if literal(head.word) is None:
            raise ScriptError("unexpected", head.text, line=head.line)
        return For(head.text, words if listed else None, body, node.children[0].type == "select")

    def _case(self, node: tree_sitter.Node) -> Node:
        items = []
        for child in node.named_children[1:]:
            close = next(index for index, part in enumerate(child.children) if part.type == ")")
            patterns = tuple(self._token(part).word for part in child.children[:close] if part.is_named)
            last = child.children[-1].type
            items.append(
                (patterns, self._sequence(child.children[close + 1 :]), last if last in (";&", ";;&") else "")
            )
        return Case(self._token(node.named_children[0]).word, tuple(items))


def _split(word: Word) -> list[Word]:
    """Split the inside of ``for ((a; b; c))`` at its semicolons."""
    pieces: list[Word] = [()]
    for part in word:
        if not isinstance(part, Text):
            pieces[-1] = (*pieces[-1], part)
            continue
        for index, text in enumerate(part.value.split(";")):
            if index:
                pieces.append(())
            pieces[-1] = (*pieces[-1], Text(text, True))
    return pieces
