"""What the hostile send: numbers that no type holds, expressions that never end, names that are no text."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kubesim.api.quantity import QuantityError, canonical
from kubesim.auth.authn import readable
from kubesim.custom import schemas, values
from kubesim.schema.decode import DecodeError, Decoder
from kubesim.schema.types import Shape, shape_of

DEPLOYMENT = cast(Shape, shape_of("V1Deployment"))
EVIL, LONG = "^(a+)+$", "a" * 60 + "!"


def test_a_pattern_of_a_definition_takes_no_longer_than_its_text() -> None:
    (error,) = values._text_errors(LONG, {"type": "string", "pattern": EVIL}, "s")
    assert f"s in body should match '{EVIL}'" in error.detail


@pytest.mark.parametrize(("pattern", "taken"), [(EVIL, True), (r"^\d+\z", True), ("(?=a)", False), ("(", False)])
def test_patterns_are_of_gos_syntax(pattern: str, taken: bool) -> None:
    assert (schemas._pattern_error(pattern) == "") is taken


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"replicas": 99999999999},
            "number 99999999999 into Go .* DeploymentSpec.spec.replicas of type int32",
        ),
        ({"replicas": -(1 << 31) - 1}, "DeploymentSpec.spec.replicas of type int32"),
        (
            {"template": {"spec": {"terminationGracePeriodSeconds": 1 << 63}}},
            "PodSpec.spec.template.spec.terminationGracePeriodSeconds of type int64",
        ),
    ],
)
def test_a_number_that_its_type_cannot_hold_is_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        Decoder().object(DEPLOYMENT, {"spec": spec})


def test_a_number_that_its_type_can_just_hold_is_taken() -> None:
    spec = {"replicas": (1 << 31) - 1, "template": {"spec": {"terminationGracePeriodSeconds": (1 << 63) - 1}}}
    assert Decoder().object(DEPLOYMENT, {"spec": spec})["spec"]["replicas"] == (1 << 31) - 1


def test_a_quantity_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(QuantityError, match="unable to parse numeric part of quantity"):
        canonical("9" * 5000)
    assert len(canonical("9" * 500)) == 500


def test_a_header_that_is_no_text_becomes_one() -> None:
    assert readable("a\udcff") == "a\ufffd"
    assert readable("\udcc3\udca9") == "é"


@pytest.mark.parametrize(("entry", "name"), [(5, "number"), ("", "string"), ([], "array"), (True, "bool")])
@pytest.mark.parametrize(
    ("owner", "field", "told"),
    [
        ("V1PodSpec", "containers", "field PodSpec.containers of type v1.Container"),
        ("V1Device", "attributes", "field Device.attributes of type v1.DeviceAttribute"),
    ],
)
def test_an_entry_that_is_no_object_is_refused(entry: Any, name: str, owner: str, field: str, told: str) -> None:
    shape = cast(Shape, shape_of(owner))
    entries = {"a": entry} if field == "attributes" else [entry]
    with pytest.raises(DecodeError) as refused:
        Decoder().object(shape, {field: entries})
    assert str(refused.value) == f"json: cannot unmarshal {name} into Go struct {told}"


@pytest.mark.parametrize(
    ("owner", "field", "sent", "told"),
    [
        ("V1ServiceSpec", "type", 5, "number into Go struct field ServiceSpec.type of type v1.ServiceType"),
        (
            "V1ServiceSpec",
            "ipFamilies",
            "a",
            "string into Go struct field ServiceSpec.ipFamilies of type []v1.IPFamily",
        ),
        (
            "V1ServiceSpec",
            "ipFamilies",
            [5],
            "number into Go struct field ServiceSpec.ipFamilies of type v1.IPFamily",
        ),
        ("V1ServicePort", "targetPort", {}, "object into Go struct field ServicePort.targetPort of type int32"),
        (
            "V2MetricSpec",
            "resource",
            5,
            "number into Go struct field MetricSpec.resource of type v2.ResourceMetricSource",
        ),
    ],
)
def test_a_wrong_type_is_told_of_by_the_name_that_go_has_for_the_right_one(
    owner: str, field: str, sent: Any, told: str
) -> None:
    with pytest.raises(DecodeError) as refused:
        Decoder().object(cast(Shape, shape_of(owner)), {field: sent})
    assert str(refused.value) == f"json: cannot unmarshal {told}"


def test_null_in_a_list_is_the_zero_of_its_type() -> None:
    spec = {"finalizers": [None]}
    assert Decoder().object(cast(Shape, shape_of("V1NamespaceSpec")), spec) == {"finalizers": [""]}
    hard = {"hard": {"cpu": None}}
    assert Decoder().object(cast(Shape, shape_of("V1ResourceQuotaSpec")), hard) == {"hard": {"cpu": "0"}}
