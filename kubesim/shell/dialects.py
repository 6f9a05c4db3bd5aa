"""Words of bash, dash and BusyBox' ash that differ: places, unknown commands, and files that do not open."""

from __future__ import annotations

from kubesim.shell.errors import FileError, StartError

_OPENING = {
    "dash": (("cannot open", "No such file"), ("cannot create", "Directory nonexistent")),
    "ash": (("can't open", "no such file"), ("can't create", "nonexistent directory")),
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
    if dialect == "bash" or error.code == "EBADF":
        return f"{error.path}: {'cannot overwrite existing file' if error.code == 'EEXIST' else error.text}"
    verb, missing = _OPENING[dialect][creating]
    return f"{verb} {error.path}: {missing if error.code == 'ENOENT' else error.text}"
