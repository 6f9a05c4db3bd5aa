"""The only reader of the process environment. Everything else takes its values from settings."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

BASE_DIR = Path(__file__).resolve().parent.parent
# RFC 1123, and the underscore that some networks use.
_HOST_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?)*")
# A name with an optional registry in front, and an optional tag or digest behind.
_IMAGE = re.compile(
    r"(?=.{1,300}$)[a-z0-9][a-z0-9.:-]*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)


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
    """Return an absolute folder path; it need not exist. A relative one counts from the checkout."""
    try:
        return (BASE_DIR / Path(text(name, str(default))).expanduser()).resolve()
    except (RuntimeError, OSError, ValueError) as exc:
        raise BadEnvironment(f"{name}={text(name)!r} is no folder: {exc}. Run: unset {name}") from None


def address(name: str, default: str) -> str:
    """Return an IP address to listen on."""
    value = text(name, default)
    try:
        found = ip_address(value)
    except ValueError:
        found = None
    if found is None or found.is_multicast or "%" in value:
        raise BadEnvironment(f"{name}={value!r} is not an IP address of this machine. Run: export {name}={default}")
    return str(found)


def host(name: str, default: str) -> str:
    """Return a host name in lower case, or an IP address; without scheme, port or path."""
    value = text(name, default).lower()
    if not _is_ip(value) and not _HOST_NAME.fullmatch(value):
        raise BadEnvironment(
            f"{name}={value!r} must be a bare host name or address, without http:// or a port. "
            f"Run: export {name}={default}"
        )
    return str(ip_address(value)) if _is_ip(value) else value


def networks(name: str) -> list[str]:
    """Return IP addresses and networks, separated by commas; none where the variable is unset."""
    found = []
    for value in filter(None, (part.strip() for part in text(name).split(","))):
        try:
            network = ip_network(value)
        except ValueError:
            network = None
        if network is None or network.prefixlen == 0 or "%" in value:
            raise BadEnvironment(
                f"{name}: {value[:60]!r} is not an address or a network such as 10.0.0.0/24. "
                f"Run: export {name}=127.0.0.1"
            )
        found.append(str(network.network_address) if network.num_addresses == 1 else str(network))
    return found


def image(name: str) -> str:
    """Return a reference to a container image; empty where the variable is unset."""
    value = text(name)
    if value and not _IMAGE.fullmatch(value):
        raise BadEnvironment(
            f"{name}={value[:60]!r} is not the name of an image. Run: export {name}=registry.example.com/toolbox:1"
        )
    return value


def url(name: str, default: str, schemes: Sequence[str]) -> str:
    """Return a URL of one of the schemes, with a host or a path."""
    value = text(name, default)
    try:
        parts = urlsplit(value)
        good = parts.scheme in schemes and bool(parts.hostname or parts.path.strip("/")) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        # Not the value itself: it may hold a password.
        known = ", ".join(f"{scheme}://" for scheme in schemes)
        raise BadEnvironment(f"{name} is not a URL that begins with {known}. Run: unset {name}")
    return value


def time_zone(name: str, default: str) -> str:
    """Return the name of a time zone that this machine knows."""
    value = text(name, default)
    try:
        ZoneInfo(value)
    except (ValueError, OSError, KeyError):
        raise BadEnvironment(
            f"{name}={value!r} is not a time zone such as Europe/Vienna. Run: export {name}={default}"
        ) from None
    return value


def secret(name: str) -> str:
    """Return a secret from NAME, or from the file that NAME_FILE points to; empty where neither is set."""
    path = text(f"{name}_FILE")
    if not path:
        return text(name)
    try:
        value = (BASE_DIR / path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or "it is not text"
        raise BadEnvironment(f"{name}_FILE={path!r} cannot be read ({why}). Run: unset {name}_FILE") from exc
    if not value:
        raise BadEnvironment(f"{name}_FILE={path!r} is empty. Run: unset {name}_FILE")
    return value


def _is_ip(value: str) -> bool:
    try:
        return "%" not in value and bool(ip_address(value))
    except ValueError:
        return False


def copy_for_c() -> None:
    """Give the C library its own copies of the variables, before the memory that they came in is used for else."""
    for name, value in os.environ.items():
        os.putenv(name, value)
