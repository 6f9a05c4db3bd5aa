"""Stock kubectl does its work, and prints what it prints on a real cluster."""

import re
import signal
import stat
import time

import pytest

from kubesim.tests.contract.tools import namespace_name

pytestmark = pytest.mark.kubectl

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: web, image: "nginx:1.27", resources: {limits: {nvidia.com/gpu: "1"}}}]
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  replicas: 2
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      containers: [{name: api, image: "nginx:1.27"}]
"""
CRASH = """
apiVersion: v1
kind: Pod
metadata: {name: crash}
spec:
  containers: [{name: main, image: busybox, command: [sh, -c, "echo started; exit 3"]}]
"""


@pytest.fixture
def space(request, kubectl):
    """Return a function that runs kubectl in a fresh namespace."""
    name = namespace_name(request.node.name)
    kubectl("create", "namespace", name)
    run = kubectl.__class__(kubectl.binary, kubectl.home, kubectl.kubeconfig)

    def call(*arguments, **environment):
        return run("-n", name, *arguments, **environment)

    call.fails = lambda *arguments, **environment: run.fails("-n", name, *arguments, **environment)
    call.start = lambda *arguments: run.start("-n", name, *arguments)
    call.name = name
    return call


@pytest.fixture
def manifest(tmp_path):
    """Return a function that writes a manifest and returns its path."""

    def write(text):
        path = tmp_path / "manifest.yaml"
        path.write_text(text)
        return str(path)

    return write


def header(output):
    return output.splitlines()[0].split()


def test_nodes_wide(kubectl):
    output = kubectl("get", "nodes", "-o", "wide")
    assert header(output)[:6] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION", "INTERNAL-IP"]
    assert len(output.splitlines()) == 3
    assert " Ready " in output


def test_describe_node_shows_capacity_pods_and_lease(containers, kubectl):
    name = kubectl("get", "nodes", "-o", "name").splitlines()[0]
    output = kubectl("describe", name)
    assert "nvidia.com/gpu:     8" in output
    assert "HolderIdentity:" in output
    assert "Failed to get lease" not in output
    assert "KubeletReady" in output


def test_a_pod_from_apply_to_delete(space, manifest):
    path = manifest(POD)
    assert space("apply", "-f", path) == "pod/web created\n"
    space("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    assert re.search(r"web +1/1 +Running +0 +\d+s", space("get", "pods"))
    assert header(space("get", "pods", "-o", "wide"))[-4:] == ["NOMINATED", "NODE", "READINESS", "GATES"]
    assert "image: nginx:1.27" in space("get", "pod", "web", "-o", "yaml")
    assert space("get", "pods", "-l", "app=web", "-o", "name") == "pod/web\n"
    assert "No resources found" in space("get", "pods", "-l", "app!=web")
    assert space("apply", "-f", path) == "pod/web unchanged\n"
    assert space("label", "pod", "web", "tier=front") == "pod/web labeled\n"
    assert f"{space.name} " in space("get", "pods", "-A")
    assert 'pod "web" deleted' in space("delete", "pod", "web", "--grace-period=1")
    assert 'pods "web" not found' in space.fails("get", "pod", "web")


def test_describe_pod_shows_events_and_limits(containers, kubectl, space, manifest):
    space("apply", "-f", manifest(POD))
    space("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    output = space("describe", "pod", "web")
    assert "nvidia.com/gpu:  1" in output
    assert re.search(r"Normal +Scheduled .*default-scheduler +Successfully assigned", output)
    assert re.search(r"Normal +Started ", output)
    assert header(space("get", "events"))[:5] == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT"]
    if kubectl.version >= (1, 23):
        assert "Started" in space("events")


def test_a_crashing_pod_is_shown_with_its_logs(containers, kubectl, space, manifest):
    space("create", "-f", manifest(CRASH))
    reason = "jsonpath={.status.containerStatuses[0].state.waiting.reason}"
    if kubectl.version >= (1, 23):
        space("wait", f"--for={reason}=CrashLoopBackOff", "pod/crash", "--timeout=60s")
    else:
        deadline = time.monotonic() + 60
        while space("get", "pod", "crash", "-o", reason) != "CrashLoopBackOff":
            assert time.monotonic() < deadline
    assert re.search(r"crash +0/1 +CrashLoopBackOff +\d+ \(\d+s ago\)", space("get", "pods"))
    assert space("logs", "crash") == "started\n"
    assert space("logs", "crash", "-p") == "started\n"
    assert re.match(r"\d{4}-\d\d-\d\dT\S+Z started\n", space("logs", "crash", "--timestamps", "--tail=1"))
    assert "container nope is not valid for pod crash" in space.fails("logs", "crash", "-c", "nope")
    assert "Exit Code:    3" in space("describe", "pod", "crash")


def test_watching_prints_every_change(containers, space, manifest):
    space("run", "first", "--image=busybox", "--restart=Never", "--", "sleep", "600")
    process = space.start("get", "pods", "-w")
    try:
        assert process.stdout.readline().split()[2] == "STATUS"
        assert process.stdout.readline().startswith("first ")
        space("apply", "-f", manifest(POD))
        space("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
        lines = iter(process.stdout.readline, "")
        seen = []
        for line in lines:
            if line.startswith("web "):
                seen.append(line.split()[2])
            if seen[-1:] == ["Running"]:
                break
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert "Pending" in seen
    assert "ContainerCreating" in seen


def test_following_a_log_ends_with_the_container(containers, space):
    space("run", "count", "--image=busybox", "--restart=Never", "--", "sh", "-c", "echo one; sleep 1; echo two")
    space("wait", "--for=condition=Ready", "pod/count", "--timeout=60s")
    assert space("logs", "-f", "count") == "one\ntwo\n"


def test_a_deployment_scales_and_rolls_out(space, manifest):
    space("apply", "-f", manifest(DEPLOYMENT))
    assert 'deployment "api" successfully rolled out' in space("rollout", "status", "deploy/api", "--timeout=60s")
    assert space("scale", "deploy/api", "--replicas=3") == "deployment.apps/api scaled\n"
    space("rollout", "status", "deploy/api", "--timeout=60s")
    assert re.search(r"api +3/3 +3 +3 +\d+s", space("get", "deploy"))
    space("set", "image", "deploy/api", "api=nginx:1.26")
    space("rollout", "status", "deploy/api", "--timeout=60s")
    assert re.search(r"^2 +<none>", space("rollout", "history", "deploy/api"), re.M)
    output = space("describe", "deploy", "api")
    assert "NewReplicaSetAvailable" in output
    assert "ScalingReplicaSet" in output


def test_a_job_completes(space):
    space("create", "job", "once", "--image=busybox", "--", "true")
    space("wait", "--for=condition=complete", "job/once", "--timeout=60s")
    assert re.search(r"once +(Complete +)?1/1 +\d+s +\d+s", space("get", "jobs"))
    output = space("describe", "job", "once")
    assert "1 Succeeded" in output
    assert "Job completed" in output


def test_edit_saves_what_the_editor_writes(space, manifest, tmp_path):
    space("apply", "-f", manifest(DEPLOYMENT))
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/replicas: 2/replicas: 1/' \"$1\"\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    assert space("edit", "deploy", "api", EDITOR=str(editor)) == "deployment.apps/api edited\n"
    assert space("get", "deploy", "api", "-o", "jsonpath={.spec.replicas}") == "1"


def test_typed_creates_arrive_whole(kubectl, space):
    """From 1.32 on these are protobuf."""
    space("create", "configmap", "settings", "--from-literal=a=b")
    assert space("get", "cm", "settings", "-o", "jsonpath={.data}") == '{"a":"b"}'
    space("create", "secret", "generic", "key", "--from-literal=x=y")
    assert space("get", "secret", "key", "-o", "jsonpath={.data.x} {.type}") == "eQ== Opaque"
    space("create", "serviceaccount", "oncall")
    space("create", "role", "reader", "--verb=get,list", "--resource=pods,deployments.apps")
    space("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={space.name}:oncall")
    space("create", "quota", "few", "--hard=pods=3,requests.nvidia.com/gpu=8")
    assert '"requests.nvidia.com/gpu":"8"' in space("get", "quota", "few", "-o", "jsonpath={.spec.hard}")
    space("create", "deployment", "web", "--image=nginx:1.27", "--replicas=2", "--port=80")
    port = "jsonpath={.spec.template.spec.containers[0].ports[0].containerPort}"
    assert space("get", "deploy", "web", "-o", port) == "80"
    account = f"--as=system:serviceaccount:{space.name}:oncall"
    assert space("auth", "can-i", "list", "pods", account) == "yes\n"
    assert "no" in space.fails("auth", "can-i", "delete", "pods", account)
    assert "pods" in space("auth", "can-i", "--list", account)
    if kubectl.version < (1, 24):
        pytest.skip("the rest needs `kubectl create token`, which came with 1.24")
    token = space("create", "token", "oncall").strip()
    assert token.count(".") == 2
    refused = space.fails("get", "secrets", "--token", token)
    assert f'User "system:serviceaccount:{space.name}:oncall" cannot list resource "secrets"' in refused


def test_explain_tells_types_and_texts(kubectl):
    if kubectl.version < (1, 27):
        pytest.skip("kubectl explains from OpenAPI v3 since 1.27; before, it needs all of v2")
    output = kubectl("explain", "pod.spec.tolerations")
    assert "FIELD: tolerations <[]Toleration>" in output
    assert re.search(r"tolerationSeconds\s+<integer>\n +TolerationSeconds represents", output)
    assert "<map[string]Quantity>" in kubectl("explain", "deploy.spec.template.spec.containers.resources.limits")


def test_errors_read_as_a_real_clusters(kubectl, space, manifest):
    assert 'Error from server (NotFound): pods "none" not found' in space.fails("get", "pod", "none")
    assert 'the server doesn\'t have a resource type "unicorns"' in space.fails("get", "unicorns")
    assert "already exists" in space.fails("create", "serviceaccount", "default")
    broken = manifest(POD.replace("containers:", "containerz:"))
    # Before 1.25 kubectl validates by itself, from OpenAPI v2, and does not ask the server to.
    told = 'unknown field "spec.containerz"', 'unknown field "containerz" in io.k8s.api.core.v1.PodSpec'
    wanted = told[kubectl.version < (1, 25)]
    assert wanted in space.fails("apply", "-f", broken)
    refused = space.fails("get", "nodes", f"--as=system:serviceaccount:{space.name}:default")
    assert f'User "system:serviceaccount:{space.name}:default" cannot list resource "nodes"' in refused
    assert "You must be logged in to the server" in space.fails("get", "pods", "--token=wrong")


def test_a_namespace_goes_with_everything_in_it(space, manifest):
    space("apply", "-f", manifest(DEPLOYMENT))
    space("delete", "namespace", space.name, "--timeout=60s")
    assert "not found" in space.fails("get", "namespace", space.name)
