"""OpenAPI version 3, one document for each group and version, made when it is first asked for.

Schemas come from upstream's own (``schema/openapi_table.py``), paths from the registry of kinds, and texts from an
installed package: ``lightkube-models`` carries those of the release in the docstrings of its models. It is not
imported: its files are read. They have lost their paragraphs; where words are parted by anything but one space stands
in ``schema/openapi_spaces.json``. Without the package the documents have no texts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

import orjson
from aiohttp import web

from kubesim.api.answers import NO_CACHE, json_response, text_response
from kubesim.api.openapi_paths import META, paths, root_path
from kubesim.api.status import TEXTS
from kubesim.errors import Obj
from kubesim.schema.openapi_table import REFERENCE, known, schema_of, spaces_of
from kubesim.schema.registry import Kind, Registry

IDENTITY = "x-kubernetes-group-version-kind"
INFO = {"title": "Kubernetes", "version": "1.34"}
CUSTOM_INFO = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
ELSEWHERE = ("admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io")
"""Groups whose options the documents of custom kinds do not name: another part of upstream's server writes those."""
BEARER = {"description": "Bearer Token authentication", "in": "header", "name": "authorization", "type": "apiKey"}
METADATA = f"{META}ObjectMeta"
METADATA_TEXT = TEXTS["metadata"]
EMBEDDED_TEXTS = {name: TEXTS[f"{name} of an embedded object"] for name in ("apiVersion", "kind")}
REFERENCES = re.compile(rb'"#/components/schemas/([^"]+)"')
TYPE = re.compile(r'^class (\w+)\(.*?\):\n    r?"""(.*?)"""', re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"\n      \* \*\*(\w+)\*\* ``[^`]*``(?: - )?")
RENAMED = {"except_": "except", "from_": "from", "continue_": "continue"}
"""Names of fields that Python keeps for itself."""
Texts = dict[str, str]


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
    return hashlib.sha512(names.encode()).hexdigest().upper()


@lru_cache(64)
def document(kinds: tuple[Kind, ...]) -> bytes:
    """Return the document of one group and version, as JSON."""
    custom = all(kind.custom is not None for kind in kinds)
    found: Obj = {} if custom else dict([root_path(kinds[0])])
    schemas = {name: schema for kind in kinds for name, schema in _custom(kind)}
    for kind in kinds:
        found |= paths(kind, schema_name(kind), _names())
    schemas |= _reachable(orjson.dumps([found, schemas]), schemas)
    components: Obj = {"schemas": dict(sorted(schemas.items()))}
    if custom:
        options = schemas[f"{META}DeleteOptions"]
        named = [entry for entry in options[IDENTITY] if entry["group"] not in ELSEWHERE]
        components["schemas"][f"{META}DeleteOptions"] = {**options, IDENTITY: named}
    else:
        components["securitySchemes"] = {"BearerToken": BEARER}
    info = CUSTOM_INFO if custom else INFO
    return orjson.dumps({"openapi": "3.0.0", "info": info, "paths": dict(sorted(found.items())),
                         "components": components})  # fmt: skip


def schema_name(kind: Kind) -> str:
    """Return the name of the schema of a kind's objects."""
    if kind.custom is not None:
        return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])
    return _names()[kind.group, kind.version, kind.kind]


@cache
def _names() -> dict[tuple[str, str, str], str]:
    """Return the types that are kinds, by group, version and kind."""
    return {
        (entry["group"], entry["version"], entry["kind"]): name
        for name in sorted(known())
        for entry in schema_of(name).get(IDENTITY, ())
        if name.endswith(f".{entry['kind']}") and not name.startswith(META)
    }


def _custom(kind: Kind) -> list[tuple[str, Obj]]:
    """Return a custom kind's schemas: the definition's with what every object has, and that of its list."""
    if kind.custom is None:
        return []
    name, texts = schema_name(kind), descriptions("io.k8s.api.core.v1.Pod")
    identity = {"group": kind.group, "kind": kind.kind, "version": kind.version}
    own: Obj = {field: {"type": "string", "description": texts.get(field, "")} for field in ("apiVersion", "kind")}
    metadata = {"allOf": [{"$ref": REFERENCE + METADATA}], "description": METADATA_TEXT}
    schema = {**_published(kind.custom.schema), IDENTITY: [identity]}
    schema["properties"] = {**schema.get("properties", {}), **own, "metadata": metadata}
    texts = descriptions("io.k8s.api.core.v1.PodList")
    about = {field: {"description": texts[field]} if field in texts else {} for field in ("items", "metadata")}
    about["items"] = {name: text.replace("pods", kind.plural, 1) for name, text in about["items"].items()}
    listed = {
        "type": "object",
        "description": f"{kind.kind}List is a list of {kind.kind}",
        "required": ["items"],
        "properties": {
            **own,
            "items": {"type": "array", "items": {"$ref": REFERENCE + name}, **about["items"]},
            "metadata": {"allOf": [{"$ref": f"{REFERENCE}{META}ListMeta"}], **about["metadata"]},
        },
        IDENTITY: [{**identity, "kind": kind.list_kind}],
    }
    return [(name, schema), (f"{name}List", listed)]


def _published(schema: Obj) -> Obj:
    """Return a definition's schema with what follows from its marks: both types of a port, an object's own fields."""
    found = {**schema}
    if "properties" in schema:
        found["properties"] = {name: _published(inner) for name, inner in schema["properties"].items()}
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            found[part] = _published(schema[part])
    if schema.get("x-kubernetes-int-or-string"):
        found.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
    if schema.get("x-kubernetes-embedded-resource"):
        own: Obj = {name: {"type": "string", "description": text} for name, text in EMBEDDED_TEXTS.items()}
        own["metadata"] = {"allOf": [{"$ref": REFERENCE + METADATA}], "description": METADATA_TEXT}
        found["properties"] = {**found.get("properties", {}), **own}
        found["required"] = [*dict.fromkeys((*found.get("required", ()), "kind", "apiVersion"))]
    return found


def _reachable(text: bytes, there: Obj) -> Obj:
    """Return every type of the table that a text refers to, directly or through others."""
    found: Obj = {}
    pending = set(REFERENCES.findall(text))
    while pending:
        name = pending.pop().decode()
        if name not in found and name not in there and name in known():
            found[name] = told(name)
            pending |= set(REFERENCES.findall(orjson.dumps(found[name])))
    return found


def told(name: str) -> Obj:
    """Return a type's schema with its texts."""
    schema, texts = schema_of(name), descriptions(name)
    own = {"description": texts[""]} if "" in texts else {}
    if "properties" not in schema:
        return schema | own
    fields = {
        field: inner | ({"description": texts[field] + _values(inner)} if field in texts else {})
        for field, inner in schema["properties"].items()
    }
    return schema | own | {"properties": fields}


def _values(schema: Obj) -> str:
    """Return the end of a text: which values there are."""
    values = "\n".join(f' - `"{value}"`' for value in schema.get("enum", ()))
    return f"\n\nPossible enum values:\n{values}" if values else ""


@cache
def descriptions(name: str) -> Texts:
    """Return the texts of a type's fields by their JSON names, and its own under ""; the name is the full one."""
    *_, group, version, kind = name.split(".")
    for module in (f"{group}_{version}", version):
        found = _module(module).get(kind)
        if found:
            spaces = spaces_of(name)
            return {field: _spaced(text, spaces.get(field, {})) for field, text in found.items()}
    return {}


@cache
def _module(name: str) -> dict[str, Texts]:
    """Return the texts of a module's types, their words parted by one space."""
    spec = find_spec("lightkube")
    folders = spec.submodule_search_locations if spec else None
    path = Path(next(iter(folders)), "models", f"{name}.py") if folders else None
    if path is None or not path.exists():
        return {}
    return {kind: dict(_texts(doc)) for kind, doc in TYPE.findall(path.read_text(encoding="utf-8"))}


def _texts(doc: str) -> Iterator[tuple[str, str]]:
    """Yield (field, text) of a model's docstring: of the type itself first."""
    own, *fields = FIELD.split(doc.replace("\n\n      **parameters**\n", ""))
    for name, text in zip(["", *fields[::2]], [own, *fields[1::2]], strict=True):
        if text.strip():
            yield RENAMED.get(name, name).replace("_", "-"), " ".join(text.split())


def _spaced(text: str, spaces: dict[str, str]) -> str:
    """Return a text with what stands between its words, by the place of the word before."""
    parted = [word + spaces.get(str(place), " ") for place, word in enumerate(text.split(" "))]
    return "".join(parted).rstrip()
