"""Which objects a command means: by kind and name, by labels, in files."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import yaml

from kubesim.shell.errors import FileError
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.machine import Process
from kubesim.shell.tools import kit
from kubesim.shell.tools.jq import documents

ALL = "pods,services,daemonsets,deployments,replicasets,statefulsets,horizontalpodautoscalers,cronjobs,jobs"
MERGE, STRATEGIC, JSON = (f"application/{kind}-patch+json" for kind in ("merge", "strategic-merge", "json"))
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def needs(opts: Flags, count: int, text: str) -> None:
    """Complain where there are too few words."""
    if len(opts.args) < count:
        raise KubectlError(f"error: {text}")


def seconds(opts: Flags, name: str, default: float) -> float:
    """Return a flag's duration in seconds."""
    text = opts.get(name)
    if not text:
        return default
    if not re.fullmatch(r"-?(0|(\d+(\.\d+)?(h|ms|m|s))+)", text):
        reason = "missing unit in" if re.fullmatch(r"-?[\d.]+", text) else "invalid"
        raise KubectlError(
            f'error: invalid argument "{text}" for "--{name}" flag: time: {reason} duration "{text}"\n'
            f"See 'kubectl {opts.command} --help' for usage."
        )
    total = sum(float(count) * _UNITS[unit] for count, unit in re.findall(r"([\d.]+)(h|ms|m|s)", text))
    return -total if text.startswith("-") else total


async def kinds_and_names(client: Client, words: list[str]) -> list[tuple[Resource, str]]:
    """Return kinds and names of ``pod a b``, ``pod/a deploy/b`` or ``pods,svc``; no name means all."""
    if any("/" in word for word in words):
        found = []
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash:
                raise KubectlError(
                    "error: there is no need to specify a resource type as a separate argument when passing "
                    "arguments in resource/name form (e.g. 'kubectl get resource/<resource_name>' instead of "
                    "'kubectl get resource resource/<resource_name>'"
                )
            if not name:
                raise KubectlError("error: arguments in resource/name form must have a single resource and name")
            found.append((await client.resource(kind), name))
        return found
    kinds = [
        await client.resource(kind) for kind in words[0].replace("all", ALL, words[0] == "all").split(",") if kind
    ]
    return [(kind, name) for kind in kinds for name in words[1:] or [""]]


def query(opts: Flags) -> str:
    """Return the selectors as a URL's query."""
    pairs = {"labelSelector": opts.get("selector"), "fieldSelector": opts.get("field-selector")}
    text = urlencode({key: value for key, value in pairs.items() if value})
    return f"?{text}" if text else ""


async def chosen(process: Process, client: Client, opts: Flags, words: list[str]) -> list[tuple[Resource, Obj]]:
    """Return the objects that words, files and selectors mean."""
    found: list[tuple[Resource, Obj]] = []
    if opts.all("filename"):
        for obj in await manifests(process, opts):
            kind = await client.of_object(obj)
            found.append((kind, await client.request("GET", place(client, kind, obj))))
        return found
    if not words:
        raise KubectlError("error: required resource not specified")
    everywhere = opts.on("all-namespaces")
    for kind, name in await kinds_and_names(client, words):
        if not name and not (opts.get("selector") or opts.on("all") or everywhere or opts.command == "describe"):
            raise KubectlError("error: resource(s) were provided, but no name was specified")
        path = kind.path("" if everywhere else client.namespace, name) + ("" if name else query(opts))
        answer = await client.request("GET", path)
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        found += [(kind, answer)] if name else [(kind, {**head, **item}) for item in answer.get("items", [])]
    return found


def place(client: Client, kind: Resource, obj: Obj) -> str:
    """Return the path of an object."""
    metadata = obj.get("metadata") or {}
    return kind.path(metadata.get("namespace") or client.namespace, metadata.get("name", ""))


async def manifests(process: Process, opts: Flags) -> list[Obj]:
    """Read the objects of ``-f``. Raises KubectlError."""
    if not opts.all("filename"):
        raise KubectlError("error: must specify one of -f and -k")
    found: list[Any] = []
    for name in opts.words("filename"):
        text = await _read(process, name)
        try:
            found += documents(text)
        except (yaml.YAMLError, ValueError) as error:
            reason = str(error).splitlines()[0][:200]
            raise KubectlError(
                f"error: error parsing {name}: error converting YAML to JSON: yaml: {reason}"
            ) from error
    objects = [each for each in found if isinstance(each, dict)]
    flat = [item for each in objects for item in (each.get("items", []) if each.get("kind") == "List" else [each])]
    if not flat:
        raise KubectlError(f"error: no objects passed to {opts.command}")
    return flat


async def _read(process: Process, name: str) -> str:
    try:
        handle = process.fds[0] if name == "-" else process.open(name)
        return kit.text(await kit.everything(process, handle))
    except FileError as error:
        missing = error.code == "ENOENT"
        raise KubectlError(
            f'error: the path "{name}" does not exist' if missing else f"error: open {name}: {error.text.lower()}"
        ) from error


async def change(
    process: Process,
    client: Client,
    kind: Resource,
    obj: Obj,
    body: Any,
    done: str,
    *,
    sort: str = MERGE,
    dry: str = "",
) -> Obj:
    """Patch an object, and say that it is done."""
    name = obj["metadata"]["name"]
    suffix = {"server": " (server dry run)", "client": " (dry run)", "unchanged": " (dry run)"}.get(dry, "")
    after = obj
    if dry in ("", "none", "server"):
        pairs = {"fieldManager": "kubectl-" + done.split()[0], **({"dryRun": "All"} if dry == "server" else {})}
        after = await client.request("PATCH", f"{place(client, kind, obj)}?{urlencode(pairs)}", body=body, sort=sort)
    await process.write(f"{kind.qualified}/{name} {done}{suffix}\n")
    return after
