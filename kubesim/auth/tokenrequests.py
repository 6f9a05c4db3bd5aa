"""Answers to TokenRequests: tokens for service accounts, by the API or for a pod's own files."""

from __future__ import annotations

from datetime import datetime

from kubesim.api.status import not_found
from kubesim.auth.reviews import expiration
from kubesim.auth.tokens import TokenSigner
from kubesim.errors import Obj
from kubesim.schema.registry import Registry
from kubesim.store import Store
from kubesim.times import stamp


def answer(
    store: Store, registry: Registry, signer: TokenSigner, now: datetime, namespace: str, name: str, review: Obj
) -> Obj:
    """Return a TokenRequest with its token. Raises 404 for an account that is not there, 422 for a bad time."""
    accounts = registry.by_resource("serviceaccounts")
    account = store.get(accounts, namespace, name)
    if account is None:
        raise not_found(accounts, name)
    requests = registry.by_path("authentication.k8s.io", "v1", "tokenreviews")
    spec = review.get("spec") if isinstance(review.get("spec"), dict) else {}
    assert spec is not None
    seconds = expiration(requests, spec)
    bound = spec.get("boundObjectRef") if isinstance(spec.get("boundObjectRef"), dict) else None
    named = bound if bound and isinstance(bound.get("kind"), str) and isinstance(bound.get("name"), str) else None
    token = signer.issue(account, spec.get("audiences") or [], seconds, now, named)
    status = {"token": token, "expirationTimestamp": stamp(signer.expiry(now, seconds))}
    meta = {"name": name, "namespace": namespace, "creationTimestamp": stamp(now)}
    head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": meta}
    return head | {"spec": {**spec, "expirationSeconds": seconds}, "status": status}
