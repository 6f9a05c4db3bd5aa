"""Who may use a kubelet's port: the API server is asked who someone is and what he may do, as a real kubelet asks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kubesim.auth.users import ANONYMOUS, AUTHENTICATED, User, holder_of
from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import Obj

KNOWN_S, ALLOWED_S, DENIED_S = 120.0, 300.0, 30.0
"""For how long an answer is believed: upstream's defaults."""
MOST_REMEMBERED = 1024
VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
PARTS = {"stats": "stats", "metrics": "metrics", "logs": "log", "checkpoint": "checkpoint"}
FINE = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}
"""First part of a path -> subresource of nodes; for ``FINE`` the old one, proxy, counts as well."""
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Refused(Exception):
    """401 or 403, in the kubelet's words."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Remembered(Generic[K, V]):
    """Answers that are believed for a while."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return an answer that is not too old."""
        found = self._found.get(key)
        return found[0] if found is not None and found[1] > self._clock.now().timestamp() else None

    def put(self, key: K, value: V, seconds: float) -> None:
        """Believe an answer for so many seconds."""
        self._found[key] = (value, self._clock.now().timestamp() + seconds)
        while len(self._found) > MOST_REMEMBERED:
            self._found.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to a kubelet: how, where to, and by whom, as its TLS certificate and its headers tell."""

    method: str
    path: str
    certificate: Obj | None
    authorization: str


class Guard:
    """Answers for one node, with that node's own rights."""

    def __init__(self, client: Callable[[], Client], clock: Clock, node: str) -> None:
        self._client = client
        self._node = node
        self._users: Remembered[str, User] = Remembered(clock)
        self._rulings: Remembered[tuple[User, str, str], bool] = Remembered(clock)

    async def check(self, attempt: Attempt) -> None:
        """Raise ``Refused`` for who is unknown, or may not; what asking raises where the API server is away."""
        user = await self._user(attempt)
        verb, subresources = VERBS.get(attempt.method, ""), _subresources(attempt.path)
        for subresource in subresources:
            if await self._may(user, verb, subresource):
                return
        named = " ".join(subresources)
        raise Refused(403, f"Forbidden (user={user.name}, verb={verb}, resource=nodes, subresource(s)=[{named}])\n")

    async def _user(self, attempt: Attempt) -> User:
        if attempt.certificate:
            name, groups = holder_of(attempt.certificate)  # which TLS has verified
            return User(name, (*groups, AUTHENTICATED))
        scheme, _, token = attempt.authorization.strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Refused(401, "Unauthorized")
        known = self._users.get(token)
        if known is None:
            known = await self._review(token.strip())
            self._users.put(token, known, KNOWN_S)
        return known

    async def _review(self, token: str) -> User:
        """Ask whose token it is."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await self._client().create("tokenreviews.authentication.k8s.io", review)
        status = answer.get("status") or {}
        if not status.get("authenticated"):
            raise Refused(401, "Unauthorized")
        told = status.get("user") or {}
        name = told.get("username") or ANONYMOUS.name
        return User(name, tuple(told.get("groups") or ()), told.get("uid") or "", told.get("extra") or {})

    async def _may(self, user: User, verb: str, subresource: str) -> bool:
        """Ask what a user may do."""
        key = (user, verb, subresource)
        known = self._rulings.get(key)
        if known is None:
            answer = await self._client().create("subjectaccessreviews.authorization.k8s.io", self._question(*key))
            known = bool((answer.get("status") or {}).get("allowed"))
            self._rulings.put(key, known, ALLOWED_S if known else DENIED_S)
        return known

    def _question(self, user: User, verb: str, subresource: str) -> Obj:
        asked = {"verb": verb, "version": "v1", "resource": "nodes", "subresource": subresource, "name": self._node}
        who = {"user": user.name, "groups": list(user.groups), "uid": user.uid, "extra": user.extra}
        spec = {"resourceAttributes": asked, **{name: value for name, value in who.items() if value}}
        return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def _subresources(path: str) -> list[str]:
    """Return the subresources of nodes that a path stands for: any one of them is enough."""
    first = path.strip("/").partition("/")[0]
    if first in FINE:
        return [FINE[first], "proxy"]
    return [PARTS.get(first, "proxy")]
