"""Facts that the models do not tell: merge keys, quantities, what is written where it is empty.

``deploy/testcluster/tables/generate_tags.py`` writes ``tags.json`` from the tags of upstream's Go types. What those
do not tell either is in ``facts.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from kubesim import data

PRIMITIVE = "primitive"
"""The mark of a list of scalars that merges as a set."""

TAGS = Path(__file__).with_name("tags.json")


def _tags(name: str) -> Iterator[tuple[str, str]]:
    """Yield (type, field) of every field that the table lists under ``name``."""
    for owner, facts in _TABLE.items():
        yield from ((owner, field) for field in facts.get(name, ()))


_TABLE: dict[str, dict[str, Any]] = orjson.loads(TAGS.read_bytes()) if TAGS.exists() else {}

MERGE_KEYS: dict[tuple[str, str], str] = {
    (owner, field): key for owner, facts in _TABLE.items() for field, key in facts.get("merge", {}).items()
}
QUANTITIES = frozenset(_tags("quantities"))
STRUCTS = frozenset(_tags("structs"))
"""Objects that are always there: Go structs that are no pointers."""
INT64 = frozenset(_tags("int64"))
GO_TYPES: dict[tuple[str, str], str] = {
    (owner, field): name for owner, facts in _TABLE.items() for field, name in facts.get("go", {}).items()
}
"""What Go calls the types of fields that are more than strings: ``v1.ServiceType``, ``[]v1.Taint``."""
OMITTED = frozenset(_tags("omitted"))
"""Scalars that are left out where they are zero, because their Go fields are no pointers."""
WRITTEN = frozenset(_tags("written"))
"""Scalars that are written even where they are zero."""


_OWN: dict[str, dict[str, list[str]]] = data.table(__file__, "facts.yaml")


def _own(name: str) -> frozenset[tuple[str, str]]:
    """Return (type, field) of every field that our own table lists under ``name``."""
    return frozenset((owner, field) for owner, fields in _OWN[name].items() for field in fields)


NULLS, MICRO_TIMES, POINTERS, KEPT_EMPTY = map(_own, ("nulls", "micro_times", "pointers", "kept_empty"))

LABELS_OF_TEMPLATES = "template.metadata.labels"
"""Where no labels are shown as such until a template has been found right."""

KEYS: dict[tuple[str, str], tuple[str, ...]] = {
    (owner, field): tuple(keys) for owner, facts in _TABLE.items() for field, keys in facts.get("keys", {}).items()
}
"""What identifies the entries of lists in which each entry has owners of its own."""
SETS = frozenset(_tags("sets"))
"""Lists of which each item has owners of its own."""
ATOMIC = frozenset(_tags("atomic"))
"""Maps, objects and entries of lists that somebody sets as a whole or not at all."""
