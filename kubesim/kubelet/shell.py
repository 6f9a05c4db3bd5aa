"""``sh -c`` for containers: lists, loops, conditions and the few commands that test pods are made of.

It parses with ``shlex`` and interprets on the clock of ``programs``: no process is started and no file is touched.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kubesim.gpu.board import KERNEL
from kubesim.kubelet.programs import Exit, Halt, Line, Output, Run, Watch

NOT_FOUND = 127
SEPARATORS = {"&&", "||", ";", "|", "&"}
LONGEST_EXPANSION = 1 << 20  # characters; a variable that doubles itself must not fill the memory
_EXPANSION = re.compile(r"\$\(([^()]*)\)|\$\{(\w+)\}|\$(\w+|\?|\$|#)")
Delegate = Callable[[list[str]], Run | None]


@dataclass(frozen=True, slots=True)
class Command:
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Commands with the operator before each."""

    parts: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    kind: str
    condition: Node | None
    name: str
    words: tuple[str, ...]
    body: Node


@dataclass(frozen=True, slots=True)
class Branch:
    condition: Node
    then: Node
    other: Node | None


Node = Command | Chain | Loop | Branch


@dataclass
class Shell:
    """One interpreter: variables, the last status and the time."""

    watch: Watch
    env: dict[str, str]
    programs: Mapping[str, str]
    delegate: Delegate
    dash: bool
    status: int = 0
    out: list[str] = field(default_factory=list)


def script(text: str, env: Mapping[str, str], programs: Mapping[str, str], delegate: Delegate) -> Run:
    """Return the run of ``sh -c text``; ``delegate`` runs a program that the shell itself does not know."""

    def run(horizon: float, limit: int) -> Iterator[Output]:
        shell = Shell(Watch(horizon, limit), dict(env), programs, delegate, dash="ash" not in programs)
        try:
            yield from _run(_parse(text), shell)
        except Halt as halt:
            if halt.code is not None:
                yield Exit(shell.watch.at, halt.code)
            return
        except (ValueError, RecursionError) as error:
            cause = error if isinstance(error, ValueError) else "nested too deeply"
            yield Line(shell.watch.at, f"sh: 1: Syntax error: {cause}", "stderr")
            yield Exit(shell.watch.at, 2)
            return
        yield Exit(shell.watch.at, shell.status)

    return run


def _tokens(text: str) -> list[str]:
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=";&|\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    return [_operator(token) if set(token) <= set(";&|\n") and token else token for token in lexer]


def _operator(token: str) -> str:
    for operator in ("&&", "||", "|"):
        if operator in token:
            return operator
    return ";"


def _parse(text: str) -> Node:
    tokens = _tokens(text)
    node = _chain(tokens, set())
    if tokens:
        raise ValueError(f'"{tokens[0]}" unexpected')
    return node


def _chain(tokens: list[str], ends: set[str]) -> Node:
    parts: list[tuple[str, Node]] = []
    operator = ";"
    while tokens and tokens[0] not in ends:
        if tokens[0] in SEPARATORS:
            operator = tokens.pop(0)
            continue
        parts.append((operator, _one(tokens)))
        operator = ";"
    return Chain(tuple(parts))


def _one(tokens: list[str]) -> Node:
    head = tokens[0]
    if head in ("while", "until"):
        tokens.pop(0)
        condition = _until(tokens, "do")
        return Loop(head, condition, "", (), _until(tokens, "done"))
    if head == "for":
        return _for(tokens)
    if head == "if":
        tokens.pop(0)
        return _if(tokens)
    words = []
    while tokens and tokens[0] not in SEPARATORS:
        words.append(tokens.pop(0))
    return Command(tuple(words))


def _for(tokens: list[str]) -> Node:
    tokens.pop(0)
    name = tokens.pop(0) if tokens else ""
    words = []
    while tokens and tokens[0] != "do":
        word = tokens.pop(0)
        if word not in ("in", ";"):
            words.append(word)
    _expect(tokens, "do")
    return Loop("for", None, name, tuple(words), _until(tokens, "done"))


def _if(tokens: list[str]) -> Node:
    condition = _until(tokens, "then")
    then = _chain(tokens, {"else", "elif", "fi"})
    word = tokens.pop(0) if tokens else ""
    if word == "elif":
        return Branch(condition, then, _if(tokens))
    if word == "else":
        return Branch(condition, then, _until(tokens, "fi"))
    if word != "fi":
        raise ValueError('end of file unexpected (expecting "fi")')
    return Branch(condition, then, None)


def _until(tokens: list[str], end: str) -> Node:
    node = _chain(tokens, {end})
    _expect(tokens, end)
    return node


def _expect(tokens: list[str], word: str) -> None:
    if not tokens:
        raise ValueError(f'end of file unexpected (expecting "{word}")')
    tokens.pop(0)


def _run(node: Node, shell: Shell) -> Iterator[Output]:
    if isinstance(node, Command):
        yield from _command(node, shell)
    elif isinstance(node, Chain):
        for operator, part in node.parts:
            if operator == "&&" and shell.status or operator == "||" and not shell.status:
                continue
            yield from _run(part, shell)
    elif isinstance(node, Branch):
        yield from _run(node.condition, shell)
        chosen = node.then if shell.status == 0 else node.other
        shell.status = 0
        if chosen is not None:
            yield from _run(chosen, shell)
    else:
        yield from _loop(node, shell)


def _loop(node: Loop, shell: Shell) -> Iterator[Output]:
    if node.condition is None:
        for word in [piece for raw in node.words for piece in _expand(raw, shell).split()]:
            shell.env[node.name] = word
            yield from _run(node.body, shell)
        return
    while True:
        yield from _run(node.condition, shell)
        if (shell.status == 0) != (node.kind == "while"):
            shell.status = 0
            return
        yield from _run(node.body, shell)
        shell.watch.spend()


def _command(node: Command, shell: Shell) -> Iterator[Output]:
    words = [_expand(word, shell) for word in node.words]
    words, quiet, stream = _redirections(words)
    while words and re.fullmatch(r"\w+=.*", words[0], re.DOTALL):
        name, _, value = words.pop(0).partition("=")
        shell.env[name] = value
    if not words:
        return
    shell.watch.spend()
    if words[0] == "exec" and len(words) > 1:
        yield from _command(Command(tuple(words[1:])), shell)
        raise Halt(shell.status)
    for out in _builtin(words, shell):
        if not quiet:
            yield Line(out.at, out.text, stream or out.stream)


def _redirections(words: list[str]) -> tuple[list[str], bool, str]:
    kept: list[str] = []
    quiet, stream, skip = False, "", False
    for word in words:
        if skip:
            skip = False
        elif word in (">", ">>", "1>", "2>"):
            quiet, skip = quiet or word != "2>", True
        elif word in (">&2", "1>&2"):
            stream = "stderr"
        elif re.fullmatch(r"[12]?>>?.+|2>&1", word):
            quiet = quiet or not word.startswith("2")
        else:
            kept.append(word)
    return kept, quiet, stream


def _builtin(words: list[str], shell: Shell) -> Iterator[Line]:
    name, args = words[0].rsplit("/", 1)[-1], words[1:]
    shell.status = 0
    if name == "exit":
        raise Halt(int(args[0]) % 256 if args and args[0].lstrip("-").isdigit() else 0)
    if name == "sleep":
        shell.watch.spend(_seconds(args))
    elif name in ("false", "["):
        shell.status = 1 if name == "false" else _test(args[:-1])
    elif name == "test":
        shell.status = _test(args)
    elif name == "export":
        shell.env |= dict(arg.split("=", 1) for arg in args if "=" in arg)
    elif name not in ("true", ":", "set", "trap", "wait", "mkdir", "touch", "rm", "cd"):
        yield from _printing(name, words, shell)


def _printing(name: str, words: list[str], shell: Shell) -> Iterator[Line]:
    args = words[1:]
    text = _text(name, args, shell)
    if text is not None:
        yield from (Line(shell.watch.at, line) for line in text.split("\n"))
        return
    run = shell.delegate(words)
    if run is None:
        place = "sh: 1: " if shell.dash else "sh: "
        shell.status = NOT_FOUND
        yield Line(shell.watch.at, f"{place}{words[0]}: not found", "stderr")
        return
    start = shell.watch.at
    for out in run(shell.watch.horizon - start, shell.watch.limit):
        if isinstance(out, Exit):
            shell.watch.spend(out.at)
            shell.status = out.code
            return
        yield Line(start + out.at, out.text, out.stream)
    raise Halt(None)


def _text(name: str, args: list[str], shell: Shell) -> str | None:
    if name == "echo":
        flags = [arg for arg in args[:1] if arg in ("-n", "-e")]
        return " ".join(args[len(flags) :])
    if name == "printf":
        return args[0].replace("\\n", "\n").rstrip("\n") if args else ""
    if name == "hostname":
        return shell.env.get("HOSTNAME", "")
    if name == "env":
        return "\n".join(f"{key}={value}" for key, value in shell.env.items())
    if name == "uname":
        return _uname(args, shell.env.get("HOSTNAME", ""))
    if name == "seq" and args and args[-1].isdigit():
        first = int(args[0]) if len(args) > 1 and args[0].isdigit() else 1
        return "\n".join(str(number) for number in range(first, int(args[-1]) + 1))
    return None


def _uname(args: list[str], host: str) -> str:
    """Answer as a node of a simulated cluster does; all of them are amd64."""
    words = {"s": "Linux", "n": host, "r": KERNEL, "v": "#1 SMP", "m": "x86_64", "o": "GNU/Linux"}
    asked = "".join(arg.lstrip("-") for arg in args if arg.startswith("-")) or "s"
    return " ".join(word for flag, word in words.items() if flag in asked or "a" in asked)


def _seconds(args: list[str]) -> float:
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    total = 0.0
    for arg in args:
        if arg in ("infinity", "inf"):
            return 10.0**9
        factor = units.get(arg[-1:], 0)
        number = arg[:-1] if factor else arg
        if re.fullmatch(r"\d+(\.\d*)?|\.\d+", number):
            total += float(number) * (factor or 1)
    return total


def _test(args: list[str]) -> int:
    if len(args) == 3 and args[1] in ("=", "==", "-eq"):
        return int(args[0] != args[2])
    if len(args) == 3 and args[1] in ("!=", "-ne"):
        return int(args[0] == args[2])
    if len(args) == 2:
        return int({"-n": bool(args[1]), "-z": not args[1]}.get(args[0], False) is False)
    return int(not (len(args) == 1 and args[0]))


def _expand(word: str, shell: Shell) -> str:
    room = LONGEST_EXPANSION

    def replace(match: re.Match[str]) -> str:
        nonlocal room
        found = value(match)[: max(room, 0)]
        room -= len(found)
        return found

    def value(match: re.Match[str]) -> str:
        inner = match[1]
        if inner is None:
            name = match[2] or match[3]
            return str(shell.status) if name == "?" else shell.env.get(name, "")
        words = [_expand(part, shell) for part in inner.split()]
        text = _text(words[0], words[1:], shell) if words else ""
        return (text or "").strip()

    return _EXPANSION.sub(replace, word)
