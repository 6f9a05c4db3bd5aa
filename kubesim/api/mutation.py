"""What webhooks make of an object that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesim import admission
from kubesim.admission import webhooks
from kubesim.admission.requests import Request
from kubesim.api import subresources
from kubesim.api.options import Options
from kubesim.errors import Obj
from kubesim.schema.registry import Kind
from kubesim.store import Stored

if TYPE_CHECKING:
    from kubesim.api.operations import Operations


def of_change(
    ops: Operations, kind: Kind, old: Stored, new: Obj, subresource: str, options: Options
) -> tuple[Obj, Obj | None]:
    """Return a changed object, of which only what its path may change has changed, as webhooks leave it.

    Where they have changed it, what it was before comes second: what they change belongs to no manager.
    """
    restricted = subresources.restricted(kind, old, new, subresource)
    if options.talk is None or webhooks.none(ops):
        return restricted, None
    before = dict(restricted)
    request = Request.of(ops, kind, old, new, subresource, options)
    changed = webhooks.mutate(request, admission.reworker(ops, kind, options), lambda: False)
    return subresources.restricted(kind, old, new, subresource), before if changed else None
