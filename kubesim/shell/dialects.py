"""The one thing that bash, dash and BusyBox' ash word differently here: where an error is, and an unknown command."""

from __future__ import annotations

from kubesim.shell.errors import StartError


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
