"""Kubeconfigs: a strict reader for the ones that are given to us, and a writer for the ones we hand out.

A kubeconfig can start processes, read local files and send them to any server. The reader is an allow-list: what is
not named here is refused with a sentence, before anything is opened or connected.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import yaml

from faults.errors import KubeconfigRefused

MAX_BYTES = 64 * 1024
MAX_DEPTH = 20
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's takes a tenth of the time
KEPT = 16
"""Kubeconfigs that are not read again: a new cluster's is checked first, and used a moment later."""
_TOP = {"apiVersion", "kind", "preferences", "clusters", "users", "contexts", "current-context"}
_CLUSTER = {"server", "certificate-authority-data", "tls-server-name"}
_USER = {"token", "client-certificate-data", "client-key-data"}
_CONTEXT = {"cluster", "user", "namespace"}
_WHY = {
    "exec": "it would start a program on our machine; put a token into the file instead",
    "auth-provider": "it would start a program on our machine; put a token into the file instead",
    "tokenFile": "it would read a file of our machine; put the token itself into the file",
    "certificate-authority": "it would read a file of our machine; use certificate-authority-data",
    "client-certificate": "it would read a file of our machine; use client-certificate-data",
    "client-key": "it would read a file of our machine; use client-key-data",
    "proxy-url": "requests must go straight to the cluster",
    "insecure-skip-tls-verify": "the cluster's certificate must be checked; use certificate-authority-data",
    "username": "passwords are not supported; use a token",
    "password": "passwords are not supported; use a token",
    "as": "impersonation is not supported",
    "extensions": "extensions are not supported",
}


@dataclass(frozen=True, slots=True)
class Access:
    """Address of a cluster and proof of identity. PEM texts; exactly one of token and certificate is set."""

    server: str
    ca_pem: str
    token: str = field(default="", repr=False)
    client_certificate_pem: str = ""
    client_key_pem: str = field(default="", repr=False)
    refusal: Callable[[str], str] | None = field(default=None, repr=False, compare=False)
    """Reason against connections to an IP address, for clusters of others: a name may lead elsewhere by now."""
    namespace: str = ""
    tls_server_name: str = ""


class _Loader(_Base):  # type: ignore[misc]
    """Safe YAML without duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len({str(key) for key in keys}) != len(keys):
            raise KubeconfigRefused("The kubeconfig names the same key twice.")
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return found


def _refuse_shapes(text: str) -> None:
    """Refuse aliases, and what is nested deeper than a kubeconfig is, before anything is built of it."""
    depth = 0
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.AliasEvent):
            raise KubeconfigRefused("The kubeconfig uses YAML aliases (*name); write the values out.")
        if isinstance(event, yaml.NodeEvent) and depth > MAX_DEPTH:
            raise KubeconfigRefused(f"The kubeconfig is nested deeper than {MAX_DEPTH} levels.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)


@lru_cache(maxsize=KEPT)
def parse(text: str) -> Access:
    """Read the current context of a kubeconfig; KubeconfigRefused (with a sentence) for anything unusual."""
    document = _document(text)
    _only(document, _TOP, "the kubeconfig")
    context = _named(document, "contexts", "context", _text(document, "current-context", "the kubeconfig"))
    _only(context, _CONTEXT, "the context")
    cluster = _named(document, "clusters", "cluster", _text(context, "cluster", "the context"))
    _only(cluster, _CLUSTER, "the cluster")
    user = _named(document, "users", "user", _text(context, "user", "the context"))
    _only(user, _USER, "the user")
    return Access(
        server=_server(_text(cluster, "server", "the cluster")),
        ca_pem=_pem(cluster, "certificate-authority-data", "the cluster"),
        namespace=_text(context, "namespace", "the context", required=False),
        tls_server_name=_text(cluster, "tls-server-name", "the cluster", required=False),
        **_credentials(user),
    )


def render(*, server: str, ca_pem: str, token: str, namespace: str, user: str, cluster: str = "interview") -> str:
    """Write a kubeconfig with one inline token; every tool from kubectl 1.20 on reads it."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": _b64(ca_pem)}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user, "namespace": namespace}}],
        "current-context": cluster,
    }
    return yaml.safe_dump(document, sort_keys=False)


def _document(text: str) -> dict[str, Any]:
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise KubeconfigRefused(f"The kubeconfig is larger than {MAX_BYTES // 1024} KiB.")
    try:
        _refuse_shapes(text)
        documents = list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, RecursionError, ValueError) as exc:
        raise KubeconfigRefused(f"The kubeconfig is not readable YAML: {_first_line(exc)}") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise KubeconfigRefused("The kubeconfig must be exactly one YAML document with clusters, users and contexts.")
    return documents[0]


def _first_line(exc: Exception) -> str:
    return (str(exc).splitlines() or [type(exc).__name__])[0]


def _only(mapping: Mapping[str, Any], allowed: set[str], where: str) -> None:
    for key in mapping:
        if key not in allowed:
            why = _WHY.get(str(key), "only the plain fields of a kubeconfig are supported")
            raise KubeconfigRefused(f"“{key}” in {where} is not allowed: {why}.")


def _named(document: Mapping[str, Any], section: str, key: str, name: str) -> dict[str, Any]:
    entries = document.get(section)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise KubeconfigRefused(f"“{section}” in the kubeconfig must be a list of named entries.")
    for entry in entries:
        _only(entry, {"name", key}, f"an entry of “{section}”")
    found = [entry.get(key) for entry in entries if entry.get("name") == name]
    if len(found) != 1 or not isinstance(found[0], dict):
        raise KubeconfigRefused(f"The kubeconfig must have exactly one {key} named “{name}”.")
    return found[0]


def _text(mapping: Mapping[str, Any], key: str, where: str, required: bool = True) -> str:
    value = mapping.get(key, "")
    if not isinstance(value, str) or (required and not value):
        raise KubeconfigRefused(f"“{key}” in {where} must be a text.")
    if any(ord(char) < 32 for char in value):
        raise KubeconfigRefused(f"“{key}” in {where} holds a control character.")
    return value


def _server(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise KubeconfigRefused("“server” in the cluster is not a valid address.") from None
    if parts.scheme != "https" or not valid:
        raise KubeconfigRefused("“server” in the cluster must be an https:// address.")
    if parts.username is not None or parts.query or parts.fragment or any(char.isspace() for char in url):
        raise KubeconfigRefused("“server” in the cluster must be a plain address, without user, query or fragment.")
    return url.rstrip("/")


def _pem(mapping: Mapping[str, Any], key: str, where: str) -> str:
    encoded = _text(mapping, key, where)
    try:
        text = base64.b64decode(encoded, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        raise KubeconfigRefused(f"“{key}” in {where} is not base64 of a PEM text.") from None
    if "-----BEGIN " not in text:
        raise KubeconfigRefused(f"“{key}” in {where} is not base64 of a PEM text.")
    return text


def _credentials(user: Mapping[str, Any]) -> dict[str, Any]:
    if "token" in user and len(user) == 1:
        return {"token": _text(user, "token", "the user")}
    if set(user) == {"client-certificate-data", "client-key-data"}:
        return {
            "client_certificate_pem": _pem(user, "client-certificate-data", "the user"),
            "client_key_pem": _pem(user, "client-key-data", "the user"),
        }
    raise KubeconfigRefused("The user must have either a token, or client-certificate-data with client-key-data.")


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")
