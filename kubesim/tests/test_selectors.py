"""Label and field selectors."""

from __future__ import annotations

import pytest

from kubesim.api.selectors import format_struct, from_struct, parse_fields, parse_labels
from kubesim.errors import ApiError
from kubesim.schema.kinds import registry

PODS = registry.by_resource("pods")
EVENTS = registry.by_resource("events")
POD = {"metadata": {"name": "a", "namespace": "ml"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ("app=web", {"app": "web"}, True),
        ("app==web", {"app": "db"}, False),
        ("app!=web", {}, True),
        ("app", {"app": ""}, True),
        ("!app", {"app": "x"}, False),
        ("app in (web, db)", {"app": "db"}, True),
        ("app notin (web,db)", {"app": "db"}, False),
        ("app notin (web)", {}, True),
        ("app=web,tier!=front", {"app": "web", "tier": "back"}, True),
        ("n>5", {"n": "6"}, True),
        ("n < 5", {"n": "x"}, False),
        ("app=", {"app": ""}, True),
        ("app in ()", {"app": ""}, True),
        ("example.com/gpu=true", {"example.com/gpu": "true"}, True),
        ("", {"anything": "at all"}, True),
    ],
)
def test_label_selectors_select(selector, labels, expected):
    assert parse_labels(selector).matches(labels) is expected


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("=web", "found '=', expected: !, identifier, or 'end of string'"),
        ("a in web", r"found 'web' expected: '\('"),
        ("a in (web", r"found '', expected: ',' or '\)'"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a,", "found '', expected: identifier after ','"),
        ("-a=b", "name part must consist of alphanumeric characters"),
        ("a=b!", "found '!', expected: ',' or 'end of string'"),
        ("n>x", "for 'Gt', 'Lt' operators, the value must be an integer"),
    ],
)
def test_label_selectors_that_make_no_sense_are_400(selector, message):
    with pytest.raises(ApiError, match=message) as caught:
        parse_labels(selector)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("spec.nodeName=n1", True),
        ("spec.nodeName=", False),
        ("spec.nodeName!=", True),
        ("status.phase!=Failed,status.phase!=Succeeded", True),
        ("status.phase!=Running", False),
        ("metadata.name=a,metadata.namespace=ml", True),
        ("spec.hostNetwork=false", True),
        ("status.nominatedNodeName=", True),
        ("", True),
    ],
)
def test_field_selectors_select(selector, expected):
    assert parse_fields(selector, PODS).selects(POD) is expected


def test_events_are_selected_by_what_they_speak_of():
    event = {"involvedObject": {"name": "a", "uid": "u"}, "source": {"component": "kubelet"}, "type": "Warning"}
    assert parse_fields("involvedObject.name=a,involvedObject.namespace=,involvedObject.uid=u", EVENTS).selects(event)
    assert parse_fields("source=kubelet,type!=Normal", EVENTS).selects(event)
    same = registry.by_path("events.k8s.io", "v1", "events")
    assert parse_fields("regarding.name=a", same).terms[0].path == ("involvedObject", "name")


@pytest.mark.parametrize(
    ("resource", "selector", "message"),
    [
        ("pods", "spec.image=x", "field label not supported: spec.image"),
        ("jobs.batch", "spec.x=1", 'field label "spec.x" not supported for Job'),
        ("deployments.apps", "status.x=1",
         '"status.x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        ("pods", "nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
    ],
)  # fmt: skip
def test_field_selectors_that_make_no_sense_are_400(resource, selector, message):
    with pytest.raises(ApiError) as caught:
        parse_fields(selector, registry.by_resource(resource))
    assert (caught.value.code, caught.value.message) == (400, message)


def test_a_selector_of_an_object_selects_and_is_shown():
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "a"]}],
    }
    assert from_struct(selector).matches({"app": "web", "tier": "a"})
    assert format_struct(selector) == "app=web,tier in (a,b)"


def test_no_selector_selects_nothing_and_an_empty_one_everything():
    assert not from_struct(None).matches({"a": "b"})
    assert from_struct({}).matches({"a": "b"})


def test_the_source_of_an_event_is_its_controller_where_it_names_none():
    kind = registry.by_resource("events")
    selector = parse_fields("source=c", kind)
    assert selector.selects({"metadata": {}, "source": {"component": "c"}, "reportingComponent": "d"})
    assert selector.selects({"metadata": {}, "source": {}, "reportingComponent": "c"})
    assert not selector.selects({"metadata": {}, "source": {"component": "d"}, "reportingComponent": "c"})
