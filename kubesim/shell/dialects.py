"""Where bash, dash and BusyBox ash word things differently."""

from __future__ import annotations

from kubesim.shell.errors import FileError, StartError

OPENING = {
    "dash": (("cannot open", "cannot create"), ("No such file", "Directory nonexistent")),
    "ash": (("can't open", "can't create"), ("no such file", "nonexistent directory")),
}
"""Refusals of a file that is read or created, and the words for one that is missing."""


def place(dialect: str, name: str, line: int, interactive: bool) -> str:
    """Return what stands before a message."""
    if dialect == "dash":
        return f"{name}: {line}: "
    return f"{name}: " if interactive or line < 0 else f"{name}: line {line}: "


def not_found(dialect: str, name: str, error: StartError) -> str:
    """Word that a command cannot be run."""
    if error.code == 127 and error.text in ("No such file or directory", "", "Not a directory"):
        if dialect == "bash":
            return f"{name}: {'No such file or directory' if '/' in name else 'command not found'}"
        return f"{name}: {'not found' if name else 'Permission denied'}"
    if error.text == "Is a directory" and dialect != "bash":
        return f"{name}: Permission denied"
    if error.text == "Exec format error" and dialect == "bash":
        return f"{name}: cannot execute binary file: Exec format error"
    return f"{name}: {error.text}"


def cannot_open(dialect: str, error: FileError, *, creating: bool) -> str:
    """Word that a redirection failed."""
    if dialect == "bash":
        return f"{error.path}: {'cannot overwrite existing file' if error.code == 'EEXIST' else error.text}"
    if error.code == "EBADF":
        return f"{error.path}: {error.text}"
    verbs, missing = OPENING[dialect]
    return f"{verbs[creating]} {error.path}: {missing[creating] if error.code == 'ENOENT' else error.text}"
