"""The HTTP API of public registries (OCI distribution specification 1.1): tokens, manifests, configurations, tags."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubesim.kubelet import manifests
from kubesim.kubelet.images import Catalogue, PullError, parse_reference
from kubesim.network.fabric import Request, Response

TOKENS = {
    "auth.docker.io": "/token", "ghcr.io": "/token", "quay.io": "/v2/auth", "nvcr.io": "/proxy_auth",
    "gcr.io": "/v2/token", "us-docker.pkg.dev": "/v2/token", "public.ecr.aws": "/token/",
}  # fmt: skip
"""The address at which each gives tokens to anybody."""
ANONYMOUS = ("registry.k8s.io", "quay.io", "gcr.io", "us-docker.pkg.dev")
"""Those that serve public images to who has none."""
HUB = ("registry-1.docker.io", "index.docker.io")
_PATH = re.compile(r"/v2/(?P<name>[a-z0-9._/-]+)/(?P<kind>manifests|blobs|tags)/(?P<reference>[\w.:+-]+)")


def answer(catalogue: Catalogue, host: str, request: Request) -> Response | None:
    """Return what a registry answers that depends on its images; None for everything else."""
    query = parse_qs(urlsplit(request.target).query)
    if request.path == TOKENS.get(host) and ({"service", "scope"} & query.keys()):
        return _json(200, {"token": _token(host, query.get("scope", [""])[0]), "expires_in": 300})
    found = _PATH.fullmatch(request.path)
    trusted = host in ANONYMOUS or request.headers.get("authorization", "").lower().startswith("bearer ")
    if found is None or not trusted or host not in (*ANONYMOUS, *TOKENS, *HUB):
        return None
    reference, name = found["reference"], found["name"]
    text = f"{'docker.io' if host in HUB else host}/{name}"
    try:
        if found["kind"] == "tags":
            return _json(200, {"name": name, "tags": catalogue.tags(parse_reference(text))})
        if found["kind"] == "blobs":
            config = catalogue.config(parse_reference(text).repository, reference)
            return _served(config) if config else _error(404, "BLOB_UNKNOWN", "blob unknown to registry", reference)
        index, images = catalogue.offered(f"{text}{'@' if ':' in reference else ':'}{reference}")
    except PullError as error:
        if "insufficient_scope" in str(error):
            action = [{"Type": "repository", "Class": "", "Name": name, "Action": "pull"}]
            return _error(401, "UNAUTHORIZED", "authentication required", action)
        return _error(404, "MANIFEST_UNKNOWN", "manifest unknown", f"unknown tag={reference}")
    return _served(manifests.index(images) if index else manifests.manifest(images[0]))


def _served(document: dict[str, Any]) -> Response:
    kind = document.get("mediaType", "application/octet-stream")
    digest = manifests.digest(document)
    headers = {
        "Content-Type": kind,
        "Docker-Content-Digest": digest,
        "Docker-Distribution-Api-Version": "registry/2.0",
    }
    return Response(200, manifests.encoded(document), headers)


def _token(host: str, scope: str) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"RS256","typ":"JWT"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(json.dumps({"aud": host, "access": scope}).encode()).decode().rstrip("=")
    return f"{head}.{body}.{hashlib.sha256(body.encode()).hexdigest()}"


def _error(status: int, code: str, message: str, detail: object) -> Response:
    return _json(status, {"errors": [{"code": code, "message": message, "detail": detail}]})


def _json(status: int, body: object) -> Response:
    return Response(status, json.dumps(body).encode() + b"\n", {"Content-Type": "application/json"})
