"""The cloud around a cluster: what was there before a step, and how it becomes so again.

Only what an API can take back is restored: firewall rules, networks, accounts, members of the project's policy, and
the sizes of node pools. Machines that were taken away come back as new ones of the same kind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from faults.engine.ports import ClusterPort, Obj
from faults.errors import AlreadyExists, NotFound

MACHINE = "gce://"
_ADDED = {"creationTimestamp", "fingerprint", "gatewayAddress", "id", "kind", "region", "selfLink", "selfLinkWithId"}
"""Fields of a resource of Compute Engine that the API writes by itself."""
_FIXED = {"name", "network", "purpose", "autoCreateSubnetworks", "mtu", "description", "role"}
"""Fields of networks and subnetworks that no request changes afterwards."""
_ORDER = ("Network", "Subnetwork", "Firewall", "ServiceAccount", "NodePool", "Project")
"""Each needs those before it: a policy names accounts that there are."""
_VOLATILE = {"etag", "uniqueId", "oauth2ClientId", *_ADDED}
_POOL_LABEL = "cloud.google.com/gke-nodepool"
Picture = dict[str, Obj]
"""Assets by name, each with its ``type`` and ``data``."""


def projects(cluster: ClusterPort) -> list[str]:
    """Return the cloud projects in which the cluster's nodes are machines."""
    places = (str((node.get("spec") or {}).get("providerID", "")) for node in cluster.list("v1", "Node"))
    return sorted({place.removeprefix(MACHINE).partition("/")[0] for place in places if place.startswith(MACHINE)})


def picture(cluster: ClusterPort, project: str) -> Picture:
    """Return everything of a project that can be restored."""
    assets = cluster.cloud_assets(project)
    sizes = Counter(_pool_of(node) for node in cluster.list("v1", "Node")) if assets else Counter[str]()
    found = {asset["name"]: _kept(asset, sizes) for asset in assets}
    return {name: kept for name, kept in found.items() if kept["type"] in _ORDER}


def differences(before: Mapping[str, Obj], after: Mapping[str, Obj]) -> list[str]:
    """Return the names of all that is not as it was."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def restore(cluster: ClusterPort, project: str, before: Mapping[str, Obj]) -> list[str]:
    """Bring a project back to a picture of it; return the names of what was different.

    Members that were not there go first: until then somebody may be changing the rest with what they were given.
    """
    after = picture(cluster, project)
    changed = differences(before, after)
    for name in changed:
        if name in before and before[name]["type"] == "Project":
            _drop_new_members(cluster, project, before[name]["data"])
    for name in _in_order(changed, before, after, backwards=True):
        kind = (after.get(name) or before[name])["type"]
        if name in after and (name not in before or kind == "Firewall"):
            with suppress(NotFound):
                cluster.cloud("DELETE", _path(name))
    for name in _in_order(changed, before, after, backwards=False):
        if name in before:
            _put(cluster, project, name, before[name], is_there=name in after)
    return changed


def workload(project: str, account: str) -> str:
    """Return the member that means a service account (NAMESPACE/NAME) of a cluster in the project."""
    return f"serviceAccount:{project}.svc.id.goog[{account}]"


def grant(cluster: ClusterPort, project: str, member: str, roles: Iterable[str]) -> None:
    """Add a member to roles of the project's policy."""
    bindings = _bindings(cluster, project)
    for role in roles:
        bindings[role] = sorted({*bindings.get(role, []), member})
    _set_policy(cluster, project, bindings)


def withdraw(cluster: ClusterPort, project: str, namespaces: Iterable[str]) -> None:
    """Take every member from the project's policy that means service accounts in these namespaces of a cluster."""
    spaces = "|".join(map(re.escape, namespaces))
    meant = re.compile(rf"[^\[]*\[({spaces})/[^]]*\]|.*/subject/ns/({spaces})/sa/[^/]*|.*/namespace/({spaces})")
    _keep_members(cluster, project, lambda role, member: not meant.fullmatch(member))


def roles_of(cluster: ClusterPort, project: str, member: str) -> set[str]:
    """Return the roles that a member has in the project."""
    return {role for role, members in _bindings(cluster, project).items() if member in members}


def _bindings(cluster: ClusterPort, project: str) -> dict[str, list[str]]:
    policy = cluster.cloud("POST", f"/cloudresourcemanager/v1/projects/{project}:getIamPolicy", {})
    return _members(policy)


def _members(policy: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the members by role: a policy may name a role several times."""
    found: dict[str, set[str]] = {}
    for row in policy.get("bindings", []):
        found.setdefault(row["role"], set()).update(row["members"])
    return {role: sorted(members) for role, members in found.items()}


def _keep_members(cluster: ClusterPort, project: str, keep: Callable[[str, str], bool]) -> None:
    before = _bindings(cluster, project)
    after = {role: [member for member in members if keep(role, member)] for role, members in before.items()}
    if after != before:
        _set_policy(cluster, project, {role: members for role, members in after.items() if members})


def _drop_new_members(cluster: ClusterPort, project: str, known: Mapping[str, Sequence[str]]) -> None:
    _keep_members(cluster, project, lambda role, member: member in known.get(role, ()))


def _pool_of(node: Obj) -> str:
    is_machine = str((node.get("spec") or {}).get("providerID", "")).startswith(MACHINE)
    return str((node["metadata"].get("labels") or {}).get(_POOL_LABEL, "")) if is_machine else ""


def _kept(asset: Obj, sizes: Mapping[str, int]) -> Obj:
    kind = asset["assetType"].rpartition("/")[2]
    if "iamPolicy" in asset:
        policy = asset["iamPolicy"] or {}
        return {"type": kind, "data": _members(policy)}
    data = asset["resource"]["data"]
    if kind == "NodePool":
        return {"type": kind, "data": {"name": data["name"], "size": sizes.get(data["name"], 0)}}
    return {"type": kind, "data": {key: value for key, value in data.items() if key not in _VOLATILE}}


def _in_order(
    names: Iterable[str], before: Mapping[str, Obj], after: Mapping[str, Obj], *, backwards: bool
) -> list[str]:
    def place(name: str) -> int:
        kind = (before.get(name) or after[name])["type"]
        return _ORDER.index(kind)

    return sorted(names, key=place, reverse=backwards)


def _path(name: str) -> str:
    """Return the address of a resource, whose name begins with that of its service."""
    service, _, rest = name.removeprefix("//").partition("/")
    return f"/{service.partition('.')[0]}/v1/{rest}"


def _put(cluster: ClusterPort, project: str, name: str, kept: Obj, *, is_there: bool) -> None:
    data: dict[str, Any] = kept["data"]
    match kept["type"]:
        case "Project":
            _set_policy(cluster, project, data)
        case "NodePool":
            cluster.cloud("POST", f"{_path(name)}:setSize", {"nodeCount": data["size"]})
        case "ServiceAccount" if is_there:
            shown = {key: data.get(key, "") for key in ("displayName", "description")}
            cluster.cloud("PATCH", _path(name), {"serviceAccount": shown, "updateMask": "displayName,description"})
        case "ServiceAccount":
            account = {key: data[key] for key in ("displayName", "description") if key in data}
            body = {"accountId": data["email"].partition("@")[0], "serviceAccount": account}
            _insert(cluster, f"/iam/v1/projects/{project}/serviceAccounts", body)
        case "Network" | "Subnetwork" if is_there:
            changing = {key: value for key, value in data.items() if key not in _FIXED}
            cluster.cloud("PATCH", _path(name), changing)
        case "Network" | "Subnetwork" | "Firewall":
            _insert(cluster, _path(name).rpartition("/")[0], data)


def _insert(cluster: ClusterPort, folder: str, body: Obj) -> None:
    with suppress(AlreadyExists):  # by an earlier attempt that died
        cluster.cloud("POST", folder, body)


def _set_policy(cluster: ClusterPort, project: str, bindings: Mapping[str, Sequence[str]]) -> None:
    """Replace the policy. Accounts that somebody has deleted are left out, since a policy cannot name them."""
    accounts = cluster.cloud("GET", f"/iam/v1/projects/{project}/serviceAccounts").get("accounts", [])
    known = {f"serviceAccount:{account['email']}" for account in accounts}
    own = f"@{project}.iam.gserviceaccount.com"
    rows = [
        {"role": role, "members": [member for member in members if not member.endswith(own) or member in known]}
        for role, members in bindings.items()
    ]
    policy = {"policy": {"version": 1, "bindings": rows}}
    cluster.cloud("POST", f"/cloudresourcemanager/v1/projects/{project}:setIamPolicy", policy)
