"""Rights that packs list: what is refused and where, and how those of several scenarios become one."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from faults import environment, packs
from faults.guardrails import Guardrails
from faults.packs import AccessRule, PackError
from faults.packs.denied_rights import changes_access, denied_rights, takes_identities, written_namespaces
from faults.packs.rights import READ, VERBS, merge, subtract
from faults.tests.variants import CATALOG

HOME = "${namespace.workloads}"
PODS = {"namespaces": [HOME], "resources": ["statefulsets.apps"], "verbs": ["get", "patch"]}


@pytest.fixture
def asking():
    """Return the first pack's files with these rights, for these tiers."""
    files = packs.load_folder(CATALOG / "architecture-mismatch")

    def edit(*rights, tiers=("practice", "dedicated"), **more):
        document = yaml.safe_load(files["scenario.yaml"])
        document |= {"rights": list(rights), "requires": {**document["requires"], "tiers": list(tiers)}, **more}
        return files | {"scenario.yaml": yaml.safe_dump(document)}

    return edit


def refused(files):
    with pytest.raises(PackError) as caught:
        packs.parse(files)
    return str(caught.value)


def test_words_and_rules_stand_in_one_list(asking):
    pack = packs.parse(asking("privileged-pods", PODS, "direct-placement"))
    assert pack.rights == ("privileged-pods", "direct-placement")
    assert pack.bind().access == (AccessRule(("statefulsets.apps",), ("get", "patch"), ("ml-training",)),)


def test_names_may_come_from_the_variant(asking):
    rule = {"resources": ["nodes"], "verbs": ["patch"], "names": ["${parameter.job}"]}
    pack = packs.parse(asking(rule)).bind(parameters={"job": "ranker-train"})
    assert str(pack.access[0]) == "patch nodes named ranker-train in the whole cluster"


@pytest.mark.parametrize(
    ("right", "words"),
    [
        ("root", "rights.0: 'root' is not one of ['privileged-pods'"),
        ({"resources": ["pods"], "verbs": ["*"]}, "rights.0.verbs.0: '*' is not one of"),
        ({"resources": ["*"], "verbs": ["get"]}, "rights.0.resources.0: '*' does not match"),
        ({"resources": ["nodes/*"], "verbs": ["get"]}, "rights.0.resources.0"),
        ({"resources": ["pods"]}, "'verbs' is a required property"),
        ({"resources": ["pods"], "verbs": ["get"], "group": "apps"}, "'group' was unexpected"),
        ({**PODS, "namespaces": []}, "rights.0.namespaces"),
        ({**PODS, "namespaces": [""]}, "rights.0.namespaces"),
        ({**PODS, "namespaces": ["monitoring"]}, "monitoring is neither the session's nor named in existing"),
        ({**PODS, "namespaces": ["ml-training"]}, "ml-training is neither the session's nor named in existing"),
        ({**PODS, "verbs": ["create"], "names": ["a"]}, "create cannot be narrowed to names"),
    ],
)
def test_what_cannot_be_granted_is_refused_by_its_place(asking, right, words):
    assert words in refused(asking(right))


def test_a_pack_of_the_first_form_lists_no_verbs_and_has_what_everybody_had(asking):
    assert "need schema: 2" in refused(asking(PODS, schema=1))
    pack = packs.parse(asking("direct-placement", schema=1)).bind({"workloads": "team-7"})
    assert "get, list, watch, create" in str(pack.access[0])
    assert {rule.namespaces for rule in pack.access} == {("team-7",)}


def test_nothing_that_reaches_others_is_for_shared_clusters(asking):
    tiers = ["practice", "shared"]
    assert packs.parse(asking(PODS, tiers=tiers)).access
    assert "cannot be granted on shared clusters: ephemeral-containers" in refused(
        asking("ephemeral-containers", tiers=tiers)
    )
    message = refused(asking({**PODS, "resources": ["secrets"]}, tiers=tiers))
    assert "rights.0: cannot be granted on shared clusters: get secrets (it leads past the limits" in message
    assert "remove shared from requires.tiers" in message


OWN = ["team-7"]
DENIED = [
    *(f"{verb} {name}" for name in ("secrets", "serviceaccounts/token", "resourcequotas") for verb in READ),
    *("get limitranges", "get networkpolicies.networking.k8s.io", "patch pods/ephemeralcontainers"),
    *("get pods/proxy", "create services/proxy", "create pods/binding", "update endpoints", "create events"),
    *("patch endpointslices.discovery.k8s.io", "create ingresses.networking.k8s.io"),
    *("create roles.rbac.authorization.k8s.io", "patch rolebindings.rbac.authorization.k8s.io"),
    *("bind roles.rbac.authorization.k8s.io", "escalate roles.rbac.authorization.k8s.io", "impersonate users"),
    *("create prometheusrules.monitoring.coreos.com", "patch servicemonitors.monitoring.coreos.com"),
]
DENIED_IN_THE_CLUSTER = [
    *(f"{verb} nodes" for verb in ("update", "patch", "delete")),
    *("get nodes/proxy", "get nodes/stats", "list namespaces", "patch namespaces", "list pods", "get secrets"),
    *("get persistentvolumes", "create certificatesigningrequests.certificates.k8s.io"),
    *("get clusterroles.rbac.authorization.k8s.io", "create clusterrolebindings.rbac.authorization.k8s.io"),
    *("get customresourcedefinitions.apiextensions.k8s.io", "get apiservices.apiregistration.k8s.io"),
    "create mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "get validatingadmissionpolicies.admissionregistration.k8s.io",
    *("get priorityclasses.scheduling.k8s.io", "get runtimeclasses.node.k8s.io"),
    "create tokenreviews.authentication.k8s.io",
]


def rule(text, namespaces=()):
    verb, resource = text.split()
    return AccessRule((resource,), (verb,), tuple(namespaces))


@pytest.mark.parametrize("text", DENIED)
def test_the_deny_list_holds_inside_the_sessions_own_namespaces(text):
    assert [str(denied).startswith(text) for denied in denied_rights([rule(text, OWN)], OWN)] == [True]


@pytest.mark.parametrize("text", DENIED_IN_THE_CLUSTER)
def test_the_deny_list_holds_for_the_whole_cluster(text):
    assert [str(denied).startswith(text) for denied in denied_rights([rule(text)], OWN)] == [True]


@pytest.mark.parametrize("text", ["get pods", "create pods/exec", "list services", "patch configmaps"])
def test_nothing_outside_the_sessions_own_namespaces_is_for_shared_clusters(text):
    assert denied_rights([rule(text, OWN)], OWN) == []
    assert "outside the session's own" in str(denied_rights([rule(text, ["monitoring"])], OWN)[0])
    assert "outside the session's own" in str(denied_rights([rule(text, [*OWN, "team-8"])], OWN)[0])


def test_a_named_role_binding_of_its_own_may_be_repaired_on_a_shared_cluster():
    binding = AccessRule(("rolebindings.rbac.authorization.k8s.io",), ("get", "patch"), ("team-7",), ("trainers",))
    assert denied_rights([binding], OWN) == []
    assert changes_access([binding])


def test_what_everybody_has_on_a_shared_cluster_is_not_on_the_deny_list():
    rails = Guardrails.plan(tier="shared", home="team-7", gpus=1, rights=())
    assert denied_rights(environment.common_rules(OWN, rails), OWN) == []


def test_rights_that_lead_to_other_accounts_are_told():
    rules = [
        rule("create serviceaccounts/token", OWN), rule("get secrets", OWN), rule("create pods/exec", ["monitoring"]),
        rule("patch daemonsets.apps", ["gpu-operator"]), rule("get nodes/proxy"),
        rule("bind clusterroles.rbac.authorization.k8s.io"),
        rule("create networkpolicies.networking.k8s.io", OWN), rule("patch configmaps", ["kube-system"]),
        rule("patch mutatingwebhookconfigurations.admissionregistration.k8s.io"),
        rule("update configmaps", ["monitoring"]),
        rule("create servicemonitors.monitoring.coreos.com", ["monitoring"]),
        # and these do not
        rule("update configmaps", OWN), rule("delete configmaps", ["monitoring"]),
        rule("create pods/exec", OWN), rule("create pods", OWN), rule("get pods", ["monitoring"]),
        rule("patch nodes"),
    ]  # fmt: skip
    assert len(takes_identities(rules, OWN)) == 11
    assert written_namespaces(rules, OWN) == ["gpu-operator", "kube-system", "monitoring"]


def test_rights_of_several_scenarios_become_one_list_without_repeats():
    read = AccessRule(("pods", "daemonsets.apps"), ("list", "get"), ("monitoring",))
    more = AccessRule(("pods", "daemonsets.apps"), ("watch", "get"), ("monitoring", "gpu-operator"))
    named = AccessRule(("pods",), ("get", "delete"), ("monitoring",), ("prometheus-0",))
    assert list(map(str, merge([read, more, named]))) == [
        "get, list, watch daemonsets.apps, pods in monitoring",
        "get, watch daemonsets.apps, pods in gpu-operator",
        "delete pods named prometheus-0 in monitoring",
    ]
    assert subtract([named], [read]) == (AccessRule(("pods",), ("delete",), ("monitoring",), ("prometheus-0",)),)
    assert subtract([read], [AccessRule(read.resources, READ)]) == ()


few = {"min_size": 1, "max_size": 2, "unique": True}
RULES = st.lists(
    st.builds(
        AccessRule,
        st.lists(st.sampled_from(["pods", "nodes"]), **few).map(tuple),
        st.lists(st.sampled_from(VERBS[:4]), **few).map(tuple),
        st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True).map(tuple),
        st.lists(st.sampled_from(["x", "y"]), max_size=2, unique=True).map(tuple),
    ),
    max_size=4,
)


def allows(rules, namespace, resource, verb, name):
    """Decide as RBAC does."""
    return any(
        resource in rule.resources
        and verb in rule.verbs
        and (not rule.namespaces or namespace in rule.namespaces)
        and (not rule.names or name in rule.names)
        for rule in rules
    )


QUESTIONS = [
    (namespace, resource, verb, name)
    for namespace in ("a", "b", "c")
    for resource in ("pods", "nodes")
    for verb in VERBS[:4]
    for name in ("x", "y", "z")
]


@settings(max_examples=max(30, settings().max_examples // 3))
@given(RULES, RULES)
def test_merged_rules_allow_the_same_and_what_is_subtracted_completes_the_rest(some, held):
    union, missing = merge([*some, *held]), subtract(some, held)
    for question in QUESTIONS:
        assert allows(union, *question) == (allows(some, *question) or allows(held, *question))
        assert allows([*held, *missing], *question) == allows(union, *question)
    assert merge(union) == union == merge([*held, *some])
    assert subtract(union, union) == ()
