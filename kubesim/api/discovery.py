"""Discovery documents, the legacy and the aggregated ones, made from the registry of kinds."""

from __future__ import annotations

from collections.abc import Iterable

from kubesim.errors import Obj
from kubesim.schema.registry import Kind, Registry, Subresource

ORDER = """
apiregistration.k8s.io apps events.k8s.io authentication.k8s.io authorization.k8s.io autoscaling batch
certificates.k8s.io networking.k8s.io policy rbac.authorization.k8s.io storage.k8s.io admissionregistration.k8s.io
apiextensions.k8s.io scheduling.k8s.io coordination.k8s.io node.k8s.io discovery.k8s.io resource.k8s.io
flowcontrol.apiserver.k8s.io
"""
RANKS = {name: rank for rank, name in enumerate(ORDER.split())}
"""Clients show kinds in the order of their groups."""


def api_versions(server: str) -> Obj:
    """Answer /api."""
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": server}
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}


def group_list(registry: Registry) -> Obj:
    """Answer /apis."""
    groups = [_group(name, versions) for name, versions in _groups(registry)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(registry: Registry, name: str) -> Obj | None:
    """Answer /apis/{group}."""
    found = dict(_groups(registry)).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, found)} if found else None


def resource_list(registry: Registry, group_name: str, version: str) -> Obj | None:
    """Answer /api/v1 and /apis/{group}/{version}."""
    kinds = [k for k in registry.all() if k.group == group_name and k.version == version]
    if not kinds:
        return None
    resources = [entry for kind in sorted(kinds, key=lambda k: k.plural) for entry in _resources(kind)]
    document: Obj = {"kind": "APIResourceList", "groupVersion": kinds[0].api_version, "resources": resources}
    return document if not group_name else {"apiVersion": "v1", **document}


def aggregated(registry: Registry, version: str, *, legacy: bool) -> Obj:
    """Answer /api or /apis to a client that accepts APIGroupDiscoveryList of ``version`` (v2, v2beta1)."""
    names = [("", ["v1"])] if legacy else list(_groups(registry))
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_discovered_group(registry, name, versions) for name, versions in names],
    }


def _groups(registry: Registry) -> Iterable[tuple[str, list[str]]]:
    """Return every named group with its versions, preferred first, in upstream's order; others come last."""
    versions: dict[str, list[str]] = {}
    for kind in registry.all():
        if kind.group:
            known = versions.setdefault(kind.group, [])
            if kind.version not in known:
                known.append(kind.version)
    return sorted(versions.items(), key=lambda entry: RANKS.get(entry[0], len(RANKS)))


def _group(name: str, versions: list[str]) -> Obj:
    """Return one group of /apis."""
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resources(kind: Kind) -> Iterable[Obj]:
    """Yield the legacy entries of a kind: itself, then its subresources."""
    entry: Obj = {
        "name": kind.plural,
        "singularName": _singular(kind),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": sorted(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    yield entry
    for sub in sorted(kind.subresources, key=lambda s: s.name):
        yield _subresource(kind, sub)


def _subresource(kind: Kind, sub: Subresource) -> Obj:
    """Return the legacy entry of a subresource; group and version stand there only where they differ."""
    entry: Obj = {
        "name": f"{kind.plural}/{sub.name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": sub.kind or kind.kind,
        "verbs": sorted(sub.verbs),
    }
    if sub.version:
        entry |= {"group": sub.group, "version": sub.version}
    return entry


def _discovered_group(registry: Registry, name: str, versions: list[str]) -> Obj:
    """Return one item of the aggregated document."""
    return {
        "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
        "versions": [
            {
                "version": version,
                "freshness": "Current",
                "resources": [
                    _discovered(kind)
                    for kind in sorted(registry.all(), key=lambda k: k.plural)
                    if (kind.group, kind.version) == (name, version)
                ],
            }
            for version in versions
        ],
    }


def _discovered(kind: Kind) -> Obj:
    """Return one resource of the aggregated document."""
    entry: Obj = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": _singular(kind),
        "verbs": sorted(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [
            _discovered_subresource(kind, sub) for sub in sorted(kind.subresources, key=lambda s: s.name)
        ]
    return entry


def _discovered_subresource(kind: Kind, sub: Subresource) -> Obj:
    """Return one subresource of the aggregated document."""
    response = {
        "group": sub.group if sub.version else kind.group,
        "version": sub.version or kind.version,
        "kind": sub.kind or kind.kind,
    }
    return {"subresource": sub.name, "responseKind": response, "verbs": sorted(sub.verbs)}


def _singular(kind: Kind) -> str:
    """Return the singular name that kubectl accepts."""
    return kind.singular or kind.kind.lower()
