"""Where bash, dash and BusyBox ash word things differently."""

from __future__ import annotations

from kubesim.shell.errors import FileError, StartError


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
    text = error.text
    if dialect == "bash" and error.code == "EEXIST":
        return f"{error.path}: cannot overwrite existing file"
    if dialect == "bash":
        return f"{error.path}: {text}"
    if error.code == "EBADF":
        return f"{error.path}: Bad file descriptor" if dialect == "dash" else f"{error.path}: {text}"
    if error.code == "ENOENT":
        text = "Directory nonexistent" if creating else "No such file"
    verb = (
        ("cannot create" if creating else "cannot open")
        if dialect == "dash"
        else ("can't create" if creating else "can't open")
    )
    if dialect == "ash" and error.code == "ENOENT":
        text = "nonexistent directory" if creating else "no such file"
    return f"{verb} {error.path}: {text}"
