"""Objects that a candidate made where no namespace goes with the session: in existing ones, or in none.

The API server tells which program wrote an object, not who ran it. So an object counts as theirs that is new since
the session began, where their rights let them create its kind, and that nothing but people's tools wrote; and that
only in a cluster which nobody else changes meanwhile. Whatever else is new is told as residue. New is what the
session's first picture does not have, and is no older: pictures leave out some kinds, such as endpoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

from faults import selectors
from faults.engine import Fingerprint, object_key
from faults.errors import Conflict, NotFound
from faults.kube.client import Kube
from faults.kube.discovery import Resource
from faults.models import FaultRun
from faults.packs import AccessRule
from faults.packs.rights import split_resource
from faults.tiers import policy_of

Obj = dict[str, Any]
PEOPLES_TOOLS = ("kubectl", "curl", "helm", "k9s", "terraform", "hashicorp", "python", "mozilla")
"""Beginnings of field managers, in small letters."""
CREATE = "create"


def delete_candidates_objects(kube: Kube, run: FaultRun) -> None:
    """Delete what an environment's candidate made; nothing where others share the cluster. Raises ClusterError."""
    if not policy_of(run.cluster).is_exclusive:
        return
    before, since = run.fingerprint_before or {}, run.created_at.replace(microsecond=0)
    for resource, namespace in _places(kube, run):
        for obj in kube.list(resource.api_version, resource.kind, namespace):
            if _is_theirs(obj, before, since):
                meta = obj["metadata"]
                place = (resource.api_version, resource.kind, meta["name"], meta.get("namespace", ""))
                with suppress(NotFound, Conflict):  # gone, or made anew by somebody else
                    kube.delete(*place, uid=meta["uid"])


def _places(kube: Kube, run: FaultRun) -> Iterator[tuple[Resource, str]]:
    """Yield the kinds that the candidate was allowed to create, and the namespaces; none for the whole cluster."""
    rails, own = selectors.guardrails_of(run), selectors.all_namespaces_of(run)
    rules = [rule for grant in (rails and rails.grants) or () for rule in grant.rules if CREATE in rule.verbs]
    seen: set[tuple[str, str, str]] = set()
    kept = [resource for resource in kube.kinds() if "list" in resource.verbs] if rules else []  # reviews are not
    for resource in kept:
        for namespace in _spaces(resource, rules):
            place = (resource.api_version, resource.kind, namespace)
            if namespace not in own and place not in seen:
                seen.add(place)
                yield resource, namespace


def _spaces(resource: Resource, rules: list[AccessRule]) -> Iterator[str]:
    name = (resource.api_version.rpartition("/")[0], resource.plural)
    for rule in rules:
        if any(split_resource(text) == name for text in rule.resources):
            yield from rule.namespaces if resource.namespaced else ("",)


def _is_theirs(obj: Obj, before: Fingerprint, since: datetime) -> bool:
    meta = obj["metadata"]
    if datetime.fromisoformat(meta["creationTimestamp"]) < since:
        return False
    if object_key(obj) in before or meta.get("ownerReferences") or "deletionTimestamp" in meta:
        return False
    asked = [row for row in meta.get("managedFields") or () if row.get("subresource") != "status"]
    return bool(asked) and all(str(row.get("manager", "")).lower().startswith(PEOPLES_TOOLS) for row in asked)
