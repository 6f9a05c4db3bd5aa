"""The status of an admission policy about its expressions, once a controller has seen it."""

from __future__ import annotations

import time

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
WAIT_S = 60


def test_it_is_marked_as_seen_and_checked(cluster, namespace):
    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "object.spec.replicas > 1"}],
    }
    path = f"{POLICIES}/{namespace}"
    assert cluster("POST", POLICIES, {"metadata": {"name": namespace}, "spec": spec}).code == 201
    try:
        end = time.monotonic() + WAIT_S
        while "observedGeneration" not in (found := cluster("GET", path).json.get("status", {})):
            assert time.monotonic() < end
    finally:
        cluster("DELETE", path)
    assert found["typeChecking"] == {}
