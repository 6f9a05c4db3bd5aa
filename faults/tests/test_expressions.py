"""The functions of expressions: what they say of objects, and that nothing in an object makes them fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults import packs
from faults.checks import expressions
from faults.checks.quantities import parse_quantity
from faults.tests.objects import make_node, make_pod
from faults.tests.variants import PACKS

DOCS = Path(packs.__file__).resolve().parents[2] / "docs" / "packs.md"
ODD = [None, 1, "x", [], [None], {}, {"metadata": 1}, {"spec": []}, {"status": {"allocatable": "many"}}]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", 0.5),
        ("7991953672n", 7.991953672),
        ("32Gi", 32 * 2**30),
        ("1e3", 1000),
        ("1E", 1e18),
        ("1.5k", 1500),
        (".5", 0.5),
        ("5.", 5),
        ("-2", -2),
        ("", None),
        ("1 Gi", None),
        ("1kI", None),
        ("1e999", None),
        ("9" * 40, None),
        ("nan", None),
    ],
)
def test_quantities_are_numbers(text, number):
    assert parse_quantity(text) == (None if number is None else pytest.approx(number))


def test_quantities_compare_whatever_their_units():
    assert expressions.run("quantity('1500m') > quantity('1') && quantity('1Gi') > quantity('1G')", {}) is True
    assert expressions.run("quantity(2) == 2.0 && quantity('many') == 0.0", {}) is True


def holding(name, gpus, phase="Running", node="node-1"):
    pod = make_pod(name, phase=phase)
    pod["spec"] |= {"nodeName": node}
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    return pod


def test_a_nodes_gpus_and_those_that_are_given_away():
    node = make_node()
    node["status"]["allocatable"] = {"nvidia.com/gpu": "8", "cpu": "16"}
    ended = [holding("d", "1", "Succeeded"), holding("e", "1", "Failed")]
    pods = [holding("a", "2"), holding("b", "1", "Pending"), holding("c", "4", node="node-2"), *ended]
    values = {"node": node, "pods": pods}
    assert expressions.run("gpu_capacity(node) == 8 && gpu_use(node, pods) == 3 && gpu_use(node, []) == 0", values)


def test_the_newest_object_is_the_one_that_was_created_last():
    times = ["2026-01-05T12:00:00Z", "2026-01-05T12:00:02Z", "2026-01-05T12:00:02Z", "2026-01-05T11:59:59Z"]
    pods = [{"metadata": {"name": str(number), "creationTimestamp": at}} for number, at in enumerate(times)]
    assert expressions.run("newest(pods).map(p, p.metadata.name) == ['2'] && newest([]) == []", {"pods": pods})


def test_the_seconds_between_two_times_and_none_where_one_is_missing():
    assert expressions.run("seconds('2026-01-05T12:00:00Z', '2026-01-05T12:01:30.5Z') == 90.5", {}) is True
    assert expressions.run("seconds('', '2026-01-05T12:00:00Z') + seconds('now', 'then') == 0.0", {}) is True


def wanting(**spec):
    """Return a job whose pods want these things of their node."""
    return {"spec": {"template": {"spec": spec}}}


def near(*expressions_, fields=()):
    terms = [{"matchExpressions": list(expressions_), "matchFields": list(fields)}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return wanting(affinity={"nodeAffinity": required})


def matching(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("job", "selected"),
    [
        (wanting(), True),
        (wanting(nodeSelector={"tier": "large"}), True),
        (wanting(nodeSelector={"tier": "large", "zone": "a"}), False),
        (near(matching("tier", "In", "small", "large")), True),
        (near(matching("tier", "NotIn", "large")), False),
        (near(matching("zone", "NotIn", "a"), matching("zone", "DoesNotExist")), True),
        (near(matching("zone", "Exists")), False),
        (near(matching("memory", "Gt", "15000")), True),
        (near(matching("memory", "Gt", "81920")), False),
        (near(matching("memory", "Lt", "81920")), False),
        (near(matching("memory", "Lt", "81921")), True),
        (near(matching("tier", "Gt", "1")), False),
        (near(matching("tier", "Like", "large")), False),
        (near(fields=[matching("metadata.name", "In", "node-1")]), True),
        (near(fields=[matching("metadata.name", "In", "node-2")]), False),
        (near(), False),
    ],
)
def test_a_node_is_selected_as_the_scheduler_does_it(job, selected):
    node = {"metadata": {"name": "node-1", "labels": {"tier": "large", "memory": "81920"}}}
    assert expressions.run("selects(job, node)", {"job": job, "node": node}) is selected
    pod = {"spec": job["spec"]["template"]["spec"]}
    assert expressions.run("selects(pod, node)", {"pod": pod, "node": node}) is selected


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "team", "value": "vision"}, True),
        ({"key": "team", "value": "vision", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "speech"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_taint_is_tolerated_as_the_scheduler_does_it(toleration, tolerated):
    values = {"pod": {"spec": {"tolerations": [toleration]}}}
    values["taint"] = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    assert expressions.run("tolerates(pod, taint)", values) is tolerated


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_no_function_fails_whatever_an_object_holds(odd):
    calls = {"field": "x, 'a.b', 0", "condition": "x, 'Ready'", "gpu_use": "x, x", "join": "x, ','"}
    calls |= {"programs": "x, 'python', {'/work': 'code'}, x"}
    calls |= dict.fromkeys(("owned_by", "seconds", "selects", "tolerates"), "x, x")
    for name in expressions.FUNCTIONS:
        expressions.run(f"type({name}({calls.get(name, 'x')})) != null_type", {"x": odd, "null_type": 0})


def test_every_function_is_documented_and_used_by_a_pack():
    conditions = [
        part for pack in PACKS for part in (*pack.symptom, *(row.condition for row in (*pack.checks, *pack.guards)))
    ]
    written = " ".join(f"{each.expr} {each.found}" for each in conditions)
    text = DOCS.read_text()
    for name in expressions.FUNCTIONS:
        assert f"{name}(" in written, name
        assert f"`{name}(" in text, name
