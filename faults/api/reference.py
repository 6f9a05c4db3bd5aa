"""The API's description as a page for people, made from the same OpenAPI schema that programs read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ninja import NinjaAPI

Schema = dict[str, Any]
METHODS = ("get", "post", "put", "patch", "delete")
BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {} of them",
    "pattern": "matches {}",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A value that a request has. ``place``: path, query or body."""

    name: str
    place: str
    kind: str
    text: str
    is_required: bool
    default: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One route with one method."""

    key: str
    method: str
    path: str
    title: str
    text: str
    scope: str
    fields: tuple[Field, ...]
    answers: tuple[str, ...]
    example: str


@dataclass(frozen=True, slots=True)
class Section:
    """Routes that belong together."""

    name: str
    operations: tuple[Operation, ...]


def sections(api: NinjaAPI, prefix: str) -> list[Section]:
    """Return all routes of an API, which is mounted at ``prefix``, by their tags."""
    schema = api.get_openapi_schema(path_prefix=prefix)
    found: dict[str, list[Operation]] = {}
    for path, methods in schema["paths"].items():
        for method in (method for method in METHODS if method in methods):
            about = methods[method]
            found.setdefault(about["tags"][0], []).append(_operation(schema, path, method, about))
    return [Section(tag.capitalize(), tuple(operations)) for tag, operations in found.items()]


def _operation(schema: Schema, path: str, method: str, about: Schema) -> Operation:
    fields = (*_parameters(schema, about), *_body(schema, about))
    scope = about.get("x-scope", "")
    bodies = (_resolved(schema, media["schema"]) for media in _contents(about))
    text = " ".join([_plain(about), *map(_plain, bodies)])
    title, answers = about.get("summary", ""), tuple(map(str, sorted(about["responses"])))
    example = _example(path, method, scope, fields)
    return Operation(
        f"{method}-{about['operationId']}", method.upper(), path, title, text, scope, fields, answers, example
    )


def _parameters(schema: Schema, about: Schema) -> Iterator[Field]:
    for one in about.get("parameters", []):
        yield _field(schema, one["name"], one["in"], one["schema"], bool(one.get("required")))


def _body(schema: Schema, about: Schema) -> Iterator[Field]:
    for media in _contents(about):
        yield from _fields_of(schema, media["schema"], "")


def _contents(about: Schema) -> list[Schema]:
    return [*about.get("requestBody", {}).get("content", {}).values()]


def _plain(about: Schema) -> str:
    """Return a description in one line, without the marks of code."""
    return " ".join(str(about.get("description", "")).replace("`", "").split())


def _fields_of(schema: Schema, found: Schema, above: str) -> Iterator[Field]:
    """Yield the fields of an object, those of objects within it below their own."""
    about = _resolved(schema, found)
    for name, inner in about.get("properties", {}).items():
        required = name in about.get("required", ())
        yield _field(schema, f"{above}{name}", "body", inner, required)
        if "properties" in (deeper := _resolved(schema, inner)):
            yield from _fields_of(schema, deeper, f"{above}{name}.")


def _field(schema: Schema, name: str, place: str, found: Schema, required: bool) -> Field:
    about = _resolved(schema, found)
    text = " ".join(filter(None, (_plain(about), _bounds(about))))
    default = about.get("default")
    return Field(
        name,
        place,
        _kind(schema, about),
        text,
        required,
        "" if default is None or isinstance(default, dict) else str(default),
    )


def _kind(schema: Schema, found: Schema) -> str:
    about = _resolved(schema, found)
    if "enum" in about:
        return " | ".join(map(str, about["enum"]))
    if "const" in about:
        return str(about["const"])
    if about.get("type") == "array":
        return f"list of {_kind(schema, about['items'])}"
    return str(about.get("type", "any"))


def _bounds(about: Schema) -> str:
    names = [name for name in BOUNDS if name in about and not (name == "pattern" and "description" in about)]
    told = [BOUNDS[name].format(about[name]) for name in names]
    return f"{', '.join(told).capitalize()}." if told else ""


def _resolved(schema: Schema, found: Schema) -> Schema:
    """Return a schema with what it refers to, and without the null of what may be left out."""
    about = dict(found)
    if "$ref" in about:
        about |= schema["components"]["schemas"][about.pop("$ref").rpartition("/")[2]]
    for key in ("allOf", "anyOf"):
        choices = [one for one in about.get(key, ()) if one.get("type") != "null"]
        if len(choices) == 1:
            about = {**_resolved(schema, choices[0]), **{k: v for k, v in about.items() if k != key}}
    return about


def _example(path: str, method: str, scope: str, fields: tuple[Field, ...]) -> str:
    """Return the request as curl sends it."""
    parts = ["curl"] if method == "get" else [f"curl -X {method.upper()}"]
    parts += ['-H "Authorization: Bearer $TOKEN"'] if scope else []
    body = [field for field in fields if field.place == "body" and field.is_required and "." not in field.name]
    if any(field.place == "body" for field in fields):
        values = ", ".join(f'"{field.name}": {_sample(field)}' for field in body)
        parts += ["-H 'Content-Type: application/json'", f"-d '{{{values}}}'"]
    query = "&".join(f"{field.name}=…" for field in fields if field.place == "query" and field.is_required)
    return " \\\n  ".join([*parts, f'"$API{path}{"?" if query else ""}{query}"'])


def _sample(field: Field) -> str:
    if field.kind == "object":
        return "{…}"
    return (
        "0"
        if field.kind in ("integer", "number")
        else f'"{field.kind.split(" | ")[0] if "|" in field.kind else "…"}"'
    )
