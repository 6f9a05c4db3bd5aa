import pytest

from kubesim.auth.rbac import Authorizer, rule_allows
from kubesim.auth.users import ADMIN, Attributes, User, forbidden, service_account_user


class Policies:
    """Roles and bindings from a dict."""

    revision = 0

    def __init__(self, **tables):
        self.tables = tables

    def find(self, resource, namespace, name):
        return next((o for o in self.every(resource, namespace) if o["metadata"]["name"] == name), None)

    def every(self, resource, namespace=""):
        found = self.tables.get(resource.partition(".")[0], [])
        return [o for o in found if o["metadata"].get("namespace", "") == namespace]


def named(name, namespace="", **fields):
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, **fields}


RULES = [{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}]
ONCALL = {"kind": "ServiceAccount", "name": "oncall", "namespace": "training"}
POLICIES = Policies(
    roles=[named("reader", "training", rules=RULES)],
    rolebindings=[named("reader", "training", roleRef={"kind": "Role", "name": "reader"}, subjects=[ONCALL])],
)
USER = service_account_user("training", "oncall", "u")


@pytest.mark.parametrize(
    ("attributes", "allowed"),
    [
        (Attributes("list", resource="pods", namespace="training"), True),
        (Attributes("get", resource="pods", subresource="log", namespace="training"), True),
        (Attributes("delete", resource="pods", namespace="training"), False),
        (Attributes("list", resource="pods", namespace="other"), False),
        (Attributes("list", resource="pods"), False),
        (Attributes("list", group="apps", resource="deployments", namespace="training"), False),
        (Attributes("get", path="/healthz"), False),
    ],
)
def test_a_role_binding_gives_its_rules_in_its_namespace_only(attributes, allowed):
    assert Authorizer(POLICIES).allows(USER, attributes) is allowed


def test_masters_may_do_everything():
    assert Authorizer(Policies()).allows(ADMIN, Attributes("delete", resource="nodes"))


def test_the_reason_names_binding_role_and_subject():
    reason = Authorizer(POLICIES).reason(USER, Attributes("list", resource="pods", namespace="training"))
    assert reason == (
        'RBAC: allowed by RoleBinding "reader/training" of Role "reader" to ServiceAccount "oncall/training"'
    )


def test_resource_names_and_wildcards():
    named_rule = {"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["*"], "resourceNames": ["web"]}
    wanted = Attributes("patch", group="apps", resource="deployments", subresource="scale", name="web")
    assert rule_allows(named_rule, wanted)
    assert not rule_allows(named_rule, Attributes("patch", group="apps", resource="deployments", name="web"))
    assert rule_allows({"nonResourceURLs": ["/api/*"], "verbs": ["get"]}, Attributes("get", path="/api/v1"))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            Attributes("list", resource="pods", namespace="training"),
            'pods is forbidden: User "u" cannot list resource "pods" in API group "" in the namespace "training"',
        ),
        (
            Attributes("get", group="apps", resource="deployments", namespace="a", name="web"),
            'deployments.apps "web" is forbidden: User "u" cannot get resource "deployments" in API group "apps" '
            'in the namespace "a"',
        ),
        (
            Attributes("create", resource="pods", subresource="exec", namespace="n", name="x"),
            'pods "x" is forbidden: User "u" cannot create resource "pods/exec" in API group "" in the namespace "n"',
        ),
        (
            Attributes("list", resource="nodes"),
            'nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (Attributes("get", path="/metrics"), 'forbidden: User "u" cannot get path "/metrics"'),
    ],
)
def test_a_refusal_is_worded_as_upstream_words_it(attributes, message):
    assert forbidden(User("u"), attributes).message == message


def test_it_looks_at_the_roles_again_once_any_of_them_has_changed():
    policies = Policies(**POLICIES.tables)
    authorizer, wanted = Authorizer(policies), Attributes("list", resource="pods", namespace="training")
    assert authorizer.allows(USER, wanted)
    policies.tables["rolebindings"] = []
    policies.revision += 1
    assert not authorizer.allows(USER, wanted)
