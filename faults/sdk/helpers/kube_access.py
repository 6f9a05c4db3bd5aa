"""Where the API server is and who asks it: the service account of a pod, or the kubeconfig."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers import small_yaml

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_TIMEOUT_S = 60
Obj = dict[str, Any]


class AccessError(Exception):
    """No way to a cluster was found; the message says what to do."""


@dataclass(frozen=True)
class Access:
    """An API server and how to speak to it. ``headers`` are asked for with each request: tokens are renewed."""

    server: str
    tls: ssl.SSLContext | None
    namespace: str = "default"
    headers: Callable[[], dict[str, str]] = field(default=dict, repr=False)


def find() -> Access:
    """Return the way that KUBECONFIG names, or the one of the pod, or that of ~/.kube/config. Raises AccessError."""
    if (
        not os.environ.get("KUBECONFIG")
        and os.environ.get("KUBERNETES_SERVICE_HOST")
        and (ACCOUNT / "token").exists()
    ):
        return of_pod()
    named = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    return of_files([Path(each) for each in named.split(os.pathsep) if each])


def of_pod() -> Access:
    """Return the way that every container has, unless its pod wants none."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    shown = f"[{host}]" if ":" in host else host
    tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    namespace = (ACCOUNT / "namespace").read_text().strip()
    return Access(f"https://{shown}:{port}", tls, namespace, lambda: _bearer((ACCOUNT / "token").read_text()))


def of_files(paths: list[Path]) -> Access:
    """Return the way of the current context; where several files say the same, the first one counts."""
    found = [_read(path) for path in paths if path.exists()]
    if not found:
        where = " or ".join(str(path) for path in paths)
        raise AccessError(f"There is no {where}. Set KUBECONFIG to the kubeconfig of your cluster.")
    named = next((config["current-context"] for config in found if config.get("current-context")), None)
    context = _entry(found, "context", named)
    cluster, user = _entry(found, "cluster", context.get("cluster")), _entry(found, "user", context.get("user"))
    server = str(cluster.get("server", "")).rstrip("/")
    tls = _tls(cluster, user) if server.startswith("https:") else None
    return Access(server, tls, str(context.get("namespace") or "default"), _headers(user))


def _read(path: Path) -> Obj:
    try:
        config = small_yaml.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        advice = "`kubectl config view --raw --flatten -o json` writes it in a form that is always understood."
        raise AccessError(f"{path} could not be read: {exc}. {advice}") from exc
    if not isinstance(config, dict):
        raise AccessError(f"{path} is not a kubeconfig.")
    folder = path.resolve().parent
    for kind, keys in (("cluster", ("certificate-authority",)), ("user", ("client-certificate", "client-key"))):
        for entry in config.get(f"{kind}s") or []:
            values = entry.get(kind) or {}
            values.update({key: str(folder / values[key]) for key in keys if values.get(key)})
    return config


def _entry(configs: list[Obj], kind: str, name: object) -> Obj:
    for config in configs:
        for entry in config.get(f"{kind}s") or []:
            if entry.get("name") == name:
                return dict(entry.get(kind) or {})
    raise AccessError(f"The kubeconfig has no {kind} {name!r}. `kubectl config get-contexts` lists what there is.")


def _tls(cluster: Obj, user: Obj) -> ssl.SSLContext:
    authority = _data(cluster, "certificate-authority")
    tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify") is True:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    certificate, key = _data(user, "client-certificate"), _data(user, "client-key")
    if certificate and key:
        _present(tls, certificate, key)
    return tls


def _present(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Give the context a client's certificate; it takes files alone, so there is one for a moment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "client.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate + b"\n" + key)
        tls.load_cert_chain(str(path))


def _data(values: Obj, name: str) -> bytes:
    """Return what the kubeconfig has itself, or in a file beside it."""
    if inline := values.get(f"{name}-data"):
        return base64.b64decode(str(inline))
    return Path(str(values[name])).read_bytes() if values.get(name) else b""


def _headers(user: Obj) -> Callable[[], dict[str, str]]:
    if plugin := user.get("exec"):
        return lambda: _bearer(_token_of(plugin))
    if file := user.get("tokenFile"):
        return lambda: _bearer(Path(str(file)).read_text())
    if token := user.get("token"):
        return lambda: _bearer(str(token))
    if name := user.get("username"):
        both = base64.b64encode(f"{name}:{user.get('password', '')}".encode()).decode()
        return lambda: {"Authorization": f"Basic {both}"}
    return dict


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.strip()}"}


def _token_of(plugin: Obj) -> str:
    """Ask the program that a cloud's kubeconfig names, as kubectl does."""
    version = str(plugin.get("apiVersion", "client.authentication.k8s.io/v1"))
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    own = {str(row["name"]): str(row["value"]) for row in plugin.get("env") or []}
    words = [str(plugin["command"]), *map(str, plugin.get("args") or [])]
    env = {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    try:
        done = subprocess.run(  # noqa: S603 - the reader's own kubeconfig names it
            words, env=env, capture_output=True, text=True, timeout=EXEC_TIMEOUT_S, check=True
        )
        return str(json.loads(done.stdout)["status"]["token"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as exc:
        raise AccessError(f"{words[0]}, which the kubeconfig names, gave no token: {exc}") from exc
