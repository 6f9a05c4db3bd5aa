"""IP addresses and ranges of them as the API reads them, and upstream's words for what is none."""

from __future__ import annotations

import ipaddress
import re

ADDRESS_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
LEADING_NOUGHTS = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
DIGITS = re.compile(r"[0-9]{1,3}")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parsed(text: str) -> Address | None:
    """Return an address, or None; a leading nought is none too many, as it was once."""
    try:
        return None if "%" in text else ipaddress.ip_address(LEADING_NOUGHTS.sub("", text))
    except ValueError:
        return None


def fourth(text: str) -> ipaddress.IPv4Address | None:
    """Return an address of the fourth family, in whatever clothes, or None."""
    found = parsed(text)
    return found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else found


def is_six(text: str) -> bool:
    """Tell whether a text is an address of the sixth family, and not one of the fourth in its clothes."""
    found = parsed(text)
    return isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None


def network(text: str) -> Network | None:
    """Return a range of addresses, or None."""
    base, _, bits = text.partition("/")
    found = parsed(base)
    if found is None or not DIGITS.fullmatch(bits) or int(bits) > found.max_prefixlen:
        return None
    return ipaddress.ip_network((found, int(bits)), strict=False)
