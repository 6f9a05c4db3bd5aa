"""Writes ``types.json`` anew from the models of the installed ``kubernetes`` client.

Run it from the root of the checkout: ``python -m deploy.testcluster.tables.generate_types``.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import orjson
from kubernetes.client import models

from kubesim.schema.kinds import registry
from kubesim.schema.types import TYPES

SCALARS = {
    "str": "string", "int": "int", "bool": "bool", "float": "float", "datetime": "time", "object": "any",
    "bytearray": "bytes", "bytes": "bytes", "IntOrString": "int-or-string", "Any": "any",
}  # fmt: skip
EXTRA = ("V1Scale", "V1Eviction", "V1Binding", "V1DeleteOptions", "AuthenticationV1TokenRequest", "V1Status")


def main() -> None:
    """Collect every type that the registry's kinds reach and write them, sorted."""
    wanted = [kind.schema for kind in registry.all() if kind.schema] + list(EXTRA)
    table: dict[str, dict[str, str]] = {}
    while wanted:
        name = wanted.pop()
        if name not in table:
            table[name] = fields_of(name)
            wanted += re.findall(r"\b[A-Z]\w+", " ".join(table[name].values()))
    TYPES.write_bytes(orjson.dumps(table, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n")
    sys.stdout.write(f"{len(table)} types\n")


def fields_of(name: str) -> dict[str, str]:
    """Return a model's fields by their JSON names."""
    model = getattr(models, name)
    by_json_name = {(field.serialization_alias or name): field for name, field in model.model_fields.items()}
    fields = {}
    for python_name, json_name in model.attribute_map.items():
        field = by_json_name[json_name]
        text = shown(model.openapi_types[python_name], field.annotation)
        fields[json_name] = text + ("!" if field.is_required() else "")
    return fields


def shown(text: str, annotation: Any) -> str:
    """Return a type of the models in the table's notation."""
    if found := re.fullmatch(r"List\[(.*)\]", text):
        return f"[{shown(found[1], None)}]"
    if found := re.fullmatch(r"Dict\[str, (.*)\]", text):
        inner = shown(found[1], None)
        return f"{{{inner if inner[0].isalpha() else 'any'}}}"
    if text.startswith("Union") or "Union[typing.Annotated[int" in str(annotation):
        return "int-or-string"
    return SCALARS.get(text, text)


if __name__ == "__main__":
    main()
