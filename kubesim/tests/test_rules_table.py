"""The tables of rules, defaults and columns say only what their readers understand, and no check is forgotten."""

from __future__ import annotations

import pytest

from kubesim.admission import validation
from kubesim.admission.validation import rules
from kubesim.api import optionrules
from kubesim.schema import columns, defaults
from kubesim.schema.kinds import registry
from kubesim.schema.types import shape_of

FILES = {path.name: rules._table(path) for path, _ in rules._texts()}
TABLE = {part: {} for table in FILES.values() for part in table}
for table in FILES.values():
    for part, names in table.items():
        TABLE[part] |= names
READERS = (validation, optionrules)
"""What brings the words of the table."""


@pytest.mark.parametrize(("part", "name"), [(part, name) for part, names in TABLE.items() for name in names])
def test_every_rule_can_be_read(part, name):
    assert len(rules.rules_of(part, name)) >= len(TABLE[part][name])


def test_every_name_stands_in_one_file_where_it_is_found():
    assert sum(len(names) for table in FILES.values() for names in table.values()) == sum(map(len, TABLE.values()))
    assert all(rules._lines(part, name) == TABLE[part][name] for part, names in TABLE.items() for name in names)


def test_every_check_is_a_word_of_some_rule():
    used = {rule.check for part, names in TABLE.items() for name in names for rule in rules.rules_of(part, name)}
    assert set(rules.CHECKS.values()) == used


def _types_named(value):
    """Yield the types that rules ask: of what lies at a field, and of the one field that an object has of several."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key == "is":
            yield inner
        elif key == "of" and isinstance(inner, dict):
            yield from inner.values()
        yield from _types_named(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _types_named(inner)


def test_every_type_of_rules_is_asked_of_something():
    asked = set(_types_named(TABLE))
    by_code = {
        "PodSpec",
        "Volume",
        "Scale",
        "Column",
        "WriteOptions",
        "DeleteOptions",
        "ListOptions",
        "LogOptions",
        "WatchOptions",
        "ReplicaTemplate",
        "StatefulTemplate",
        "Taint",
    }
    of_volumes = {name for rule in rules.rules_of("kinds", "persistentvolumes")
                  for name, _ in rule.more.get("types", {}).values()}  # fmt: skip
    assert set(TABLE["types"]) == asked | by_code | of_volumes


@pytest.mark.parametrize("table", [TABLE["kinds"], columns._table()])
def test_every_kind_of_a_table_is_served(table):
    no_kinds = {"default", "scales.autoscaling"}  # what is said of the rest, and of what lies below other objects
    assert {*table} - no_kinds <= {kind.resource for kind in registry.all()}


@pytest.mark.parametrize("resource", sorted(columns._table()))
def test_every_column_can_be_read(resource):
    assert columns.columns_of(resource)


@pytest.mark.parametrize("name", sorted(defaults._table()))
def test_every_default_belongs_to_a_type_and_can_be_read(name):
    assert shape_of(name) is not None
    assert defaults.default_of(name) is not None
