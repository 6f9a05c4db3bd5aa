"""What a Go client says of a server's certificate that it does not trust."""

from __future__ import annotations

import ipaddress
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature

UNKNOWN = "certificate signed by unknown authority"
DEPTH = 8


def refusal(chain: bytes, bundle: bytes, name: str, now: datetime) -> str:
    """Return why a chain (PEM, the server's own certificate first) is no proof of ``name``; empty where it is one.

    In the order in which Go looks: the time, the name, then whether an authority of ``bundle`` (PEM) has signed it.
    """
    try:
        leaf, *between = x509.load_pem_x509_certificates(chain)
        roots = x509.load_pem_x509_certificates(bundle) if bundle.strip() else []
    except ValueError:
        return UNKNOWN
    return _untimely(leaf, now) or _misnamed(leaf, name) or _unsigned(leaf, between, roots, DEPTH)


def _untimely(leaf: x509.Certificate, now: datetime) -> str:
    start, end = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if start <= now <= end:
        return ""
    which, bound = ("before", start) if now < start else ("after", end)
    shown = f"{now:%Y-%m-%dT%H:%M:%SZ} is {which} {bound:%Y-%m-%dT%H:%M:%SZ}"
    return f"certificate has expired or is not yet valid: current time {shown}"


def _misnamed(leaf: x509.Certificate, name: str) -> str:
    """Return what is said of a certificate for others."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return "certificate relies on legacy Common Name field, use SANs instead"
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        known = names.get_values_for_type(x509.DNSName)
        if any(_covers(pattern.lower(), name.lower()) for pattern in known):
            return ""
        if not known:
            return f"certificate is not valid for any names, but wanted to match {name}"
        return f"certificate is valid for {', '.join(known)}, not {name}"
    found = names.get_values_for_type(x509.IPAddress)
    if address in found:
        return ""
    if not found:
        return f"cannot validate certificate for {name} because it doesn't contain any IP SANs"
    return f"certificate is valid for {', '.join(map(str, found))}, not {name}"


def _covers(pattern: str, name: str) -> bool:
    if pattern.startswith("*."):
        return name.partition(".")[2] == pattern[2:]
    return pattern == name


def _unsigned(
    cert: x509.Certificate, between: list[x509.Certificate], roots: list[x509.Certificate], depth: int
) -> str:
    """Return what is said of a certificate that no authority vouches for."""
    if cert in roots:
        return ""
    for issuer in (*roots, *between):
        if issuer.subject != cert.issuer or not depth:
            continue
        try:
            cert.verify_directly_issued_by(issuer)
        except (InvalidSignature, ValueError, TypeError):
            continue
        if issuer in roots or not _unsigned(issuer, between, roots, depth - 1):
            return ""
    return UNKNOWN
