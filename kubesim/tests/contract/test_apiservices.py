"""APIServices: those of the built-in groups, and those that come and go with CustomResourceDefinitions."""

from __future__ import annotations

import time

import pytest

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LABEL = "kube-aggregator.kubernetes.io/automanaged"
WAIT_S = 60
PRIORITIES = {
    "v1.": (18000, 1), "v1.apps": (17800, 15), "v2.autoscaling": (17500, 30), "v1.resource.k8s.io": (16200, 21),
    "v1.flowcontrol.apiserver.k8s.io": (16100, 21), "v1.events.k8s.io": (17750, 15),
}  # fmt: skip


def until(call):
    """Call until the answer is true; return it."""
    end = time.monotonic() + WAIT_S
    while not (found := call()):
        assert time.monotonic() < end
    return found


def of_group(cluster, group):
    return sorted(name for name in names(cluster) if name.endswith(f".{group}"))


def names(cluster):
    return [item["metadata"]["name"] for item in cluster("GET", SERVICES).json["items"]]


@pytest.fixture
def group(cluster, namespace):
    """A custom group with two served versions."""
    group = f"{namespace}.example.com"
    schema = {"openAPIV3Schema": {"type": "object"}}
    served = {"v1": True, "v1beta1": True, "v2": False}
    versions = [{"name": v, "served": s, "storage": v == "v1", "schema": schema} for v, s in served.items()]
    spec = {"group": group, "scope": "Cluster", "names": {"plural": "toys", "kind": "Toy"}, "versions": versions}
    made = cluster("POST", DEFINITIONS, {"metadata": {"name": f"toys.{group}"}, "spec": spec})
    assert made.code == 201
    yield group
    cluster("DELETE", f"{DEFINITIONS}/toys.{group}")


@pytest.mark.parametrize(("name", "priorities"), PRIORITIES.items())
def test_every_built_in_group_has_one(cluster, name, priorities):
    found = cluster("GET", f"{SERVICES}/{name}").json
    assert (found["spec"]["groupPriorityMinimum"], found["spec"]["versionPriority"]) == priorities
    assert found["metadata"]["labels"] == {LABEL: "onstart"}
    assert found["status"]["conditions"][0]["message"] == "Local APIServices are always available"


def test_a_definition_gets_one_for_each_version_that_is_served(cluster, group):
    assert until(lambda: of_group(cluster, group)[1:] and of_group(cluster, group)) == [
        f"v1.{group}",
        f"v1beta1.{group}",
    ]
    found = until(lambda: "status" in (made := cluster("GET", f"{SERVICES}/v1.{group}").json) and made)
    assert found["spec"] == {
        "group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100,
    }  # fmt: skip
    assert found["metadata"]["labels"] == {LABEL: "true"}
    condition = found["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")


def test_one_that_is_deleted_comes_again_and_goes_with_its_version(cluster, group):
    before = until(lambda: (found := cluster("GET", f"{SERVICES}/v1beta1.{group}")).code == 200 and found).json
    cluster("DELETE", f"{SERVICES}/v1beta1.{group}")
    again = until(lambda: (found := cluster("GET", f"{SERVICES}/v1beta1.{group}")).code == 200 and found).json
    assert again["metadata"]["uid"] != before["metadata"]["uid"]
    unserved = [{"op": "replace", "path": "/spec/versions/1/served", "value": False}]
    cluster("PATCH", f"{DEFINITIONS}/toys.{group}", unserved, kind="application/json-patch+json")
    until(lambda: of_group(cluster, group) == [f"v1.{group}"])
    cluster("DELETE", f"{DEFINITIONS}/toys.{group}")
    until(lambda: of_group(cluster, group) == [])
