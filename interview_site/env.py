"""The only reader of the process environment. Everything else takes its values from settings."""

from __future__ import annotations

import os
import re
from ipaddress import ip_address
from pathlib import Path


class BadEnvironment(Exception):
    """A variable holds a value that cannot be used; the message says what to set instead."""


def text(name: str, default: str = "") -> str:
    """Return the variable, or ``default`` where it is unset or empty."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool = False) -> bool:
    """Return a boolean: ``True`` or ``False`` and nothing else, so that a typo cannot pass."""
    value = text(name)
    if not value:
        return default
    if value not in ("True", "False"):
        raise BadEnvironment(f"{name}={value!r} is neither True nor False. Run: export {name}={default}")
    return value == "True"


def number(name: str, default: int, *, low: int, high: int) -> int:
    """Return an integer from ``low`` to ``high``."""
    value = text(name, str(default))
    # Nine digits hold every port and count; Python refuses to convert thousands of them.
    if not re.fullmatch(r"[0-9]{1,9}", value) or not low <= int(value) <= high:
        raise BadEnvironment(
            f"{name}={value[:40]!r} is not a whole number from {low} to {high}. Run: export {name}={default}"
        )
    return int(value)


def folder(name: str, default: Path) -> Path:
    """Return an absolute folder path; it need not exist."""
    return Path(text(name, str(default))).expanduser().resolve()


def address(name: str, default: str) -> str:
    """Return an IP address to listen on."""
    value = text(name, default)
    try:
        return str(ip_address(value))
    except ValueError:
        raise BadEnvironment(
            f"{name}={value!r} is not an IP address of this machine. Run: export {name}={default}"
        ) from None


def host(name: str, default: str) -> str:
    """Return a host name or IP address without scheme, port or path."""
    value = text(name, default)
    if any(char in value for char in "/:@ ?#") and not _is_ip(value):
        raise BadEnvironment(
            f"{name}={value!r} must be a bare host name or address, without http:// or a port. "
            f"Run: export {name}={default}"
        )
    return value


def secret(name: str) -> str:
    """Return a secret from NAME, or from the file that NAME_FILE points to; empty where neither is set."""
    path = text(f"{name}_FILE")
    if not path:
        return text(name)
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as exc:
        raise BadEnvironment(f"{name}_FILE={path!r} cannot be read ({exc.strerror}). Run: unset {name}_FILE") from exc


def _is_ip(value: str) -> bool:
    try:
        ip_address(value)
    except ValueError:
        return False
    return True
