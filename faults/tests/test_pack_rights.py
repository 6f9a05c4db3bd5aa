"""With each pack's rights a candidate may do exactly what the pack lists on top of what everybody may.

Asked of one cluster, which has a session's accounts, roles and bindings for every pack. The rules that the API server
tells a candidate are compared with the pack's own text for every resource and verb that it serves; samples show that
it decides by them.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from faults import practice as practice_clusters
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.packs import load_folder
from faults.packs.pack import CLUSTER
from faults.packs.placeholders import substitute
from faults.practice_shape import ADDONS, PracticeShape
from faults.tests.candidates import kubeconfig_with_rights
from faults.tests.test_candidate_rights import EVERYWHERE, IN_HOME, VERBS, served
from faults.tests.variants import CHECKED, FOLDERS

REVIEWS = "authorization.k8s.io/v1"
OTHERS = ("kube-system", "default")
SAMPLES = 4
RESOURCES = []  # of the one cluster, once it was asked


@pytest.fixture
def cluster(practice):
    """One cluster with the kinds of all packs, made by the first that asks."""
    until = datetime.now(UTC) + timedelta(hours=1)
    shape = PracticeShape(
        addons=tuple(dict.fromkeys([*ADDONS, *(name for pack in CHECKED for name in pack.requires.addons)]))
    )
    kube = Kube(parse(practice_clusters.create("pack-rights", until, shape)["kubeconfig"]))
    yield kube
    kube.close()


@pytest.fixture
def candidate(cluster):
    """Give a client with a pack's rights."""
    clients = []

    def go(pack):
        clients.append(Kube(parse(kubeconfig_with_rights(cluster, pack))))
        return clients[-1]

    yield go
    for client in clients:
        client.close()


def own_text(pack):
    """Return the rights of a pack's document, with the names of its first variant."""
    text = load_folder(next(folder for folder in FOLDERS if folder.name == pack.slug))["scenario.yaml"]
    names = {f"namespace.{key}": value for key, value in pack.namespaces.items()}
    names |= {f"parameter.{key}": value for key, value in pack.variants[0].items()}
    names |= {f"{CLUSTER}{key}": f"any-{key}" for key in pack.cluster_values}
    return [row for row in substitute(yaml.safe_load(text), names).get("rights", []) if isinstance(row, dict)]


def expected(pack, namespace):
    """Return (group, resource, name) -> verbs: everybody's, and what the pack's text lists."""
    home = IN_HOME if namespace in pack.namespaces.values() else {}
    rights = {(*resource, ""): set(verbs) for resource, verbs in (EVERYWHERE | home).items()}
    if home and "ephemeral-containers" in pack.rights:
        rights["", "pods/ephemeralcontainers", ""] = {"get", "update", "patch"}
    for row in own_text(pack):
        if "namespaces" in row and namespace not in row["namespaces"]:
            continue
        for text in row["resources"]:
            whole, _, sub = text.partition("/")
            name, _, group = whole.partition(".")
            for which in row.get("names", [""]):
                resource = (group, f"{name}/{sub}" if sub else name, which)
                rights.setdefault(resource, set()).update(row["verbs"])
    for (group, resource, which), verbs in rights.items():
        if which:
            verbs -= rights.get((group, resource, ""), set())
    return {resource: verbs for resource, verbs in rights.items() if verbs}


def told(client, namespace):
    """Return what the API server says that the caller may do."""
    body = {"apiVersion": REVIEWS, "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
    found = {}
    for rule in client.create(body)["status"]["resourceRules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames") or [""]:
                    found.setdefault((group, resource, name), set()).update(rule["verbs"])
    for (group, resource, name), verbs in found.items():
        if name:
            verbs -= found.get((group, resource, ""), set())
    return {resource: verbs for resource, verbs in found.items() if verbs}


def may(client, namespace, group, resource, verb):
    name, _, sub = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": name, "subresource": sub, "namespace": namespace}
    body = {"apiVersion": REVIEWS, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
    return client.create(body)["status"]["allowed"]


@pytest.mark.parametrize("pack", CHECKED, ids=lambda pack: pack.slug)
def test_a_candidate_may_do_what_the_pack_lists_and_nothing_else(pack, candidate, cluster):
    pack = pack.bind({name: f"{real}-{pack.slug}"[:63] for name, real in pack.namespaces.items()})
    client, chance = candidate(pack), random.Random(pack.slug)
    if not RESOURCES:
        RESOURCES.extend(served(cluster))
    pairs = [(*resource, verb) for resource in RESOURCES for verb in VERBS]
    state = [pack.workspace.state] if pack.workspace else []
    for namespace in {*pack.namespaces.values(), *pack.existing, *state, *OTHERS, ""}:
        rights = expected(pack, namespace)
        if namespace:
            assert told(client, namespace) == rights
        allowed = [pair for pair in pairs if pair[2] in rights.get((*pair[:2], ""), ())]
        assert len(allowed) >= len(EVERYWHERE)
        for pair in [chance.choice(allowed), *chance.sample(pairs, SAMPLES)]:
            assert may(client, namespace, *pair) is (pair in allowed), (namespace, pair)


@pytest.mark.parametrize("pack", CHECKED, ids=lambda pack: pack.slug)
def test_every_right_names_what_a_cluster_has_and_in_its_scope(pack, cluster):
    """A namespaced resource without namespaces may be read everywhere, and nothing else: that is never forgotten.

    Users and groups are served by no path; whoever is impersonated is named. The namespaces of a workspace are not
    there when rights are given, so what may be changed in them is named, too.
    """
    found = {}
    groups = cluster._json("GET", "/apis")["groups"]
    paths = ["/api/v1", *(f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"])]
    for path in paths:
        listed = cluster._json("GET", path)
        group = listed["groupVersion"].rpartition("/")[0]
        found |= {(group, entry["name"]): entry["namespaced"] for entry in listed["resources"]}
    for row in own_text(pack):
        if row["verbs"] == ["impersonate"]:
            assert row["names"]
            assert {*row["resources"]} <= {"users", "groups", "serviceaccounts"}
            continue
        for text in row["resources"]:
            whole, _, sub = text.partition("/")
            name, _, group = whole.partition(".")
            namespaced = found[group, f"{name}/{sub}" if sub else name]
            reads = set(row["verbs"]) <= {"get", "list", "watch"}
            named = pack.workspace is not None and "names" in row
            assert namespaced is ("namespaces" in row) or (namespaced and (reads or named)), text
