"""The kinds that are questions (reviews of access and tokens, token requests): answered at once, never stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from kubesim.api.status import FieldError, bad_request, conflict, invalid, invalid_value, not_found, required
from kubesim.auth.authn import Authenticator
from kubesim.auth.rbac import Authorizer
from kubesim.auth.tokens import InvalidToken, TokenSigner
from kubesim.auth.users import Attributes, User
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind, Registry
from kubesim.store import Store
from kubesim.times import stamp

ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
UNMINDED: dict[str, tuple[str, ...]] = {
    "SelfSubjectAccessReview": (),
    "SubjectAccessReview": (),
    "LocalSubjectAccessReview": ("namespace",),
}
"""Fields that the metadata of a review may have: none, or few."""
MIN_SECONDS, MAX_SECONDS, DEFAULT_SECONDS = 600, 1 << 32, 3600


class Reviewer:
    """Answers reviews from one cluster's authenticator and authorizer."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def answer(self, kind: Kind, review: Obj, user: User, namespace: str, now: datetime) -> Obj:
        """Return the review with its status; raises 422 for one that asks nothing, or two things."""
        spec = _object(review.get("spec"))
        _check_metadata(kind, review)
        handlers: dict[str, Callable[[], tuple[Obj, Obj | None]]] = {
            "SelfSubjectAccessReview": lambda: (self._access(kind, spec, user), spec),
            "SubjectAccessReview": lambda: (self._access(kind, spec, _subject(spec), _subject_errors(spec)), spec),
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

    def _access(self, kind: Kind, spec: Obj, user: User, more: Sequence[FieldError] = ()) -> Obj:
        """Return the status of an access review; raises 422 for one that asks nothing, or two things."""
        if errors := [*_errors(spec), *more]:
            raise _refused(kind, errors)
        asked = _attributes(spec)
        reason = self._authorizer.reason(user, asked)
        allowed = reason is not None
        shown = reason if allowed else self._authorizer.refusal(user, asked)
        return {"allowed": allowed, "reason": shown} if shown else {"allowed": allowed}

    def _local(self, kind: Kind, spec: Obj, namespace: str) -> Obj:
        """Return the status of a review that is bound to the namespace it is sent to."""
        path = spec.get("nonResourceAttributes")
        if path is not None:
            error = invalid_value("spec.nonResourceAttributes", _path(path), "disallowed on this kind of request")
            raise _refused(kind, [error])
        asked = _object(spec.get("resourceAttributes")).get("namespace", "")
        if asked != namespace:
            error = invalid_value("spec.resourceAttributes.namespace", asked, "must match metadata.namespace")
            raise _refused(kind, [error])
        return self._access(kind, spec, _subject(spec), _subject_errors(spec))

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
        named = [name for name in spec.get("audiences") or () if isinstance(name, str)]
        wanted = named or [self._authenticator.issuer]
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


def _refused(kind: Kind, errors: Sequence[FieldError]) -> ApiError:
    """Return the 422 of a review: upstream names its group alone."""
    error = invalid(replace(kind, kind=""), "", list(errors))
    del error.details["kind"]
    return error


def _check_metadata(kind: Kind, review: Obj) -> None:
    """Raise 422 for an access review that has a name, labels or the like of its own."""
    given = {key: value for key, value in _object(review.get("metadata")).items() if value}
    own = {key: value for key, value in given.items() if key not in UNMINDED.get(kind.kind, ())}
    if kind.kind in UNMINDED and own:
        raise _refused(kind, [invalid_value("metadata", given, "must be empty")])


def _object(value: Any) -> Obj:
    """Return a mapping; anything else counts as empty."""
    return value if isinstance(value, dict) else {}


def _pick(rule: Obj, *names: str) -> Obj:
    """Return some fields of a rule, those that are set."""
    return {name: rule[name] for name in names if rule.get(name)}


def _subject(spec: Obj) -> User:
    """Return the user that a SubjectAccessReview asks about."""
    return User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")


def _subject_errors(spec: Obj) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid_value("spec.user", "", "at least one of user or group must be specified")]


def _errors(spec: Obj) -> list[FieldError]:
    """Return what is wrong with what a review asks about: one thing it must be."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is None and path is None:
        return [invalid_value("spec.resourceAttributes", None, ONE_OF)]
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        return [invalid_value("spec.nonResourceAttributes", _path(path), why)]
    fields, at = _object(_object(resource).get("fieldSelector")), "spec.resourceAttributes.fieldSelector"
    errors = []
    if fields.get("rawSelector") and fields.get("requirements"):
        why = "may not specified at the same time as requirements"
        errors.append(invalid_value(f"{at}.rawSelector", fields["rawSelector"], why))
    for number, requirement in enumerate(fields.get("requirements") or ()):
        if not requirement.get("key"):
            errors.append(required(f"{at}.requirements[{number}].key", "must be specified"))
    return errors


def _path(path: Any) -> Obj:
    """Return a path as Go's structure is shown."""
    return {"Path": _object(path).get("path", ""), "Verb": _object(path).get("verb", "")}


def _attributes(spec: Obj) -> Attributes:
    """Return what a review asks about."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is None:
        path = _object(path)
        return Attributes(str(path.get("verb", "")), path=str(path.get("path", "")))
    found = _object(resource)
    names = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(**{name: str(found.get(name) or "") for name in names})


BINDABLE = ("Pod", "Secret", "Node")


def answer_token_request(
    store: Store, registry: Registry, signer: TokenSigner, now: datetime, namespace: str, name: str, review: Obj
) -> Obj:
    """Return a TokenRequest with its token. Raises 404 where namespace or account are missing, 422 for a bad time."""
    accounts, spaces = registry.by_resource("serviceaccounts"), registry.by_resource("namespaces")
    if store.get(spaces, "", namespace) is None:
        raise not_found(spaces, namespace)
    account = store.get(accounts, namespace, name)
    if account is None:
        raise not_found(accounts, name)
    requests = registry.by_path("authentication.k8s.io", "v1", "tokenreviews")
    spec = review.get("spec") if isinstance(review.get("spec"), dict) else {}
    assert spec is not None
    if (given := (review.get("metadata") or {}).get("name") or name) != name:
        error = invalid_value("metadata.name", given, "must match the service account name if specified")
        raise invalid(replace(requests, kind="TokenRequest"), name, [error])
    seconds = expiration(requests, spec)
    audiences, bound = (
        spec.get("audiences") or [signer.issuer],
        _bound(store, registry, namespace, spec.get("boundObjectRef")),
    )
    token = signer.issue(account, audiences, seconds, now, *bound)
    status = {"token": token, "expirationTimestamp": stamp(signer.expiry(now, seconds))}
    meta = {"name": name, "namespace": namespace, "creationTimestamp": stamp(now)}
    head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": meta}
    told = {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec.get("boundObjectRef")}
    return head | {"spec": told, "status": status}


def _bound(store: Store, registry: Registry, namespace: str, reference: object) -> list[Obj]:
    """Return the objects that a token ends with: a pod comes with its node. Raises 400, 404 or 409."""
    if not isinstance(reference, dict):
        return []
    version, kind, name = (str(reference.get(field) or "") for field in ("apiVersion", "kind", "name"))
    if version != "v1" or kind not in BINDABLE:
        what = f"{version if '/' in version else f'/{version}'}, Kind={kind}"
        raise bad_request(f"cannot bind token to object of type {what}")
    kinds = registry.by_kind("v1", kind)
    obj = store.get(kinds, namespace if kinds.namespaced else "", name)
    if obj is None:
        raise not_found(kinds, name)
    found, uid = obj["metadata"]["uid"], reference.get("uid")
    if uid and uid != found:
        why = f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might have"
        raise conflict(kinds, name, f"{why} been deleted and then recreated")
    bound = [{"kind": kind, "name": name, "uid": found}]
    node = (obj.get("spec") or {}).get("nodeName") if kind == "Pod" else ""
    if node and (holder := store.get(registry.by_resource("nodes"), "", node)) is not None:
        bound.append({"kind": "Node", "name": node, "uid": holder["metadata"]["uid"]})
    return bound
