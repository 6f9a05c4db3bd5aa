"""Answers to TokenRequests: tokens for service accounts, by the API or for a pod's own files."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from kubesim.api.status import bad_request, conflict, invalid, invalid_value, not_found
from kubesim.auth.reviews import expiration
from kubesim.auth.tokens import TokenSigner
from kubesim.errors import Obj
from kubesim.schema.registry import Registry
from kubesim.store import Store
from kubesim.times import stamp

BINDABLE = ("Pod", "Secret", "Node")


def answer(
    store: Store, registry: Registry, signer: TokenSigner, now: datetime, namespace: str, name: str, review: Obj
) -> Obj:
    """Return a TokenRequest with its token. Raises 404 where namespace or account are missing, 422 for a bad time."""
    accounts, spaces = registry.by_resource("serviceaccounts"), registry.by_resource("namespaces")
    if store.get(spaces, "", namespace) is None:
        raise not_found(spaces, namespace)
    account = store.get(accounts, namespace, name)
    if account is None:
        raise not_found(accounts, name)
    requests = registry.by_path("authentication.k8s.io", "v1", "tokenreviews")
    spec = review.get("spec") if isinstance(review.get("spec"), dict) else {}
    assert spec is not None
    if (given := (review.get("metadata") or {}).get("name") or name) != name:
        error = invalid_value("metadata.name", given, "must match the service account name if specified")
        raise invalid(replace(requests, kind="TokenRequest"), name, [error])
    seconds = expiration(requests, spec)
    audiences, bound = (
        spec.get("audiences") or [signer.issuer],
        _bound(store, registry, namespace, spec.get("boundObjectRef")),
    )
    token = signer.issue(account, audiences, seconds, now, *bound)
    status = {"token": token, "expirationTimestamp": stamp(signer.expiry(now, seconds))}
    meta = {"name": name, "namespace": namespace, "creationTimestamp": stamp(now)}
    head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": meta}
    told = {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec.get("boundObjectRef")}
    return head | {"spec": told, "status": status}


def _bound(store: Store, registry: Registry, namespace: str, reference: object) -> list[Obj]:
    """Return the objects that a token ends with: a pod comes with its node. Raises 400, 404 or 409."""
    if not isinstance(reference, dict):
        return []
    version, kind, name = (str(reference.get(field) or "") for field in ("apiVersion", "kind", "name"))
    if version != "v1" or kind not in BINDABLE:
        what = f"{version if '/' in version else f'/{version}'}, Kind={kind}"
        raise bad_request(f"cannot bind token to object of type {what}")
    kinds = registry.by_kind("v1", kind)
    obj = store.get(kinds, namespace if kinds.namespaced else "", name)
    if obj is None:
        raise not_found(kinds, name)
    found, uid = obj["metadata"]["uid"], reference.get("uid")
    if uid and uid != found:
        why = f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might have"
        raise conflict(kinds, name, f"{why} been deleted and then recreated")
    bound = [{"kind": kind, "name": name, "uid": found}]
    node = (obj.get("spec") or {}).get("nodeName") if kind == "Pod" else ""
    if node and (holder := store.get(registry.by_resource("nodes"), "", node)) is not None:
        bound.append({"kind": "Node", "name": node, "uid": holder["metadata"]["uid"]})
    return bound
