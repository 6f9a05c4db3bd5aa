"""Users as the API server knows them: a name, groups, and what the authenticator adds."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubesim.errors import Obj

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class User:
    """Who makes a request."""

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
