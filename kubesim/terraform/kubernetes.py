"""The provider ``kubernetes``: objects of the session's API, written as hashicorp/kubernetes writes them."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kubesim.terraform.decode import Value
from kubesim.terraform.diagnostics import Failure, ProviderError
from kubesim.terraform.schema import Block, ResourceType, empty, quantity
from kubesim.terraform.values import Unknown

AGENT = "HashiCorp/1.0 Terraform/1.11.4"
TIMEOUTS = "e2bfb730-ecaa-11e6-8f88-34363bc7c4c0"
PATCH = "application/json-patch+json"
MOST_POLLS = 600


@dataclass(frozen=True)
class Answer:
    """What a server has answered: 0 is no answer, and the text says why."""

    status: int
    text: str

    @property
    def json(self) -> Any:
        """The answer's object; an empty one where it has none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return {}


@dataclass
class Api:
    """A way to an API: ``send`` takes method, URL, headers and body; ``wait`` waits a second."""

    send: Callable[[str, str, dict[str, str], str], Answer]
    wait: Callable[[], None]
    server: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def __call__(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Answer:
        """Make a request."""
        headers, text = {"User-Agent": AGENT, "Accept": "application/json", **self.headers}, ""
        if body is not None:
            headers["Content-Type"], text = kind, json.dumps(body, separators=(",", ":"))
        return self.send(method, f"{self.server}{path}", headers, text)


def refusal(method: str, server: str, path: str, answer: Answer) -> str:
    """Return the message of an answer that is none of success, as client-go words it."""
    if not answer.status:
        return f'{method.capitalize()} "{server}{path}": {answer.text}'
    if answer.status == 401:
        return "Unauthorized"
    return str(answer.json.get("message") or answer.text.strip() or f"HTTP {answer.status}")


class Kubernetes:
    """Reads and changes objects."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def complete(self, kind: ResourceType, wanted: Value, prior: Value | None) -> Value:
        """Return a planned value as it is: the server alone knows more."""
        return wanted

    def private(self, kind: ResourceType) -> str | None:
        """Return the timeouts that the plug-in SDK keeps."""
        if (times := kind.api.get("private")) is None:
            return None
        return base64.b64encode(json.dumps({TIMEOUTS: times}, separators=(",", ":")).encode()).decode()

    def read(self, kind: ResourceType, value: Value) -> Value | None:
        """Return an object; None where there is none."""
        space, name = _names(kind, value)
        answer = self._ask("GET", self._path(kind, space, name), missing=True)
        return None if answer is None else flattened(kind, answer, value)

    def create(self, kind: ResourceType, wanted: Value) -> Value:
        """Create an object."""
        body = expanded(kind, wanted)
        space = body["metadata"].get("namespace", "")
        try:
            made = self._ask("POST", self._path(kind, space), body)
        except ProviderError as error:
            what = f"Failed to create {kind.api['failed']}: " if "failed" in kind.api else ""
            raise ProviderError(f"{what}{error}") from error
        self._await_quota(kind, made)
        return self.read(kind, {**wanted, "id": _identity(kind, made)}) or wanted

    def _await_quota(self, kind: ResourceType, made: Any) -> None:
        """Wait until a quota is counted."""
        meta = made["metadata"]
        for _ in range(60 if kind.api["kind"] == "ResourceQuota" else 0):
            found = self._ask("GET", self._path(kind, meta["namespace"], meta["name"]))
            held = [(found.get(part) or {}).get("hard") or {} for part in ("spec", "status")]
            spec, status = ({key: quantity(text) for key, text in each.items()} for each in held)
            if spec == status:
                return
            with contextlib.suppress(Failure):  # the quota is there, whoever does not want to wait for its count
                self.api.wait()

    def update(self, kind: ResourceType, prior: Value, wanted: Value) -> Value:
        """Change an object by a JSON patch."""
        space, name = _names(kind, prior)
        before, after = expanded(kind, prior), expanded(kind, wanted)
        operations: list[dict[str, Any]] = []
        for part in ("annotations", "labels"):
            old, new = (each["metadata"].get(part) or {} for each in (before, after))
            operations += _map_changes(f"/metadata/{part}", old, new)
        for key in sorted({*before, *after} - {"metadata", "apiVersion", "kind"}):
            if before.get(key) != after.get(key):
                verb = "replace" if key in before else "add"
                operations.append({"op": verb, "path": f"/{key}", "value": after.get(key)})
        made = self._ask("PATCH", self._path(kind, space, name), operations, PATCH)
        self._await_quota(kind, made)
        return self.read(kind, {**wanted, "id": prior["id"]}) or wanted

    def delete(self, kind: ResourceType, value: Value) -> None:
        """Delete an object, and wait until it is gone."""
        space, name = _names(kind, value)
        path = self._path(kind, space, name)
        self._ask("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1"}, missing=True)
        for _ in range(MOST_POLLS):
            if self._ask("GET", path, missing=True) is None:
                return
            self.api.wait()
        raise ProviderError("context deadline exceeded")

    def find(self, kind: ResourceType, name: str) -> Value:
        """Return the beginning of what is imported."""
        if "{}" in kind.api["path"] and len(name.split("/")) != 2:
            raise ProviderError(f'Unexpected ID format ("{name}"), expected "namespace/name".')
        return {"id": name}

    def _path(self, kind: ResourceType, space: str, name: str = "") -> str:
        path = str(kind.api["path"]).format(space)
        return f"{path}/{name}" if name else path

    def _ask(
        self, method: str, path: str, body: Any = None, sort: str = "application/json", *, missing: bool = False
    ) -> Any:
        answer = self.api(method, path, body, sort)
        if answer.status == 404 and missing:
            return None
        if not 200 <= answer.status < 300:
            raise ProviderError(refusal(method, self.api.server, path, answer))
        return answer.json


def _names(kind: ResourceType, value: Value) -> tuple[str, str]:
    """Return namespace and name of the object of a resource."""
    identity = str(value.get("id") or "")
    if not identity:
        metadata = (value.get("metadata") or [{}])[0]
        return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    space, _, name = identity.rpartition("/")
    return space, name


def _identity(kind: ResourceType, obj: Any) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "{}" in kind.api["path"] else str(meta["name"])


def _map_changes(path: str, old: dict[str, str], new: dict[str, str]) -> list[dict[str, Any]]:
    if old == new:
        return []
    if not old:
        return [{"op": "add", "path": path, "value": new}]
    names = {key: f"{path}/{key.replace('~', '~0').replace('/', '~1')}" for key in {**old, **new}}
    gone = [{"op": "remove", "path": names[key]} for key in sorted(old) if key not in new]
    return gone + [
        {"op": "replace" if key in old else "add", "path": names[key], "value": text}
        for key, text in sorted(new.items())
        if old.get(key) != text
    ]


# ---- a resource's value, and the object that it stands for


def expanded(kind: ResourceType, value: Value) -> dict[str, Any]:
    """Return the object of a value."""
    group = kind.api.get("group")
    found: dict[str, Any] = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind.api["kind"], "metadata": {}}
    found |= {"secrets": [], "imagePullSecrets": []} if kind.api["kind"] == "ServiceAccount" else {}
    found |= expanded_block(kind.schema, value, kind.api.get("rename", {}))
    for name in ("id", "defaultSecretName", "waitForDefaultServiceAccount"):
        found.pop(name, None)
    for name in ("generation", "resourceVersion", "uid"):
        found["metadata"].pop(name, None)
    return found


def expanded_block(block: Block, value: Value, names: dict[str, str]) -> dict[str, Any]:
    """Return the part of an object that a block stands for."""
    found: dict[str, Any] = {}
    for name, attribute in block.attributes.items():
        item = value.get(name)
        if isinstance(item, Unknown) or (empty(item) and not (attribute.kind == "b" and item is False)):
            continue
        key, _, inside = _camel(name, names).partition(".")
        item = int(str(item)) if attribute.kind == "p" and str(item).isdecimal() else item
        found[key] = {**found.get(key, {}), inside: item} if inside else item
    for name, inner in block.blocks.items():
        items = value.get(name)
        if inner.mode in ("single", "computed") or isinstance(items, Unknown) or not items:
            continue
        many = [expanded_block(inner, item, names) for item in items]
        found[_camel(name, names)] = many if inner.most != 1 else many[0]
    return found


def _camel(name: str, names: dict[str, str]) -> str:
    return names.get(name) or PLURAL.get(name) or re.sub(r"_(\w)", lambda found: found[1].upper(), name)


PLURAL = {"match_expression": "matchExpressions", "ip_block": "ipBlock"}


def flattened(kind: ResourceType, obj: Any, known: Value) -> Value:
    """Return the value of an object; ``known`` has the labels and annotations that the code or the state names."""
    value = flattened_block(kind.schema, obj, kind.api.get("rename", {}))
    value["id"] = _identity(kind, obj)
    spec = kind.schema.blocks.get("spec")
    computed = spec is not None and spec.mode == "computed"
    known_metadata = (known.get("metadata") or [{}])[0] or {}
    value["metadata"] = [_metadata(value["metadata"][0], known_metadata, everything=computed)]
    for name in ("timeouts", "wait_for_default_service_account"):
        if name in kind.schema.names:
            value[name] = known.get(name) if name == "timeouts" else bool(known.get(name))
    if kind.api["kind"] == "Namespace" and computed:
        value["spec"] = [{"finalizers": (obj.get("spec") or {}).get("finalizers") or []}]
    if kind.api["kind"] == "ServiceAccount":
        value["default_secret_name"] = ""
        value["automount_service_account_token"] = bool(obj.get("automountServiceAccountToken"))
    return value


def _metadata(metadata: Value, known: Value, *, everything: bool) -> Value:
    for part in ("annotations", "labels"):
        given, found = known.get(part) or {}, metadata.get(part) or {}
        kept = [key for key in found if everything or key in given or not _internal(key)]
        metadata[part] = {key: found[key] for key in kept}
    return metadata


def _internal(key: str) -> bool:
    host = key.partition("/")[0]
    return host not in ("app.kubernetes.io", "service.beta.kubernetes.io") and host.endswith("kubernetes.io")


def flattened_block(block: Block, obj: Any, names: dict[str, str]) -> Value:
    """Return the block that a part of an object stands for."""
    found: Value = {}
    for name, attribute in block.attributes.items():
        key, _, inside = _camel(name, names).partition(".")
        item = (obj or {}).get(key)
        item = (item or {}).get(inside) if inside else item
        if attribute.kind in "sp":
            item = "" if item is None else str(item)
        elif attribute.kind in "n":
            item = int(str(item or 0))
        elif attribute.kind in "mqlt":
            item = item or (None if attribute.absent else {} if attribute.kind in "mq" else [])
        found[name] = item
    for name, inner in block.blocks.items():
        item = (obj or {}).get(_camel(name, names))
        if inner.mode in ("single", "computed"):
            found[name] = None
        elif inner.most == 1:
            found[name] = [flattened_block(inner, item, names)] if item is not None else []
        else:
            found[name] = [flattened_block(inner, each, names) for each in item or ()]
    return found
