"""Custom kinds are described as a real control plane describes them, and kubectl goes by it."""

import json

import pytest

from kubesim.tests.contract import custom_openapi
from kubesim.tests.contract.tools import namespace_name

RECORDED = json.loads(custom_openapi.ANSWERS.read_text(encoding="utf-8"))
WIDGET = """
apiVersion: shop.example.com/v1
kind: Widget
metadata: {{name: one}}
spec: {{size: {size}, tags: [a, {tag}], parts: [{{name: x, count: {size}}}]}}
"""


@pytest.fixture(scope="module")
def published(cluster):
    yield custom_openapi.documents(cluster)
    for definition in custom_openapi.DEFINITIONS:
        cluster("DELETE", f"{custom_openapi.DEFINED}/{definition['metadata']['name']}")


@pytest.mark.parametrize("document", sorted(RECORDED))
def test_a_document_of_custom_kinds_is_the_real_ones_key_by_key(published, document):
    found = published[document]
    for part, recorded in RECORDED[document].items():
        if isinstance(recorded, dict):
            assert sorted(found[part]) == sorted(recorded)
        for name in recorded if isinstance(recorded, dict) else ():
            assert found[part][name] == recorded[name], name
    assert found == RECORDED[document]


@pytest.mark.kubectl
@pytest.mark.parametrize("how", [[], ["--server-side"]], ids=["client", "server"])
def test_a_changed_custom_object_is_applied_compared_and_applied_again(request, kubectl, published, tmp_path, how):
    name, path = namespace_name(request.node.name), tmp_path / "widget.yaml"
    kubectl("create", "namespace", name)
    path.write_text(WIDGET.format(size=2, tag="b"))
    assert "widget.shop.example.com/one" in kubectl("-n", name, "apply", *how, "-f", str(path))
    path.write_text(WIDGET.format(size=5, tag="c"))
    assert "+  size: 5" in kubectl.fails("-n", name, "diff", *how, "-f", str(path))
    assert "widget.shop.example.com/one" in kubectl("-n", name, "apply", *how, "-f", str(path))
    assert kubectl("-n", name, "get", "widget", "one", "-o", "jsonpath={.spec.size}{.spec.tags}") == '5["a","c"]'
    assert kubectl("-n", name, "diff", *how, "-f", str(path)) == ""
    kubectl("delete", "namespace", name, "--wait=false")
