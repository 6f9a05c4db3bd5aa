"""What the status of an admission policy says of its expressions, once their types are looked at."""

from __future__ import annotations

import time

import pytest

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
WAIT_S = 60


def rule(*resources, group="apps"):
    return {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": list(resources)}


@pytest.mark.parametrize(
    ("rules", "expression", "warning"),
    [
        ([rule("deployments")], "object.spec.replicas > 1", ""),
        (
            [rule("deployments"), rule("configmaps", group="")],
            "object.spec.replicas > 1",
            "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'spec'\n"
            " | object.spec.replicas > 1\n | ......^\n",
        ),
        (
            [rule("deployments")],
            "object.spec.replicas > 'a'",
            "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to"
            " '(int, string)'\n | object.spec.replicas > 'a'\n | .....................^\n",
        ),
        (
            [rule("deployments")],
            "object.spec.template.spec.containers.all(c, c.bad == 'x')",
            "apps/v1, Kind=Deployment: ERROR: <input>:1:46: undefined field 'bad'\n"
            " | object.spec.template.spec.containers.all(c, c.bad == 'x')\n"
            " | .............................................^\n",
        ),
        ([rule("*")], "object.spec.bad == 1", ""),
        ([rule("things", group="nosuch.io")], "object.bad == 1", ""),
    ],
    ids=["fits", "one of two", "overload", "in a list", "wildcard", "unknown"],
)
def test_it_warns_of_fields_that_a_kind_does_not_have(cluster, namespace, rules, expression, warning):
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": expression}]}
    path = f"{POLICIES}/{namespace}"
    assert cluster("POST", POLICIES, {"metadata": {"name": namespace}, "spec": spec}).code == 201
    try:
        end = time.monotonic() + WAIT_S
        while "observedGeneration" not in (found := cluster("GET", path).json.get("status", {})):
            assert time.monotonic() < end
    finally:
        cluster("DELETE", path)
    expected = {"expressionWarnings": [{"fieldRef": "spec.validations[0].expression", "warning": warning}]}
    assert found["typeChecking"] == (expected if warning else {})
