"""Protobuf bodies, built by hand here so that no kubectl is needed."""

import pytest

from kubesim.api.protobuf import MAGIC, ProtobufError, decode


def varint(value):
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number, value):
    """Return one field: an integer as a varint, bytes and text with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def envelope(api_version, kind, raw):
    return MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def test_maps_bytes_and_times():
    meta = field(1, "key") + field(8, field(1, 0)) + field(11, field(1, "a") + field(2, "b"))
    body = envelope(
        "v1", "Secret", field(1, meta) + field(2, field(1, "x") + field(2, b"\x00y")) + field(3, "Opaque")
    )
    assert decode(body) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "key", "labels": {"a": "b"}},
        "data": {"x": "AHk="},
        "type": "Opaque",
    }


def test_a_zero_behind_a_pointer_is_kept_and_a_plain_one_is_not():
    spec = field(7, 0) + field(2, 1)  # backoffLimit 0, completions 1
    job = decode(envelope("batch/v1", "Job", field(1, field(1, "j") + field(7, 0)) + field(2, spec)))
    assert job["spec"]["backoffLimit"] == 0
    assert "generation" not in job["metadata"]


def test_quantities_and_inlined_structs():
    limits = field(1, "nvidia.com/gpu") + field(2, field(1, "8"))
    volume = field(1, "cache") + field(2, field(2, b""))
    container = field(1, "main") + field(8, field(1, limits))
    body = envelope("v1", "Pod", field(2, field(1, volume) + field(2, container)))
    spec = decode(body)["spec"]
    assert spec["volumes"] == [{"name": "cache", "emptyDir": {}}]
    assert spec["containers"] == [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]


def test_negative_numbers_and_unknown_fields():
    body = envelope("v1", "DeleteOptions", field(1, (1 << 64) - 1) + field(999, "what"))
    assert decode(body)["gracePeriodSeconds"] == -1


@pytest.mark.parametrize(
    "raw", [b"\x0a", b"\x0a\xff\xff\xff\xff\x0f", b"\x07", b"\x08" + b"\xff" * 11, b"\x00\x00", b"\x0a\x02\xff\xff"]
)
def test_what_is_cut_off_or_nonsense_is_an_error(raw):
    with pytest.raises(ProtobufError):
        decode(envelope("v1", "ConfigMap", field(1, raw)))


def test_an_unknown_kind_is_an_error():
    with pytest.raises(ProtobufError, match='no kind "Unicorn" is registered for version "v1"'):
        decode(envelope("v1", "Unicorn", b""))
