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
