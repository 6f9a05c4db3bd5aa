"""Writes ``openapi.json``: ``python -m deploy.testcluster.tables.generate_openapi KUBECONFIG [KUBECTL]``.

It reads the version 3 documents of a real API server and keeps names, types, defaults and how lists merge; no texts.
Of the texts, only where their words are parted by anything but one space, in ``openapi_spaces.json``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import orjson

from kubesim.schema.openapi_table import EXTENSION, REFERENCE, SCALARS, SPACES, TABLE, ZEROS, Schema, expanded

OWN = "io.k8s."
CONTENTS = ("items", "additionalProperties")
VALUES = "\n\nPossible enum values:\n"
"""Beginning of a list of values in a description; the list is made again from the schema."""


def main() -> None:
    """Collect every schema that the server's documents hold, custom kinds aside, and write the table."""
    kubectl = [*(sys.argv[2:] or ["kubectl"]), "--kubeconfig", sys.argv[1], "get", "--raw"]

    def get(path: str) -> Any:
        return orjson.loads(_answer([*kubectl, path]))

    table: dict[str, dict[str, Schema]] = {}
    parted: dict[str, dict[str, dict[str, str]]] = {}
    for path in sorted(get("/openapi/v3")["paths"]):
        for name, schema in get(f"/openapi/v3/{path}").get("components", {}).get("schemas", {}).items():
            package, _, kind = name.rpartition(".")
            if name.startswith(OWN):
                table.setdefault(package, {})[kind] = compact(schema, package)
                parted |= {name: found} if (found := spaces(schema)) else {}
    TABLE.write_bytes(orjson.dumps(table, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n")
    SPACES.write_bytes(orjson.dumps(parted, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n")
    sys.stdout.write(f"{sum(map(len, table.values()))} types\n")


def _answer(command: list[str]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True).stdout  # noqa: S603 - a developer's own kubectl


def compact(schema: Schema, package: str) -> Schema:
    """Return a type's entry of the table."""
    entry = {
        key.replace(EXTENSION, "+"): value
        for key, value in schema.items()
        if key not in ("description", "properties", "example")
    }
    fields = {name: field(inner, package) for name, inner in schema.get("properties", {}).items()}
    return entry | ({"fields": fields} if fields else {})


def spaces(schema: Schema) -> dict[str, dict[str, str]]:
    """Return, for the texts of a type and its fields, what follows their words where that is not one space."""
    texts = {"": schema} | schema.get("properties", {})
    found = {name: _spaces(inner.get("description", "").partition(VALUES)[0]) for name, inner in texts.items()}
    return {name: places for name, places in found.items() if places}


def _spaces(text: str) -> dict[str, str]:
    return {str(place): space for place, space in enumerate(re.findall(r"\s+", text.strip())) if space != " "}


def field(schema: Schema, package: str) -> str | list[Any]:
    """Return a field's entry; it says the same as its schema, texts aside, or this fails."""
    text, more = notation(schema, package)
    entry = [text, more] if more else text
    wanted = {"allOf": [schema]} if "$ref" in schema else untold(schema)
    assert expanded(entry, package) == wanted, (schema, entry)
    return entry


def notation(schema: Schema, package: str) -> tuple[str, Schema]:
    """Return the text of a schema and what it does not say."""
    more = {key.replace(EXTENSION, "+"): value for key, value in untold(schema).items() if key.startswith(EXTENSION)}
    more |= {"enum": schema["enum"]} if "enum" in schema else {}
    text = _form(schema, package)
    for contents in (schema[key] for key in CONTENTS if key in schema):
        inner = notation(contents, package)[1]
        more |= {"inner": inner} if inner else {}
    if "default" in schema:
        if schema["default"] == ZEROS.get(schema.get("type", ""), {}):
            return f"{text}=", more
        more["default"] = schema["default"]
    return text, more


def _form(schema: Schema, package: str) -> str:
    reference = (schema.get("allOf") or [schema])[0].get("$ref", "").removeprefix(REFERENCE)
    if reference:
        return str(reference.removeprefix(f"{package}.") if reference.rpartition(".")[0] == package else reference)
    if schema.get("type") == "array":
        return f"[{notation(schema['items'], package)[0]}]"
    if "additionalProperties" in schema:
        return f"{{{notation(schema['additionalProperties'], package)[0]}}}"
    plain = {key: schema[key] for key in ("type", "format") if key in schema}
    return next(name for name, form in SCALARS.items() if form == plain)


def untold(schema: Schema) -> Schema:
    """Return a field's schema without its texts."""
    kept = {key: value for key, value in schema.items() if key != "description"}
    for key in CONTENTS:
        if key in kept:
            kept[key] = untold(kept[key])
    return kept


if __name__ == "__main__":
    main()
