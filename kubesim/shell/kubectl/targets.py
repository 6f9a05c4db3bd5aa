"""Which objects a command means: by kind and name, by labels, in files."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import yaml

from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.documents import documents
from kubesim.shell.kubectl.flags import TEXTS, Flags, misused
from kubesim.shell.machine import Process
from kubesim.shell.tools import kit
from kubesim.times import parse_go_duration

MERGE, STRATEGIC, JSON = (f"application/{kind}-patch+json" for kind in ("merge", "strategic-merge", "json"))
LISTING = ("describe", "rollout history", "rollout status")
"""Commands that take a kind without a name for all of it."""


def needs(opts: Flags, count: int, text: str) -> None:
    """Complain where there are too few words."""
    if len(opts.args) < count:
        raise KubectlError(f"error: {text}")


def seconds(opts: Flags, name: str, default: float) -> float:
    """Return a flag's duration in seconds."""
    text = opts.get(name)
    if not text:
        return default
    try:
        return parse_go_duration(text)
    except ValueError as error:
        raise misused(opts, f'invalid argument "{text}" for "--{name}" flag: {error}') from error


async def kinds_and_names(client: Client, words: list[str]) -> list[tuple[Resource, str]]:
    """Return kinds and names of ``pod a b``, ``pod/a deploy/b`` or ``pods,svc``; no name means all."""
    if any("/" in word for word in words):
        found = []
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash:
                raise KubectlError(TEXTS["separate type"])
            if not name:
                raise KubectlError("error: arguments in resource/name form must have a single resource and name")
            found.append((await client.resource(kind), name))
        return found
    kinds: list[Resource] = []
    for word in filter(None, words[0].split(",")):
        members = [kind for kind in await client.resources() if word in kind.categories]
        kinds += members or [await client.resource(word)]
    return [(kind, name) for kind in kinds for name in words[1:] or [""]]


def query(opts: Flags) -> str:
    """Return the selectors as a URL's query."""
    pairs = {"labelSelector": opts.get("selector"), "fieldSelector": opts.get("field-selector")}
    text = urlencode({key: value for key, value in pairs.items() if value})
    return f"?{text}" if text else ""


async def chosen(process: Process, client: Client, opts: Flags, words: list[str]) -> list[tuple[Resource, Obj]]:
    """Return the objects that words, files and selectors mean."""
    found: list[tuple[Resource, Obj]] = []
    if opts.files:
        for obj in await manifests(process, opts):
            kind = await client.of_object(obj)
            found.append((kind, await client.request("GET", place(client, kind, obj))))
        return found
    if not words:
        unnamed = "at least one resource must be specified to use a selector"
        raise KubectlError(f"error: {unnamed if opts.get('selector') else TEXTS['nothing named']}")
    everywhere = opts.on("all-namespaces")
    for kind, name in await kinds_and_names(client, words):
        if not name and not (opts.get("selector") or opts.on("all") or everywhere or opts.command in LISTING):
            raise KubectlError("error: resource(s) were provided, but no name was specified")
        path = kind.path("" if everywhere else client.namespace, name) + ("" if name else query(opts))
        answer = await client.request("GET", path)
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        found += [(kind, answer)] if name else [(kind, {**head, **item}) for item in answer.get("items", [])]
    return found


async def paths(process: Process, client: Client, opts: Flags) -> list[tuple[Resource, str]]:
    """Return the paths of the objects that words, files and selectors mean, whether they are there or not."""
    if opts.files:
        objects = [(await client.of_object(obj, source), obj) for obj, source in await sources(process, opts)]
        return [(kind, place(client, kind, located(client, kind, obj))) for kind, obj in objects]
    found = []
    for kind, name in await kinds_and_names(client, opts.args):
        if name:
            found.append((kind, kind.path(client.namespace, name)))
            continue
        if not (opts.on("all") or opts.get("selector") or opts.get("field-selector")):
            raise KubectlError("error: resource(s) were provided, but no name was specified")
        space = "" if opts.on("all-namespaces") else client.namespace
        answer = await client.request("GET", kind.path(space) + query(opts))
        found += [(kind, place(client, kind, item)) for item in answer.get("items") or []]
    return found


def place(client: Client, kind: Resource, obj: Obj) -> str:
    """Return the path of an object."""
    metadata = obj.get("metadata") or {}
    return kind.path(metadata.get("namespace") or client.namespace, metadata.get("name", ""))


async def manifests(process: Process, opts: Flags) -> list[Obj]:
    """Read the objects of ``-f``. Raises KubectlError."""
    return [obj for obj, _ in await sources(process, opts)]


async def sources(process: Process, opts: Flags) -> list[tuple[Obj, str]]:
    """Read the objects of ``-f``, each with the file that it is from. Raises KubectlError."""
    if not opts.files:
        raise KubectlError("error: must specify one of -f and -k")
    found: list[tuple[Any, str]] = []
    for name in opts.words("filename"):
        for path in _paths(process, name, opts.on("recursive")):
            text = await _read(process, path)
            shown = "STDIN" if path == "-" else path
            try:
                found += [(each, shown) for each in documents(text)]
            except (yaml.YAMLError, ValueError) as error:
                mark = getattr(error, "problem_mark", None)
                where = f"line {mark.line + 1}: " if mark else ""
                text = str(getattr(error, "problem", None) or error).splitlines()[0]
                raise KubectlError(
                    f"error: error parsing {shown}: error converting YAML to JSON: yaml: {where}{text}"
                ) from error
    flat = [pair for obj, source in found if isinstance(obj, dict) for pair in _items(obj, source)]
    if not flat:
        raise KubectlError(f"error: no objects passed to {opts.command.partition(' ')[0]}")
    for obj, source in flat:
        _check(obj, source)
    return flat


def _items(obj: Obj, source: str) -> list[tuple[Obj, str]]:
    listed = obj.get("kind", "") == "List" and isinstance(obj.get("items"), list)
    return [(item, source) for item in obj["items"] if isinstance(item, dict)] if listed else [(obj, source)]


def _check(obj: Obj, source: str) -> None:
    for key in ("kind", "apiVersion"):
        if not obj.get(key) or not isinstance(obj[key], str):
            shown = json.dumps(obj, separators=(",", ":"), sort_keys=True, ensure_ascii=False)[:4000]
            word = "Kind" if key == "kind" else key
            raise KubectlError(f"error: unable to decode \"{source}\": Object '{word}' is missing in '{shown}'")
    if not isinstance(obj.get("metadata") or {}, dict):
        kind = {str: "string", list: "array", bool: "bool"}.get(type(obj["metadata"]), "number")
        raise KubectlError(
            f'error: unable to decode "{source}": json: cannot unmarshal {kind} into Go struct field '
            "metadataOnlyObject.metadata of type v1.ObjectMeta"
        )


def _paths(process: Process, name: str, deep: bool) -> list[str]:
    """Return the manifests that a name means: the file itself, or those of a folder."""
    node = process.view.find(name) if name != "-" else None
    if not isinstance(node, Directory):
        return [name]
    found = []
    for each in node.names():
        below, path = node.get(each), f"{name.rstrip('/')}/{each}"
        if isinstance(below, Directory):
            found += _paths(process, path, deep) if deep else []
        elif each.endswith((".yaml", ".yml", ".json")):
            found.append(path)
    if not found and not deep:
        raise KubectlError(f"error: error reading [{name}]: recognized file extensions are [.json .yaml .yml]")
    return found


async def _read(process: Process, name: str) -> str:
    try:
        handle = process.fds[0] if name == "-" else process.open(name)
        return kit.text(await kit.everything(process, handle))
    except FileError as error:
        missing = error.code == "ENOENT"
        raise KubectlError(
            f'error: the path "{name}" does not exist' if missing else f"error: open {name}: {error.text.lower()}"
        ) from error


def located(client: Client, kind: Resource, obj: Obj) -> Obj:
    """Return an object in its namespace, the command line's where it names none. Raises KubectlError."""
    if not kind.namespaced:
        return obj
    metadata = obj.get("metadata") or {}
    own = metadata.get("namespace")
    if own and client.chosen and own != client.namespace:
        raise KubectlError(
            f'error: the namespace from the provided object "{own}" does not match the namespace '
            f'"{client.namespace}". '
            f"You must pass '--namespace={own}' to perform this operation."
        )
    return {**obj, "metadata": {**metadata, "namespace": own or client.namespace}}
