"""Bad input gets the Status that a real control plane sends, and never stops or fills the server."""

import json
import socket
from contextlib import closing

import pytest

from kubesim.tests.contract import bad_input

RECORDED = json.loads(bad_input.ANSWERS.read_text(encoding="utf-8"))
REPLACED = "a byte that is no text is shown as another character, and a NUL as itself"
OF_PROTOBUF = "the decoder words it in another way"
OF_YAML = "the decoder words it in another way, or takes no more than the first document"
TOO_DEEP = "refused for its depth"
OTHERWISE = {
    "post a lone surrogate": REPLACED,
    "post a huge number for a string": "refused as a number rather than as a value of the wrong type",
    "post a kind of no group": "worded as a version that is not served",
    "post a name of emoji": "a joiner is printed as it is",
    "post data of 2 MB": "only the size of the request is bounded",
    "post as ;": "taken for no type at all, which means JSON",
    "choose by the labels in": "taken for an operator, which upstream takes for a key",
    **dict.fromkeys(
        ("choose by the labels %00", "choose by the labels %ff", "choose by the labels a%3D%ff"), REPLACED
    ),
    **dict.fromkeys(("get the name %00", "get the name %ff"), REPLACED),
    **{
        f"patch {media} with {what} of 10,000": TOO_DEEP
        for media in (bad_input.MERGE, bad_input.STRATEGIC, bad_input.JSON_PATCH, "application/apply-patch+yaml")
        for what in ("lists", "nesting")
    },
    "delete with nesting of 10,000": TOO_DEEP,
    "patch application/apply-patch+yaml with a cut text": "the decoder counts lines in another way",
    "patch application/apply-patch+yaml with two documents": OF_YAML,
    "post YAML with bad UTF-8": OF_YAML,
    "post YAML with a tag": "bytes are no JSON",
    "post YAML with two documents": OF_YAML,
    "post YAML with a key that is a list": OF_YAML,
    "post YAML with an unknown alias": OF_YAML,
    "post protobuf with a cut message": OF_PROTOBUF,
    "post protobuf with a wire type that is none": OF_PROTOBUF,
    "post protobuf with a length beyond all": OF_PROTOBUF,
    "post protobuf with another kind": OF_PROTOBUF,
    "post protobuf with a text that is none": OF_PROTOBUF,
    "post protobuf that is nothing": OF_PROTOBUF,
    "post protobuf that is its mark": OF_PROTOBUF,
    "post protobuf that is noise": OF_PROTOBUF,
    "post protobuf that is JSON": OF_PROTOBUF,
    "post protobuf that is a cut envelope": OF_PROTOBUF,
    "post YAML that is a tab": "the decoder counts lines in another way",
    "post YAML that is half a map": "the decoder words it in another way",
    "patch application/merge-patch+json null": "no patch at all, and told so",
    'patch application/merge-patch+json {"metadata":5}': "refused for want of a name",
    "patch application/strategic-merge-patch+json null": "no patch at all, and told so",
    'patch application/strategic-merge-patch+json {"metadata":5}': "refused for want of a name",
    "patch application/json-patch+json null": "no patch at all, and told so",
    "patch application/json-patch+json [5]": "refused as an operation that cannot be applied",
    "patch nesting of 10,000": "refused for its depth",
}
"""Where kubesim says something else, and why; it is a refusal in any case, or what a request without effect gets."""


@pytest.mark.parametrize("case", bad_input.cases(), ids=lambda case: case.name)
def test_bad_input_gets_the_status_of_a_real_control_plane(cluster, case):
    found = bad_input.answer(case, cluster)
    if cluster.name == "kubesim" and case.name in OTHERWISE:
        assert 200 <= found["code"] < 500
        return
    assert found == RECORDED[case.name]


def test_what_is_excused_is_still_different(simulated):
    same = [case.name for case in bad_input.cases() if bad_input.answer(case, simulated) == RECORDED[case.name]]
    assert not set(same) & set(OTHERWISE)


def test_connections_that_are_left_half_way_leave_nothing_behind(live, simulated):
    requests = [
        b"GET /api/v1/pods HT",
        b"POST /api/v1/namespaces HTTP/1.1\r\nContent-Length: 99\r\n\r\n{",
        b"\x16\x03",
        b"\0" * 99,
    ]
    for request in requests * 5:
        with closing(socket.create_connection((simulated.host, simulated.port))) as plain:
            if request[0] in b"GP":
                plain = simulated.context.wrap_socket(plain, server_hostname=simulated.host)
            plain.sendall(request)
            plain.close()
    for _ in range(10):
        with simulated.watching("/api/v1/pods?watch=1") as events:
            del events
    assert simulated("GET", "/readyz").code == 200
    for _ in range(1000):
        if not live.ask(lambda cluster: cluster.guard.streams):
            return
    raise AssertionError("a watch is left open")
