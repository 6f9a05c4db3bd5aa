"""Server-side apply and managed fields."""

from __future__ import annotations

from kubesim.api.options import Options
from kubesim.tests.operations import DEPLOYMENTS, TYPED, deployment, refused, template


def test_applying_creates_then_merges_and_takes_away_what_is_no_longer_wanted(ops):
    mine = Options(field_manager="ci")
    wanted = {
        **TYPED,
        **deployment(replicas=2),
        "metadata": {"name": "web", "labels": {"team": "ml", "tier": "back"}},
    }
    ops.patch(DEPLOYMENTS, "ml", "web", wanted, patch_type="apply", options=mine)
    assert mine.created
    ops.patch(
        DEPLOYMENTS, "ml", "web", {"metadata": {"labels": {"other": "x"}}}, options=Options(field_manager="kubectl")
    )
    less = {**TYPED, **deployment(replicas=3), "metadata": {"name": "web", "labels": {"team": "ml"}}}
    after = ops.patch(DEPLOYMENTS, "ml", "web", less, patch_type="apply", options=Options(field_manager="ci"))
    assert after["metadata"]["labels"] == {"team": "ml", "other": "x"}
    assert after["spec"]["replicas"] == 3
    managers = [(entry["manager"], entry["operation"]) for entry in after["metadata"]["managedFields"]]
    assert managers == [("ci", "Apply"), ("kubectl", "Update")]


def test_applying_over_anothers_field_is_a_conflict_unless_forced(ops):
    ops.create(DEPLOYMENTS, "ml", deployment(), options=Options(field_manager="kubectl-create"))
    wanted = {**TYPED, "spec": {"replicas": 4}}
    error = refused(
        ops.patch, DEPLOYMENTS, "ml", "web", wanted, patch_type="apply", options=Options(field_manager="ci")
    )
    assert (error.code, error.message) == (
        409,
        'Apply failed with 1 conflict: conflict with "kubectl-create" using apps/v1: .spec.replicas',
    )
    forced = Options(field_manager="ci", force=True)
    after = ops.patch(DEPLOYMENTS, "ml", "web", wanted, patch_type="apply", options=forced)
    assert after["spec"]["replicas"] == 4
    second, first = after["metadata"]["managedFields"]
    assert "f:replicas" not in first["fieldsV1"]["f:spec"]
    assert second["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


def test_a_container_that_is_no_longer_applied_goes(ops):
    two = [{"name": "main", "image": "a:1"}, {"name": "side", "image": "b:1"}]
    both = TYPED | deployment(template=template(containers=two))
    ops.patch(DEPLOYMENTS, "ml", "web", both, patch_type="apply", options=Options(field_manager="ci"))
    one = TYPED | deployment(template=template(containers=two[:1]))
    after = ops.patch(DEPLOYMENTS, "ml", "web", one, patch_type="apply", options=Options(field_manager="ci"))
    assert [entry["name"] for entry in after["spec"]["template"]["spec"]["containers"]] == ["main"]


def test_a_manager_owns_what_it_changed(ops):
    ops.create(DEPLOYMENTS, "ml", deployment(), options=Options(field_manager="kubectl-create"))
    options = Options(field_manager="kubectl-scale")
    ops.patch(DEPLOYMENTS, "ml", "web", {"spec": {"replicas": 5}}, options=options)
    first, second = ops.get(DEPLOYMENTS, "ml", "web")["metadata"]["managedFields"]
    assert second["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert first["manager"] == "kubectl-create"
    assert "f:replicas" not in first["fieldsV1"]["f:spec"]
    assert 'k:{"name":"main"}' in first["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]


def test_what_kubectl_applied_last_is_noted_even_where_nothing_else_changes(ops):
    note = "kubectl.kubernetes.io/last-applied-configuration"
    accounts = ops.registry.by_resource("serviceaccounts")
    made = {"metadata": {"name": "oncall", "annotations": {note: "old"}}}
    ops.create(accounts, "ml", made, options=Options(field_manager="kubectl-client-side-apply"))
    wanted = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "oncall"}}
    kubectl = Options(field_manager="kubectl")
    after = ops.patch(accounts, "ml", "oncall", wanted, patch_type="apply", options=kubectl)
    assert after["metadata"]["annotations"][note].startswith('{"apiVersion":"v1","kind":"ServiceAccount"')


def test_who_made_a_map_owns_it_still_when_others_own_all_that_is_in_it(ops):
    maps = ops.registry.by_resource("configmaps")
    made = {"metadata": {"name": "settings", "annotations": {"a": "b"}}, "data": {"level": "info"}}
    ops.create(maps, "ml", made, options=Options(field_manager="maker"))
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    for manager, level in (("one", "debug"), ("two", "trace")):
        options = Options(field_manager=manager, force=True)
        after = ops.patch(
            maps, "ml", "settings", {**head, "data": {"level": level}}, patch_type="apply", options=options
        )
    owned = {entry["manager"]: entry["fieldsV1"] for entry in after["metadata"]["managedFields"]}
    assert owned["maker"]["f:data"] == {}
    assert owned["two"] == {"f:data": {"f:level": {}}}
