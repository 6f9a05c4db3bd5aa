"""Server-side request forgery: the addresses that a kubeconfig or a Prometheus address may lead to.

The name is resolved by the system, which also reads decimal, octal and hexadecimal spellings; what counts is where it
leads, and IPv4 inside IPv6 counts as IPv4.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA = {
    ipaddress.ip_address(text)
    for text in ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")
}
"""Metadata services that have no link-local address: AWS and Google over IPv6, Alibaba, Azure, Oracle."""
_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


class AddressRefused(Exception):
    """An address that nothing of ours may ask; the message says why."""


def check_url(url: str, *, loopback: bool) -> list[str]:
    """Return the addresses to which a URL's host leads, none of which is refused. Raises AddressRefused."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise AddressRefused("is not a valid address") from None
    if not host or any(char.isspace() for char in url):
        raise AddressRefused("is not a valid address")
    return [str(found) for found in _checked(host, port or 443, loopback)]


def refusal(address: str, *, loopback: bool) -> str:
    """Return why nothing of ours may connect to an IP address; empty where it may."""
    return _why_not(ipaddress.ip_address(address.partition("%")[0]), loopback)


def _checked(host: str, port: int, loopback: bool) -> list[Address]:
    found = list(dict.fromkeys(_resolve(host, port)))
    for address in found:
        if why := _why_not(address, loopback):
            shown = host if host == str(address) else f"{host} ({address})"
            raise AddressRefused(f"{shown} {why}")
    return found


def _resolve(host: str, port: int) -> Iterator[Address]:
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise AddressRefused(f"{host} cannot be resolved") from None
    for *_, sockaddr in answers:
        yield ipaddress.ip_address(str(sockaddr[0]).partition("%")[0])


def _why_not(address: Address, loopback: bool) -> str:
    """Return why an address is refused, or nothing. An address inside another counts as itself."""
    inner = _embedded(address)
    if inner is not None:
        return _why_not(inner, loopback)
    if address.is_loopback or address.is_unspecified:
        return "" if loopback else "is this machine itself; that is allowed only while BIND is a loopback address"
    if address.is_link_local or address in _METADATA:
        return "is a link-local or metadata address"
    if address.is_multicast or (address.version == 4 and address == ipaddress.IPv4Address("255.255.255.255")):
        return "is no address of a server"
    return ""


def _embedded(address: Address) -> ipaddress.IPv4Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if any(address in network for network in _NAT64) or (int(address) >> 32 == 0 and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
