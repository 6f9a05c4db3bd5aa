"""Paths that are no resources: the health checks, /metrics, and what others need to check tokens.

``nonresource.yaml`` names the checks. Tokens are checked by the discovery document of OpenID Connect and public keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from aiohttp import web

from kubesim import data
from kubesim.api.answers import json_response, text_response
from kubesim.auth.tokens import ALGORITHM, TokenSigner
from kubesim.errors import Obj
from kubesim.schema.registry import Registry
from kubesim.store import Store

_TABLE = data.table(__file__, "nonresource.yaml")
VERSION: Obj = _TABLE["version"]
FIXED_PATHS: list[str] = _TABLE["paths"]
CHECKS: dict[str, list[str]] = {path: [*first, *_TABLE["hooks"]] for path, first in _TABLE["first"].items()}
CHECKS["readyz"].append("shutdown")
"""The checks of each path; a cluster that answers has passed them all."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[str, str, str, str, str, str, int]
NAMES = ("verb", "group", "version", "resource", "subresource", "scope", "code")
MOST = 5000
CACHED = "public, max-age=3600"
CONFIGURATION = [".well-known", "openid-configuration"]
KEYS = ["openid", "v1", "jwks"]


def indicators() -> str:
    """Return the series of /metrics/slis: each check with its last result."""
    name, help_text = "kubernetes_healthcheck", "[STABLE] This metric records the result of a single healthcheck."
    series = [f'{name}{{name="{check}",type="{path}"}} 1' for path in sorted(CHECKS) for check in CHECKS[path]]
    return "\n".join([f"# HELP {name} {help_text}", f"# TYPE {name} gauge", *sorted(series)]) + "\n"


def answer(path: str, check: str, *, verbose: bool, exclude: Sequence[str]) -> web.Response | None:
    """Answer a health path, or one check of it; None where there is no such check."""
    checks = CHECKS[path]
    if check:
        return text_response("ok") if check in checks else None
    if not verbose:
        return text_response("ok")
    lines = [f"[+]{name} {'excluded: ' if name in exclude else ''}ok" for name in checks]
    unknown = ", ".join(f'"{name}"' for name in sorted(set(exclude) - set(checks)))
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
    return text_response("\n".join([*lines, f"{path} check passed"]) + "\n")


class Metrics:
    """Counts the requests of one cluster."""

    def __init__(self) -> None:
        self._requests: Counter[Labels] = Counter()

    def count(self, labels: Labels) -> None:
        """Count one answered request; what comes after too many kinds of requests is not told apart."""
        known = labels in self._requests or len(self._requests) < MOST
        self._requests[labels if known else ("other", "", "", "", "", "", labels[-1])] += 1

    def text(self, store: Store, registry: Registry) -> str:
        """Return everything, as a scrape reads it."""
        return "\n".join([*self._lines(), *_objects(store, registry), *_build()]) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "# HELP apiserver_request_total [STABLE] Counter of apiserver requests broken out for each verb, group, version, resource, scope, component, and HTTP response code."  # noqa: E501 - upstream's help
        yield "# TYPE apiserver_request_total counter"
        for labels, count in sorted(self._requests.items(), key=str):
            named = ",".join(f'{name}="{value}"' for name, value in sorted(zip(NAMES, labels, strict=True)))
            yield f'apiserver_request_total{{component="apiserver",dry_run="",{named}}} {count}'


def _objects(store: Store, registry: Registry) -> Iterator[str]:
    yield "# HELP apiserver_storage_objects [STABLE] Number of stored objects at the time of last check by kind."
    yield "# TYPE apiserver_storage_objects gauge"
    for kind in registry.stored():
        yield f'apiserver_storage_objects{{resource="{kind.resource}"}} {store.count(kind)}'


def _build() -> Iterator[str]:
    yield "# HELP kubernetes_build_info [ALPHA] A metric with a constant '1' value labeled by the version."
    yield "# TYPE kubernetes_build_info gauge"
    yield 'kubernetes_build_info{git_version="v1.34.4",major="1",minor="34"} 1'


def key_documents(parts: list[str], signer: TokenSigner, address: str) -> web.Response | None:
    """Answer one of the two documents; None for any other path. ``address`` is where the API server is reached."""
    if parts == KEYS:
        response = json_response(signer.key_set(), content_type="application/jwk-set+json")
    elif parts == CONFIGURATION:
        response = json_response({
            "issuer": signer.issuer,
            "jwks_uri": f"https://{address}/{'/'.join(KEYS)}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        })  # fmt: skip
    else:
        return None
    response.headers["Cache-Control"] = CACHED
    return response
