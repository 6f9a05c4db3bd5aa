"""The cloud around a cluster is brought back to a picture that was taken of it before."""

from __future__ import annotations

from faults.engine import compare, fingerprint
from faults.injectors import cloud_changes

PROJECT = "ml-prod"
COMPUTE = f"/compute/v1/projects/{PROJECT}"
FIREWALLS = f"{COMPUTE}/global/firewalls"
ACCOUNTS = f"/iam/v1/projects/{PROJECT}/serviceAccounts"
POOLS = f"/container/v1/projects/{PROJECT}/locations/us-central1-a/clusters/{PROJECT}/nodePools"
SUBNETWORK = f"{COMPUTE}/regions/us-central1/subnetworks/ml-prod-us-central1"
LAUNCHER = f"job-launcher@{PROJECT}.iam.gserviceaccount.com"


def rule(name, **more):
    return {
        "name": name,
        "network": "ml-prod",
        "direction": "EGRESS",
        "denied": [{"IPProtocol": "all"}],
        "targetTags": ["h100-pool"],
        "description": "as it was",
        **more,
    }


def test_rules_members_accounts_and_sizes_of_pools_come_back(kube):
    assert cloud_changes.projects(kube) == [PROJECT]
    for name in ("kept", "changed", "deleted"):
        kube.cloud("POST", FIREWALLS, rule(name))
    before, picture = cloud_changes.picture(kube, PROJECT), fingerprint(kube, [])
    assert cloud_changes.restore(kube, PROJECT, before) == []

    kube.cloud("PATCH", f"{FIREWALLS}/changed", {"priority": 7, "targetTags": [], "disabled": True})
    kube.cloud("DELETE", f"{FIREWALLS}/deleted")
    kube.cloud("POST", FIREWALLS, rule("new"))
    kube.cloud("PATCH", SUBNETWORK, {"privateIpGoogleAccess": False})
    kube.cloud("POST", f"{COMPUTE}/global/networks", {"name": "own", "autoCreateSubnetworks": False})
    own = {"name": "own", "network": "own", "ipCidrRange": "10.9.0.0/24"}
    kube.cloud("POST", f"{COMPUTE}/regions/us-central1/subnetworks", own)
    kube.cloud("POST", ACCOUNTS, {"accountId": "added-one"})
    cloud_changes.grant(kube, PROJECT, "group:everybody@example.com", ["roles/owner", "roles/container.admin"])
    kube.cloud("DELETE", f"{ACCOUNTS}/{LAUNCHER}")
    sizes = {pool["name"] for pool in kube.cloud("GET", POOLS)["nodePools"]}
    largest = max(sizes)
    kube.cloud("POST", f"{POOLS}/{largest}:setSize", {"nodeCount": 4})

    found = cloud_changes.restore(kube, PROJECT, before)
    assert len(found) == 10
    assert cloud_changes.differences(before, cloud_changes.picture(kube, PROJECT)) == []
    assert compare(picture, fingerprint(kube, [])) == []
    assert cloud_changes.restore(kube, PROJECT, before) == []


def test_a_role_that_the_policy_names_twice_keeps_all_of_its_members(kube):
    people = ["group:one@example.com", "group:two@example.com"]
    rows = [{"role": "roles/viewer", "members": [person]} for person in people]
    address = f"/cloudresourcemanager/v1/projects/{PROJECT}:setIamPolicy"
    kube.cloud("POST", address, {"policy": {"version": 1, "bindings": rows}})
    cloud_changes.grant(kube, PROJECT, "group:three@example.com", ["roles/viewer"])
    for person in people:
        assert cloud_changes.roles_of(kube, PROJECT, person) == {"roles/viewer"}


class Told:
    """A cluster that notes what it is asked to change in the cloud."""

    def __init__(self, kube):
        self._kube, self.changes = kube, []

    def __getattr__(self, name):
        return getattr(self._kube, name)

    def cloud(self, method, path, body=None):
        if method != "GET" and not path.endswith("getIamPolicy"):
            self.changes.append(f"{method} {path}")
        return self._kube.cloud(method, path, body)


def test_new_members_lose_their_roles_before_anything_else_is_restored(kube):
    before = cloud_changes.picture(kube, PROJECT)
    kube.cloud("POST", FIREWALLS, rule("new"))
    cloud_changes.grant(kube, PROJECT, "group:everybody@example.com", ["roles/owner"])
    told = Told(kube)
    cloud_changes.restore(told, PROJECT, before)
    assert told.changes[0].endswith("setIamPolicy")
    assert cloud_changes.differences(before, cloud_changes.picture(kube, PROJECT)) == []
