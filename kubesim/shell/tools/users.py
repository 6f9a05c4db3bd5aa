"""Names of users and groups, from the container's own files."""

from __future__ import annotations

from kubesim.shell.files import File, View


def _table(view: View, path: str) -> list[list[str]]:
    node = view.find(path)
    if not isinstance(node, File):
        return []
    return [line.split(":") for line in bytes(node.content()).decode("utf-8", "replace").splitlines()]


def name_of(view: View, number: int, path: str = "/etc/passwd") -> str:
    """Return the name of a user, or with /etc/group of a group; the number itself where it has none."""
    return next((row[0] for row in _table(view, path) if len(row) > 2 and row[2] == str(number)), str(number))


def number_of(view: View, name: str, path: str = "/etc/passwd") -> int | None:
    """Return the number of a user or group given by name or number."""
    if name.isdecimal():
        return int(name)
    return next((int(row[2]) for row in _table(view, path) if row[0] == name and len(row) > 2), None)


def home_of(view: View, name: str) -> str:
    """Return a user's home; the root where the container knows no such user."""
    return next((row[5] for row in _table(view, "/etc/passwd") if row[0] == name and len(row) > 5), "/")
