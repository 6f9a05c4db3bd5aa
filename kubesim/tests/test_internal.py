"""Refused structures are shown as the API server has them in memory."""

import json

from kubesim.schema.internal import internal


def test_every_field_is_shown_in_gos_order_and_with_gos_names():
    shown = internal("EnvVar", {"value": "b", "name": "A"})
    assert json.dumps(shown) == '{"Name": "A", "Value": "b", "ValueFrom": null}'


def test_what_is_missing_has_gos_zero_value():
    shown = internal("Container", {"name": "a"})
    assert (shown["Image"], shown["Command"], shown["Stdin"]) == ("", None, False)
    assert shown["Resources"] == {"Limits": None, "Requests": None, "Claims": None}


def test_metadata_keeps_the_names_that_it_has_in_json():
    template = {"metadata": {"labels": {"b": "1", "a": "2"}}, "spec": {"containers": [{"name": "a"}]}}
    shown = internal("PodTemplateSpec", template)
    assert list(shown) == ["labels", "Spec"]
    assert list(shown["labels"]) == ["a", "b"]


def test_the_hosts_namespaces_belong_to_the_security_context():
    shown = internal("PodSpec", {"hostNetwork": True, "securityContext": {"runAsUser": 1}})
    context = shown["SecurityContext"]
    assert (context["HostNetwork"], context["HostPID"], context["RunAsUser"]) == (True, False, 1)


def test_what_has_no_such_type_stays_as_it_is():
    assert internal("", {"matchLabels": {"a": "b"}}) == {"matchLabels": {"a": "b"}}
