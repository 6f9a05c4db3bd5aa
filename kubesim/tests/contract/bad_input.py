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
JSON_PATCH = "application/json-patch+json"
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
        "two nulls": b"nullnull",
        "a value and a word": b"{} null",
        "a word for a comma": b'{"metadata":{} null}',
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


def _queries() -> Iterator[Case]:
    """Selectors and numbers of the query that make no sense."""
    selectors = (
        "a%20b a%3D%3D%3Db a%20in%20() a%20in%20( in ! !!a a%3E a%3Ex a%3E1%2Cb%3C %2C a%2C%2Cb a%20notin "
        "a%20in%20(b a/b/c%3Dd /a%3Db a%3D%22b%22 %00 %ff a%3D%ff ( ) a%3Db) a%20exists %F0%9F%98%80 "
        f"a%3Db%3Dc a%0A%3Db -a%3Db a%3D-b {'a' * 300}"
    ).split()
    for text in selectors:
        yield Case(f"choose by the labels {text[:40]}", "GET", f"{MAPS}?limit=1&labelSelector={text}")
    fields = [
        "a%3Db",
        "metadata.name",
        "metadata.name%3D%3D%3Da",
        "metadata.name%20in%20(a)",
        "%3D",
        "%2C",
        "metadata.name%3Da%2C",
        "!a",
        "%00",
        "metadata.name!%3Da",
        "metadata.namespace%3Dother",
        "metadata.name%3Da%5C",
        "metadata.name%3D%ff",
        "status.phase%3Da",
        "metadata.name%3Da%2Cmetadata.name%3Db",
        "metadata.labels%3Da",
    ]
    for text in fields:
        yield Case(f"choose by the fields {text}", "GET", f"{MAPS}?limit=1&fieldSelector={text}")
    queries = [
        "limit=x",
        "limit=-1",
        "limit=1e3",
        "limit=99999999999999999999",
        "continue=x",
        "continue=%00",
        "timeoutSeconds=x",
        "%ZZ",
        "a=%ZZ",
        "resourceVersion=x",
        "resourceVersion=-1",
        "resourceVersion=1.5",
        "pretty=x&limit=1",
        "dryRun=x",
        "limit=1&limit=x",
    ]
    for query in queries:
        yield Case(f"ask with {query}", "GET", f"{MAPS}?{query}")
    names = f"%00 %ff a%2Fb .. %2E%2E a%20b a%0Ab %F0%9F%98%80 a;b a%25b a?b {'a' * 300}".split()
    for name in names:
        yield Case(f"get the name {name[:40]}", "GET", f"{MAPS}/{name}")


def _large() -> Iterator[Case]:
    """What is too large, too deep, cut off, or no text, in every way in."""
    deep = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
    containers = json.loads(_containers(1_000))
    yield Case("post 1,000 containers", "POST", PODS + DRY, json.dumps(containers).encode())
    large, there = _map(b'"%b"' % (b"a" * 10_000_000)), f"{MAPS}/kube-root-ca.crt{DRY}"
    yield Case("post a body of 10 MB", "POST", MAPS + DRY, large)
    yield Case("put a body of 10 MB", "PUT", there, large)
    yield Case("patch with 10 MB", "PATCH", there, large, MERGE)
    yield Case("delete with 10 MB", "DELETE", f"{MAPS}/none{DRY}", large)
    for media in (MERGE, STRATEGIC, JSON_PATCH, "application/apply-patch+yaml"):
        path = f"{MAPS}/kube-root-ca.crt{DRY}&fieldManager=x&force=true"
        path = path if media.startswith("application/apply") else f"{MAPS}/kube-root-ca.crt{DRY}"
        bodies = {
            "bad UTF-8": b'{"data":{"a":"\xff\xfe"}}',
            "a cut text": b'{"data":{"a":"b',
            "lists of 10,000": b"[" * 10_000 + b"]" * 10_000,
            "a NUL": b'{"data":{"a":"\x00"}}',
            "nesting of 10,000": deep,
            "two documents": b'{"data":{}}{"data":{}}',
            "a byte order mark": b'\xef\xbb\xbf{"data":{}}',
        }
        for name, body in bodies.items():
            yield Case(f"patch {media} with {name}", "PATCH", path, body, media)
    number = b'{"apiVersion":"v1","kind":"ConfigMap","data":{"a":15e-1}}'
    yield Case("apply a number without a point", "PATCH", path, number, "application/apply-patch+yaml")
    for name, body in {
        "nesting of 10,000": b"a: " + b"[" * 10_000 + b"]" * 10_000,
        "bad UTF-8": b'metadata: {name: a}\ndata: {k: "\xff"}',
        "aliases of aliases": b"a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nmetadata: {name: a}\n",
        "a tag": b"metadata: {name: !!binary aGVsbG8=}",
        "two documents": b"metadata: {name: a}\n---\nmetadata: {name: b}",
        "the same key twice": b"metadata: {name: a}\nmetadata: {name: b}",
        "a key that is a list": b"? [a]\n: b\n",
        "an unknown alias": b"metadata: *x",
    }.items():
        yield Case(f"post YAML with {name}", "POST", MAPS + DRY, body, YAML)
    for name, body in {
        "a cut message": b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x20\x0a",
        "a wire type that is none": b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x02\x0f\x0f",
        "a length beyond all": b"k8s\x00\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        "another kind": b"k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Unicrn\x12\x00",
        "no kind": b"k8s\x00\x12\x02\x0a\x00",
        "a text that is none": b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05\x0a\x03\x0a\x01\xff",
    }.items():
        yield Case(f"post protobuf with {name}", "POST", MAPS + DRY, body, PROTOBUF)
    for name, body in {
        "text": b"hello",
        "a list": b"[]",
        "a number": b"5",
        "half": b'{"a',
        "another kind": b'{"kind":"Pod"}',
        "a policy that is none": b'{"propagationPolicy":"x"}',
        "a grace of text": b'{"gracePeriodSeconds":"x"}',
        "bad UTF-8": b'{"a":"\xff"}',
        "nesting of 10,000": deep,
    }.items():
        yield Case(f"delete with {name}", "DELETE", f"{MAPS}/none{DRY}", body)


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
    return [*_posts(), *_media(), *_patches(), *_headers(), *_queries(), *_large()]


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
