"""Writes kubeconfig files."""

from __future__ import annotations

import base64

import yaml


def server_url(host: str, port: int, path: str = "") -> str:
    """Return the address of a server; an IPv6 address gets its brackets."""
    shown = f"[{host}]" if ":" in host else host
    return f"https://{shown}:{port}{path}"


def render(*, name: str, server: str, ca_pem: bytes, user: str, token: str, namespace: str = "default") -> str:
    """Return a kubeconfig with one cluster, one user and one context, as YAML."""
    context = {"cluster": name, "user": user, "namespace": namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "certificate-authority-data": base64.b64encode(ca_pem).decode(),
                    "server": server,
                },
            }
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
        "preferences": {},
    }
    return str(yaml.safe_dump(document, sort_keys=False))
