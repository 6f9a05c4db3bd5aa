"""Discovery documents, the legacy and the aggregated ones, made from the registry of kinds."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping

from kubesim.errors import Obj
from kubesim.schema.registry import Kind, Registry, Subresource

ORDER = """
apiregistration.k8s.io apps events.k8s.io authentication.k8s.io authorization.k8s.io autoscaling batch
certificates.k8s.io networking.k8s.io policy rbac.authorization.k8s.io storage.k8s.io admissionregistration.k8s.io
apiextensions.k8s.io scheduling.k8s.io coordination.k8s.io node.k8s.io discovery.k8s.io resource.k8s.io
flowcontrol.apiserver.k8s.io
"""
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
CUSTOM_PARTS = ("status", "scale")
"""The order in which custom kinds tell their verbs and subresources; all others are told by name."""
RANKS = {name: rank for rank, name in enumerate(ORDER.split())}
"""Clients show kinds in the order of their groups."""


def api_versions(server: str) -> Obj:
    """Answer /api."""
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": server}
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}


def group_list(registry: Registry, remote: Iterable[tuple[str, str]] = ()) -> Obj:
    """Answer /apis; ``remote`` are the groups and versions that other servers answer for."""
    groups = [_group(name, versions) for name, versions in _groups(registry, remote)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(registry: Registry, name: str, remote: Iterable[tuple[str, str]] = ()) -> Obj | None:
    """Answer /apis/{group}."""
    found = dict(_groups(registry, remote)).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, found)} if found else None


def resource_list(registry: Registry, group_name: str, version: str) -> Obj | None:
    """Answer /api/v1 and /apis/{group}/{version}."""
    kinds = [k for k in registry.all() if k.group == group_name and k.version == version]
    if not kinds:
        return None
    resources = [entry for kind in sorted(kinds, key=lambda k: k.plural) for entry in _resources(registry, kind)]
    document: Obj = {"kind": "APIResourceList", "apiVersion": "v1"} if group_name else {"kind": "APIResourceList"}
    return document | {"groupVersion": kinds[0].api_version, "resources": resources}


def aggregated(registry: Registry, *, legacy: bool, remote: Mapping[tuple[str, str], Obj] | None = None) -> Obj:
    """Answer /api or /apis to a client that accepts an APIGroupDiscoveryList.

    ``remote``: by group and version, the entries of what other servers answer for.
    """
    remote = remote or {}
    names = [("", ["v1"])] if legacy else list(_groups(registry, remote))
    kinds: dict[tuple[str, str], list[Kind]] = {}
    for kind in sorted(registry.all(), key=lambda kind: kind.plural):
        kinds.setdefault((kind.group, kind.version), []).append(kind)
    items = [_discovered_group(kinds, name, versions, remote) for name, versions in names]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _groups(registry: Registry, remote: Iterable[tuple[str, str]] = ()) -> Iterable[tuple[str, list[str]]]:
    """Return every named group with its versions, preferred first, in upstream's order; others come last."""
    versions: dict[str, list[str]] = {}
    for name, version in (*((kind.group, kind.version) for kind in registry.all()), *remote):
        if name:
            known = versions.setdefault(name, [])
            if version not in known:
                known.append(version)
    return sorted(versions.items(), key=lambda entry: RANKS.get(entry[0], len(RANKS)))


def _group(name: str, versions: list[str]) -> Obj:
    """Return one group of /apis."""
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resources(registry: Registry, kind: Kind) -> Iterable[Obj]:
    """Yield the legacy entries of a kind: itself, then its subresources."""
    entry: Obj = {
        "name": kind.plural,
        "singularName": kind.singular or kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _verbs(kind),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if not kind.virtual and "create" in kind.verbs:
        entry["storageVersionHash"] = _storage_hash(registry, kind)
    yield entry
    for sub in _subresources(kind):
        yield _subresource(kind, sub)


def _verbs(kind: Kind) -> list[str]:
    return sorted(kind.verbs, key=CUSTOM_VERBS.index if kind.custom is not None else None)


def _subresources(kind: Kind) -> list[Subresource]:
    if kind.custom is not None:
        return sorted(kind.subresources, key=lambda sub: CUSTOM_PARTS.index(sub.name))
    return sorted(kind.subresources, key=lambda sub: sub.name)


def _storage_hash(registry: Registry, kind: Kind) -> str:
    """Return the text by which clients see that objects are stored in another version from now on."""
    stored = registry.by_resource(kind.storage) if kind.storage else kind
    version = kind.stored_version or stored.stored_version or stored.version
    name = f"{stored.group}/{version}/{stored.kind}"
    return base64.b64encode(hashlib.sha256(name.encode()).digest()[:8]).decode()


def _subresource(kind: Kind, sub: Subresource) -> Obj:
    """Return the legacy entry of a subresource; group and version stand there only where they differ."""
    other = {"group": sub.group, "version": sub.version} if sub.version else {}
    return {
        "name": f"{kind.plural}/{sub.name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        **other,
        "kind": sub.kind or kind.kind,
        "verbs": sorted(sub.verbs),
    }


def _discovered_group(
    kinds: Mapping[tuple[str, str], list[Kind]], name: str, versions: list[str], remote: Mapping[tuple[str, str], Obj]
) -> Obj:
    """Return one item of the aggregated document."""
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            remote.get((name, version))
            or {
                "version": version,
                "resources": [_discovered(kind) for kind in kinds.get((name, version), [])],
                "freshness": "Current",
            }
            for version in versions
        ],
    }


def _discovered(kind: Kind) -> Obj:
    """Return one resource of the aggregated document."""
    entry: Obj = {
        "resource": kind.plural,
        "responseKind": _own_kind(kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular or kind.kind.lower(),
        "verbs": _verbs(kind),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [_discovered_subresource(kind, sub) for sub in _subresources(kind)]
    return entry


def _own_kind(kind: Kind) -> Obj:
    """Return what answers: group and version are told only of custom kinds, where they are no others."""
    custom = kind.custom is not None
    return {"group": kind.group if custom else "", "version": kind.version if custom else "", "kind": kind.kind}


def _discovered_subresource(kind: Kind, sub: Subresource) -> Obj:
    """Return one subresource of the aggregated document."""
    other = {"group": sub.group, "version": sub.version, "kind": sub.kind}
    response = other if sub.version else _own_kind(kind) | {"kind": sub.kind or kind.kind}
    return {"subresource": sub.name, "responseKind": response, "verbs": sorted(sub.verbs)}
