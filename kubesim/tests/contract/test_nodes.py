"""Simulated nodes that join a cluster: kubesim itself, and a real control plane, which then serves their pods."""

import json
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from kubesim.clock import RealClock
from kubesim.commandline import parser
from kubesim.nodes import access
from kubesim.nodes.account import Group
from kubesim.nodes.joined import Joined
from kubesim.nodes.registration import Wanted
from kubesim.pools import Pool
from kubesim.tests.contract.tools import namespace_name
from kubesim.tests.joining import place

_FILE = Path(__file__).parents[3] / "deploy" / "kubesim-nodes.yaml"
MANIFEST = _FILE.read_text().replace("simulated", "shipped")  # the group has a name that nobody else uses here
GROUP = "joining"
TRACES = (
    "/api/v1/nodes",
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
    "/api/v1/namespaces/kube-system/serviceaccounts",
)
POD = """
apiVersion: v1
kind: Pod
metadata: {name: trainer}
spec:
  tolerations: [{key: kubesim.dev/simulated, operator: Exists}]
  nodeSelector: {kubesim.dev/group: joining}
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "echo begun; while true; do sleep 1; echo more; done"]
    resources: {limits: {nvidia.com/gpu: 8}}
  - {name: web, image: nginx, ports: [{containerPort: 80}]}
"""


def command(cluster, *more):
    arguments = ["nodes", "--kubeconfig", str(cluster.kubeconfig), "--group", GROUP, "--name", GROUP, *more]
    return [sys.executable, "-m", "kubesim", *arguments]


@contextmanager
def joined(cluster, *more):
    """Run ``kubesim nodes`` while the block lasts; yields the process, which has joined."""
    process = subprocess.Popen(
        command(cluster, *more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if "have joined" in line:
                break
        else:
            pytest.fail("".join(said))
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=30)[0]
        watchdog.cancel()
    assert process.returncode in (0, -signal.SIGKILL), "".join(said) + rest


def traces(cluster):
    """Everything of the cluster that could be ours, by path."""
    found = {}
    for path in TRACES:
        items = cluster("GET", path).json["items"]
        found[path] = {item["metadata"]["name"] for item in items if GROUP in item["metadata"]["name"]}
    return found


def until(true, seconds=60):
    end = time.monotonic() + seconds
    pause = threading.Event()
    while not (found := true()):
        assert time.monotonic() < end
        pause.wait(0.1)
    return found


@pytest.fixture
def space(request, cluster, kubectl, tmp_path):
    """Return kubectl in a fresh namespace."""
    name = namespace_name(request.node.name)
    kubectl("create", "namespace", name)

    def run(*arguments):
        return kubectl("-n", name, *arguments)

    run.name = name
    run.apply = lambda text: (path := tmp_path / "made.yaml").write_text(text) and run("apply", "-f", str(path))
    yield run
    kubectl("delete", "namespace", name, "--wait=false")


def phase(space, pod):
    return json.loads(space("get", "pod", pod, "-o", "json"))["status"].get("phase")


@pytest.mark.kubectl
def test_a_simulated_pod_is_like_any_other_through_the_api_server(cluster, kubectl, space):
    with joined(cluster, "--nodes", "1"):
        space.apply(POD)
        until(lambda: phase(space, "trainer") == "Running")
        until(lambda: "Started container web" in space("describe", "pod", "trainer"))
        assert "nvidia.com/gpu:  8" in space("describe", "pod", "trainer")
        assert "Ready=True" in kubectl(
            "get", "node", f"{GROUP}-0", "-o", "jsonpath={range .status.conditions[*]}{.type}={.status} {end}"
        )


@pytest.mark.kubectl
def test_a_real_api_server_enters_a_simulated_pod(cluster, kubectl, space):
    if cluster.name == "kubesim":
        pytest.skip("kubesim's API server asks no kubelet outside of its process")
    with joined(cluster, "--nodes", "1"):
        space.apply(POD)
        until(lambda: phase(space, "trainer") == "Running")
        until(lambda: space("logs", "trainer", "-c", "main").startswith("begun\nmore"))
        assert space("exec", "trainer", "-c", "main", "--", "echo", "inside") == "inside\n"
        assert "NVIDIA H100" in space("exec", "trainer", "-c", "main", "--", "nvidia-smi", "-L")
        assert "Welcome to nginx!" in forwarded(kubectl, space.name)


def forwarded(kubectl, namespace):
    """Return what a forwarded port of the pod answers."""
    process = kubectl.start("-n", namespace, "port-forward", "trainer", ":80")
    try:
        port = process.stdout.readline().split(":")[1].split(" ")[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
            return answer.read().decode()
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_kubelets_port_knows_the_clusters_users(cluster):
    with joined(cluster, "--nodes", "1"):
        node = cluster("GET", f"/api/v1/nodes/{GROUP}-0").json
        port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        user = yaml.safe_load(Path(cluster.kubeconfig).read_text())["users"][0]["user"]
        request = urllib.request.Request(
            f"https://127.0.0.1:{port}/metrics/resource", headers={"Authorization": f"Bearer {user['token']}"}
        )
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            assert "node_memory_working_set_bytes" in answer.read().decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_goes_without_a_trace_when_a_signal_ends_it(cluster, number):
    with joined(cluster, "--nodes", "2") as process:
        assert f"{GROUP}-1" in traces(cluster)["/api/v1/nodes"]
        process.send_signal(number)
        process.wait(60)
    assert not any(traces(cluster).values())


def test_what_a_killed_one_leaves_is_removed(cluster):
    with joined(cluster, "--nodes", "2") as process:
        process.kill()
        process.wait(10)
    assert f"{GROUP}-0" in traces(cluster)["/api/v1/nodes"]
    done = subprocess.run(command(cluster, "--remove"), capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == f"removed 2 nodes of the group {GROUP}\n"
    assert not any(traces(cluster).values())


def until_gone(cluster):
    """Wait until the namespace that a test before has deleted is really away."""
    until(lambda: cluster("GET", "/api/v1/namespaces/kubesim-nodes").code == 404, seconds=90)


@contextmanager
def manifest(cluster, folder):
    """Make what the Deployment's manifest has beside the Deployment; yields a kubeconfig of its account."""
    documents = [found for found in yaml.safe_load_all(MANIFEST) if found["kind"] != "Deployment"]
    paths = {
        "Namespace": "/api/v1/namespaces",
        "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    }
    until_gone(cluster)
    made = []
    try:
        for found in documents:
            path = paths[found["kind"]].format(found["metadata"].get("namespace"))
            assert cluster("POST", path, found).code == 201, found
            made.append(f"{path}/{found['metadata']['name']}")
        account = "/api/v1/namespaces/kubesim-nodes/serviceaccounts/kubesim-nodes/token"
        token = cluster("POST", account, {"spec": {}}).json["status"]["token"]
        config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        path = folder / "account.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        yield path
    finally:
        for path in reversed(made):
            cluster("DELETE", path)


FORBIDDEN = (
    *((verb, "", "secrets", "kube-system", "") for verb in ("get", "list", "watch", "create", "delete")),
    *((verb, "", "pods", "default", "") for verb in ("create", "update", "patch", "delete", "deletecollection")),
    *(
        ("create", "", f"pods/{part}", "default", "")
        for part in ("exec", "attach", "portforward", "eviction", "binding")
    ),
    *(("get", "", f"pods/{part}", "default", "") for part in ("log", "proxy", "exec")),
    *((verb, "", "nodes", "", "") for verb in ("create", "update", "patch", "deletecollection")),
    *((verb, "", "nodes/proxy", "", "") for verb in ("get", "create")),
    *((verb, "", "configmaps", "default", "") for verb in ("get", "list", "create")),
    *((verb, "", "serviceaccounts/token", "kube-system", "") for verb in ("create",)),
    *((verb, "", "users", "", "") for verb in ("impersonate",)),
    ("delete", "", "nodes", "", "somebody-elses"),
    ("get", "certificates.k8s.io", "certificatesigningrequests", "", "somebody-elses"),
    ("update", "certificates.k8s.io", "certificatesigningrequests/approval", "", ""),
    ("approve", "certificates.k8s.io", "signers", "", "kubernetes.io/kube-apiserver-client"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", "", ""),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles", "", ""),
    ("bind", "rbac.authorization.k8s.io", "clusterroles", "", ""),
    ("update", "coordination.k8s.io", "leases", "kube-node-lease", ""),
)


def test_the_manifests_account_may_do_nothing_that_it_does_not_need(cluster, tmp_path):
    with manifest(cluster, tmp_path):
        assert [asked for asked in FORBIDDEN if allowed(cluster, *asked)] == []
        assert allowed(cluster, "delete", "", "nodes", "", "sim-0")


def allowed(cluster, verb, group, resource, namespace, name):
    """Whether the manifest's account may do something."""
    resource, _, part = resource.partition("/")
    asked = {
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": part,
        "namespace": namespace,
        "name": name,
    }
    account = "kubesim-nodes:kubesim-nodes"
    groups = ["system:serviceaccounts", "system:serviceaccounts:kubesim-nodes", "system:authenticated"]
    spec = {"user": f"system:serviceaccount:{account}", "groups": groups, "resourceAttributes": asked}
    review = cluster("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    return review.json["status"]["allowed"]


@pytest.mark.kubectl
def test_the_manifest_is_taken_by_an_api_server_as_it_is(cluster, kubectl, tmp_path):
    """All but the namespace is only tried; nothing that is told is a warning, of Pod Security say."""
    until_gone(cluster)
    namespace, *rest = (found for found in yaml.safe_load_all(MANIFEST))
    for name, documents in (("namespace", [namespace]), ("rest", rest)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump_all(documents))
    kubectl("apply", "-f", str(tmp_path / "namespace.yaml"))
    try:
        said = kubectl("apply", "--dry-run=server", "-f", str(tmp_path / "rest.yaml"))
        assert said.count("created (server dry run)") == len(rest)
        assert "Warning" not in said
    finally:
        kubectl("delete", "-f", str(tmp_path / "namespace.yaml"), "--wait=false")


async def test_the_manifests_rights_are_enough_to_join_and_to_leave(cluster, tmp_path):
    deployment = next(d for d in yaml.safe_load_all(MANIFEST) if d["kind"] == "Deployment")
    words = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    given = parser().parse_args([word.replace("$(POD_IP)", "127.0.0.1") for word in words])
    pool = Pool(given.nodes, given.gpus, given.product, given.profile, given.name)
    with manifest(cluster, tmp_path) as kubeconfig:
        way, clock = await access.load(kubeconfig, RealClock()), RealClock()
        wanted = Wanted(Group(given.group), (pool,), "127.0.0.1")
        nodes = Joined(way, wanted, place(pool.count), clock, own=False)
        try:
            await nodes.start()
            owners = cluster("GET", "/api/v1/nodes/sim-3").json["metadata"]["ownerReferences"]
            assert [owner["name"] for owner in owners] == ["kubesim-nodes-shipped"]
        finally:
            await nodes.stop()
            for sock in nodes.place.sockets:
                sock.close()
        assert cluster("GET", "/api/v1/nodes/sim-0").code == 404
