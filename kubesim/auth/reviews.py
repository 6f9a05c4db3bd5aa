"""The kinds that are questions: access reviews, token reviews, who-am-I. Answered at once and never stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from kubesim.api.status import FieldError, bad_request, invalid, invalid_value
from kubesim.auth.attributes import Attributes
from kubesim.auth.authn import Authenticator
from kubesim.auth.rbac import Authorizer
from kubesim.auth.tokens import ISSUER, InvalidToken
from kubesim.auth.users import User
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind
from kubesim.times import stamp

ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
MIN_SECONDS, MAX_SECONDS, DEFAULT_SECONDS = 600, 1 << 32, 3600


class Reviewer:
    """Answers reviews from one cluster's authenticator and authorizer."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def answer(self, kind: Kind, review: Obj, user: User, namespace: str, now: datetime) -> Obj:
        """Return the review with its status; raises 422 for one that asks nothing, or two things."""
        spec = _object(review.get("spec"))
        handlers: dict[str, Callable[[], tuple[Obj, Obj | None]]] = {
            "SelfSubjectAccessReview": lambda: (self._access(kind, spec, user), spec),
            "SubjectAccessReview": lambda: (self._access(kind, spec, _subject(kind, spec)), spec),
            "LocalSubjectAccessReview": lambda: (self._local(kind, spec, namespace), spec),
            "SelfSubjectRulesReview": lambda: (self._rules(spec, user), {}),
            "SelfSubjectReview": lambda: ({"userInfo": user.info()}, None),
            "TokenReview": lambda: (self._token(spec, now), spec),
        }
        status, kept = handlers[kind.kind]()
        meta: Obj = {"creationTimestamp": stamp(now)} if kept is None else {}
        if namespace:
            meta["namespace"] = namespace
        answer = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
        return answer | ({"spec": kept} if kept is not None else {}) | {"status": status}

    def _access(self, kind: Kind, spec: Obj, user: User) -> Obj:
        """Return the status of an access review."""
        reason = self._authorizer.reason(user, _attributes(kind, spec))
        if reason is None:
            return {"allowed": False}
        return {"allowed": True, "reason": reason} if reason else {"allowed": True}

    def _local(self, kind: Kind, spec: Obj, namespace: str) -> Obj:
        """Return the status of a review that is bound to the namespace it is sent to."""
        asked = _object(spec.get("resourceAttributes")).get("namespace", "")
        if asked != namespace:
            error = invalid_value("spec.resourceAttributes.namespace", asked, "must match metadata.namespace")
            raise _refused(kind, error)
        return self._access(kind, spec, _subject(kind, spec))

    def _rules(self, spec: Obj, user: User) -> Obj:
        """Return every rule that the user has in a namespace."""
        namespace = spec.get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules = [grant.rule for grant in self._authorizer.grants(user, namespace)]
        return {
            "resourceRules": [_pick(r, "verbs", "apiGroups", "resources", "resourceNames") for r in rules
                              if r.get("resources")],
            "nonResourceRules": [_pick(r, "verbs", "nonResourceURLs") for r in rules if r.get("nonResourceURLs")],
            "incomplete": False,
        }  # fmt: skip

    def _token(self, spec: Obj, now: datetime) -> Obj:
        """Return whose a token is."""
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        wanted = [name for name in spec.get("audiences") or () if isinstance(name, str)] or [ISSUER]
        try:
            user, audiences = self._authenticator.identified(str(spec.get("token", "")), now, wanted)
        except InvalidToken as error:
            return {"user": {}, "error": str(error)}
        return {"authenticated": True, "user": user.info(), "audiences": audiences}


def expiration(kind: Kind, spec: Obj) -> int:
    """Return the seconds a TokenRequest asks for; raises 422 outside upstream's bounds."""
    seconds = spec.get("expirationSeconds")
    if seconds is None:
        return DEFAULT_SECONDS
    error: FieldError | None = None
    if not isinstance(seconds, int):
        error = invalid_value("spec.expirationSeconds", seconds, "must be an integer")
    elif seconds < MIN_SECONDS:
        error = invalid_value("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    elif seconds > MAX_SECONDS:
        error = invalid_value(
            "spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
        )
    if error is not None:
        raise invalid(replace(kind, kind="TokenRequest"), "", [error])
    return int(seconds)


def _refused(kind: Kind, error: FieldError) -> ApiError:
    """Return the 422 of a review: upstream names its group alone."""
    return invalid(replace(kind, kind=""), "", [error])


def _object(value: Any) -> Obj:
    """Return a mapping; anything else counts as empty."""
    return value if isinstance(value, dict) else {}


def _pick(rule: Obj, *names: str) -> Obj:
    """Return some fields of a rule, those that are set."""
    return {name: rule[name] for name in names if rule.get(name)}


def _subject(kind: Kind, spec: Obj) -> User:
    """Return the user that a SubjectAccessReview asks about."""
    name, groups = spec.get("user") or "", tuple(spec.get("groups") or ())
    if not name and not groups:
        error = invalid_value("spec.user", "", "at least one of user or group must be specified")
        raise _refused(kind, error)
    return User(name, groups, spec.get("uid") or "")


def _attributes(kind: Kind, spec: Obj) -> Attributes:
    """Return what a review asks about."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        field = "spec.resourceAttributes" if resource is None else "spec.nonResourceAttributes"
        raise _refused(kind, invalid_value(field, None, ONE_OF))
    if resource is None:
        path = _object(path)
        return Attributes(str(path.get("verb", "")), path=str(path.get("path", "")))
    found = _object(resource)
    names = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(**{name: str(found.get(name) or "") for name in names})
