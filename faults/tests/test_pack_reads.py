"""The reads of a pack's conditions, as they are written: what is taken, and what is refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from faults import packs
from faults.checks import AccessRead, CommandRead, LogRead, MetricRead, ObjectRead, PageRead, PlanRead
from faults.packs import PackError

CATALOG = Path(packs.__file__).resolve().parents[1] / "catalog"
DOCS = CATALOG.parents[1] / "docs" / "packs.md"
SPACE = "${namespace.workloads}"
PODS = {"apiVersion": "v1", "kind": "Pod", "namespace": SPACE}
PAGE = {"kind": "Service", "namespace": SPACE, "name": "web", "port": 80, "path": "/healthz?full=1"}
ACCESS = {"user": f"system:serviceaccount:{SPACE}:trainer", "verb": "get", "resource": "pods", "subresource": "log"}
READS = [
    ({"logs": {"pods": "pods", "previous": True, "tail": 5}}, LogRead("pods", "", True, 5)),
    ({"logs": {"pods": "pods", "named": True}}, LogRead("pods", named=True)),
    ({"plan": {"namespace": SPACE, "root": "tenants"}}, PlanRead("ml", "tenants")),
    ({"promql": " sum(up) \n"}, MetricRead("sum(up)")),
    (
        {"access": ACCESS | {"namespace": SPACE}},
        AccessRead("system:serviceaccount:ml:trainer", "get", "pods", subresource="log", namespace="ml"),
    ),
    ({"page": PAGE}, PageRead("ml", "services/web:80", "/healthz?full=1")),
    ({"page": PAGE | {"kind": "Pod", "scheme": "https"}}, PageRead("ml", "pods/https:web:80", "/healthz?full=1")),
    (
        {"command": {"pods": "pods", "run": ["nvidia-smi", "-L"], "container": "trainer"}},
        CommandRead("pods", ("nvidia-smi", "-L"), "trainer"),
    ),
]
WRONG = [
    ({"logs": {"pods": "pods"}, "promql": "up"}, "too many properties"),
    ({"logs": {"pods": "pods", "tail": 0}}, "less than the minimum"),
    ({"logs": {"pods": "nodes"}}, "nodes is not a read of pods"),
    ({"command": {"pods": "what", "run": ["true"]}}, "pods of every namespace"),
    ({"command": {"pods": "everywhere", "run": ["true"]}}, "pods of every namespace; give the read everywhere"),
    ({"command": {"pods": "pods", "run": []}}, "non-empty"),
    ({"promql": "x" * 1001}, "found.promql: 'xxx"),
    ({"page": PAGE | {"path": "healthz"}}, "does not match"),
    ({"page": PAGE | {"method": "POST"}}, "'method' was unexpected"),
    ({"page": PAGE | {"namespace": "kube-system"}}, "kube-system is neither the session's nor named in existing"),
    (
        {"plan": {"namespace": "kube-system", "root": "x"}},
        "kube-system is neither the session's nor named in existing",
    ),
    ({"plan": {"namespace": SPACE, "root": "$(id)"}}, "does not match"),
    ({"access": ACCESS | {"namespace": "default"}}, "default is neither the session's nor named in existing"),
    ({"access": {"verb": "get", "resource": "pods"}}, "'user' is a required property"),
    (
        {"shell": "id"},
        "'shell' was unexpected); a read is of objects (apiVersion, kind), or one of logs, promql, access",
    ),
]


@pytest.fixture
def parse():
    """Parse the first pack with one more read in its symptom."""
    files = packs.load_folder(CATALOG / "architecture-mismatch")

    def go(entry):
        document = yaml.safe_load(files["scenario.yaml"])
        nodes, everywhere = {"apiVersion": "v1", "kind": "Node"}, {"apiVersion": "v1", "kind": "Pod"}
        more = {"pods": PODS, "nodes": nodes, "everywhere": everywhere, "found": entry}
        document["requires"]["tiers"] = ["practice"]
        document["symptom"][0] |= {"reads": more, "expr": "size(found) >= 0", "found": "''"}
        return packs.parse(files | {"scenario.yaml": yaml.safe_dump(document, width=2000)})

    return go


@pytest.mark.parametrize(("entry", "read"), READS)
def test_each_kind_of_read_is_taken(parse, entry, read):
    reads = parse(entry).bind({"workloads": "ml"}).symptom[0].reads
    assert reads["pods"] == ObjectRead("v1", "Pod", "ml")
    assert reads["found"] == read


@pytest.mark.parametrize(("entry", "words"), WRONG)
def test_a_read_that_could_not_be_made_is_refused_with_its_place(parse, entry, words):
    with pytest.raises(PackError) as caught:
        parse(entry)
    assert words in str(caught.value)
    assert "symptom.0.reads" in str(caught.value)


def test_the_documentation_names_every_read_with_its_fields():
    text = DOCS.read_text()
    for entry, _ in READS:
        for key, fields in entry.items():
            assert f"`{key}`" in text
            for field in fields if isinstance(fields, dict) else ():
                assert f"`{field}`" in text, field
