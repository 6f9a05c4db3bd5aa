"""One request as the authorizer sees it, and the words in which a refusal is sent."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.auth.users import User
from kubesim.errors import ApiError, Obj


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked: a verb on a resource, or on a plain path (then ``resource`` is empty)."""

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
