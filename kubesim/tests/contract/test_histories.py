"""Random histories keep what every API server promises, and end alike on kubesim and on a real control plane."""

import os

import pytest
from hypothesis import HealthCheck, given, settings

from kubesim.tests.contract.exchanges import compared
from kubesim.tests.contract.histories import BUNDLE, GROUP, HISTORIES, KINDS, Run, defined

RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
EXAMPLES = 10 * int(os.environ.get("TORTURE_ROUNDS", "1"))
"""How many histories are played: more in ``make torture``."""
LAST = "z-last"
LEAST = {
    "configmaps": {},
    "secrets": {},
    "services": {"spec": {"clusterIP": "None", "selector": {"a": "b"}}},
    "pods": {"spec": {"schedulerName": "nobody", "containers": [{"name": "a", "image": "a"}]}},
    "deployments": {
        "spec": {
            "paused": True,
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
        }
    },
    "widgets": {"apiVersion": f"{GROUP}/v1", "kind": "Widget"},
}
"""Objects that can be made, with as little in them as possible."""


@pytest.fixture(scope="module")
def here(simulated):
    with defined(simulated):
        yield simulated


@pytest.fixture(scope="module")
def there(real):
    with defined(real):
        yield real


@settings(max_examples=EXAMPLES, suppress_health_check=RELAXED)
@given(history=HISTORIES)
def test_what_a_watch_tells_is_what_a_list_shows(here, history):
    with Run(here).space() as run:
        start = here("GET", run.path("configmaps")).json["metadata"]["resourceVersion"]
        for step in history:
            assert run.send(step).code < 500
        run.settle()
        for kind in KINDS:
            assert here("POST", run.path(kind), {"metadata": {"name": LAST}, **LEAST[kind]}).code == 201
            assert told(here, run, kind, start) == listed(here, run, kind)


def listed(cluster, run, kind):
    """Return every object by its name."""
    answer = cluster("GET", run.path(kind)).json
    named = {"apiVersion": answer["apiVersion"], "kind": answer["kind"].removesuffix("List")}
    shown = [obj for obj in answer["items"] if obj["metadata"]["name"] not in (BUNDLE, LAST)]
    return {obj["metadata"]["name"]: {**named, **obj} for obj in shown}


def told(cluster, run, kind, start):
    """Return what a client knows that has followed a watch from ``start`` to the last object; versions only grow."""
    seen, version = {}, int(start)
    with cluster.watching(f"{run.path(kind)}?watch=1&resourceVersion={start}&timeoutSeconds=60") as events:
        for event in events:
            metadata = event["object"]["metadata"]
            assert int(metadata["resourceVersion"]) > version
            version, name = int(metadata["resourceVersion"]), metadata["name"]
            if name == BUNDLE:
                continue
            assert (name in seen) is (event["type"] != "ADDED")
            seen[name] = event["object"]
            if event["type"] == "DELETED":
                del seen[name]
            if name == LAST:
                return {name: obj for name, obj in seen.items() if name != LAST}
    raise AssertionError("the watch ended before the last object came")


@settings(max_examples=EXAMPLES, suppress_health_check=RELAXED)
@given(history=HISTORIES)
def test_the_same_history_gets_the_same_answers_and_ends_alike(here, there, history):
    with Run(here).space() as ours, Run(there).space() as theirs:
        steps = [*history, *(f"what is left of {kind}" for kind in KINDS)]
        for step, one, other in zip(steps, ours.play(history), theirs.play(history), strict=True):
            found = [f"{where}: here {left}, there {right}" for where, left, right in compared(one, other)]
            assert not found, "\n".join([repr(step), *found])
