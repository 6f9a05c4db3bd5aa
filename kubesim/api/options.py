"""The options of a request, beside its object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kubesim.api.duplicates import NOTHING, Repeated
from kubesim.asking import Talk
from kubesim.auth.users import User
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

PatchType = Literal["json", "merge", "strategic", "apply"]


@dataclass(slots=True)
class Options:
    """The options of one request, and what the answer says beside its object.

    ``requester`` is who asks, where that is somebody from outside. ``field_validation`` is Strict, Warn or Ignore;
    ``force`` belongs to server-side apply; ``wanted`` is what an apply asks for (set by the operation). Filled in are
    ``warnings`` (texts of Warning headers) and ``created`` (a patch or update that made the object: 201).
    """

    user: str = ""
    field_manager: str = ""
    field_validation: str = "Ignore"
    dry_run: bool = False
    force: bool = False
    wanted: Obj | None = None
    repeated: Repeated = NOTHING
    warnings: list[str] = field(default_factory=list)
    created: bool = False
    requester: User | None = None
    disowned: bool = False
    """Whether the request says that nobody owns anything any more."""
    through: str = ""
    """The subresource that managedFields name for a change of the object itself."""
    given: Obj = field(default_factory=dict)
    """The meta/v1 options that the request says, as webhooks are told them."""
    served: Kind | None = None
    """The kind in whose version the request was made, where it is not the stored one."""
    generated: bool = False
    """Whether a new object's name was left to the server."""
    talk: Talk | None = None
    """What webhooks have said so far; without one nobody can be asked, and none is."""
