"""Users as the API server knows them, and one request of theirs as the authorizer sees it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kubesim.errors import ApiError, Obj

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class User:
    """The maker of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = field(default_factory=dict, hash=False, compare=False)

    def info(self) -> Obj:
        """Return the authentication.k8s.io/v1 UserInfo."""
        info: Obj = {"username": self.name, "uid": self.uid, "groups": list(self.groups), "extra": self.extra}
        return {key: value for key, value in info.items() if value}


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))


def service_account_user(namespace: str, name: str, uid: str, extra: dict[str, list[str]] | None = None) -> User:
    """Return the user that a service account's token stands for."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid, extra or {})


@dataclass(frozen=True, slots=True)
class Attributes:
    """A request to be authorized: a verb on a resource, or on a plain path (then ``resource`` is empty)."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    fields: str = ""
    """The field selector of a list or a watch."""

    @property
    def full_resource(self) -> str:
        """Return ``pods/log``: how rules name subresources."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def forbidden(user: User, attributes: Attributes, why: str = "") -> ApiError:
    """Return the 403 that the API server answers, word for word."""
    if not attributes.resource:
        text = f'User "{user.name}" cannot {attributes.verb} path "{attributes.path}"'
        message = f"forbidden: {text}{_reason(why)}"
        return ApiError(403, "Forbidden", message, {})
    scope = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    text = (
        f'User "{user.name}" cannot {attributes.verb} resource "{attributes.full_resource}" '
        f'in API group "{attributes.group}" {scope}'
    )
    what = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    named = f'{what} "{attributes.name}"' if attributes.name else what
    details: Obj = {"name": attributes.name, "group": attributes.group, "kind": attributes.resource}
    return ApiError(
        403,
        "Forbidden",
        f"{named} is forbidden: {text}{_reason(why)}",
        {key: value for key, value in details.items() if value},
    )


def _reason(why: str) -> str:
    """Return the tail that the authorizer's reason adds."""
    return f": {why}" if why else ""


def holder_of(certificate: Obj) -> tuple[str, list[str]]:
    """Return the name and the groups of a certificate's subject (in the form of Python's ``getpeercert``)."""
    parts = [part for relative in certificate["subject"] for part in relative]
    name = next((text for kind, text in parts if kind == "commonName"), "")
    return name, [text for kind, text in parts if kind == "organizationName"]


def quoted_list(names: Iterable[str]) -> str:
    """Return names as Go prints a slice of them with %q."""
    return "[" + " ".join(f'"{name}"' for name in names) + "]"
