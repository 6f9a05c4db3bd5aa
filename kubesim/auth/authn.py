"""Turns a request's headers into a user: bearer tokens, anonymous requests, impersonation."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from urllib.parse import unquote

from multidict import CIMultiDictProxy

from kubesim.api.durations import parse_time
from kubesim.auth.rbac import Authorizer, Policies
from kubesim.auth.tokens import Claims, Expired, InvalidToken, TokenSigner
from kubesim.auth.users import (
    ADMIN,
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    Attributes,
    User,
    forbidden,
    holder_of,
    quoted_list,
    service_account_user,
)
from kubesim.errors import ApiError, Obj

IMPERSONATE_EXTRA = "impersonate-extra-"
PREFIX = "authentication.kubernetes.io/"
CREDENTIAL = f"{PREFIX}credential-id"
BAD_TOKEN = "invalid bearer token"  # noqa: S105 - a text
LEEWAY = timedelta(minutes=1)
"""How long a token outlives the end of what it is bound to."""
ACCOUNT_PREFIX = "system:serviceaccount:"


Headers = CIMultiDictProxy[str]


class Authenticator:
    """Knows the tokens of one cluster: the admin's, and those of its service accounts."""

    def __init__(self, signer: TokenSigner, admin_token: str, policies: Policies, server: str = "") -> None:
        """``server``: the URL that client certificates must name, where clusters share an authority."""
        self._server = server
        self._signer = signer
        self.issuer = signer.issuer
        self._admin_token = admin_token
        self._policies = policies

    def authenticate(self, headers: Mapping[str, str], now: datetime, certificate: Obj | None = None) -> User:
        """Return who asks; raises 401 for a credential that is not valid.

        ``certificate`` is the client's, already verified by TLS, in the form of Python's ``getpeercert``.
        """
        if certificate:
            return self._holder(certificate)
        scheme, _, token = headers.get("Authorization", "").strip().partition(" ")
        if not scheme:
            return ANONYMOUS
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        user = self.user_of(token.strip(), now)
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return user

    def _holder(self, certificate: Obj) -> User:
        """Return the user that a client certificate names: CN is the name, each O a group."""
        names = [text for kind, text in certificate.get("subjectAltName", ()) if kind == "URI"]
        if self._server and self._server not in names:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        name, groups = holder_of(certificate)
        return User(name, (*groups, AUTHENTICATED), extra={CREDENTIAL: [f"X509SERIAL={certificate['serialNumber']}"]})

    def user_of(self, token: str, now: datetime) -> User | None:
        """Return the user of a token, or None when it is not valid (any more)."""
        try:
            return self.identified(token, now, [self.issuer])[0]
        except InvalidToken:
            return None

    def identified(self, token: str, now: datetime, audiences: Sequence[str]) -> tuple[User, list[str]]:
        """Return a token's user, and those of ``audiences`` it is for. Raises InvalidToken in upstream's words."""
        if hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._admin_token.encode()):
            return ADMIN, [*audiences]
        try:
            claims = self._signer.verify(token, now)
        except Expired as error:
            raise InvalidToken(f"[{BAD_TOKEN}, {error}]") from error
        common = [name for name in audiences if name in claims.audiences]
        if not common:
            given, wanted = quoted_list(claims.audiences), quoted_list(audiences)
            why = f"token audiences {given} is invalid for the target audiences {wanted}"
            raise InvalidToken(f"[{BAD_TOKEN}, {why}]")
        if why := self._revoked(claims, now) or self._moved(claims, token):
            raise InvalidToken(f"[{BAD_TOKEN}, {why}]")
        return self._account(claims), common

    def _revoked(self, claims: Claims, now: datetime) -> str:
        """Return why a token is good no longer: its account is gone, or what it was bound to; empty where it is."""
        account = self._policies.find("serviceaccounts", claims.namespace, claims.name)
        if account is None:
            return f'serviceaccounts "{claims.name}" not found'
        if account["metadata"]["uid"] != claims.uid:
            found = account["metadata"]["uid"]
            return f"service account UID ({found}) does not match claim ({claims.uid})"
        for kind, (name, uid) in claims.bound.items():
            obj = self._policies.find(f"{kind}s", "" if kind == "node" else claims.namespace, name)
            if obj is None or (uid and obj["metadata"]["uid"] != uid) or _long_gone(obj, now):
                return "service account token has been invalidated"
        return ""

    def _moved(self, claims: Claims, token: str) -> str:
        """Return why the token of a secret is good no longer: another lies there now; empty where it is."""
        if not claims.legacy:
            return ""
        secret = self._policies.find("secrets", claims.namespace, claims.bound["secret"][0]) or {}
        found = (secret.get("data") or {}).get("token", "")
        same = hmac.compare_digest(found.encode(), base64.b64encode(token.encode()))
        return "" if same else "token does not match server's copy"

    def _account(self, claims: Claims) -> User:
        extra = {CREDENTIAL: [f"JTI={claims.token_id}"]} if claims.token_id else {}
        for kind in ("pod", "node"):
            if kind in claims.bound:
                name, uid = claims.bound[kind]
                extra |= {f"{PREFIX}{kind}-name": [name], f"{PREFIX}{kind}-uid": [uid]}
        return service_account_user(claims.namespace, claims.name, claims.uid, extra)


def _long_gone(obj: Obj, now: datetime) -> bool:
    """Tell whether something has been ending for so long that nobody acts for it any more."""
    ended = parse_time(obj["metadata"].get("deletionTimestamp"))
    return ended is not None and now - ended > LEEWAY


def impersonate(user: User, headers: Headers, authorizer: Authorizer) -> User:
    """Return the user that a request acts as; raises 403 when ``user`` may not act as it."""
    name = readable(headers.get("Impersonate-User", ""))
    groups = [readable(group) for group in headers.getall("Impersonate-Group", ())]
    extra = _extra(headers)
    uid = readable(headers.get("Impersonate-Uid", ""))
    if not name:
        if groups or extra or uid:
            asked = " ".join(_shown(*entry) for entry in _asked(groups, extra, uid))
            raise ApiError(400, "BadRequest", f"requested [{asked}] without impersonating a user")
        return user
    for attributes in _wanted(name, groups, extra, uid):
        if not authorizer.allows(user, attributes):
            raise forbidden(user, attributes)
    return User(name, _groups_of(name, groups), uid, extra)


def _asked(groups: list[str], extra: dict[str, list[str]], uid: str) -> Iterator[tuple[str, ...]]:
    """Yield what is asked for beside a name: kind, name, version and field."""
    yield from (("Group", group, "", "") for group in groups)
    home = "authentication.k8s.io/v1"
    yield from (("UserExtra", value, home, key) for key, values in extra.items() for value in values)
    yield from [("UID", uid, home, "")] if uid else []


def _shown(kind: str, name: str, version: str, field: str) -> str:
    """Return an object reference as Go prints the structure."""
    return f"{{{kind}  {name}  {version}  {field}}}"


def _extra(headers: Headers) -> dict[str, list[str]]:
    """Return the Impersonate-Extra-* headers."""
    keys = {key for key in headers if key.lower().startswith(IMPERSONATE_EXTRA)}
    return {unquote(key[len(IMPERSONATE_EXTRA) :].lower()): list(map(readable, headers.getall(key))) for key in keys}


def readable(header: str) -> str:
    """Return a header's value with what is no UTF-8 replaced, as Go's encoder of JSON does it."""
    return header.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _wanted(name: str, groups: list[str], extra: dict[str, list[str]], uid: str) -> list[Attributes]:
    """Return what the impersonating user has to be allowed."""
    if name.startswith(ACCOUNT_PREFIX) and name.count(":") == 3:
        _, _, namespace, account = name.split(":")
        wanted = [Attributes("impersonate", resource="serviceaccounts", namespace=namespace, name=account)]
    else:
        wanted = [Attributes("impersonate", resource="users", name=name)]
    wanted += [Attributes("impersonate", resource="groups", name=group) for group in groups]
    if uid:
        wanted.append(Attributes("impersonate", "authentication.k8s.io", "v1", "uids", name=uid))
    home = {"group": "authentication.k8s.io", "version": "v1", "resource": "userextras"}
    wanted += [
        Attributes("impersonate", subresource=key, name=value, **home)
        for key, values in extra.items()
        for value in values
    ]
    return wanted


def _groups_of(name: str, groups: list[str]) -> tuple[str, ...]:
    """Return the groups of an impersonated user, with those that every user of its sort has."""
    found = list(groups)
    if name.startswith(ACCOUNT_PREFIX) and name.count(":") == 3 and not groups:
        namespace = name.split(":")[2]
        found = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if name == ANONYMOUS.name:
        return (*found, UNAUTHENTICATED)
    return tuple(found) if {AUTHENTICATED, UNAUTHENTICATED} & {*found} else (*found, AUTHENTICATED)
