"""Nobody grants what he does not hold; roles that are made of others."""

from __future__ import annotations

import pytest

from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.auth.escalation import Escalation, described, missing_rights
from kubesim.auth.rbac import Authorizer
from kubesim.auth.users import ADMIN, User
from kubesim.clock import ManualClock
from kubesim.cluster import StorePolicies
from kubesim.errors import ApiError
from kubesim.store import Store
from kubesim.tests.world import world

RBAC = "rbac.authorization.k8s.io"
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
ADA = User("ada", ("dev", "system:authenticated"))


@pytest.fixture
def ops():
    store = Store(ManualClock())
    made = Operations(store, store.clock)
    made.checks.append(Escalation(Authorizer(StorePolicies(store, made.registry))).check)
    create(made, "namespaces", "ml", ADMIN)
    create(made, f"roles.{RBAC}", "reader", ADMIN, rules=[PODS])
    bind(made, "reader", "ada", ADMIN)
    return made


def create(ops, resource, name, user, **fields):
    kind = ops.registry.by_resource(resource)
    body = {"metadata": {"name": name}, **fields}
    return ops.create(kind, "ml" if kind.namespaced else "", body, options=Options(user.name, requester=user))


def bind(ops, role, subject, user, kind="Role"):
    reference = {"apiGroup": RBAC, "kind": kind, "name": role}
    subjects = [{"kind": "User", "name": subject}]
    return create(ops, f"rolebindings.{RBAC}", f"{role}-{subject}", user, roleRef=reference, subjects=subjects)


def test_one_may_grant_what_one_holds(ops):
    assert create(ops, f"roles.{RBAC}", "a", ADA, rules=[{**PODS, "resourceNames": ["web"]}])
    assert bind(ops, "reader", "bob", ADA)


def test_what_one_lacks_is_listed(ops):
    rule = {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "delete"]}
    with pytest.raises(ApiError) as caught:
        create(ops, f"roles.{RBAC}", "b", ADA, rules=[rule])
    assert (caught.value.code, caught.value.message) == (
        403,
        'roles.rbac.authorization.k8s.io "b" is forbidden: user "ada" (groups=["dev" "system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}',
    )


def test_a_binding_grants_its_role(ops):
    create(ops, f"roles.{RBAC}", "all", ADMIN, rules=[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
    with pytest.raises(ApiError, match="not currently held"):
        bind(ops, "all", "ada", ADA)
    with pytest.raises(ApiError, match='rolebindings.rbac.authorization.k8s.io "gone" not found'):
        bind(ops, "gone", "ada", ADA)


@pytest.mark.parametrize("verb", ["bind", "escalate"])
def test_the_right_to_bind_or_escalate_lifts_the_check(ops, verb):
    allowed = {"apiGroups": [RBAC], "resources": ["roles"], "verbs": [verb]}
    create(ops, f"roles.{RBAC}", "more", ADMIN, rules=[allowed])
    bind(ops, "more", "ada", ADMIN)
    create(ops, f"roles.{RBAC}", "all", ADMIN, rules=[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
    if verb == "bind":
        assert bind(ops, "all", "ada", ADA)
    else:
        assert create(ops, f"roles.{RBAC}", "new", ADA, rules=[{**PODS, "verbs": ["delete"]}])


def test_only_an_administrator_lets_roles_be_made_of_others(ops):
    rule = {"clusterRoleSelectors": [{"matchLabels": {"team": "a"}}]}
    with pytest.raises(ApiError, match="must have cluster-admin privileges to use the aggregationRule"):
        create(ops, f"clusterroles.{RBAC}", "sum", ADA, aggregationRule=rule)


def test_stars_and_subresources_cover():
    held = [{"apiGroups": ["*"], "resources": ["*/scale", "pods"], "verbs": ["*"]}]
    held.append({"nonResourceURLs": ["/health*"], "verbs": ["get"]})
    wanted = [{"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["update"]}]
    wanted.append({"nonResourceURLs": ["/healthz"], "verbs": ["get"]})
    assert missing_rights(held, wanted) == []
    lacking = missing_rights(held, [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])
    assert [described(rule) for rule in lacking] == ['{NonResourceURLs:["/metrics"], Verbs:["get"]}']


async def test_a_role_is_made_of_those_that_its_selectors_choose():
    async with world(0) as cluster:
        rule = {"clusterRoleSelectors": [{"matchLabels": {"team": "a"}}]}
        await cluster.client.create(f"clusterroles.{RBAC}", {"metadata": {"name": "sum"}, "aggregationRule": rule})
        for name in ("z", "b"):
            part = {"metadata": {"name": name, "labels": {"team": "a"}}, "rules": [{**PODS, "resourceNames": [name]}]}
            await cluster.client.create(f"clusterroles.{RBAC}", part)
        await cluster.tick(1)
        made = await cluster.client.get(f"clusterroles.{RBAC}", "sum")
        assert [found["resourceNames"] for found in made["rules"]] == [["b"], ["z"]]
        await cluster.client.delete(f"clusterroles.{RBAC}", "b")
        await cluster.tick(1)
        made = await cluster.client.get(f"clusterroles.{RBAC}", "sum")
        assert [found["resourceNames"] for found in made["rules"]] == [["z"]]
