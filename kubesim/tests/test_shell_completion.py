"""What Tab makes of a line, as bash does it with kubectl's completion sourced."""

from __future__ import annotations

import asyncio
import json

import pytest

from kubesim.clock import ManualClock, RealClock, settle
from kubesim.shell.files import Directory, File
from kubesim.shell.machine import Stdio
from kubesim.shell.spawn import spawn
from kubesim.tests import shell_world
from kubesim.tests.shell_world import Keys, Screen, Terminal, begun

NAMED = {"pods": ("po", "Pod", True), "namespaces": ("ns", "Namespace", False), "secrets": ("", "Secret", True)}
CONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: here, context: {cluster: c, user: u}}
- {name: there, context: {cluster: c, user: u, namespace: bank}}
"""


def kind(plural):
    short, name, namespaced = NAMED[plural]
    return {
        "resource": plural,
        "responseKind": {"kind": name},
        "scope": "Namespaced" if namespaced else "Cluster",
        "singularResource": plural.rstrip("s"),
        "shortNames": [short],
        "verbs": ["get", "list"],
    }


def listed(*names):
    return {"items": [{"metadata": {"name": name}} for name in names]}


class Server:
    """Answers by path; secrets are none of this pod's business."""

    server, token, namespace = "https://kubernetes.default.svc", "t", "shop"
    answers = {
        "/api": {"items": [{"versions": [{"version": "v1", "resources": [kind(each) for each in NAMED]}]}]},
        "/apis": {"items": []},
        "/api/v1/namespaces": listed("shop", "bank"),
        "/api/v1/namespaces/shop/pods": listed("web-0", "web-1"),
        "/api/v1/namespaces/bank/pods": listed("vault-0"),
        "/api/v1/namespaces/shop/pods/web-0": {"spec": {"containers": [{"name": "nginx"}, {"name": "proxy"}]}},
    }

    def __init__(self, *, silent=False):
        self.silent = silent

    async def request(self, method, path, *, body=b"", headers=None):
        if self.silent:
            await asyncio.Event().wait()
        found = self.answers.get(path.partition("?")[0])
        if found is None:
            refusal = {"kind": "Status", "reason": "Forbidden", "message": "secrets is forbidden"}
            return 403, {"Warning": '299 - "told"'}, json.dumps(refusal).encode()
        return 200, {}, json.dumps(found).encode()


class Session(Terminal):
    """A terminal with a shell whose pod reaches a server."""

    def __init__(self, clock=None, *, silent=False, size=(24, 80)):
        self.keys, self.screen = Keys(), Screen()
        stdio = Stdio(self.keys, self.screen, self.screen, tty=True, size=size)
        self.machine = shell_world.machine("toolbox", clock or RealClock())
        self.machine.kube = Server(silent=silent)
        folder = self.machine.files.walk("/tmp/w").node
        for name in ("web.yaml", "notes.txt"):
            folder.put(name, File(data=b""))
        folder.put("deploy", Directory())
        home = self.machine.files.walk("/root").node
        home.put(".kube", Directory())
        home.get(".kube").put("config", File(data=CONFIG.encode()))
        self.process = spawn(self.machine, ["bash"], cwd="/tmp/w", stdio=stdio)


@pytest.fixture
async def session():
    async with begun(Session()) as made:
        yield made


@pytest.mark.parametrize(
    ("typed", "becomes"),
    [
        ("kubectl desc\t", "kubectl describe "),
        ("kubectl get names\t", "kubectl get namespaces "),
        ("kubectl get po web-\t0", "kubectl get po web-0"),
        ("kubectl get pods -n b\t", "kubectl get pods -n bank "),
        ("kubectl get pods -n bank v\t", "kubectl get pods -n bank vault-0 "),
        ("kubectl --context there get pods v\t", "kubectl --context there get pods vault-0 "),
        ("kubectl exec web-\t0 -- l", "kubectl exec web-0 -- l"),
        ("kubectl rollout st\t", "kubectl rollout status "),
        ("kubectl apply -f w\t", "kubectl apply -f web.yaml "),
        ("kubectl apply -f not\t", "kubectl apply -f notes.txt "),
        ("kubectl apply -f de\t", "kubectl apply -f deploy/"),
        ("kubectl get pods > n\t", "kubectl get pods > notes.txt "),
        ("kubectl get pods | gre\t", "kubectl get pods | grep "),
        ("true; kubectl get secrets x\t", "true; kubectl get secrets x"),
        ("cat n\t", "cat notes.txt "),
    ],
)
async def test_a_word_becomes_what_it_can_only_mean(session, typed, becomes):
    session.keys.type(f"{typed}]\x01echo '\x05'\r")
    await session.screen.shows(f"\r\n{becomes}]\r\n")


async def test_an_alias_is_completed_as_what_it_stands_for(session):
    await session.does("alias k=kubectl kb='kubectl -n bank'\r", "# ")
    await session.does("k get pods web-\t1]\x01echo '\x05'\r", "\r\nk get pods web-1]\r\n")
    await session.does("kb get pods v\t]\x01echo '\x05'\r", "\r\nkb get pods vault-0 ]\r\n")


async def test_a_command_is_completed_as_complete_says(session):
    await session.does("complete -o default -F __start_kubectl kc\r", "# ")
    await session.does("complete -p kc\r", "\r\ncomplete -o default -F __start_kubectl kc\r\n")
    await session.does("kc get pods web-\t1]\x01echo '\x05'\r", "\r\nkc get pods web-1]\r\n")
    await session.does("complete -p nope\r", "bash: complete: nope: no completion specification\r\n")


async def test_the_completion_script_can_be_sourced(session):
    await session.does("source <(kubectl completion bash); complete -p\r", "-F __start_kubectl kubectl\r\n")


async def test_two_tabs_list_the_commands(session):
    await session.does("kubectl ro\t\t\x15kubectl co\t\t", "\r\ncompletion  config      cordon")


async def test_names_are_listed_in_columns(session):
    await session.does("kubectl get pods web-\t\t", "\r\nweb-0  web-1\r\n")


async def test_what_the_pod_may_not_see_is_neither_completed_nor_complained_of(session):
    text = await session.does("kubectl get secrets \t\tx\x15echo over\r", "\r\nover\r\n")
    assert "forbidden" not in text
    assert "told" not in text


async def test_a_server_that_does_not_answer_is_not_waited_for():
    clock = ManualClock()
    made = Session(clock, silent=True)
    await made.screen.shows("# ")
    made.keys.type("kubectl get pods \t")
    await settle()
    await clock.advance(10)
    await made.does("x\x15echo over\r", "\r\nover\r\n")
    made.machine.stop()
