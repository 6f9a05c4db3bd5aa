"""Candidates' rights: exactly this list, nothing to read that tells the fault, no path that leads out.

What packs add to it: test_pack_rights.py.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from http.client import HTTPSConnection
from urllib.parse import urlsplit

import pytest

from faults import crypto, environment, services
from faults.errors import ClusterError, Forbidden
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.services import ensure_practice_cluster
from faults.tests.conftest import deadline
from faults.tests.variants import TELLS

pytestmark = pytest.mark.django_db
HOME, FOREIGN = "ml-training", ("kube-system", "platform-system", "default")
VERBS = (
    *("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
    *("impersonate", "bind", "escalate", "approve", "sign", "use", "*"),
)
READ = {"get", "list", "watch"}
WRITE = READ | {"create", "update", "patch", "delete", "deletecollection"}
# (group, resource) -> verbs in the session's own namespaces.
IN_HOME = {
    ("", "pods"): WRITE,
    ("", "services"): READ,
    ("", "configmaps"): READ,
    ("", "pods/log"): {"get"},
    ("", "events"): READ,
    ("", "endpoints"): READ,
    ("", "pods/exec"): {"get", "create"},
    ("", "pods/attach"): {"get", "create"},
    ("", "pods/portforward"): {"get", "create"},
    ("", "replicationcontrollers"): READ,
    ("apps", "deployments"): READ,
    ("apps", "replicasets"): READ,
    ("apps", "statefulsets"): READ,
    ("apps", "daemonsets"): READ,
    ("autoscaling", "horizontalpodautoscalers"): READ,
    ("batch", "jobs"): READ,
    ("batch", "cronjobs"): READ,
    ("events.k8s.io", "events"): READ,
    ("discovery.k8s.io", "endpointslices"): READ,
    ("metrics.k8s.io", "pods"): {"get", "list"},
}
# What every signed-in user may ask of itself, and the two kinds of the cluster that may be read.
EVERYWHERE = {
    ("", "nodes"): READ,
    ("", "namespaces"): READ,
    ("metrics.k8s.io", "nodes"): {"get", "list"},
    ("authorization.k8s.io", "selfsubjectaccessreviews"): {"create"},
    ("authorization.k8s.io", "selfsubjectrulesreviews"): {"create"},
    ("authentication.k8s.io", "selfsubjectreviews"): {"create"},
}
NEVER_SERVED = [
    ("", "nodes/proxy"), ("", "pods/portforward"), ("", "pods/proxy"), ("", "services/proxy"),
    ("metrics.k8s.io", "nodes"), ("metrics.k8s.io", "pods"),
    ("", "users"), ("", "groups"), ("", "serviceaccounts"), ("authentication.k8s.io", "userextras/scopes"),
]  # fmt: skip


@pytest.fixture(name="environment")
def one_for_all(standing, practice):
    """The environment of all tests: whatever they try has to be refused."""
    return standing


@pytest.fixture
def cluster(environment):
    return environment.cluster


@pytest.fixture
def access(environment):
    return services.candidate_access(run=environment, seconds=3600)


@pytest.fixture
def candidate(access):
    kube = Kube(parse(access.kubeconfig))
    yield kube
    kube.close()


def served(kube):
    """Return every resource and subresource that the cluster has, and those that are worth asking for anyway."""
    groups = kube._json("GET", "/apis")["groups"]
    versions = [("", "/api/v1"), *((g["name"], f"/apis/{v['groupVersion']}") for g in groups for v in g["versions"])]
    found = {(group, entry["name"]) for group, path in versions for entry in kube._json("GET", path)["resources"]}
    return sorted(found | set(NEVER_SERVED))


def may(kube, home, verb, group, resource, namespace):
    name, _, sub = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": name, "subresource": sub, "namespace": namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": environment.username(home),
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"],
            "resourceAttributes": asked,
        },
    }
    return kube.create(body)["status"]["allowed"]


NAMESPACES = [HOME, *(pytest.param(name, marks=pytest.mark.torture) for name in ("", *FOREIGN))]


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_candidate_has_these_rights_and_no_other(kube, access, namespace):
    """Asked of the cluster for every resource and verb. The candidate's own review answers from the same rules."""
    allowed: dict[tuple[str, str], set[str]] = {}
    for group, resource in served(kube):
        for verb in VERBS:
            if may(kube, HOME, verb, group, resource, namespace):
                allowed.setdefault((group, resource), set()).add(verb)
    assert allowed == (IN_HOME | EVERYWHERE if namespace == HOME else EVERYWHERE)


def test_the_candidates_own_review_says_the_same(candidate):
    spec = {"namespace": HOME}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": spec}
    found: dict[tuple[str, str], set[str]] = {}
    for rule in candidate.create(body)["status"]["resourceRules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    assert found == IN_HOME | EVERYWHERE


def raw(access, path, method="GET", body=None, **headers):
    """Send a request as it is written, without anybody tidying its path; return (status, text)."""
    url = urlsplit(access.server)
    connection = HTTPSConnection(
        url.hostname, url.port, timeout=60, context=ssl.create_default_context(cadata=access.ca_pem)
    )
    try:
        connection.request(method, path, body, {"Authorization": f"Bearer {access.token}", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def test_nothing_that_can_be_read_tells(kube, candidate, access, environment):
    base = urlsplit(access.server).path
    texts = [json.dumps(kube_version := candidate.version()), access.kubeconfig.replace(access.ca_pem, "")]
    assert kube_version["gitVersion"].startswith("v1.")
    for group, resource in served(kube):
        version = next((r.api_version for r in candidate.kinds() if r.plural == resource and _of(r) == group), None)
        kind = next((r for r in candidate.kinds() if r.plural == resource and _of(r) == group), None)
        if version is None or kind is None:
            continue
        for namespace in (HOME, ""):
            try:
                texts.append(json.dumps(candidate.list(version, kind.kind, namespace)))
            except ClusterError as exc:
                texts.append(str(exc))
    for path in ("/", "/api", "/apis", "/healthz", "/livez?verbose", "/metrics", "/logs", "/nonsense", "/openapi/v3"):
        texts.append(raw(access, base + path)[1])
    for text in texts:
        text = text.replace(access.server, "")
        assert not TELLS.search(text), text[max(0, TELLS.search(text).start() - 80) :][:200]


def _of(resource):
    return resource.api_version.rpartition("/")[0]


@pytest.fixture
def neighbour(cluster):
    """Another session's cluster on the same host."""
    other = ensure_practice_cluster(name=cluster.name.replace("s-", "n-"), deadline=deadline())
    yield other
    services.release_cluster(cluster=other)


def test_no_path_leads_out_of_the_cluster(access, cluster, neighbour, practice_host):
    mine, theirs, name = f"/clusters/{cluster.name}", f"/clusters/{neighbour.name}", neighbour.name
    for path in (
        "/control/clusters", "/control/health", f"/control/clusters/{cluster.name}", "/CONTROL/clusters",
        f"{theirs}/api/v1/nodes", f"{mine}/../{name}/api/v1/nodes",
        f"{mine}/%2e%2e/{name}/api/v1/nodes",
        f"{mine}/..%2f{name}/api/v1/nodes", f"/{theirs}/api/v1/nodes", f"{mine}//..//{name}/api/v1/nodes",
        f"/clusters//{name}/api/v1/nodes", f"{mine}/%2e%2e/%2e%2e/control/clusters", "//control/clusters",
        f"{mine}/api/v1/namespaces/{HOME}/../../namespaces/kube-system/secrets", f"{theirs}%00/api/v1/nodes",
        f"{mine}/api/v1/namespaces/{HOME}/..%2f..%2fsecrets", "/clusters/", "/clusters", "*",
        f"{mine}/api/v1/namespaces/kube-system%2fsecrets", f"{mine}/api/v1/watch/namespaces/kube-system/secrets",
        f"{mine}/api/v1/namespaces/{HOME}%2f../kube-system/secrets",
        f"{mine}/api//v1//namespaces//kube-system//secrets",
    ):  # fmt: skip
        status, text = raw(access, path)
        assert status in (400, 401, 403, 404), (path, status, text[:200])
        assert '"items"' not in text, path


@pytest.mark.parametrize("path", ["/" + "a" * 60_000, "/%ff%fe", "/api/v1/nodes?" + "a=1&" * 9_000, "/%c3%a9"])
def test_odd_paths_are_answered(access, path):
    assert raw(access, urlsplit(access.server).path + path)[0] < 500


def test_nobody_else_can_be_impersonated(access):
    pods = f"{urlsplit(access.server).path}/api/v1/namespaces/kube-system/pods"
    for headers in (
        {"Impersonate-User": "kubernetes-admin"},
        {"Impersonate-User": "x", "Impersonate-Group": "system:masters"},
        {"Impersonate-Group": "system:masters"},
        {"Impersonate-User": "system:serviceaccount:kube-system:default"},
        {"impersonate-user": "system:apiserver", "Impersonate-Uid": "1"},
        {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"},
        {"X-Forwarded-For": "127.0.0.1", "X-Original-URL": "/control/clusters"},
    ):
        assert raw(access, pods, **headers)[0] in (400, 403), headers


def test_no_credential_can_be_made_or_stolen(candidate, access):
    for namespace, account in ((HOME, "default"), (HOME, environment.SERVICE_ACCOUNT), ("kube-system", "default")):
        with pytest.raises(Forbidden):
            candidate.token_request(namespace, account, seconds=600)
    for kind, version in (
        ("Secret", "v1"),
        ("ServiceAccount", "v1"),
        ("RoleBinding", "rbac.authorization.k8s.io/v1"),
    ):
        meta = {"name": "mine", "namespace": HOME}
        body = {"apiVersion": version, "kind": kind, "metadata": meta, "roleRef": {"kind": "Role", "name": "x"}}
        with pytest.raises(Forbidden):
            candidate.create(body)
        with pytest.raises(Forbidden):
            candidate.list(version, kind, HOME)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "null", "\u2028"])
def test_a_bad_token_is_nobodys(access, token):
    path = f"{urlsplit(access.server).path}/api/v1/nodes"
    status, _ = raw(access, path, Authorization=f"Bearer {token}".encode().decode("latin-1"))
    assert status in (401, 403)


def test_the_token_does_not_open_another_cluster_nor_the_admins_ours(access, neighbour, cluster):
    path = f"/clusters/{neighbour.name}/api/v1/nodes"
    assert raw(access, path)[0] == 401
    admin = parse(crypto.unseal(cluster.kubeconfig)).token
    assert raw(access, path, Authorization=f"Bearer {admin}")[0] == 401
    assert raw(access, "/control/clusters", Authorization=f"Bearer {admin}")[0] == 404  # as of any API server


def test_a_pod_with_another_account_or_secrets_of_ours_gains_nothing(candidate):
    secret = {"name": "s", "secret": {"secretName": "run-1", "optional": True}}
    container = {"name": "c", "image": "busybox", "volumeMounts": [{"name": "s", "mountPath": "/s"}]}
    spec = {"serviceAccountName": environment.SERVICE_ACCOUNT, "containers": [container], "volumes": [secret]}
    made = candidate.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "spy", "namespace": HOME}, "spec": spec}
    )
    assert [volume["name"] for volume in made["spec"]["volumes"]] == ["s"]  # no token beside it


def test_without_tls_there_is_no_answer(access):
    with pytest.raises((urllib.error.URLError, OSError)):
        urllib.request.urlopen(access.server.replace("https:", "http:") + "/version", timeout=5)
