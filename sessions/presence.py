"""People at a session's pages right now: told by open connections, forgotten within seconds of their end.

A connection says that it is there and goes on saying so; what has not been heard of for ``KEEP_S`` is gone, so that
a web process that dies leaves no ghosts. Redis keeps it; while Redis is away, nobody can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redis.exceptions import RedisError

from sessions import live

KEEP_S = 20.0
REPEAT_S = 8.0
CANDIDATE = "candidate"
POLL = "poll"  # the connection of a page that looks now and then instead of listening


@dataclass(frozen=True, slots=True)
class Presence:
    """The users (primary keys) whose pages are open, and whether the candidate's is."""

    users: frozenset[int] = frozenset()
    candidate: bool = False


NOBODY = Presence()


@dataclass(frozen=True, slots=True)
class Connection:
    """An open page: whose session's, whose (a user's primary key, None for the candidate), and which of theirs."""

    session: str
    user: int | None
    name: str


def tell(came: Collection[Connection], went: Collection[Connection], now: datetime) -> None:
    """Remember connections that are open, and forget those that have closed, in one round trip.

    With a connection it is forgotten that its page was loaded; one that still polls says so again.
    """
    until = now.timestamp() + KEEP_S
    try:
        with live.client().pipeline(transaction=False) as pipe:
            members: defaultdict[str, dict[str | bytes, Any]] = defaultdict(dict)
            for each in came:
                members[each.session][_member(each.user, each.name)] = until
            for session, open_now in members.items():
                pipe.zadd(_key(session), open_now)
                pipe.expire(_key(session), int(KEEP_S) + 1)
            for each in went:
                pipe.zrem(_key(each.session), _member(each.user, each.name), _member(each.user, POLL))
            pipe.execute()
    except (RedisError, OSError):
        return


def seen(uuid: str, who: int | None, connection: str, now: datetime) -> None:
    """Remember that a connection is open: a user's, or the candidate's where ``who`` is None."""
    tell([Connection(uuid, who, connection)], [], now)


def of(uuid: str, now: datetime) -> Presence | None:
    """Return who is there; None while Redis does not answer."""
    found = of_many([uuid], now)
    return found[uuid] if found is not None else None


def of_many(uuids: Iterable[str], now: datetime) -> dict[str, Presence] | None:
    """Return who is at each of several sessions, in one round trip."""
    wanted = list(uuids)
    try:
        with live.client().pipeline(transaction=False) as pipe:
            for uuid in wanted:
                pipe.zrangebyscore(_key(uuid), now.timestamp(), "+inf")
            answers = pipe.execute()
    except (RedisError, OSError):
        return None
    return {uuid: _presence(members) for uuid, members in zip(wanted, answers, strict=True)}


def _presence(members: Iterable[bytes]) -> Presence:
    names = {member.decode().partition(":")[0] for member in members}
    return Presence(frozenset(int(name) for name in names - {CANDIDATE}), CANDIDATE in names)


def _member(who: int | None, connection: str) -> str:
    return f"{CANDIDATE if who is None else who}:{connection}"


def _key(uuid: str) -> str:
    return f"faultline:present:{uuid}"
