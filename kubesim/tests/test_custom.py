"""Custom kinds: schemas, rules, columns, subresources, names, and their end. Texts are those of a real API server."""

import copy
from pathlib import Path

import orjson
import pytest

from kubesim import data
from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.clock import ManualClock
from kubesim.custom.columns import columns_of, values_at
from kubesim.custom.definitions import RESOURCE, Definitions, kinds_of
from kubesim.custom.values import UNCHECKED
from kubesim.errors import ApiError
from kubesim.store import Store

CASES = data.read(Path(__file__).with_name("custom_cases.yaml"))
NAME = "widgets.example.com"


class Cluster:
    """An API with definitions and nothing else that runs."""

    def __init__(self):
        self.clock = ManualClock()
        self.store = Store(self.clock)
        self.operations = Operations(self.store, self.clock)
        self.definitions = Definitions(self.operations)
        for name in ("default", "other"):
            self.operations.create(self.kind("namespaces"), "", {"metadata": {"name": name}})

    def kind(self, resource):
        return self.operations.registry.by_resource(resource)

    def define(self, **spec):
        definition = copy.deepcopy(CASES["definition"])
        definition["spec"] |= spec
        definition["metadata"]["name"] = f"{definition['spec']['names']['plural']}.{definition['spec']['group']}"
        return self.operations.create(self.kind(RESOURCE), "", definition)

    def definition(self, name=NAME):
        return self.operations.get(self.kind(RESOURCE), "", name)

    def create(self, spec, name="w", **options):
        obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}
        return self.operations.create(self.kind(NAME), "default", obj, options=Options(**options))

    def refusal(self, spec):
        with pytest.raises(ApiError) as caught:
            self.create(spec)
        return caught.value.message


@pytest.fixture
def cluster():
    made = Cluster()
    made.define()
    return made


def conditions(definition):
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in definition["status"]["conditions"]}


def test_a_definition_is_established_at_once(cluster):
    found = cluster.definition()
    assert conditions(found) == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    }
    assert found["status"]["acceptedNames"] == found["spec"]["names"]
    assert found["spec"]["names"]["listKind"] == "WidgetList"
    assert found["status"]["storedVersions"] == ["v1"]


def test_it_prunes_and_completes_what_is_written(cluster):
    made = cluster.create({"size": 3, "what": 1, "free": {"x": {"y": None}}, "ports": [{"port": 1}], "name": None})
    assert made["spec"] == {
        "size": 3, "free": {"x": {"y": None}}, "ports": [{"port": 1, "proto": "TCP"}], "color": "red",
    }  # fmt: skip
    assert made["metadata"]["generation"] == 1
    assert "status" not in made


def test_unknown_fields_are_told_or_refused(cluster):
    options = Options(field_validation="Warn")
    obj = {"metadata": {"name": "w"}, "spec": {"size": 1, "ports": [{"port": 1, "x": 1}]}, "other": 1}
    cluster.operations.create(cluster.kind(NAME), "default", obj, options=options)
    assert options.warnings == ['unknown field "other"', 'unknown field "spec.ports[0].x"']
    with pytest.raises(ApiError, match='strict decoding error: unknown field "spec.what"'):
        cluster.create({"size": 1, "what": 2}, "v", field_validation="Strict")


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["name"])
def test_values_are_refused_in_upstreams_words(cluster, case):
    says = cluster.refusal(case["spec"]).removeprefix('Widget.example.com "w" is invalid: ')
    assert says.replace(f", <nil>: Invalid value: null: {UNCHECKED}", "").strip("[]") == case["says"].strip("[]")


def test_a_rule_on_a_change_sees_what_was_before(cluster):
    cluster.create({"size": 1, "imm": "a"})
    with pytest.raises(ApiError, match='spec.imm: Invalid value: "string": imm is immutable'):
        cluster.operations.patch(cluster.kind(NAME), "default", "w", {"spec": {"imm": "b"}})


def test_status_and_scale_are_paths_of_their_own(cluster):
    cluster.create({"size": 3})
    kind, operations = cluster.kind(NAME), cluster.operations
    change = {"status": {"ready": 7, "selector": "a=b"}, "spec": {"size": 9}}
    operations.patch(kind, "default", "w", change, subresource="status")
    scale = operations.get(kind, "default", "w", subresource="scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 7, "selector": "a=b"})
    operations.patch(kind, "default", "w", {"spec": {"replicas": 5}}, subresource="scale")
    assert operations.get(kind, "default", "w")["spec"]["size"] == 5


def test_an_apply_merges_keyed_lists(cluster):
    cluster.create({"size": 3, "ports": [{"port": 1}]})
    obj = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"ports": [{"port": 2}]},
    }
    options = Options(field_manager="me")
    made = cluster.operations.patch(cluster.kind(NAME), "default", "w", obj, patch_type="apply", options=options)
    assert {port["port"]: port["proto"] for port in made["spec"]["ports"]} == {1: "TCP", 2: "TCP"}


def test_two_versions_show_one_object():
    cluster = Cluster()
    versions = copy.deepcopy(CASES["definition"]["spec"]["versions"])
    cluster.define(versions=[*versions, {**versions[0], "name": "v1beta1", "storage": False}])
    cluster.create({"size": 1})
    old = cluster.operations.registry.by_path("example.com", "v1beta1", "widgets")
    assert cluster.operations.get(old, "default", "w")["apiVersion"] == "example.com/v1beta1"
    assert [kind.version for kind in kinds_of(cluster.definition())] == ["v1", "v1beta1"]


def test_names_that_are_taken_are_not_accepted(cluster):
    cluster.define(names={"plural": "gadgets", "kind": "Gadget", "shortNames": ["wd"], "listKind": "WidgetList"})
    found = cluster.definition("gadgets.example.com")
    assert conditions(found) == {
        "NamesAccepted": ("False", "ListKindConflict", '"WidgetList" is already in use'),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    with pytest.raises(ApiError, match="could not find"):
        cluster.kind("gadgets.example.com")


def test_a_definition_takes_its_objects_with_it(cluster):
    cluster.create({"size": 1})
    cluster.operations.delete(cluster.kind(RESOURCE), "", NAME)
    with pytest.raises(ApiError, match="not found"):
        cluster.definition()
    with pytest.raises(ApiError, match="could not find"):
        cluster.kind(NAME)


def test_a_definition_waits_for_objects_that_others_hold(cluster):
    held = cluster.create({"size": 1})
    kind = cluster.kind(NAME)
    cluster.operations.patch(kind, "default", "w", {"metadata": {"finalizers": ["example.com/hold"]}})
    cluster.operations.delete(cluster.kind(RESOURCE), "", NAME)
    assert conditions(cluster.definition())["Terminating"][:2] == ("True", "InstanceDeletionInProgress")
    assert cluster.operations.get(kind, "default", "w")["metadata"]["uid"] == held["metadata"]["uid"]
    cluster.operations.patch(kind, "default", "w", {"metadata": {"finalizers": None}})
    with pytest.raises(ApiError, match="not found"):
        cluster.definition()


def test_objects_and_their_kinds_survive_a_restart(cluster):
    cluster.create({"size": 1})
    again = Operations(Store(cluster.clock), cluster.clock)
    definitions = Definitions(again)

    def kinds(objects):
        definitions.restore(objects)
        return {kind.table: kind for kind in again.registry.stored()}

    again.store.load(cluster.store.dump(), kinds)
    assert again.get(again.registry.by_resource(NAME), "default", "w")["spec"] == {"size": 1, "color": "red"}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        (".spec.list[0]", ["a"]),
        (".spec.list[*]", ["a", "b"]),
        (r".metadata.labels['a\.b/c']", ["x"]),
        (".metadata.labels['a.b/c']", []),
        (r".metadata.labels.a\.b/c", ["x"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".nothing.there", []),
    ],
)
def test_json_paths_find(path, found):
    obj = {
        "metadata": {"labels": {"a.b/c": "x"}},
        "spec": {"size": 3, "list": ["a", "b"]},
        "status": {"conditions": [{"type": "Old", "status": "False"}, {"type": "Ready", "status": "True"}]},
    }
    assert values_at(path, obj) == found


def test_columns_show_values_by_their_type():
    wanted = (("N", "integer", ".n"), ("S", "string", ".m"), ("D", "date", ".d"), ("X", "string", ".x"))
    entries = [{"name": name, "type": form, "jsonPath": path} for name, form, path in wanted]
    now = ManualClock().now()
    cells = [column.cell({"n": 1, "m": {"a": 1}, "d": "soon"}, now) for column in columns_of(entries)[1:]]
    assert cells == [1, '{"a":1}', "<invalid>", None]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "object", "properties": {"l": {"type": "array"}}},
         "properties[l].items: Required value: must be specified"),
        ({"type": "object", "properties": {"m": {"type": "foo"}}},
         'properties[m].type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", '
         '"object", "string"'),
        ({"type": "object", "properties": {"s": {"properties": {}}}},
         "properties[s].type: Required value: must not be empty for specified object fields"),
        ({"type": "object", "x-kubernetes-validations": [{"rule": "self."}]}, "Syntax error"),
    ],
)  # fmt: skip
def test_a_schema_has_to_be_structural(schema, says):
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    with pytest.raises(ApiError) as caught:
        Cluster().define(versions=versions)
    assert says in caught.value.message


def test_a_definition_has_to_be_named_after_its_kind():
    cluster = Cluster()
    definition = {**CASES["definition"], "metadata": {"name": "foo.bar"}}
    with pytest.raises(ApiError, match=r'Invalid value: "foo.bar": must be spec.names.plural\+"."\+spec.group'):
        cluster.operations.create(cluster.kind(RESOURCE), "", orjson.loads(orjson.dumps(definition)))
