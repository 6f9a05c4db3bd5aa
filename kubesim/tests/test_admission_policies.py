"""ValidatingAdmissionPolicies; the texts of denials were read from a real API server."""

import pytest

from kubesim.admission.policies import BINDINGS, POLICIES
from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.clock import ManualClock
from kubesim.errors import ApiError
from kubesim.store import Store

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "DELETE"], "resources": ["configmaps"]}
SPEC = {
    "matchConstraints": {"resourceRules": [RULE], "namespaceSelector": {"matchLabels": {"guarded": "yes"}}},
    "variables": [{"name": "n", "expression": "has(object.data) && 'n' in object.data ? int(object.data.n) : 0"}],
    "validations": [
        {"expression": "variables.n < 5", "messageExpression": "'n is ' + string(variables.n)"},
        {
            "expression": "!has(object.data) || !('bad' in object.data)",
            "message": "no bad data",
            "reason": "Forbidden",
        },
        {"expression": "!has(object.data) || !('x' in object.data) || object.data.y == 'z'"},
    ],
}


class Small:
    """An API with a guarded and a free namespace."""

    def __init__(self, spec=SPEC, **binding):
        clock = ManualClock()
        self.operations = Operations(Store(clock), clock)
        self.create("namespaces", "guarded", labels={"guarded": "yes"})
        self.create("namespaces", "free")
        self.create(POLICIES, "pol", spec=spec)
        self.create(BINDINGS, "b", spec={"policyName": "pol", "validationActions": ["Deny"], **binding})

    def create(self, resource, name, namespace="", labels=None, **fields):
        options = Options()
        obj = {"metadata": {"name": name, **({"labels": labels} if labels else {})}, **fields}
        self.operations.create(self.operations.registry.by_resource(resource), namespace, obj, options=options)
        return options.warnings

    def data(self, namespace="guarded", **data):
        return self.create("configmaps", "c", namespace, data=data)


DENIED = "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'pol' with binding 'b' denied request: "


@pytest.mark.parametrize(
    ("data", "code", "reason", "says"),
    [
        ({"n": "7"}, 422, "Invalid", "n is 7"),
        ({"bad": "1"}, 403, "Forbidden", "no bad data"),
        ({"x": "1"}, 422, "Invalid", "expression '!has(object.data) || !('x' in object.data) || object.data.y == 'z''"
         " resulted in error: no such key: y"),
        ({"x": "1", "y": "a"}, 422, "Invalid",
         "failed expression: !has(object.data) || !('x' in object.data) || object.data.y == 'z'"),
    ],
)  # fmt: skip
def test_it_denies_with_the_policys_words(data, code, reason, says):
    with pytest.raises(ApiError) as caught:
        Small().data(**data)
    error = caught.value
    assert (error.code, error.reason, error.message) == (code, reason, DENIED + says)


def test_it_lets_in_what_fits_and_what_it_does_not_speak_of():
    small = Small()
    assert small.data(n="3") == []
    assert small.data("free", n="7") == []


def test_it_only_warns_where_the_binding_says_so():
    warnings = Small(validationActions=["Warn"]).data(n="9", bad="1")
    text = "Validation failed for ValidatingAdmissionPolicy 'pol' with binding 'b': "
    assert warnings == [f"{text}n is 9", f"{text}no bad data"]


def test_a_variable_without_a_value_fails_who_speaks_of_it():
    with pytest.raises(ApiError, match='composited variable "n" fails to evaluate'):
        Small().data(n="q")


def test_a_policy_that_may_fail_open_does():
    small = Small({**SPEC, "failurePolicy": "Ignore"})
    assert small.data(n="q") == []


def test_conditions_leave_requests_out():
    condition = {"name": "c", "expression": "object.metadata.name != 'c'"}
    assert Small({**SPEC, "matchConditions": [condition]}).data(n="7") == []


def test_a_request_has_no_namespace_where_its_object_has_none():
    rule = {**RULE, "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]}
    validations = [{"expression": "object.metadata.name == 'a' || request.namespace == ''"}]
    small = Small({"matchConstraints": {"resourceRules": [rule]}, "validations": validations})
    small.create("clusterroles.rbac.authorization.k8s.io", "a")
    with pytest.raises(ApiError, match="resulted in error: no such key: namespace"):
        small.create("clusterroles.rbac.authorization.k8s.io", "b")


def test_it_is_asked_of_deletions_too():
    spec = {
        **SPEC,
        "variables": [],
        "validations": [{"expression": "request.operation != 'DELETE'", "message": "stay"}],
    }
    small = Small(spec)
    small.data()
    with pytest.raises(ApiError, match="stay"):
        small.operations.delete(small.operations.registry.by_resource("configmaps"), "guarded", "c")


def test_parameters_come_from_the_object_that_the_binding_names():
    spec = {
        **SPEC, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "variables": [],
        "validations": [{"expression": "object.data.n == params.data.n", "message": "not as the parameter"}],
    }  # fmt: skip
    small = Small(spec, paramRef={"name": "p", "namespace": "free", "parameterNotFoundAction": "Deny"})
    with pytest.raises(ApiError, match="no params found for policy binding with `Deny` parameterNotFoundAction"):
        small.data(n="1")
    small.create("configmaps", "p", "free", data={"n": "1"})
    assert small.data(n="1") == []


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({**SPEC, "validations": [{"expression": "object.foo =="}]},
         "compilation failed: ERROR: <input>:1:14: Syntax error"),
        ({}, "spec.matchConstraints: Required value"),
    ],
)  # fmt: skip
def test_a_policy_without_sense_is_refused(spec, says):
    with pytest.raises(ApiError) as caught:
        Small(spec)
    assert says in caught.value.message
