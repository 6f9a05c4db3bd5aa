"""The health paths: livez, readyz, healthz, and each check of theirs by itself."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from kubesim.api.answers import text_response

PATHS = frozenset({"healthz", "livez", "readyz"})
HOOKS = (
    "start-apiserver-admission-initializer", "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer", "priority-and-fairness-filter", "storage-object-count-tracker-hook",
    "start-apiextensions-informers", "start-apiextensions-controllers", "crd-informer-synced",
    "start-system-namespaces-controller", "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller", "start-kube-apiserver-identity-lease-garbage-collector",
    "start-legacy-token-tracking-controller", "start-service-ip-repair-controllers", "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes", "priority-and-fairness-config-producer", "bootstrap-controller",
    "start-kubernetes-service-cidr-controller", "aggregator-reload-proxy-client-cert",
    "start-kube-aggregator-informers", "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller", "apiservice-registration-controller",
    "apiservice-discovery-controller", "kube-apiserver-autoregistration", "autoregister-completion",
    "apiservice-openapi-controller", "apiservice-openapiv3-controller",
)  # fmt: skip
"""What the API server does after its start; a cluster that answers has done it all."""
PLAIN = "autoregister-completion"
USUAL = ("ping", "log", "etcd")
HOOK_CHECKS = tuple(hook if hook == PLAIN else f"poststarthook/{hook}" for hook in HOOKS)
CHECKS = {
    "healthz": (*USUAL, *HOOK_CHECKS),
    "livez": (*USUAL, *HOOK_CHECKS),
    "readyz": (*USUAL, "etcd-readiness", "informer-sync", *HOOK_CHECKS, "shutdown"),
}


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
