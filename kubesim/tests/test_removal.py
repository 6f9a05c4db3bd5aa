"""An object that is taken out of what was kept goes with the owners that would make it again, and what they own."""

import orjson
import pytest

from kubesim.current_unit import NOTHING
from kubesim.removal import find, with_family
from kubesim.saved import key


def kept(table, name, owner="", namespace="ml", at="2026-01-05T09:00:00Z"):
    meta = {"name": name, "namespace": namespace, "uid": f"{table}/{name}", "creationTimestamp": at}
    if owner:
        meta["ownerReferences"] = [{"uid": owner, "controller": True}]
    return key("object", table, namespace, name), orjson.dumps({"metadata": meta})


@pytest.fixture
def state():
    return dict([
        (key("cluster"), b"{}"),
        kept("deployments.apps", "web"),
        kept("replicasets.apps", "web-1", "deployments.apps/web"),
        kept("pods", "web-1-a", "replicasets.apps/web-1"),
        kept("pods", "web-1-b", "replicasets.apps/web-1"),
        kept("pods", "lone", at="2026-01-05T09:00:01Z"),
        kept("pods", "orphan", "replicasets.apps/gone"),
        kept("events", "late", at="2026-01-05T09:59:00Z"),
        kept("pods", "dns", namespace="kube-system", at="2026-01-05T09:59:00Z"),
    ])  # fmt: skip


def test_the_first_owner_goes_with_all_that_it_owns(state):
    place = find(state, ("pods", "ml/web-1-a"))
    first, lines = with_family(state, place)
    assert first == ("deployments.apps", "ml", "web")
    assert {orjson.loads(line)[3] for line in lines} == {"web", "web-1", "web-1-a", "web-1-b"}


@pytest.mark.parametrize("name", ["lone", "orphan"])
def test_what_nobody_owns_goes_alone(state, name):
    first, lines = with_family(state, find(state, ("pods", f"ml/{name}")))
    assert (first, len(lines)) == (("pods", "ml", name), 1)


def test_where_nobody_knows_it_is_what_a_person_made_last(state):
    assert find(state, NOTHING) == ("pods", "ml", "lone")


@pytest.mark.parametrize("unit", [("pods", "ml/none"), ("request", "GET /api/v1/pods"), ("services", "ml/web")])
def test_what_is_not_kept_is_not_found(state, unit):
    assert find(state, unit) is None
