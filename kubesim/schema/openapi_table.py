"""The schemas of upstream's OpenAPI documents as a compact table, without their texts.

``deploy/testcluster/tables/generate_openapi.py`` writes ``openapi.json`` from a real API server's documents. It
holds packages, of each its types, of each ``fields`` and what else its schema says. A field is a text, or a text with
more (``inner``: more of its items): ``int32``, ``EnvVar`` (a type of the same package), ``[string]`` (list),
``{string}`` (map); ``=`` after any of them stands for the default that is its zero value.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import orjson

Schema = dict[str, Any]

TABLE = Path(__file__).with_name("openapi.json")
SPACES = Path(__file__).with_name("openapi_spaces.json")
"""Where the words of upstream's texts are parted by a new line, a paragraph or an indentation."""
REFERENCE = "#/components/schemas/"
EXTENSION = "x-kubernetes-"
SCALARS: dict[str, Schema] = {
    "any": {},
    "object": {"type": "object"},
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "byte": {"type": "string", "format": "byte"},
}
ZEROS: dict[str, Any] = {"string": "", "integer": 0, "boolean": False}


def known() -> frozenset[str]:
    """Return the full names of all types."""
    return frozenset(f"{package}.{name}" for package, types in _table().items() for name in types)


@cache
def schema_of(name: str) -> Schema:
    """Return the schema of a type by its full name; it is shared, not to be changed. KeyError for an unknown one."""
    package, _, kind = name.rpartition(".")
    entry = dict(_table()[package][kind])
    fields = entry.pop("fields", None)
    required = entry.pop("required", None)
    schema: Schema = {key.replace("+", EXTENSION): value for key, value in entry.items()}
    if required:
        schema["required"] = required
    if fields:
        schema["properties"] = {field: expanded(text, package) for field, text in fields.items()}
    return schema


def expanded(entry: str | list[Any], package: str, *, inner: bool = False) -> Schema:
    """Return the schema of an entry; ``inner`` for that of a list's or map's items."""
    text, more = (entry, {}) if isinstance(entry, str) else entry
    zero = text.endswith("=")
    schema = _form(text.removesuffix("="), package, reference=inner and not zero)
    if zero:
        schema["default"] = ZEROS.get(schema.get("type", ""), {})
    for key, value in more.items():
        if key == "inner":
            (schema["items"] if "items" in schema else schema["additionalProperties"]).update(value)
        else:
            schema[key.replace("+", EXTENSION)] = value
    return schema


def _form(text: str, package: str, *, reference: bool) -> Schema:
    if text in SCALARS:
        return dict(SCALARS[text])
    if text.startswith("["):
        return {"type": "array", "items": expanded(text[1:-1], package, inner=True)}
    if text.startswith("{"):
        return {"type": "object", "additionalProperties": expanded(text[1:-1], package, inner=True)}
    target = {"$ref": REFERENCE + (text if "." in text else f"{package}.{text}")}
    return target if reference else {"allOf": [target]}


@cache
def _table() -> dict[str, dict[str, Schema]]:
    table: dict[str, dict[str, Schema]] = orjson.loads(TABLE.read_bytes())
    return table


def spaces_of(name: str) -> dict[str, dict[str, str]]:
    """Return, for the texts of a type ("") and its fields, what follows a word, by the word's place from 0."""
    return _spaces().get(name, {})


@cache
def _spaces() -> dict[str, dict[str, dict[str, str]]]:
    table: dict[str, dict[str, dict[str, str]]] = orjson.loads(SPACES.read_bytes())
    return table
