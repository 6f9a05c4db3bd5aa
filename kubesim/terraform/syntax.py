"""HCL: text to a small tree of lists, which JSON can carry, so that a file is parsed once for as long as it stays.

An expression is ``[kind, span, ...]`` and a span ``[first line, first column, last line, last column]``.
A body is ``{"attrs": {name: [span of name, expression]}, "blocks": [[type, labels, span of header, body]]}``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from kubesim.terraform.diagnostics import Failure, Problem, Span, failure, located, told

Node = list[Any]
Body = dict[str, Any]
MAX_TEXT, MAX_DEPTH = 256 << 10, 100
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
KEYWORDS = {"true": True, "false": False, "null": None}


def parse(text: str, file: str) -> Body:
    """Return the body of a file. Raises Failure."""
    if len(text) > MAX_TEXT:
        raise failure("configuration_file_too_large", file=file, it=MAX_TEXT >> 10)
    _check_depth(text, file)
    tree = _lark(text + "\n", file)
    return _Reader(file).body(tree.children[0])


def parse_expression(text: str, file: str = "<value>", line: int = 1) -> Node:
    """Return an expression that stands for itself, as in ``-var 'x=[1]'``. Raises Failure."""
    found: Node = parse("\n" * (line - 1) + f"x = ({text}\n)", file)["attrs"]["x"][1][2]
    return found


def parse_template(text: str, file: str, line: int = 1) -> Node:
    """Return a template: the text of a heredoc, or of a file of ``templatefile``. Raises Failure."""
    return _Reader(file).template(text, [line, 1, line, 1])


def _check_depth(text: str, file: str) -> None:
    depth = 0
    for found in re.finditer(r'"(?:[^"\\\n]|\\.)*"|[\[({]|[\])}]', text):
        depth += (found[0] in "[({") - (found[0] in "])}")
        if depth > MAX_DEPTH:
            line = text.count("\n", 0, found.start()) + 1
            raise failure("configuration_is_nested_too_deeply", file, [line, 1, line, 1], MAX_DEPTH=MAX_DEPTH)


def _lark(text: str, file: str) -> Any:
    from hcl2.parser import parser  # slow to load, and seldom needed: most files are parsed already
    from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

    try:
        return parser().parse(text)
    except (UnexpectedToken, UnexpectedCharacters, UnexpectedEOF, UnexpectedInput) as error:
        raise Failure(_syntax_problem(error, text, file)) from error


def _syntax_problem(error: Any, text: str, file: str) -> Problem:
    line, column = max(getattr(error, "line", 1), 1), max(getattr(error, "column", 1), 1)
    token = getattr(error, "token", None)
    if token is not None and token.type == "$END" or line > text.count("\n"):
        at = _unclosed(text)
        row = text.splitlines()[at - 1].rstrip()
        span = [at, len(row), at, len(row) + 1]
        return Problem(*told("unclosed_configuration_block"), file, span, row.removesuffix("{").strip())
    expected = getattr(error, "expected", None) or getattr(error, "accepts", None) or set()
    row = text.splitlines()[line - 1]
    span, key = [line, column, line, column], "invalid_expression"
    if column > len(row) and row.rstrip().endswith("="):
        return Problem(*told(key), file, span)
    if "EQ" in expected and "LBRACE" in expected:
        span[1], key = 1 + len(row) - len(row.lstrip()), "argument_or_block_definition_required"
    elif "NL_OR_COMMENT" in expected and "=" in row[: column - 1]:
        key = "missing_newline_after_argument"
    elif "RBRACE" in expected or "EQ" in expected:
        key = "argument_or_block_definition_required_2"
    return Problem(*told(key), file, span)


def _unclosed(text: str) -> int:
    """Return the line of the first brace that is never closed."""
    opened: list[int] = []
    for found in re.finditer(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|[{}]', text):
        if found[0] == "{":
            opened.append(text.count("\n", 0, found.start()) + 1)
        elif found[0] == "}" and opened:
            opened.pop()
    return opened[0] if opened else text.count("\n")


def unescaped(text: str) -> str:
    """Return the text that the inside of a quoted string stands for."""
    if "\\" in text:
        text = re.sub(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", _escape, text, flags=re.DOTALL)
    return _unquoted(text)


def _unquoted(text: str) -> str:
    return text.replace("$${", "${").replace("%%{", "%{")


def _escape(found: re.Match[str]) -> str:
    text = found[1]
    if text[0] not in "uU" or len(text) == 1:
        return ESCAPES.get(text, text)
    code = int(text[1:], 16)
    return chr(code) if code < 0xD800 or 0xE000 <= code < 0x110000 else "\ufffd"


class _Reader:
    """Turns Lark's tree of one file into ours."""

    def __init__(self, file: str) -> None:
        self.file = file

    def body(self, tree: Any) -> Body:
        found: Body = {"attrs": {}, "blocks": []}
        for child in tree.children:
            if child.data == "attribute":
                name, value = child.children[0], child.children[-1]
                if (key := _word(name)) in found["attrs"]:
                    place = located(self.file, found["attrs"][key][0])
                    raise failure("attribute_redefined", self.file, _span(name), key=key, place=place)
                found["attrs"][key] = [_span(name), self.expr(value)]
            elif child.data == "block":
                found["blocks"].append(self.block(child))
        return found

    def block(self, tree: Any) -> list[Any]:
        kind, *words, body = _inside(tree)
        head = [*_span(kind)[:2], *_span(words[-1] if words else kind)[2:]]
        labels = [_word(each) if each.data != "string" else self.expr(each)[2] for each in words]
        return [_word(kind), labels, head, self.body(body)]

    def expr(self, tree: Any) -> Node:
        method = getattr(self, f"_{tree.data}", None)
        if method is None:
            raise failure("invalid_expression_2", self.file, _span(tree))
        found: Node = method(tree, _span(tree))
        return found

    def _expr_term(self, tree: Any, span: Span) -> Node:
        node = self.expr(_inside(tree)[0])
        return ["paren", span, node] if str(tree.children[0]) == "(" else node

    def _identifier(self, tree: Any, span: Span) -> Node:
        return ["root", span, _word(tree)]

    _keyword = _identifier

    def _literal_value(self, tree: Any, span: Span) -> Node:
        return ["lit", span, KEYWORDS[_word(tree)]]

    def _int_lit(self, tree: Any, span: Span) -> Node:
        return ["lit", span, int(str(tree.children[0])[:400])]

    def _float_lit(self, tree: Any, span: Span) -> Node:
        value = float(str(tree.children[0]))
        return ["lit", span, int(value) if value.is_integer() and abs(value) < 1e18 else value]

    def _string(self, tree: Any, span: Span) -> Node:
        parts: list[Node] = []
        for part in (each.children[0] for each in _trees(tree)):
            if not hasattr(part, "data"):
                parts.append(["lit", span, unescaped(str(part))])
            elif part.data == "interpolation":
                parts.append(self.expr(_inside(part)[0]))
            else:
                raise failure("template_directive", self.file, span)
        return _assembled(parts, span)

    def _heredoc_template(self, tree: Any, span: Span) -> Node:
        lines = _word(tree).rstrip("\n").split("\n")[1:-1]
        if tree.data == "heredoc_template_trim":
            least = min((len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()), default=0)
            lines = [line[least:] for line in lines]
        return self.template("".join(f"{line}\n" for line in lines), [span[0] + 1, 1, span[2], 1])

    _heredoc_template_trim = _heredoc_template

    def template(self, text: str, span: Span) -> Node:
        """Return a template whose text is not escaped."""
        parts: list[Node] = []
        at = start = 0
        while (found := re.compile(r"\$\$\{|%%\{|\$\{~?|%\{~?").search(text, at)) is not None:
            if found[0] in ("$${", "%%{"):
                at = found.end()
                continue
            parts.append(["lit", span, _unquoted(text[start : found.start()])])
            end = _closing(text, found.end())
            if end < 0:
                raise failure("unterminated_template_string", self.file, span)
            line = span[0] + text.count("\n", 0, found.start())
            if found[0] != "${" or text[end - 1] == "~":
                raise failure("template_directive", self.file, [line, 1, line, 1])
            parts.append(parse_expression(text[found.end() : end], self.file, line))
            at = start = end + 1
        parts.append(["lit", span, _unquoted(text[start:])])
        return _assembled(parts, span)

    def _conditional(self, tree: Any, span: Span) -> Node:
        return ["cond", span, *(self.expr(each) for each in _inside(tree))]

    def _unary_op(self, tree: Any, span: Span) -> Node:
        return ["un", span, str(tree.children[0]), self.expr(tree.children[-1])]

    def _binary_op(self, tree: Any, span: Span) -> Node:
        left, term = _inside(tree)[:2]
        operator, right = _inside(term)
        node = self.expr(right)
        return ["bin", [*span[:2], *node[1][2:]], str(operator.children[0]), self.expr(left), node]

    def _tuple(self, tree: Any, span: Span) -> Node:
        return ["tuple", span, [self.expr(each) for each in _inside(tree)]]

    def _object(self, tree: Any, span: Span) -> Node:
        return ["object", span, [self._element(each) for each in _inside(tree)]]

    def _element(self, tree: Any) -> list[Node]:
        key, value = _inside(tree)
        node = self.expr(key.children[0])
        if node[0] in ("root", "lit"):
            node = ["lit", node[1], node[2] if isinstance(node[2], str) else json.dumps(node[2])]
        return [node, self.expr(value)]

    def _function_call(self, tree: Any, span: Span) -> Node:
        names = [_word(each) for each in _inside(tree) if each.data == "identifier"]
        held = next((each for each in _inside(tree) if each.data == "arguments"), None)
        given = [self.expr(each) for each in _inside(held)] if held is not None else []
        expand = held is not None and any(str(each) == "..." for each in held.children)
        return ["call", span, "::".join(names), given, expand]

    def _get_attr_expr_term(self, tree: Any, span: Span) -> Node:
        return ["attr", span, self.expr(tree.children[0]), _word(_trees(tree.children[1])[0])]

    def _index_expr_term(self, tree: Any, span: Span) -> Node:
        return ["index", span, self.expr(tree.children[0]), self._index(tree.children[1])]

    def _index(self, tree: Any) -> Node:
        inner = _inside(tree)
        return self.expr(inner[0]) if inner else ["lit", _span(tree), int(str(tree.children[-1]))]

    def _full_splat_expr_term(self, tree: Any, span: Span) -> Node:
        steps = [
            ["attr", _word(_trees(each)[0])] if each.data == "get_attr" else ["index", self._index(each)]
            for each in _trees(tree.children[1])
        ]
        return ["splat", span, self.expr(tree.children[0]), steps]

    _attr_splat_expr_term = _full_splat_expr_term

    def _for_tuple_expr(self, tree: Any, span: Span) -> Node:
        intro, item, *rest = _inside(tree)
        return ["forl", span, *self._intro(intro), self.expr(item), self._condition(rest)]

    def _for_object_expr(self, tree: Any, span: Span) -> Node:
        intro, key, value, *rest = _inside(tree)
        group = any(str(each) == "..." for each in tree.children if not hasattr(each, "data"))
        return ["foro", span, *self._intro(intro), self.expr(key), self.expr(value), self._condition(rest), group]

    def _intro(self, tree: Any) -> list[Any]:
        *names, collection = _inside(tree)
        words = [_word(each) for each in names]
        return [words[0] if len(words) > 1 else "", words[-1], self.expr(collection)]

    def _condition(self, rest: list[Any]) -> Node | None:
        return self.expr(_inside(rest[0])[0]) if rest else None


def _closing(text: str, at: int) -> int:
    """Return where the brace closes that was opened just before ``at``; -1 where it does not."""
    depth = 1
    for found in re.compile(r'"(?:[^"\\]|\\.)*"|[{}]').finditer(text, at):
        depth += (found[0] == "{") - (found[0] == "}")
        if not depth:
            return found.start()
    return -1


def _assembled(parts: list[Node], span: Span) -> Node:
    """Return a template from its parts in a row."""
    parts = [part for part in parts if part[0] != "lit" or part[2] != ""]
    if not parts:
        return ["lit", span, ""]
    return parts[0] if len(parts) == 1 and parts[0][0] == "lit" else ["tpl", span, parts]


def _trees(tree: Any) -> list[Any]:
    return [each for each in tree.children if hasattr(each, "data")]


def _inside(tree: Any) -> list[Any]:
    return [each for each in _trees(tree) if each.data != "new_line_or_comment"]


def _word(tree: Any) -> str:
    return str(tree.children[0])


def _span(tree: Any) -> Span:
    meta = tree.meta
    return [meta.line, meta.column, meta.end_line, meta.end_column]
