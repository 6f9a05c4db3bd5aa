"""Questions to a cluster's authorizers about somebody else: SubjectAccessReview, as ``kubectl auth can-i --as``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ACCOUNT = "system:serviceaccount:"


def review(user: str, attributes: Mapping[str, str]) -> dict[str, Any]:
    """Return the review of what a user may do; a service account is asked for with the groups of its tokens."""
    groups = ["system:authenticated"]
    if user.startswith(_ACCOUNT):
        namespace = user.removeprefix(_ACCOUNT).partition(":")[0]
        groups += ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    spec = {"user": user, "groups": groups, "resourceAttributes": dict(attributes)}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
