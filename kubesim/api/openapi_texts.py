"""The texts of the OpenAPI documents: upstream's own sentences, read at run time from an installed package.

``kubernetes-validate`` carries them for every field; the official client's models, for all but the fields that are
objects. Neither is imported: their files are read. Without both, the documents have no texts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import orjson

FIELD = re.compile(r"    \w+: .* = Field\(.*description=")
DEFINITIONS = "kubernetes-json-schema/v1.34.0-local/_definitions.json"
Texts = dict[str, str]


@cache
def descriptions(name: str) -> Texts:
    """Return the texts of a type's fields by their JSON names, and its own under ""; the name is the full one."""
    carried = _carried()
    if carried is not None:
        return carried.get(name, {})
    folder = _folder("kubernetes")
    package, _, kind = name.rpartition(".")
    group, _, version = package.rpartition(".")
    models = (f"{version.capitalize()}{kind}", f"{group.rpartition('.')[2].capitalize()}{version.capitalize()}{kind}")
    for model in models:
        path = folder / "client" / "models" / f"{_snake(model)}.py" if folder else None
        if path is not None and path.exists():
            return dict(_texts(path.read_text(encoding="utf-8"), model))
    return {}


@cache
def _carried() -> dict[str, Texts] | None:
    """Return every text that ``kubernetes-validate`` has, or None where it is not installed."""
    folder = _folder("kubernetes_validate")
    path = folder / DEFINITIONS if folder else None
    if path is None or not path.exists():
        return None
    return {name: _told(schema) for name, schema in orjson.loads(path.read_bytes())["$defs"].items()}


def _told(schema: dict[str, dict[str, dict[str, str]]]) -> Texts:
    """Return the texts of a schema's properties, and its own."""
    fields = {
        name: field["description"] for name, field in schema.get("properties", {}).items() if "description" in field
    }
    return fields | ({"": str(schema["description"])} if "description" in schema else {})


def _folder(package: str) -> Path | None:
    """Return where a package lies, if it is installed."""
    spec = find_spec(package)
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) if places else None


def _snake(name: str) -> str:
    """Return the file name of a model: V1PodSpec lies in v1_pod_spec."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _texts(source: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield (field, text) of a model's source, the first paragraph of its docstring as that of ""."""
    _, _, body = source.partition(f"class {name}(BaseModel):")
    body = body.partition("\n    def ")[0]
    about = body.split('"""')[1].split("\n\n")[0] if '"""' in body else ""
    if about and "No description provided" not in about:
        yield "", " ".join(about.split())
    for line in body.splitlines():
        if FIELD.match(line):
            yield from _text(ast.parse(line.strip()).body[0])


def _text(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the one (field, text) of a field's line."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call) and isinstance(node.target, ast.Name):
        given = {k.arg: k.value.value for k in node.value.keywords if isinstance(k.value, ast.Constant)}
        name = str(given.get("serialization_alias") or node.target.id)
        yield name, str(given.get("description", "")).replace("  ", "\n\n")
