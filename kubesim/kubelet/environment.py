"""The environment of a container, as a kubelet makes it: services, sources, values with $(NAME), the pod's fields."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubesim.api import quantity
from kubesim.client import Client
from kubesim.errors import ApiError, Obj
from kubesim.kubelet.status import PodRecord

MASTER_SERVICE = "kubernetes"
LONGEST_WORD = 128 * 1024  # bytes: MAX_ARG_STRLEN of Linux, with the null at the end
MAX_ENVIRONMENT = 2 << 20  # bytes of all variables together: ARG_MAX of Linux
TOO_LONG = " " * LONGEST_WORD
"""Stands for every text that no process can be started with, whatever it says."""
_REFERENCE = re.compile(r"\$(\$|\([^()]*\))")
_SUBSCRIPT = re.compile(r"(.*)\['(.*)'\]")


class ConfigError(Exception):
    """A container that cannot be made from its configuration; the message is the kubelet's."""


@dataclass
class Sources:
    """The objects of one namespace that pods take values from, each asked for once."""

    client: Client
    namespace: str
    found: dict[tuple[str, str], Obj | None] = field(default_factory=dict)

    async def get(self, resource: str, name: str, *, optional: bool = False) -> Obj | None:
        """Return an object, or None where it may be missing and is. Raises ``ConfigError``."""
        key = (resource, name)
        if key not in self.found:
            try:
                self.found[key] = await self.client.get(resource, name, self.namespace)
            except ApiError as error:
                if error.code != 404:
                    raise ConfigError(str(error)) from error
                self.found[key] = None
        if self.found[key] is None and not optional:
            raise ConfigError(f'{resource.removesuffix("s")} "{name}" not found')
        return self.found[key]


def expand(text: str, values: Mapping[str, str]) -> str:
    """Fill in $(NAME) where the name is known; $$ is a plain $. Nothing can be started with what grows too long."""

    def one(match: re.Match[str]) -> str:
        word = match[1]
        return "$" if word == "$" else values.get(word[1:-1], match[0])

    grown = sum(len(values.get(match[1][1:-1], "")) for match in _REFERENCE.finditer(text))
    return TOO_LONG if grown and len(text) + grown >= 2 * LONGEST_WORD else _REFERENCE.sub(one, text)


async def environment(sources: Sources, record: PodRecord, spec: Obj) -> dict[str, str]:
    """Return the environment of a container. Raises ``ConfigError``."""
    services = await service_links(sources.client, record.pod)
    env: dict[str, str] = {}
    for source in spec.get("envFrom") or ():
        env |= await _from(sources, source)
    known, size = ChainMap(env, services), 0
    for item in spec.get("env") or ():
        value = item.get("value") or ""
        if value:
            env[item["name"]] = expand(value, known) if size < MAX_ENVIRONMENT else TOO_LONG
            size += len(env[item["name"]])
        elif item.get("valueFrom"):
            taken = await _value(sources, record, spec, item["valueFrom"])
            if taken is not None:
                env[item["name"]] = taken
        else:
            env[item["name"]] = ""
    return services | env


async def _from(sources: Sources, source: Obj) -> dict[str, str]:
    """Return all values of a config map or secret."""
    prefix = source.get("prefix") or ""
    if (reference := source.get("configMapRef")) is not None:
        found = await sources.get("configmaps", reference["name"], optional=bool(reference.get("optional")))
        return {prefix + key: value for key, value in ((found or {}).get("data") or {}).items()}
    reference = source.get("secretRef") or {}
    found = await sources.get("secrets", reference["name"], optional=bool(reference.get("optional")))
    return {prefix + key: value.decode("utf-8", "replace") for key, value in secret_data(found).items()}


def secret_data(secret: Obj | None) -> dict[str, bytes]:
    """Return the values of a secret; what is no base64 was never stored."""
    try:
        return {key: base64.b64decode(value) for key, value in ((secret or {}).get("data") or {}).items()}
    except (binascii.Error, TypeError):
        return {}


async def _value(sources: Sources, record: PodRecord, spec: Obj, wanted: Obj) -> str | None:
    """Return what ``valueFrom`` names; None for what is optional and missing."""
    if reference := wanted.get("fieldRef"):
        return field_value(record, reference["fieldPath"])
    if reference := wanted.get("resourceFieldRef"):
        return await resource_value(sources.client, record, spec, reference)
    kind, resource = ("ConfigMap", "configmaps") if wanted.get("configMapKeyRef") else ("Secret", "secrets")
    reference = wanted.get("configMapKeyRef") or wanted.get("secretKeyRef") or {}
    optional, name, key = bool(reference.get("optional")), reference.get("name", ""), reference.get("key", "")
    found = await sources.get(resource, name, optional=optional)
    values = secret_data(found) if kind == "Secret" else (found or {}).get("data") or {}
    if key in values:
        value = values[key]
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if not optional:
        raise ConfigError(f"couldn't find key {key} in {kind} {sources.namespace}/{name}")
    return None


def field_value(record: PodRecord, path: str) -> str:
    """Return a field of a pod as the downward API gives it. Raises ``ConfigError``."""
    pod, metadata = record.pod, record.pod["metadata"]
    if match := _SUBSCRIPT.fullmatch(path):
        values = metadata.get(match[1].removeprefix("metadata.")) or {}
        return str(values.get(match[2], ""))
    match path:
        case "metadata.labels" | "metadata.annotations":
            return format_map(metadata.get(path.removeprefix("metadata.")) or {})
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata[path.removeprefix("metadata.")])
        case "spec.nodeName":
            return str(pod["spec"].get("nodeName", ""))
        case "spec.serviceAccountName":
            return str(pod["spec"].get("serviceAccountName", ""))
        case "status.hostIP" | "status.hostIPs":
            return record.host_ip
        case "status.podIP" | "status.podIPs":
            return record.ip
    raise ConfigError(f"unsupported fieldPath: {path}")


def format_map(values: Mapping[str, str]) -> str:
    """Return labels or annotations as the downward API writes them."""
    return "\n".join(f"{key}={quoted(value)}" for key, value in sorted(values.items()))


def quoted(text: str) -> str:
    """Return a text as Go quotes it."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(char, char) for char in text) + '"'


async def resource_value(client: Client, record: PodRecord, spec: Obj, reference: Obj) -> str:
    """Return a limit or request of a container in units of a divisor; a limit that is not set is the node's."""
    named = reference.get("containerName")
    if named:
        everything = [*record.pod["spec"]["containers"], *(record.pod["spec"].get("initContainers") or ())]
        spec = next((item for item in everything if item["name"] == named), spec)
    kind, _, resource = reference["resource"].partition(".")
    resources = spec.get("resources") or {}
    text = (resources.get(kind) or {}).get(resource)
    if text is None and kind == "limits":
        node = await client.get("nodes", record.pod["spec"]["nodeName"])
        text = node.get("status", {}).get("allocatable", {}).get(resource)
    divisor = quantity.parse(str(reference.get("divisor") or "1")) or 1
    return str(math.ceil(quantity.parse(str(text or "0")) / divisor))


async def service_links(client: Client, pod: Obj) -> dict[str, str]:
    """Return the variables that tell of the services of the pod's namespace, and of the API server's."""
    namespace, links = pod["metadata"]["namespace"], pod["spec"].get("enableServiceLinks") is not False
    services = list((await client.list("services", namespace)).items) if links else []
    if namespace != "default" or not links:
        services += [s for s in (await client.list("services", "default")).items if _is_master(s)]
    env: dict[str, str] = {}
    for service in services:
        if service["spec"].get("clusterIP") not in (None, "", "None"):
            env |= _links(service)
    return env


def _is_master(service: Obj) -> bool:
    return bool(service["metadata"]["name"] == MASTER_SERVICE)


def _links(service: Obj) -> Iterable[tuple[str, str]]:
    """Return the variables of one service, as Docker's links named them."""
    prefix, address = _variable(service["metadata"]["name"]), service["spec"]["clusterIP"]
    ports = service["spec"].get("ports") or ()
    env = [(f"{prefix}_SERVICE_HOST", address)]
    for number, port in enumerate(ports):
        protocol, digits = port.get("protocol", "TCP"), str(port["port"])
        url = f"{protocol.lower()}://{address}:{digits}"
        if number == 0:
            env += [(f"{prefix}_SERVICE_PORT", digits), (f"{prefix}_PORT", url)]
        if port.get("name"):
            env.append((f"{prefix}_SERVICE_PORT_{_variable(port['name'])}", digits))
        stem = f"{prefix}_PORT_{digits}_{protocol.upper()}"
        env += [(stem, url), (f"{stem}_PROTO", protocol.lower()), (f"{stem}_PORT", digits), (f"{stem}_ADDR", address)]
    return env


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")
