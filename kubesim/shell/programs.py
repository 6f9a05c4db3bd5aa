"""From a name to the program that runs: PATH, permissions, ``#!`` lines, platforms."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.shell.errors import FileError, StartError
from kubesim.shell.files import Directory, File, View

MOST_INTERPRETERS = 4
NOT_FOUND, NOT_EXECUTABLE = 127, 126
LONGEST_ARGUMENT = 131_072
LONGEST_ARGUMENTS = 2 << 20


@dataclass(frozen=True, slots=True)
class Program:
    """A tool to run: its name in the table, whose version it is, its path and its arguments."""

    tool: str
    flavour: str
    path: str
    argv: tuple[str, ...]


def find(view: View, argv: list[str], path: str, *, runtime: bool = False) -> Program:
    """Return the program of a command line; raises StartError in the runtime's words or with a bare strerror()."""
    if not argv or not argv[0]:
        raise StartError("no command specified" if runtime else "", NOT_FOUND)
    if sum(map(len, argv)) > LONGEST_ARGUMENTS or max(map(len, argv)) > LONGEST_ARGUMENT:
        raise StartError(f"exec {argv[0]}: argument list too long" if runtime else "Argument list too long", 126)
    name = argv[0]
    try:
        where = name if "/" in name else search(view, name, path)
        return load(view, where, tuple(argv))
    except FileError as error:
        raise StartError(_runtime(name, error) if runtime else error.text, _code(error)) from error


def _code(error: FileError) -> int:
    return NOT_FOUND if error.code in ("ENOENT", "ENOTDIR") else NOT_EXECUTABLE


def _runtime(name: str, error: FileError) -> str:
    """Word a failure as runc does."""
    if error.code == "ENOEXEC":
        return f"exec {name}: exec format error"
    if error.code in ("ENOENT", "ENOTDIR"):
        if "/" in name:
            return f'exec: "{name}": stat {name}: {error.text.lower()}'
        return f'exec: "{name}": executable file not found in $PATH'
    return f'exec: "{name}": {error.text.lower()}'


def search(view: View, name: str, path: str) -> str:
    """Return the path of a command; raises FileError where PATH has none that may run."""
    found = FileError("ENOENT", name)
    for folder in path.split(":"):
        candidate = f"{folder or '.'}/{name}"
        node = view.find(candidate)
        if isinstance(node, File):
            if view.may(node, 1):
                return candidate
            found = FileError("EACCES", name)
    raise found


def load(view: View, path: str, argv: tuple[str, ...], depth: int = 0) -> Program:
    """Return what runs when the kernel executes ``path``; raises FileError."""
    node = view.node(path)
    if isinstance(node, Directory):
        raise FileError("EISDIR", path)
    if not isinstance(node, File) or not view.may(node, 1):
        raise FileError("EACCES", path)
    if node.platform:
        raise FileError("ENOEXEC", path)
    if node.program:
        flavour, _, tool = node.program.partition(":")
        return Program(tool, flavour, path, argv)
    head = bytes(node.content()[:256]).split(b"\n")[0]
    if not head.startswith(b"#!") or depth >= MOST_INTERPRETERS:
        raise FileError("ENOEXEC", path)
    words = head[2:].decode("utf-8", "replace").split(None, 1)
    if not words:
        raise FileError("ENOEXEC", path)
    inner = (*(word.strip() for word in words), path, *argv[1:])
    return load(view, words[0], inner, depth + 1)
