"""Discovery documents of the API server: kinds of one group version, or of all groups in an aggregated answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]
DISCOVERY = ",".join(
    [f"application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in ("v2", "v2beta1")]
    + ["application/json"]
)
"""The Accept header that asks for all groups at once; a server that does not know it answers as of old."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the cluster's discovery names it."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]


Resources = list[Resource]


def parse_resources(api_version: str, answer: Obj) -> dict[str, Resource]:
    """Return the kinds of a discovery document, without their subresources."""
    return {
        entry["kind"]: Resource(
            api_version, entry["kind"], entry["name"], entry["namespaced"], frozenset(entry["verbs"])
        )
        for entry in answer.get("resources", [])
        if "/" not in entry["name"]
    }


def parse_groups(answer: Obj) -> dict[str, dict[str, Resource] | None]:
    """Return the first, preferred version of each group of an aggregated discovery document, with its kinds.

    None stands for those of another server that does not answer for now.
    """
    found: dict[str, dict[str, Resource] | None] = {}
    for group in answer.get("items", []):
        version = group["versions"][0]
        api_version = f"{group['metadata']['name']}/{version['version']}"
        entries = [entry for entry in version.get("resources", []) if entry.get("responseKind")]
        is_stale = version.get("freshness") == "Stale"
        kinds = {entry["responseKind"]["kind"]: _discovered(api_version, entry) for entry in entries}
        found[api_version] = None if is_stale else kinds
    return found


def _discovered(api_version: str, entry: Obj) -> Resource:
    kind, is_namespaced = entry["responseKind"]["kind"], entry["scope"] == "Namespaced"
    return Resource(api_version, kind, entry["resource"], is_namespaced, frozenset(entry["verbs"]))


def group_path(api_version: str) -> str:
    """Return the path of an API group's version."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
