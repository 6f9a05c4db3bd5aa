"""Limits on how often something may be tried, counted in the database: all processes share one count.

Signing in fails closed: it needs the database anyway, and where that does not answer, nothing is counted and nobody
gets in. Redis takes no part, so that its outage neither locks anybody out nor lets anybody guess.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network

from django.http import HttpRequest

from sessions import clock
from sessions.errors import TooOften
from sessions.models import Attempt

KEEP = timedelta(hours=1)
_IPV6_SITE = 64  # bits: one customer has as many addresses as they like inside
_MAX_READ = 64  # no limit counts further
_IPV4_NETWORK, _IPV6_NETWORK = 24, 48  # bits of a network that one party is taken to hold


@dataclass(frozen=True, slots=True)
class Limit:
    """At most ``count`` tries in any ``seconds`` seconds.

    With ``max_delay`` the wait doubles with every try after the first ``count`` in an hour, up to so many seconds.
    """

    name: str
    count: int
    seconds: int = 60
    max_delay: int = 0

    def wait_s(self, times: Sequence[datetime], now: datetime) -> int:
        """Return how many seconds are to wait after tries at these times, the newest first; 0 for none."""
        if self.max_delay:
            if len(times) < self.count:
                return 0
            delay = min(self.seconds * 2 ** (len(times) - self.count), self.max_delay)
            return _seconds_until(times[0] + timedelta(seconds=delay), now, delay)
        recent = [at for at in times if at > now - timedelta(seconds=self.seconds)]
        if len(recent) < self.count:
            return 0
        return max(1, _seconds_until(recent[self.count - 1] + timedelta(seconds=self.seconds), now, self.seconds))


def _seconds_until(at: datetime, now: datetime, longest: int) -> int:
    """Return whole seconds, and no more than the delay itself: the machine's clock may have been set back."""
    return min(longest, max(0, math.ceil((at - now).total_seconds())))


# Of one account from one network: nobody can lock its owner out from elsewhere, nor from a browser they have used.
SIGN_IN_ACCOUNT = Limit("sign-in of an account", 5, max_delay=900)
SIGN_IN_DEVICE = Limit("sign-in from a known browser", 5, max_delay=300)
SIGN_IN_ADDRESS = Limit("sign-in from an address", 30)  # hashing a password costs us more than asking costs them
GUESSES_TO_REPORT = Limit("wrong passwords of an account", 50, seconds=3600)
JOIN_ADDRESS = Limit("join from an address", 10)
INJECTING = ("prepare", "retry")  # the actions that have faults injected
INJECTIONS = Limit("preparations of one session", 6)
PART_STARTS = Limit("starts of parts in one session", 12)
GPU_FAULTS = Limit("faults injected by hand into one session", 12)
EXPORTS = Limit("exports by one person", 10)


def attempt(limit: Limit, who: str) -> int:
    """Count one try; return 0 where it may go on, else the seconds to wait. A refused try does not count.

    It is not written down either: a flood of refused tries costs one reading query each.
    """
    now, bucket = clock.now(), _bucket(limit, who)
    if wait := limit.wait_s(_times(bucket, now), now):
        return wait
    Attempt.objects.filter(at__lt=now - KEEP).delete()
    own = Attempt.objects.create(bucket=bucket, at=now)
    # Others may have come between the look and the count.
    if wait := limit.wait_s(_times(bucket, now, before=own.pk), now):
        own.delete()
    return wait


def _times(bucket: str, now: datetime, before: int | None = None) -> list[datetime]:
    found = Attempt.objects.filter(bucket=bucket, at__gt=now - KEEP)
    if before is not None:
        found = found.filter(pk__lt=before)
    return list(found.order_by("-pk").values_list("at", flat=True)[:_MAX_READ])


def require(limit: Limit, who: str) -> None:
    """Count one try. Raises TooOften where it has to wait."""
    if wait := attempt(limit, who):
        raise TooOften(f"More than {limit.count} {limit.name} within {limit.seconds} seconds.", wait)


def forgive(limit: Limit, who: str) -> None:
    """Forget the tries: the last one was right."""
    Attempt.objects.filter(bucket=_bucket(limit, who)).delete()


def take_back(limit: Limit, who: str) -> None:
    """Forget the newest try, which was right; earlier ones still count."""
    newest = Attempt.objects.filter(bucket=_bucket(limit, who)).order_by("-pk").first()
    if newest is not None:
        newest.delete()


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


def network(request: HttpRequest) -> str:
    """Return the network that a request came from."""
    try:
        found = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return "unknown"
    bits = _IPV6_NETWORK if found.version == 6 else _IPV4_NETWORK
    return str(ip_network((found, bits), strict=False))


def _bucket(limit: Limit, who: str) -> str:
    return hashlib.sha256(f"{limit.name}:{who}".encode("utf-8", "surrogatepass")).hexdigest()
