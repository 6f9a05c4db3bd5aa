"""kubectl explain: fields and their texts, from the server's OpenAPI."""

from __future__ import annotations

import textwrap
from typing import Any

from kubesim.shell.kubectl.client import Client, KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.machine import Process

MOST_ENUM = 4
DEEPEST = 40


class Page:
    """One answer: a document of the API, and what is shown of it."""

    def __init__(self, document: Obj, *, deep: bool) -> None:
        self.schemas: dict[str, Obj] = (document.get("components") or {}).get("schemas") or {}
        self.deep = deep

    def resolved(self, schema: Obj) -> Obj:
        """Return a schema, or the one that it refers to."""
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        return self.schemas.get(name, {}) if name else schema

    def kind(self, group: str, version: str, kind: str) -> Obj | None:
        """Return the schema of a kind."""
        wanted = {"group": group, "version": version, "kind": kind}
        for schema in self.schemas.values():
            if wanted in (schema.get("x-kubernetes-group-version-kind") or []):
                return schema
        return None

    def type_of(self, schema: Obj) -> str:
        """Return a type's name."""
        if "items" in schema:
            return f"[]{self.type_of(schema['items'])}"
        if isinstance(schema.get("additionalProperties"), dict):
            return f"map[string]{self.type_of(schema['additionalProperties'])}"
        if len(schema.get("allOf") or []) == 1 and "properties" not in schema:
            return self.type_of(schema["allOf"][0])
        if "$ref" in schema:
            target = self.resolved(schema)
            if target.get("type", "object") == "object":
                return str(schema["$ref"]).rpartition("/")[2].rpartition(".")[2] or "Object"
            return str(target["type"])
        return "Object" if schema.get("type", "object") == "object" else str(schema["type"])

    def description(self, schema: Obj) -> str:
        """Return the texts of a schema and of those that it is made of."""
        found = self.resolved(schema)
        text = f"{found['description']}\n" if found.get("description") else ""
        for below in self._inner(found):
            text += self.description(below)
        return text

    def _inner(self, schema: Obj) -> list[Obj]:
        found = list(schema.get("allOf") or [])
        found += [schema["items"]] if "items" in schema else []
        more = schema.get("additionalProperties")
        return found + ([more] if isinstance(more, dict) else [])

    def output(self, schema: Obj, path: list[str]) -> str:
        """Return what is said of a field; "" where there is none."""
        found = self.resolved(schema)
        if not path:
            text = wrapped(self.description(found) or "<empty>", 76, 4) + "\n"
            fields = self.fields(schema, 1, frozenset())
            return f"DESCRIPTION:\n{text}" + (f"FIELDS:\n{fields}" if fields else "")
        below = (found.get("properties") or {}).get(path[0])
        if below is not None:
            head = f"FIELD: {path[0]} <{self.type_of(below)}>\n{_enum(below, -1, None)}\n\n" if len(path) == 1 else ""
            inner = self.output(below, path[1:])
            return head + inner if inner else ""
        return next((text for each in self._inner(found) if (text := self.output(each, path))), "")

    def fields(self, schema: Obj, level: int, seen: frozenset[str]) -> str:
        """Return the list of an object's fields."""
        name = str(schema.get("$ref", ""))
        if name in seen or level > DEEPEST:
            return ""
        seen = seen | {name} if name else seen
        found, out = self.resolved(schema), ""
        for key, below in sorted((found.get("properties") or {}).items()):
            out += self._detail(key, below, key in (found.get("required") or []), level)
            if self.deep:
                out += self.fields(below, level + 1, seen)
        return out + "".join(self.fields(each, level, seen) for each in self._inner(found))

    def _detail(self, name: str, schema: Obj, required: bool, level: int) -> str:
        indent = level * 2
        line = f"{' ' * indent}{name}\t<{self.type_of(schema)}>{' -required-' if required else ''}"
        line += _enum(schema, MOST_ENUM, indent) + "\n"
        if self.deep:
            return line
        return line + wrapped(schema.get("description") or "<no description>", 78 - indent, indent + 2) + "\n\n"


def _enum(schema: Obj, limit: int, indent: int | None) -> str:
    """Return the values that a field may have: in a line of its fields, or (no indent) in a list."""
    values = schema.get("enum") or []
    if not values:
        return ""
    shown = [str(value) or '""' for value in values]
    if indent is None:
        return "ENUM:" + "".join(f"\n    {value}" for value in shown)
    short = shown if limit < 0 or len(shown) <= limit else shown[:limit]
    return f"\n{' ' * indent}enum: {', '.join(short)}{', ....' if len(shown) > len(short) else ''}"


def wrapped(text: str, width: int, indent: int) -> str:
    """Return text in lines of a width, indented; lines of the text stay apart."""
    lines: list[str] = []
    for line in text.split("\n"):
        lines += textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""]
    return "\n".join(" " * indent + line for line in lines)


async def explain(process: Process, client: Client, opts: Flags) -> int:
    """Show what a kind or field is for."""
    word, *path = opts.args[0].split(".")
    kind, path = await _kind(client, word, path)
    group, version = kind.group, kind.version
    if opts.get("api-version"):
        group, _, version = opts.get("api-version").rpartition("/")
    where = f"apis/{group}/{version}" if group else f"api/{version}"
    document = await _document(client, where, f"{group}/{version}, Resource={kind.plural}")
    page = Page(document, deep=opts.on("recursive"))
    schema = page.kind(group, version, kind.kind)
    if schema is None:
        raise KubectlError(f"error: GVR ({group}/{version}, Resource={kind.plural}) not found in OpenAPI schema")
    head = (f"GROUP:      {group}\n" if group else "") + f"KIND:       {kind.kind}\nVERSION:    {version}\n\n"
    await process.write(head)
    text = page.output(schema, path)
    if not text:
        raise KubectlError(f'error: field "{path[-1]}" does not exist')
    await process.write(text + "\n")
    return 0


async def _kind(client: Client, word: str, path: list[str]) -> tuple[Any, list[str]]:
    """Return the kind of a name that may have its group in it, and the path that follows."""
    try:
        return await client.resource(word), path
    except KubectlError as error:
        for end in range(len(path), 0, -1):
            try:
                return await client.resource(".".join([word, *path[:end]])), path[end:]
            except KubectlError:
                continue
        raise KubectlError(error.message) from error


async def _document(client: Client, where: str, shown: str) -> Obj:
    known = (await client.request("GET", "/openapi/v3")).get("paths") or {}
    if where not in known:
        raise KubectlError(f'error: couldn\'t find resource for "{shown.replace(", Resource=", ", Kind=")}"')
    return await client.request("GET", known[where]["serverRelativeURL"])
