"""How often something may be tried. The database counts, so that all processes share one count and none is lost.

Where the database does not answer, neither does what is limited: signing in fails closed.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address, ip_network

from django.http import HttpRequest

from sessions import clock
from sessions.models import Attempt

KEEP = timedelta(hours=1)
_IPV6_SITE = 64  # bits: one customer has as many addresses as they like inside


@dataclass(frozen=True, slots=True)
class Limit:
    """At most ``count`` tries in any ``seconds`` seconds."""

    name: str
    count: int
    seconds: int = 60


SIGN_IN_ACCOUNT = Limit("sign-in of an account", 5)
SIGN_IN_ADDRESS = Limit("sign-in from an address", 30)  # hashing a password costs us more than asking costs them
JOIN_ADDRESS = Limit("join from an address", 10)


def attempt(limit: Limit, who: str) -> int:
    """Count one try; return 0 where it may go on, else the seconds to wait. A refused try does not count."""
    now, bucket = clock.now(), _bucket(limit, who)
    Attempt.objects.filter(at__lt=now - KEEP).delete()
    own = Attempt.objects.create(bucket=bucket, at=now)
    recent = Attempt.objects.filter(bucket=bucket, at__gt=now - timedelta(seconds=limit.seconds), pk__lt=own.pk)
    oldest = recent.order_by("-pk").values_list("at", flat=True)[limit.count - 1 : limit.count].first()
    if oldest is None:
        return 0
    own.delete()
    return max(1, math.ceil((oldest - now).total_seconds() + limit.seconds))


def forgive(limit: Limit, who: str) -> None:
    """Forget the tries: the last one was right."""
    Attempt.objects.filter(bucket=_bucket(limit, who)).delete()


def account(name: str) -> str:
    """Return a user name as it is counted: other spellings of it are the same."""
    return unicodedata.normalize("NFKC", name).casefold()


def address(request: HttpRequest) -> str:
    """Return the address that a request came from, as far as one customer's reaches."""
    try:
        found = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return "unknown"
    return str(ip_network((found, _IPV6_SITE), strict=False)) if found.version == 6 else str(found)


def _bucket(limit: Limit, who: str) -> str:
    return hashlib.sha256(f"{limit.name}:{who}".encode("utf-8", "surrogatepass")).hexdigest()
