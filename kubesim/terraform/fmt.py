"""``terraform fmt``: the usual spaces between tokens, indents by open brackets, and equals signs below each other."""

from __future__ import annotations

import difflib
import posixpath
import re

from kubesim.terraform.host import Host
from kubesim.terraform.settings import Arguments
from kubesim.terraform.syntax import parse

INSIDE = r'(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}]*\})*'
TOKEN = re.compile(
    r"(?P<heredoc><<-?(?P<end>[\w.-]+)\r?\n(?:.*\n)*?[ \t]*(?P=end)(?=\r?\n))"
    rf'|(?P<string>"(?:[^"\\$%]|\\.|\$(?!\{{)|%(?!\{{)|[$%]\{{{INSIDE}\}})*")'
    r"|(?P<comment>#[^\n]*|//[^\n]*|/\*(?:.|\n)*?\*/)|(?P<newline>\n)|(?P<space>[ \t\r]+)"
    r"|(?P<word>[A-Za-z_][\w-]*)|(?P<number>\d[\d.eE]*)|(?P<sign>==|!=|<=|>=|&&|\|\||=>|\.\.\.|::|.)"
)
OPERATORS = frozenset(["=", "==", "!=", "<=", ">=", "&&", "||", "=>", "+", "-", "*", "/", "%", "<", ">", "?", ":"])
OPENING, CLOSING = frozenset("([{"), frozenset(")]}")
MOST_FOLDERS = 100
Token = tuple[str, str]


def formatted(text: str) -> str:
    """Return a file in the usual form."""
    lines: list[list[Token]] = [[]]
    for found in TOKEN.finditer(text if text.endswith("\n") else f"{text}\n"):
        kind = found.lastgroup or "sign"
        kind = "heredoc" if kind == "end" else kind
        if kind == "newline":
            lines.append([])
        elif kind != "space":
            text = re.sub(r"(\$\{)[ \t]*([^{}\"]*?)[ \t]*\}", r"\1\2}", found[0]) if kind == "string" else found[0]
            lines[-1].append((kind, text.rstrip("\r")))
    return "".join(f"{row}\n" for row in _aligned(_rows(lines[:-1])))


def _rows(lines: list[list[Token]]) -> list[tuple[str, str, str, str]]:
    """Return indent, name with what it is (else empty), the rest and the comment at the end of each line."""
    rows, depths = [], [0]
    for line in lines:
        closing = 0
        for _, text in line:
            if text not in CLOSING:
                break
            closing += 1
        for _ in range(closing):
            depths = depths[:-1] or [0]
        indent = "  " * depths[-1] if line else ""
        opened = 0
        for _, text in line[closing:]:
            if text in OPENING:
                opened += 1
            elif text in CLOSING and opened:
                opened -= 1
            elif text in CLOSING:
                depths = depths[:-1] or [0]
        depths += [depths[-1] + 1] * opened
        comment = line.pop()[1] if len(line) > 1 and line[-1][0] == "comment" else ""
        names = next((at for at, (_, text) in enumerate(line[:3]) if text == "="), 0)
        head = _spaced(line[:names]) if names else ""
        whole = not opened and not any(kind == "heredoc" for kind, _ in line)
        rows.append(
            (indent, head if whole else "", _spaced(line) if not (head and whole) else _spaced(line[names:]), comment)
        )
    return rows


def _spaced(tokens: list[Token]) -> str:
    text = ""
    for at, (kind, each) in enumerate(tokens):
        before = tokens[at - 1] if at else ("", "")
        if at and _apart(tokens, at, before, (kind, each)):
            text += " "
        text += each
    return text


def _apart(tokens: list[Token], at: int, before: Token, after: Token) -> bool:
    """Tell whether there is a space between two tokens."""
    left, right = before[1], after[1]
    if right in (",", ")", "]", ".", "...", "::") or left in ("(", "[", ".", "!", "::"):
        return left == "," and right not in (")", "]", ",", ".") and right not in ("...",) and right in OPENING
    if right == "}" or left == "{":
        return not (left == "{" and right == "}")
    if left == "-" and (at < 2 or tokens[at - 2][1] in OPERATORS | OPENING | {","}):
        return False
    if right in ("(", "["):
        return (
            before[0] not in ("word", "string")
            and left not in (")", "]")
            or left in ("in", "for")
            or left in OPERATORS
            or left == ","
        )
    return True


def _aligned(rows: list[tuple[str, str, str, str]]) -> list[str]:
    """Return the lines, with the equals signs and comments of neighbours below each other."""
    found: list[str] = []
    at = 0
    while at < len(rows):
        end = at
        while end < len(rows) and rows[end][1] and rows[end][0] == rows[at][0]:
            end += 1
        width = max((len(row[1]) for row in rows[at:end]), default=0)
        for indent, name, rest, _ in rows[at:end]:
            found.append(f"{indent}{name:<{width}} {rest}")
        if end == at:
            indent, _, rest, _ = rows[at]
            found.append(f"{indent}{rest}".rstrip() if not rest.startswith("<<") else rest)
            end = at + 1
        at = end
    return _commented(found, [row[3] for row in rows])


def _commented(lines: list[str], comments: list[str]) -> list[str]:
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and comments[end]:
            end += 1
        width = max((len(line) for line in lines[at:end]), default=0)
        for each in range(at, end):
            lines[each] = f"{lines[each]:<{width}} {comments[each]}"
        at = max(end, at + 1)
    return lines


def format_files(host: Host, asked: Arguments) -> int:
    """Rewrite the files of a folder, or tell which would be."""
    folders, changed = [*(asked.rest or ["."])], False
    for at in range(MOST_FOLDERS):
        if at >= len(folders):
            break
        names = host.names(folders[at])
        if names is None and host.read(folders[at]) is not None:
            changed = _one(host, asked, folders[at]) or changed
        for name in sorted(names or ()):
            path = posixpath.normpath(posixpath.join(folders[at], name))
            if name.endswith((".tf", ".tfvars")):
                changed = _one(host, asked, path) or changed
            elif asked.on("recursive") and not name.startswith(".") and host.names(path) is not None:
                folders.append(path)
    return 3 if changed and asked.on("check") else 0


def _one(host: Host, asked: Arguments, path: str) -> bool:
    text = host.source(path)
    parse(text, path)
    new = formatted(text)
    if new == text:
        return False
    if asked.on("list", True):
        host.say(path)
    if asked.on("diff"):
        host.write(
            "".join(difflib.unified_diff(text.splitlines(True), new.splitlines(True), f"old/{path}", f"new/{path}"))
        )
    if asked.on("write", True) and not asked.on("check"):
        host.put(path, new)
    return True
