"""OpenAPI: what kubectl explains, checks and merges by."""

import json
import re

import pytest

from kubesim.api import openapi
from kubesim.api.openapi import document, kinds_by_path, told
from kubesim.api.openapi_v2 import converted, document_v2, encode
from kubesim.schema.kinds import registry
from kubesim.schema.openapi_table import expanded, known, schema_of

CORE, META = "io.k8s.api.core.v1", "io.k8s.apimachinery.pkg.apis.meta.v1"
PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@pytest.fixture(scope="module")
def documents():
    return {path: json.loads(document(kinds)) for path, kinds in kinds_by_path(registry).items()}


@pytest.mark.parametrize(
    ("entry", "schema"),
    [
        ("int32", {"type": "integer", "format": "int32"}),
        ("string=", {"type": "string", "default": ""}),
        ("[string=]", {"type": "array", "items": {"type": "string", "default": ""}}),
        ("{boolean}", {"type": "object", "additionalProperties": {"type": "boolean"}}),
        ("EnvVar", {"allOf": [{"$ref": f"#/components/schemas/{CORE}.EnvVar"}]}),
        ("[EnvVar]", {"type": "array", "items": {"$ref": f"#/components/schemas/{CORE}.EnvVar"}}),
        (["[string]", {"+list-type": "set", "inner": {"enum": ["a"]}}],
         {"type": "array", "items": {"type": "string", "enum": ["a"]}, "x-kubernetes-list-type": "set"}),
    ],
)  # fmt: skip
def test_an_entry_of_the_table_stands_for_a_schema(entry, schema):
    assert expanded(entry, CORE) == schema


def test_a_list_says_how_it_merges():
    ports = schema_of(f"{CORE}.Container")["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["x-kubernetes-patch-merge-key"] == "containerPort"
    assert ports["items"]["default"] == {}


def test_every_kind_has_a_schema_that_names_it(documents):
    for path, kinds in kinds_by_path(registry).items():
        identities = [
            entry
            for schema in documents[path]["components"]["schemas"].values()
            for entry in schema.get("x-kubernetes-group-version-kind", ())
        ]
        for kind in kinds:
            assert {"group": kind.group, "version": kind.version, "kind": kind.kind} in identities, kind


def test_no_reference_leads_nowhere(documents):
    for found in documents.values():
        references = set(re.findall(r"#/components/schemas/([^\"]+)", json.dumps(found)))
        assert references <= set(found["components"]["schemas"])


def test_every_operation_has_a_name_of_its_own(documents):
    for found in documents.values():
        names = [
            operation["operationId"]
            for item in found["paths"].values()
            for verb, operation in item.items()
            if verb != "parameters"
        ]
        assert len(names) == len(set(names))


def test_operations_are_named_as_upstream_names_them(documents):
    paths = documents["apis/batch/v1"]["paths"]
    one = paths["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]
    assert one["get"]["operationId"] == "readBatchV1NamespacedJob"
    assert {entry["name"] for entry in one["patch"]["parameters"]} >= {"dryRun", "fieldManager", "force"}
    many = paths["/apis/batch/v1/namespaces/{namespace}/jobs"]
    assert many["delete"]["operationId"] == "deleteBatchV1CollectionNamespacedJob"
    assert paths["/apis/batch/v1/jobs"]["get"]["operationId"] == "listBatchV1JobForAllNamespaces"


def test_version_2_knows_every_schema_by_the_same_name(documents):
    names = {name for found in documents.values() for name in found["components"]["schemas"]}
    found = json.loads(document_v2(tuple(kinds_by_path(registry).values())))
    assert set(found["definitions"]) == names
    assert found["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"] == "string"
    put = found["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]["put"]
    assert put["parameters"][0]["schema"] == {"$ref": "#/definitions/io.k8s.api.batch.v1.Job"}
    assert put["produces"][0] == "application/json"


def test_version_2_leaves_out_what_it_cannot_say():
    schema = {
        "type": "object", "properties": {
            "a": {"type": "string", "default": "x", "nullable": True, "description": "d"},
            "b": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"c": {}}},
            "n": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        },
    }  # fmt: skip
    assert converted(schema)["properties"] == {
        "a": {"description": "d"},
        "b": {"x-kubernetes-preserve-unknown-fields": True},
        "n": {"x-kubernetes-int-or-string": True},
    }


def test_a_schema_as_a_message():
    schema = {"type": "string", "description": "d", "x-kubernetes-a": ["b"]}
    encoded = encode("Schema", schema)
    assert encoded.startswith(b"\xb2\x01\x08\x0a\x06string\x22\x01d")
    assert b"\x0a\x0ex-kubernetes-a" in encoded
    assert encoded.endswith(b'\x12\x05["b"]')


@pytest.mark.parametrize("value", [{"minLength": -1}, {"minimum": 0.5}, {"maximum": 1 << 70}, {"enum": [None, {}]}])
def test_numbers_of_a_custom_schema_never_stop_the_message(value):
    assert encode("Schema", value)


async def test_old_clients_get_version_2_as_a_message(live):
    async with live.client(Accept=PROTOBUF) as client, client.get("/openapi/v2") as response:
        body = await response.read()
    assert response.headers["Content-Type"] == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert body.startswith(b"\x0a\x032.0")
    assert b"io.k8s.api.core.v1.PodSpec" in body


async def test_who_asks_for_json_gets_json(live):
    async with live.client(Accept="application/json") as client, client.get("/openapi/v2") as response:
        found = await response.json()
    spec = found["definitions"][f"{CORE}.Pod"]["properties"]["spec"]
    assert spec["$ref"] == f"#/definitions/{CORE}.PodSpec"


async def test_version_3_describes_every_group_and_version(live):
    async with live.client() as client:
        async with client.get("/openapi/v3") as response:
            paths = (await response.json())["paths"]
        async with client.get(paths["apis/batch/v1"]["serverRelativeURL"]) as response:
            schemas = (await response.json())["components"]["schemas"]
    job = schemas["io.k8s.api.batch.v1.Job"]
    assert job["x-kubernetes-group-version-kind"] == [{"group": "batch", "kind": "Job", "version": "v1"}]


@pytest.fixture
def without_packages(monkeypatch):
    """Look for packages where there are none, before and after."""
    caches = (openapi.descriptions, openapi._module)
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setattr(openapi, "find_spec", lambda name: None)
    yield
    for cached in caches:
        cached.cache_clear()


def test_texts_are_upstream_s_words_of_this_release():
    texts = openapi.descriptions(f"{CORE}.PodSpec")
    assert texts[""] == "PodSpec is a description of a pod."
    assert texts["overhead"].endswith("/688-pod-overhead/README.md")
    assert openapi.descriptions(f"{META}.NoSuchThing") == {}


def test_texts_have_their_paragraphs():
    finished = openapi.descriptions("io.k8s.api.batch.v1.JobSpec")["completionMode"]
    assert "or `Indexed`.\n\n`NonIndexed` means" in finished


def test_fields_whose_names_python_keeps_for_itself_have_texts():
    rule = openapi.descriptions("io.k8s.api.networking.v1.NetworkPolicyIngressRule")
    assert "from" in rule
    extension = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    assert "x-kubernetes-list-type" in openapi.descriptions(extension)


def test_a_text_ends_with_the_values_that_there_are():
    text = told(f"{CORE}.Toleration")["properties"]["effect"]["description"]
    assert text.endswith('\n\nPossible enum values:\n - `"NoExecute"`\n - `"NoSchedule"`\n - `"PreferNoSchedule"`')


def test_without_the_package_the_schema_is_served_alone(without_packages):
    assert "description" not in told(f"{CORE}.Container")
    assert f"{CORE}.Container" in known()


def test_every_operation_says_what_it_does():
    found = json.loads(document_v2(tuple(kinds_by_path(registry).values())))["paths"]
    texts = {
        operation["operationId"]: operation.get("description", "")
        for item in found.values()
        for verb, operation in item.items()
        if verb != "parameters"
    }
    assert all(texts.values())
    assert {texts[name] for name in ("createCoreV1NamespacedEndpoints", "createCoreV1NamespacedEvent")} == {
        "create Endpoints",
        "create an Event",
    }
    assert texts["replaceAppsV1NamespacedDeploymentScale"] == "replace scale of the specified Deployment"
    assert texts["listCoreV1ComponentStatus"] == "list objects of kind ComponentStatus"
    assert not [name for name in texts if name.startswith(("watch", "connect"))]
