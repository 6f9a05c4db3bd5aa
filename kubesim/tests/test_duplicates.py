"""Fields that a body says twice; texts and their order were read from a real API server."""

import orjson
import pytest

from kubesim.api.duplicates import NOTHING, in_json, in_yaml, strict_text


@pytest.mark.parametrize(
    "body",
    [b'{"a":1,"b":{"a":2}}', b'[{"a":1},{"a":2}]', b'{"a":"x\\":y","b":"\\":"}', b"[]", b'{"a" : 1, "b": [1]}'],
)
def test_what_is_said_once_is_nothing(body):
    assert not in_json(body, orjson.loads(body)).texts


def test_the_first_look_is_enough_for_most_bodies():
    body = b'{"metadata":{"name":"a"},"data":{"b":"c"}}'
    assert in_json(body, orjson.loads(body)) is NOTHING


def test_bytes_that_are_no_text_are_read_as_the_body_was():
    body = b'{"a":1,"a":"\xff"}'
    assert list(in_json(body, orjson.loads(body.decode(errors="replace"))).texts) == ["a"]


BODY = b'{"spec":{"list":[{"p":1,"p":2,"foo":1}],"paused":true,"paused":false,"what":1,"what":2}}'


def test_repeated_and_unknown_fields_are_told_in_the_bodys_order():
    repeated = in_json(BODY, orjson.loads(BODY))
    assert repeated.with_unknown(["spec.list[0].foo", "spec.what"], patch=False) == [
        'duplicate field "spec.list[0].p"',
        'unknown field "spec.list[0].foo"',
        'duplicate field "spec.paused"',
        'unknown field "spec.what"',
    ]


def test_those_of_a_patch_come_first():
    repeated = in_json(BODY, orjson.loads(BODY))
    assert repeated.with_unknown(["spec.what"], patch=True)[-2:] == [
        'duplicate field "spec.what"',
        'unknown field "spec.what"',
    ]


def test_those_of_a_json_patch_say_so():
    body = b'[{"op":"add","from":"x","from":"y"}]'
    assert list(in_json(body, orjson.loads(body), json_patch=True).texts.values()) == [
        'json patch duplicate field "[0].from"'
    ]


def test_yaml_counts_lines():
    repeated = in_yaml(b"spec:\n  paused: true\n  paused: false\n  what: 1\n")
    texts = repeated.with_unknown(["spec.what"], patch=False)
    assert texts == ['line 3: key "paused" already set in map', 'unknown field "spec.what"']
    assert strict_text(texts, repeated) == (
        "strict decoding error: yaml: unmarshal errors:\n"
        '  line 3: key "paused" already set in map, unknown field "spec.what"'
    )
