"""The snapshot that a proof brings back between two routes."""

from __future__ import annotations

import pytest

from faults.catalog_check.snapshot import Snapshot
from faults.catalog_check.writable import WritableObjects
from faults.clock import RealClock
from faults.engine import LAST_APPLIED
from faults.errors import NotFound
from faults.packs import AccessRule

pytestmark = pytest.mark.django_db
SPACE = "default"
APPLIED = (
    '{"apiVersion":"v1","data":{"rows":"1"},"kind":"ConfigMap","metadata":{"name":"settings","namespace":"default"}}'
)


@pytest.fixture
def kept(kube):
    """The snapshot of a config map that was applied, and then changed by a fault."""
    meta = {"name": "settings", "namespace": SPACE, "annotations": {LAST_APPLIED: APPLIED}}
    kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"rows": "1"}})
    kube.patch("v1", "ConfigMap", "settings", SPACE, {"data": {"rows": "0"}})
    rules = [AccessRule(("configmaps",), ("create", "patch", "delete"), (SPACE,))]
    return Snapshot(kube, WritableObjects(kube, rules, [SPACE]), [SPACE])


def rows(kube):
    return kube.get("v1", "ConfigMap", "settings", SPACE)["data"]


def test_what_a_candidate_changed_is_as_the_fault_had_left_it(kube, kept):
    before = kube.get("v1", "ConfigMap", "settings", SPACE)["metadata"]["uid"]
    kube.patch("v1", "ConfigMap", "settings", SPACE, {"data": {"rows": "1", "more": "2"}})
    kept.bring_back(RealClock())
    assert rows(kube) == {"rows": "0"}
    assert kube.get("v1", "ConfigMap", "settings", SPACE)["metadata"]["uid"] == before


def test_what_a_candidate_deleted_is_as_the_fault_had_left_it(kube, kept):
    kube.delete("v1", "ConfigMap", "settings", SPACE)
    kept.bring_back(RealClock())
    assert rows(kube) == {"rows": "0"}


def test_what_a_candidate_made_is_gone(kube, kept):
    kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "namespace": SPACE}})
    kept.bring_back(RealClock())
    with pytest.raises(NotFound):
        kube.get("v1", "ConfigMap", "mine", SPACE)
