"""Cloud Asset Inventory (cloudasset/v1): everything of the project in one answer, to compare two states of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from kubesim.cloud.compute import REGION, Refuse
from kubesim.cloud.container import CLUSTER
from kubesim.cloud.iam import POLICY
from kubesim.cloud.request import CloudRequest
from kubesim.cloud.state import CloudState
from kubesim.errors import Obj
from kubesim.gpu.nodes import PROJECT
from kubesim.times import micro

FOLDERS = {
    f"projects/{PROJECT}/global/firewalls": "compute.googleapis.com/Firewall",
    f"projects/{PROJECT}/global/networks": "compute.googleapis.com/Network",
    f"projects/{PROJECT}/regions/{REGION}/subnetworks": "compute.googleapis.com/Subnetwork",
    f"projects/{PROJECT}/serviceAccounts": "iam.googleapis.com/ServiceAccount",
}


class Assets:
    """Answers the requests of cloudasset/v1."""

    def __init__(self, state: CloudState, pools: Callable[[], list[Obj]], require: Refuse) -> None:
        self._state = state
        self._pools = pools
        self._require = require

    def answer(self, asked: CloudRequest) -> Obj:
        """Answer a request: all assets with their data, and the project with its policy. Raises CloudError."""
        if (asked.method, asked.path) != ("GET", f"projects/{PROJECT}/assets"):
            raise asked.refused()
        self._require(asked.user, "cloudasset.assets.searchAllResources", f"projects/{PROJECT}")
        kinds = [(folder, kind, self._state.below(folder)) for folder, kind in FOLDERS.items()]
        kinds.append((f"{CLUSTER}/nodePools", "container.googleapis.com/NodePool", self._pools()))
        found = chain.from_iterable(
            (_asset(kind, f"{folder}/{item.get('email', item['name'])}", item) for item in items)
            for folder, kind, items in kinds
        )
        project = {"name": f"//cloudresourcemanager.googleapis.com/projects/{PROJECT}"}
        policy = {"assetType": "cloudresourcemanager.googleapis.com/Project", "iamPolicy": self._state.get(POLICY)}
        return {"readTime": micro(asked.now), "assets": [*found, {**project, **policy}]}


def _asset(kind: str, path: str, item: Obj) -> Obj:
    home = kind.partition("/")[0]
    return {"name": f"//{home}/{path}", "assetType": kind, "resource": {"version": "v1", "data": item}}
