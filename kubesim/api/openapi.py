"""OpenAPI: as much of it as kubectl needs to apply, to check fields and to explain.

Version 3 documents are made from the table of types; the texts come from the official client where it is installed.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import orjson
from aiohttp import web

from kubesim.api.answers import NO_CACHE, json_response, text_response
from kubesim.errors import Obj
from kubesim.schema.registry import Kind, Registry
from kubesim.schema.types import FieldType, Shape, shape_of

FIELD = re.compile(r"    \w+: .* = Field\(.*description=")
SCALARS: dict[str, Obj] = {
    "string": {"type": "string"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "float": {"type": "number"},
    "time": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
}
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
NAMED: dict[str, Obj] = {
    QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    INT_OR_STRING: {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
}
METADATA = "V1ObjectMeta"
SCALAR_NAMES = {"quantity": QUANTITY, "int-or-string": INT_OR_STRING}
PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def answer_v3(parts: list[str], registry: Registry) -> web.Response:
    """Answer a path below /openapi/v3."""
    match parts:
        case []:
            return json_response({"paths": _index(registry)})
        case _:
            kinds = kinds_by_path(registry).get("/".join(parts))
            if kinds:
                return web.Response(body=document(kinds), content_type="application/json", headers=NO_CACHE)
    return text_response("404 page not found\n", 404)


def kinds_by_path(registry: Registry) -> dict[str, tuple[Kind, ...]]:
    """Return the kinds by the path of their group and version."""
    found: dict[str, tuple[Kind, ...]] = {}
    for kind in registry.all():
        path = f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"
        found[path] = (*found.get(path, ()), kind)
    return found


def _index(registry: Registry) -> Obj:
    """Return where each group and version has its document; the hash lets clients keep it."""
    return {
        path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_hash(kinds)}"}
        for path, kinds in kinds_by_path(registry).items()
    }


def _hash(kinds: tuple[Kind, ...]) -> str:
    """Return a text that changes when the document may."""
    names = "\n".join(f"{kind.api_version} {kind.kind} {kind.custom.digest if kind.custom else ''}" for kind in kinds)
    return hashlib.sha256(names.encode()).hexdigest().upper()


@cache
def document(kinds: tuple[Kind, ...]) -> bytes:
    """Return the document of one group and version, as JSON."""
    roots = [kind.schema or METADATA for kind in kinds]
    schemas = {_named(name): _schema(shape) for name, shape in _reachable(iter(roots))} | NAMED
    for kind in kinds:
        if kind.custom is not None:
            schemas[_custom_name(kind)] = _custom_schema(kind.custom.schema)
        name = _schema_name(kind)
        if name in schemas:
            identity = {"group": kind.group, "kind": kind.kind, "version": kind.version}
            schemas[name]["x-kubernetes-group-version-kind"] = [identity]
    info = {"title": "Kubernetes", "version": "v1.34.4"}
    paths = dict(_path(kind) for kind in kinds if "patch" in kind.verbs)
    return orjson.dumps({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}})


def _schema_name(kind: Kind) -> str:
    """Return the name of the schema of a kind's objects."""
    return _custom_name(kind) if kind.custom is not None else _named(kind.schema)


def _custom_name(kind: Kind) -> str:
    """Return the name of a custom kind's schema: the group backwards, then version and kind."""
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def _custom_schema(schema: Obj) -> Obj:
    """Return a definition's schema with what every object has."""
    texts = descriptions("V1Pod")
    own: Obj = {name: {"type": "string", "description": texts.get(name, "")} for name in ("apiVersion", "kind")}
    reference = {"$ref": f"#/components/schemas/{_named(METADATA)}"}
    own["metadata"] = {"allOf": [reference], "description": texts.get("metadata", "")}
    return {**schema, "properties": {**schema.get("properties", {}), **own}}


def _path(kind: Kind) -> tuple[str, Obj]:
    """Return a kind's path and what kubectl looks for there: that PATCH knows dryRun and fieldValidation."""
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    identity = {"group": kind.group, "kind": kind.kind, "version": kind.version}
    patch = {"parameters": PARAMETERS, "responses": {}, "x-kubernetes-group-version-kind": identity}
    return f"{root}{scope}/{kind.plural}/{{name}}", {"patch": patch}


def _reachable(names: Iterator[str]) -> Iterator[tuple[str, Shape]]:
    """Yield every type that some types lead to, themselves included."""
    pending, seen = list(names), set()
    while pending:
        name = pending.pop()
        shape = shape_of(name) if name not in seen else None
        seen.add(name)
        if shape is not None:
            yield name, shape
            pending += [field.type_name for field in shape.fields.values() if field.type_name]


def _named(name: str) -> str:
    """Return a type's name as upstream forms it: kubectl prints what follows the last dot (V1PodSpec: PodSpec)."""
    found = re.match(r"(.*?V\d+)(.+)", name)
    return f"io.k8s.api.{found[1].lower()}.{found[2]}" if found else name


def _schema(shape: Shape) -> Obj:
    """Return the schema of one type."""
    texts = descriptions(shape.name)
    properties = {}
    for name, field in shape.fields.items():
        properties[name] = _property(field) | ({"description": texts[name]} if name in texts else {})
    schema: Obj = {"type": "object", "properties": properties}
    required = [name for name, field in shape.fields.items() if field.required]
    if required:
        schema["required"] = required
    return schema | ({"description": texts[""]} if "" in texts else {})


def _property(field: FieldType) -> Obj:
    """Return the schema of one field."""
    form = field.item or field.form
    target = _named(field.type_name) if field.type_name else SCALAR_NAMES.get(form, "")
    inner: Obj = (
        {"allOf": [{"$ref": f"#/components/schemas/{target}"}]}
        if target
        else dict(SCALARS.get(form, {"type": "object"}))
    )
    if field.form == "list":
        return {"type": "array", "items": inner}
    return {"type": "object", "additionalProperties": inner} if field.form == "map" else inner


@cache
def _models() -> Path | None:
    """Return the folder of the official client's models, where it is installed; it is read, never imported."""
    spec = find_spec("kubernetes")
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) / "client" / "models" if places else None


@cache
def descriptions(name: str) -> dict[str, str]:
    """Return the texts of a type's fields by their JSON names, and its own under ""."""
    folder = _models()
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    path = folder / f"{words}.py" if folder else None
    if path is None or not path.exists():
        return {}
    return dict(_texts(path.read_text(encoding="utf-8"), name))


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
        yield str(given.get("serialization_alias") or node.target.id), str(given.get("description", ""))
