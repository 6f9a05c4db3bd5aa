"""Stock kubectl enters containers: exec, attach, port-forward, debug, logs, over SPDY and WebSocket alike."""

import re
import subprocess
import time
import urllib.request

import pytest
from kubernetes import client, config
from kubernetes.stream import stream

from kubesim.tests.agnhost import IMAGE as AGNHOST
from kubesim.tests.contract.tools import namespace_name

pytestmark = [pytest.mark.kubectl, pytest.mark.usefixtures("containers")]

PODS = f"""
apiVersion: v1
kind: Pod
metadata: {{name: two, labels: {{app: two}}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {{name: shell, image: busybox, command: [sh, -c, "echo begun; sleep 100000"]}}
  - {{name: web, image: {AGNHOST}, args: [netexec], ports: [{{containerPort: 8080}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: cat}}
spec:
  restartPolicy: Never
  containers:
  - {{name: cat, image: busybox, command: [cat], stdin: true, stdinOnce: true}}
"""


@pytest.fixture
def space(request, kubectl, tmp_path):
    """Return kubectl in a fresh namespace in which the pods run."""
    name = namespace_name(request.node.name)
    kubectl("create", "namespace", name)

    def call(*arguments, **environment):
        return kubectl("-n", name, *arguments, **environment)

    def piped(text, *arguments):
        env = {"HOME": str(kubectl.home), "KUBECONFIG": str(kubectl.kubeconfig), "PATH": "/usr/bin:/bin"}
        command = [kubectl.binary, "-n", name, *arguments]
        done = subprocess.run(command, env=env, input=text, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    call.fails = lambda *arguments: kubectl.fails("-n", name, *arguments)
    call.start = lambda *arguments: kubectl.start("-n", name, *arguments)
    call.piped, call.name = piped, name
    path = tmp_path / "pods.yaml"
    path.write_text(PODS)
    call("create", "-f", str(path))
    call("wait", "--for=condition=Ready", "pod/two", "pod/cat", "--timeout=60s")
    return call


def test_exec_runs_a_command_and_tells_how_it_ended(space):
    assert space.piped("", "exec", "two", "-c", "shell", "--", "sh", "-c", "echo out; echo err >&2; exit 3") == (
        3,
        "out\n",
        "err\ncommand terminated with exit code 3\n",
    )
    assert space.piped("typed", "exec", "-i", "two", "-c", "shell", "--", "cat")[:2] == (0, "typed")
    refused = space.fails("exec", "two", "-c", "shell", "--", "nosuch")
    assert 'exec: "nosuch": executable file not found in $PATH: unknown' in refused
    assert "container nope is not valid for pod two" in space.fails("exec", "two", "-c", "nope", "--", "true")


def test_exec_carries_a_lot_both_ways(space):
    text = "0123456789abcdef" * 40_000
    code, output, errors = space.piped(text, "exec", "-i", "two", "-c", "shell", "--", "cat")
    assert (code, len(output), errors) == (0, len(text), "")
    assert output == text


def test_exec_into_what_has_ended_is_refused(space):
    space.piped("bye\n", "attach", "-i", "cat")
    deadline = time.monotonic() + 60
    while space("get", "pod", "cat", "-o", "jsonpath={.status.phase}") != "Succeeded":
        assert time.monotonic() < deadline
    refused = space.fails("exec", "cat", "--", "true")
    assert "cannot exec into a container in a completed pod; current phase is Succeeded" in refused


def test_attach_joins_the_containers_own_process(space):
    code, output, _ = space.piped("one\ntwo\n", "attach", "-i", "cat")
    assert (code, output) == (0, "one\ntwo\n")
    assert space("logs", "cat") == "one\ntwo\n"


def test_run_with_input_is_a_pipe(space):
    arguments = ("run", "-i", "--rm", "--restart=Never", "--image=busybox", "--quiet", "filter", "--", "sort")
    code, output, _ = space.piped("b\na\n", *arguments)
    assert (code, output) == (0, "a\nb\n")


def test_logs_of_several_containers(space):
    assert space("logs", "two", "-c", "shell") == "begun\n"
    assert "begun\n" in space("logs", "-l", "app=two", "--all-containers")
    assert re.search(r"^\[pod/two/shell\] begun$", space("logs", "two", "--all-containers", "--prefix"), re.M)
    refused = space.fails("logs", "two", "-c", "shell", "-p")
    assert 'previous terminated container "shell" in pod "two" not found' in refused


def test_port_forward_reaches_a_server(space):
    process = space.start("port-forward", "pod/two", ":8080")
    try:
        line = process.stdout.readline()
        port = re.search(r"127\.0\.0\.1:(\d+) -> 8080", line)[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/hostname", timeout=60) as answer:
            assert answer.read() == b"two"
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_copying_goes_both_ways(space, tmp_path):
    there, back = tmp_path / "there", tmp_path / "back"
    there.mkdir()
    (there / "small").write_text("text\n")
    (there / "large").write_bytes(bytes(range(256)) * 1000)
    space("cp", str(there), "two:/srv/copied", "-c", "shell")
    space("cp", "two:/srv/copied", str(back), "-c", "shell")
    assert (back / "small").read_text() == "text\n"
    assert (back / "large").read_bytes() == bytes(range(256)) * 1000


def test_debug_adds_a_container(kubectl, space):
    if kubectl.version < (1, 25):
        pytest.skip("ephemeral containers are stable since 1.25")
    look = ("debug", "two", "--image=busybox", "-q", "-i", "-c", "look", "--", "sh", "-c", "sleep 1; echo seen")
    code, output, errors = space.piped("", *look)
    assert (code, output) == (0, "seen\n"), errors
    assert "Ephemeral Containers:" in space("describe", "pod", "two")


def test_a_python_client_streams(live, space):
    settings = type.__call__(client.Configuration)
    config.load_kube_config(str(live.kubeconfig), client_configuration=settings)
    with client.ApiClient(settings) as api:
        core = client.CoreV1Api(api)
        run = ["sh", "-c", "read x; echo got $x; exit 4"]
        flags = {"container": "shell", "stdin": True, "stdout": True, "stderr": True, "tty": False}
        opened = stream(
            core.connect_get_namespaced_pod_exec, "two", space.name, command=run, _preload_content=False, **flags
        )
        raw = opened.sock.sock
        opened.write_stdin("this\n")
        opened.run_forever(timeout=60)
        assert opened.read_stdout() == "got this\n"
        assert opened.returncode == 4
        opened.close()
        raw.close()  # the client only says goodbye
