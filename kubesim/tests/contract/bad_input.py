"""Requests that no client should send, and what a real control plane says to each: code, reason and message.

``python -m kubesim.tests.contract.bad_input --kubeconfig FILE`` records the answers of a real control plane anew.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kubesim.tests.contract.exchanges import normalised, told
from kubesim.tests.contract.plain import Plain

ANSWERS = Path(__file__).with_name("bad_input.answers.json")
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DRY = "?dryRun=All"


@dataclass(frozen=True)
class Case:
    """One request."""

    name: str
    method: str
    path: str
    body: bytes | None = None
    type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


def _map(inner: bytes) -> bytes:
    return b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bad-input"},"data":{"k":%b}}' % inner


def _metadata(inner: bytes) -> bytes:
    return b'{"metadata":{"name":"bad-input",%b}}' % inner


def _containers(count: int) -> bytes:
    containers = [{"name": f"c{n}", "image": "a"} for n in range(count)]
    return json.dumps({"metadata": {"name": "bad-input"}, "spec": {"containers": containers}}).encode()


def _posts() -> Iterator[Case]:
    bodies = {
        "nothing": b"",
        "a space": b" ",
        "half an object": b'{"metadata":{"na',
        "an open brace": b"{",
        "a list": b"[]",
        "a number": b"1",
        "a string": b'"x"',
        "null": b"null",
        "true": b"true",
        "two objects": b"{}{}",
        "text": b"hello",
        "a comma too many": b'{"metadata":{"name":"a",}}',
        "single quotes": b"{'metadata':{}}",
        "bad UTF-8": _map(b'"\xff\xfe"'),
        "a lone surrogate": _map(rb'"\ud800"'),
        "a NUL": _map(rb'"\u0000"'),
        "a raw NUL": _map(b'"\x00"'),
        "a raw line break": _map(b'"a\nb"'),
        "a number for a string": _map(b"1"),
        "a huge number for a string": _map(b"1e309"),
        "NaN": _map(b"NaN"),
        "an object for a string": _map(b"{}"),
        "a list for a string": _map(b"[]"),
        "a boolean for a string": _map(b"true"),
        "null for a string": _map(b"null"),
        "nesting of 10,000": _map(b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
        "lists of 10,000": _map(b"[" * 10_000 + b"]" * 10_000),
        "metadata is a number": b'{"metadata":5}',
        "metadata is a list": b'{"metadata":[]}',
        "a name of another type": b'{"metadata":{"name":{"a":1}}}',
        "labels are a list": _metadata(b'"labels":[]'),
        "a label is a number": _metadata(b'"labels":{"a":1}'),
        "annotations are text": _metadata(b'"annotations":"x"'),
        "finalizers are text": _metadata(b'"finalizers":"x"'),
        "a time that is none": _metadata(b'"creationTimestamp":"yesterday"'),
        "a generation of 2^63": _metadata(b'"generation":9223372036854775808'),
        "a generation of text": _metadata(b'"generation":"1"'),
        "a generation of 1.5": _metadata(b'"generation":1.5'),
        "another kind": b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}',
        "another version": b'{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"x"}}',
        "another group": b'{"apiVersion":"apps/v1","kind":"ConfigMap","metadata":{"name":"x"}}',
        "a kind of no group": b'{"apiVersion":"a/b/c","kind":"ConfigMap","metadata":{"name":"x"}}',
        "an unknown kind": b'{"apiVersion":"v1","kind":"Unicorn","metadata":{"name":"x"}}',
        "a kind that is a number": b'{"apiVersion":"v1","kind":1,"metadata":{"name":"x"}}',
        "a version that is a number": b'{"apiVersion":1,"kind":"ConfigMap","metadata":{"name":"x"}}',
        "no name": b'{"metadata":{}}',
        "a long name": b'{"metadata":{"name":"%b"}}' % (b"a" * 254),
        "a name with a line break": b'{"metadata":{"name":"a\\nb"}}',
        "a name of emoji": '{"metadata":{"name":"👩\u200d👩"}}'.encode(),
        "a name like a format": b'{"metadata":{"name":"%s-{0}"}}',
        "a long label": _metadata(b'"labels":{"a":"%b"}' % (b"b" * 64)),
        "annotations of 300 kB": _metadata(b'"annotations":{"a":"%b"}' % (b"b" * 300_000)),
        "data of 2 MB": _map(b'"%b"' % (b"a" * 2_000_000)),
    }
    for name, body in bodies.items():
        yield Case(f"post {name}", "POST", MAPS + DRY, body)
    yield Case(
        "post twice the same key, strictly",
        "POST",
        f"{MAPS}{DRY}&fieldValidation=Strict",
        b'{"kind":"ConfigMap","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v","k":"w"}}',
    )
    yield Case(
        "post unknown fields, strictly",
        "POST",
        f"{MAPS}{DRY}&fieldValidation=Strict",
        b'{"metadata":{"name":"a","x":1},"y":2}',
    )
    yield Case(
        "post fields in other case, strictly",
        "POST",
        f"{MAPS}{DRY}&fieldValidation=Strict",
        b'{"METADATA":{"name":"a"}}',
    )
    yield Case("post fields in other case", "POST", MAPS + DRY, b'{"METADATA":{"name":"a"}}')
    yield Case("post a body of 4 MB", "POST", MAPS + DRY, b" " * (4 << 20))
    yield Case("post 1,000 containers of one name", "POST", PODS + DRY, _containers(2).replace(b"c1", b"c0"))
    yield Case("post no containers", "POST", PODS + DRY, b'{"metadata":{"name":"a"},"spec":{"containers":[]}}')
    yield Case(
        "post containers that are text", "POST", PODS + DRY, b'{"metadata":{"name":"a"},"spec":{"containers":"x"}}'
    )
    yield Case(
        "post an odd quantity",
        "POST",
        PODS + DRY,
        b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a","resources":{"limits":{"cpu":"lots"}}}]}}',
    )
    yield Case(
        "post a port of 2^40",
        "POST",
        PODS + DRY,
        b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a","ports":[{"containerPort":1099511627776}]}]}}',
    )
    yield Case(
        "post a port of 70,000",
        "POST",
        PODS + DRY,
        b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a","ports":[{"containerPort":70000}]}]}}',
    )


def _media() -> Iterator[Case]:
    good = _map(b'"v"')
    for media in (
        "text/plain",
        "application/cbor",
        "application/xml",
        "nonsense",
        "application/json;charset=latin1",
        "a/b/c",
        ";",
    ):
        yield Case(f"post as {media}", "POST", MAPS + DRY, good, media)
    for name, body in {
        "nothing": b"", "its mark": b"k8s\x00", "noise": b"k8s\x00\xff\xff", "JSON": b"{}",
        "a cut envelope": b"k8s\x00\x0a\x05hello",
    }.items():  # fmt: skip
        yield Case(f"post protobuf that is {name}", "POST", MAPS + DRY, body, PROTOBUF)
    for name, body in {
        "a tab": b"\tx: 1",
        "no map": b"- 1",
        "half a map": b"metadata: {",
        "nothing": b"",
        "text": b"hello",
    }.items():
        yield Case(f"post YAML that is {name}", "POST", MAPS + DRY, body, YAML)
    for accept in (
        "image/png",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        "nonsense",
        "application/json;as=Unicorn",
        "text/html",
    ):
        yield Case(f"get as {accept}", "GET", f"{MAPS}?limit=1", headers={"Accept": accept})


def _patches() -> Iterator[Case]:
    path = f"{MAPS}/kube-root-ca.crt{DRY}"
    for media in (MERGE, STRATEGIC, "application/json-patch+json"):
        for body in (
            b"",
            b"5",
            b'"x"',
            b"{",
            b"null",
            b"[5]",
            b'[{"op":"nonsense"}]',
            b'{"data":5}',
            b'{"metadata":5}',
            b'{"$patch":"x"}',
        ):
            yield Case(f"patch {media} {body.decode()}", "PATCH", path, body, media)
    yield Case("patch nesting of 10,000", "PATCH", path, b'{"data":' * 10_000 + b"1" + b"}" * 10_000, MERGE)
    yield Case(
        "patch 10,001 operations",
        "PATCH",
        path,
        json.dumps([{"op": "test", "path": "/kind", "value": "x"}] * 10_001).encode(),
        "application/json-patch+json",
    )


def _headers() -> Iterator[Case]:
    for name, headers in {
        "an empty impersonated user": {"Impersonate-User": ""},
        "a group without a user": {"Impersonate-Group": "system:masters"},
        "an extra without a user": {"Impersonate-Extra-Scopes": "x"},
        "a uid without a user": {"Impersonate-Uid": "x"},
        "a user who may nothing": {"Impersonate-User": "jane"},
        "an account of no namespace": {"Impersonate-User": "system:serviceaccount:x"},
        "a user with a group": {"Impersonate-User": "jane", "Impersonate-Group": "x"},
    }.items():
        yield Case(f"ask with {name}", "GET", f"{MAPS}?limit=1", headers=headers)


def cases() -> list[Case]:
    """Return every case, in order."""
    return [*_posts(), *_media(), *_patches(), *_headers()]


def answer(case: Case, cluster: Plain) -> dict[str, object]:
    """Send a case and return what counts of the answer: the Status, or else only the code."""
    found = told(cluster(case.method, case.path, case.body, kind=case.type, headers=case.headers))
    body = found["body"] if isinstance(found["body"], dict) else {"message": found["body"]}
    if found["code"] < 400:
        return {"code": found["code"]}
    shown = {"code": found["code"], "reason": body.get("reason", ""), "message": body.get("message", "")}
    return normalised(shown, "")


def main(arguments: list[str] | None = None) -> int:
    """Record every answer."""
    parser = argparse.ArgumentParser(description="Record a real control plane's answers to bad input.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    cluster = Plain("real", parser.parse_args(arguments).kubeconfig)
    found = {case.name: answer(case, cluster) for case in cases()}
    ANSWERS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
