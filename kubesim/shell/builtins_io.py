"""Builtins that print and read: echo, printf, read, cd, pwd, type, command, history."""

from __future__ import annotations

import posixpath
import re
from itertools import takewhile
from typing import TYPE_CHECKING

from kubesim.clock import first
from kubesim.shell.errors import FileError
from kubesim.shell.expand import cut
from kubesim.shell.files import Directory
from kubesim.shell.printf import FormatError, Formatter, escapes
from kubesim.shell.programs import search
from kubesim.shell.state import ShellError, options

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

KEYWORDS = frozenset(
    ("if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "{", "}", "!", "in")
) | {"function", "time", "[["}
LONGEST_LINE = 1 << 20


async def echo(shell: Shell, argv: list[str]) -> int:
    """Print the arguments."""
    args, newline, escaped = argv[1:], True, shell.dialect == "dash"
    flags = "n" if shell.dialect == "dash" else "neE"
    while args and len(args[0]) > 1 and args[0][0] == "-" and set(args[0][1:]) <= set(flags):
        for flag in args.pop(0)[1:]:
            newline = newline and flag != "n"
            escaped = flag == "e" if flag in "eE" else escaped
        if shell.dialect == "dash":
            break
    text = " ".join(args)
    stop = False
    if escaped:
        text, stop = escapes(text, echo=True, hexadecimal=shell.dialect != "dash")
    await shell.process.write(text + ("\n" if newline and not stop else ""))
    return 0


async def printf(shell: Shell, argv: list[str]) -> int:
    """Print formatted arguments."""
    given, args = options(argv, "v:" if shell.dialect == "bash" else "", "[-v var] format [arguments]")
    if not args:
        await shell.process.error("printf: usage: printf [-v var] format [arguments]\n")
        return 2
    formatter = Formatter(args[0], args[1:], quoting=shell.dialect != "dash", now=shell.process.machine.now)
    try:
        text = formatter.text()
    except FormatError as error:
        await shell.complain(f"`{str(error)[-1:]}': invalid format character", "printf")
        return 1
    status = await shell.lament(formatter.problems, "invalid number", "printf")
    if "v" in given:
        shell.state.set(given["v"], text)
    else:
        await shell.process.write(text)
    return status


NUMBERS_OF_READ = {
    "u": "invalid file descriptor specification",
    "t": "invalid timeout specification",
    "n": "invalid number",
    "N": "invalid number",
}
READ_USAGE = (
    "[-ers] [-a array] [-d delim] [-i text] [-n nchars] [-N nchars] [-p prompt] [-t timeout] [-u fd] [name ...]"
)


async def read(shell: Shell, argv: list[str]) -> int:
    """Read a line into variables."""
    opts, names = options(argv, "ersa:d:i:n:N:p:t:u:", READ_USAGE)
    for name in names:
        if not name.isidentifier():
            raise ShellError(f"`{name}': not a valid identifier", 1)
    for option, text in NUMBERS_OF_READ.items():
        form = r"[0-9]{1,9}(?:\.[0-9]{1,9})?" if option == "t" else r"[0-9]{1,9}"
        if option in opts and not re.fullmatch(form, opts[option]):
            raise ShellError(f"{opts[option]}: {text}", 1)
    terminal = shell.process.tty(0)
    if "p" in opts and terminal:
        await shell.process.error(opts["p"])
    try:
        if terminal:
            terminal.echo = "s" not in opts
        line, ended = await _timed(shell, opts)
    finally:
        if terminal:
            terminal.echo = True
    _share(shell, line, opts, names)
    return 0 if ended else 142 if ended is None else 1


async def _timed(shell: Shell, opts: dict[str, str]) -> tuple[str, bool | None]:
    if "t" not in opts:
        return await _read_line(shell, opts, [])
    got: list[str] = []
    clock = shell.process.machine.clock.sleep(float(opts["t"]))
    reading, _ = await first(_read_line(shell, opts, got), clock)
    return reading.result() if reading.done() else ("".join(got), None)


async def _read_line(shell: Shell, opts: dict[str, str], got: list[str]) -> tuple[str, bool]:
    """Read byte by byte, so that programs after this one get the rest."""
    fd, end = int(opts.get("u", "0")), (opts.get("d", "\n") or "\0")[0].encode()
    most = int(opts.get("n") or opts.get("N") or 0)
    data = bytearray()
    terminal = shell.process.tty(fd)
    if terminal and most:
        terminal.mode(raw=True)
    try:
        while len(data) < LONGEST_LINE:
            byte = await shell.process.read(1, fd)
            await shell.process.tick()
            if not byte:
                return _decoded(data), False
            if byte == end and "N" not in opts:
                if "r" in opts or not data.endswith(b"\\") or (len(data) - len(data.rstrip(b"\\"))) % 2 == 0:
                    return _decoded(data), True
                data += byte
                continue
            data += byte
            got.append(byte.decode("latin-1"))
            if most and len(_decoded(data)) >= most and not data[-1] & 0x80:
                return _decoded(data), True
        return _decoded(data), True
    finally:
        if terminal and most:
            terminal.mode(raw=False)


def _decoded(data: bytes | bytearray) -> str:
    return bytes(data).replace(b"\0", b"").decode("utf-8", "surrogateescape")


def _share(shell: Shell, line: str, opts: dict[str, str], names: list[str]) -> None:
    value = shell.state.get("IFS")
    ifs = " \t\n" if value is None else value
    if "r" not in opts:
        line = re.sub(r"\\([\s\S]?)", _protected, line)
    if "a" in opts:
        words = cut(line, ifs)[0] if ifs else [line]
        variable = shell.state.variable(opts["a"])
        shell.state.put_items(variable, {str(index): _restored(word) for index, word in enumerate(words)})
    elif not names or "N" in opts:
        shell.state.set(names[0] if names else "REPLY", _restored(line))
    else:
        for name in names[:-1]:
            word, line = _first(line, ifs)
            shell.state.set(name, _restored(word))
        shell.state.set(names[-1], _restored(_last(line, ifs)))


PROTECTED = 0xF0000
"""Added to a character that a backslash keeps from being split: Unicode's own area for such uses."""


def _protected(match: re.Match[str]) -> str:
    char = match[1].replace("\n", "")
    return chr(ord(char) + PROTECTED) if char and ord(char) < 0x10000 else char


def _restored(word: str) -> str:
    return re.sub("[\U000f0000-\U000fffff]", lambda match: chr(ord(match[0]) - PROTECTED), word)


def _first(line: str, ifs: str) -> tuple[str, str]:
    """Return the first word and the rest."""
    blank = "".join(char for char in ifs if char in " \t\n")
    line = line.lstrip(blank)
    word = "".join(takewhile(lambda char: char not in ifs, line))
    rest = line[len(word) :].lstrip(blank)
    return word, rest[1:] if rest[:1] in {*ifs} - {*blank} else rest


def _last(line: str, ifs: str) -> str:
    """Return what the last name gets: all that is left, without a separator at its end."""
    line = line.strip("".join(char for char in ifs if char in " \t\n"))
    words = cut(line, ifs)[0] if ifs else [line]
    return words[0] if len(words) == 1 and line[-1:] in ifs and line else line


async def cd(shell: Shell, argv: list[str]) -> int:
    """Change the working directory."""
    args = [arg for arg in argv[1:] if arg not in ("-L", "-P", "--")]
    if len(args) > 1:
        raise ShellError("too many arguments", 1)
    target = args[0] if args else shell.state.get("HOME")
    if target is None:
        raise ShellError("HOME not set", 1)
    show = target == "-"
    if show:
        target = shell.state.get("OLDPWD") or ""
        if not target:
            raise ShellError("OLDPWD not set", 1)
    old = shell.state.get("PWD") or shell.process.cwd
    path = posixpath.normpath(posixpath.join(old, target)) if target else old
    path = "/" + path.lstrip("/")
    await _enter(shell, target, path, physical="-P" in argv)
    shell.state.set("OLDPWD", old)
    shell.state.set("PWD", shell.process.view.cwd)
    if show:
        await shell.process.write(shell.process.view.cwd + "\n")
    return 0


async def _enter(shell: Shell, target: str, path: str, *, physical: bool) -> None:
    view = shell.process.view
    try:
        node = view.node(path)
        if not isinstance(node, Directory):
            raise FileError("ENOTDIR", path)
        if not view.may(node, 1):
            raise FileError("EACCES", path)
    except FileError as error:
        raise ShellError(f"{target}: {error.text}", 1) from error
    view.cwd = view.place(path).path if physical else path


async def pwd(shell: Shell, argv: list[str]) -> int:
    """Print the working directory."""
    path = shell.process.view.cwd
    await shell.process.write((shell.process.view.place(path).path if "-P" in argv else path) + "\n")
    return 0


async def type_(shell: Shell, argv: list[str]) -> int:
    """Say what a name is."""
    flags, names = options(argv, "afptP", "[-afptP] name [name ...]")
    status = 0
    for name in names:
        kind, text = _kind(shell, name)
        if kind:
            await shell.process.write((kind if "t" in flags else text) + "\n")
            continue
        status = 1
        if "t" not in flags:
            await shell.complain(f"{name}: not found", "type")
    return status


def _kind(shell: Shell, name: str) -> tuple[str, str]:
    if name in shell.state.aliases:
        return "alias", f"{name} is aliased to `{shell.state.aliases[name]}'"
    if name in KEYWORDS:
        return "keyword", f"{name} is a shell keyword"
    if name in shell.state.functions:
        body = f"\n{shell.state.functions[name][1]}"
        return "function", f"{name} is a function{body}"
    if name in shell.builtins:
        return "builtin", f"{name} is a shell builtin"
    path = _path(shell, name)
    return ("file", f"{name} is {path}") if path else ("", "")


def _path(shell: Shell, name: str) -> str:
    try:
        if "/" in name:
            node = shell.process.view.node(name)
            return name if shell.process.view.may(node, 1) else ""
        return search(shell.process.view, name, shell.state.get("PATH") or "")
    except FileError:
        return ""


async def command(shell: Shell, argv: list[str]) -> int:
    """Run a command that no function hides, or say where it is."""
    flags, args = options(argv, "pvV", "[-pVv] command [arg ...]")
    if not args:
        return 0
    if flags.keys() & {"v", "V"}:
        return await _where(shell, args, verbose="V" in flags)
    if args[0] in shell.builtins:
        return await shell.builtins[args[0]](shell, args)
    program = await shell.program(args)
    if program is None:
        return shell.status
    return await shell.process.run(args, env=shell.state.environment()).wait()


async def _where(shell: Shell, names: list[str], *, verbose: bool) -> int:
    found = False
    for name in names:
        kind, text = _kind(shell, name)
        if not kind:
            if verbose:
                await shell.complain(f"{name}: not found", "command")
            continue
        found = True
        if verbose:
            await shell.process.write(text + "\n")
        elif kind == "alias":
            await shell.process.write(f"alias {name}='{shell.state.aliases[name]}'\n")
        else:
            await shell.process.write((_path(shell, name) if kind == "file" else name) + "\n")
    return 0 if found else 1


async def hash_(shell: Shell, argv: list[str]) -> int:
    """Pretend to remember where commands are."""
    _, names = options(argv, "rdltp:", "[-lr] [-p pathname] [-dt] [name ...]")
    unknown = (name for name in names if not _path(shell, name) and name not in shell.builtins)
    return await shell.lament(unknown, "not found", "hash")
